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

enum { SPINS = 200, YIELDS = SPINS + 2000, SHORT = YIELDS + 100, MEDIUM = SHORT + 100, LONG = MEDIUM + 600 };

/* Spins for some microseconds, then yields for about a millisecond, since a sleep takes up to 4 ms where timers have no
 * high resolution, then sleeps from 10 to 200 us. */
void dmace_stall(unsigned *calls)
{
    const unsigned number = (*calls)++;
    if (number < SPINS) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (number < YIELDS) {
        sched_yield();
    } else {
        const long ns = number < SHORT ? 10000 : number < MEDIUM ? 50000 : 200000;
        nanosleep(&(struct timespec){0, ns}, NULL);
        if (number > LONG)
            *calls = LONG;
    }
}
