/* SPDX-License-Identifier: Apache-2.0
 *
 * kill: a process that drives the card is killed in the middle of its traffic. Once the system has released the card,
 * nothing is written to the memory of the dead process, and the next process that opens the card finds it in order.
 */
#include <sys/wait.h>

#include "shared.h"

enum { ROUNDS = 10, SPAN = 1 << 18, MAX_QUEUES = 64 };

/* The process that will be killed. */
static void drive(const char *name, unsigned char *memory, uint64_t *tally, uint64_t seed)
{
    dmace_device *device;
    dmace_info info;
    dmace_memory *from, *to;
    dmace_queue_handle *queue[MAX_QUEUES];
    part_random state = {seed};
    MUST(dmace_open(name, &device));
    MUST(dmace_get_info(device, &info));
    MUST(dmace_register(device, memory, SPAN, 0, DMACE_READ, &from));
    MUST(dmace_register(device, memory + SPAN, SPAN, 0, DMACE_WRITE, &to));
    for (uint32_t index = 0; index < info.queues; ++index)
        MUST(dmace_queue_create(device, NULL, &queue[index]));
    for (;;) {
        const uint64_t length = 1 + part_below(&state, part_below(&state, 4) ? 5000 : 50000);
        MUST(dmace_copy(queue[part_below(&state, info.queues)], to, part_below(&state, SPAN - length), from,
                        part_below(&state, SPAN - length), length, 0, NULL));
        __atomic_add_fetch(tally, 1, __ATOMIC_RELAXED);
    }
}

/* Correct work of a new driver. */
static void work(const char *name, part_random *state)
{
    dmace_device *device;
    dmace_memory *from, *to;
    dmace_queue_handle *queue;
    uint64_t request;
    MUST(dmace_open(name, &device));
    MUST(dmace_alloc(device, SPAN, 0, DMACE_READ, &from));
    MUST(dmace_alloc(device, SPAN, 0, DMACE_WRITE, &to));
    MUST(dmace_queue_create(device, NULL, &queue));
    part_fill(state, dmace_memory_data(from), SPAN);
    for (unsigned piece = 0; piece < 8; ++piece)
        MUST(dmace_copy(queue, to, piece * (SPAN / 8), from, piece * (SPAN / 8), SPAN / 8, 0, &request));
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    part_same("new driver", dmace_memory_data(to), dmace_memory_data(from), SPAN);
    dmace_close(device);
}

int main(int argc, char **argv)
{
    const char *name = part_device(argc, argv);
    unsigned char *memory = shared_memory("driver", 2 * SPAN), *scratch = malloc(2 * SPAN);
    uint64_t *tally = shared_memory("tally", 4096), requests = 0;
    part_random state = {99};
    REQUIRE(scratch);
    for (unsigned round = 0; round < ROUNDS; ++round) {
        const uint64_t posted = 5 + part_below(&state, 60);
        const double limit = part_seconds() + 60;
        int status;
        part_fill(&state, memory, 2 * SPAN);
        *tally = 0;
        const pid_t driver = fork();
        REQUIRE(driver >= 0);
        if (!driver) {
            drive(name, memory, tally, 1 + part_next(&state));
            _exit(1);
        }
        while (__atomic_load_n(tally, __ATOMIC_RELAXED) < posted) {
            REQUIRE(!waitpid(driver, &status, WNOHANG) && part_seconds() < limit);
            part_sleep(0.001);
        }
        REQUIRE(!kill(driver, SIGKILL));
        REQUIRE(waitpid(driver, &status, 0) == driver && WIFSIGNALED(status));
        requests += *tally;
        still("memory of the dead driver", memory, scratch, 2 * SPAN, 0.1);
        work(name, &state);
        part_same("memory of the dead driver, later", memory, scratch, 2 * SPAN);
    }
    printf("kill: %u drivers killed among %" PRIu64 " requests, no write after their release\n", ROUNDS, requests);
    return 0;
}
