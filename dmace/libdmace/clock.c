/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c: time, and how to wait for something that only polling shows.
 */
#include "internal.h"

#include <sched.h>
#include <time.h>

int64_t dmace_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t dmace_deadline(int64_t timeout)
{
    const int64_t now = dmace_now();
    return timeout < 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
}

/* Spins for some microseconds, then yields, then sleeps from 10 to 200 us. */
void dmace_stall(unsigned *calls)
{
    const unsigned number = (*calls)++;
    if (number < 200) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (number < 220) {
        sched_yield();
    } else {
        const long ns = number < 320 ? 10000 : number < 420 ? 50000 : 200000;
        nanosleep(&(struct timespec){0, ns}, NULL);
        if (number > 1000)
            *calls = 1000;
    }
}
