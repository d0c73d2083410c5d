/* SPDX-License-Identifier: Apache-2.0
 *
 * soak: `soak DEVICE [REQUESTS [INTERRUPTIONS]]`, by default 1,000,000 requests, every byte checked. In between, the
 * driver is killed, or the card is reset under load, INTERRUPTIONS times (200); every second one is a kill.
 */
#include <sys/wait.h>

#include "shared.h"

enum { SPAN = 1 << 17, BATCH = 64, MAX_QUEUES = 64, LONGEST = 13 };

/* Of both processes. */
typedef struct progress {
    uint64_t checked; /* requests of batches that were compared */
    uint64_t resets;
} progress;

typedef struct driver {
    dmace_device *device;
    dmace_info info;
    dmace_memory *from, *to;
    dmace_queue_handle *queue[MAX_QUEUES];
    unsigned char *memory, *expected;
    part_random state;
} driver;

static void prepare(driver *driver)
{
    MUST(dmace_register(driver->device, driver->memory, SPAN, 0, DMACE_READ, &driver->from));
    MUST(dmace_register(driver->device, driver->memory + SPAN, SPAN, 0, DMACE_WRITE, &driver->to));
    for (uint32_t index = 0; index < driver->info.queues; ++index)
        MUST(dmace_queue_create(driver->device, NULL, &driver->queue[index]));
    part_fill(&driver->state, driver->memory, SPAN);
    memcpy(driver->expected, driver->memory + SPAN, SPAN);
}

/* Post copies to parts of the destination that do not overlap. Lengths: as likely 1 to 2 as 2,048 to 4,096 and so on. */
static void post(driver *driver, uint64_t *last)
{
    for (unsigned index = 0; index < BATCH; ++index) {
        const uint32_t queue = (uint32_t)part_below(&driver->state, driver->info.queues);
        const size_t slice = SPAN / BATCH, most = (size_t)1 << part_below(&driver->state, LONGEST);
        const size_t length = 1 + part_below(&driver->state, most < slice ? most : slice);
        const uint64_t at = index * slice + part_below(&driver->state, slice - length + 1);
        const uint64_t start = part_below(&driver->state, SPAN - length);
        memcpy(driver->expected + at, driver->memory + start, length);
        MUST(dmace_copy(driver->queue[queue], driver->to, at, driver->from, start, length, 0, &last[queue]));
    }
}

/* The process that drives the card for `requests` requests; with `reset`, then resets it under load. */
static void drive(const char *name, unsigned char *memory, progress *progress, uint64_t seed, uint64_t requests,
                  int reset)
{
    driver driver = {.memory = memory, .expected = malloc(SPAN), .state = {seed}};
    uint64_t last[MAX_QUEUES];
    REQUIRE(driver.expected);
    MUST(dmace_open(name, &driver.device));
    MUST(dmace_get_info(driver.device, &driver.info));
    prepare(&driver);
    for (uint64_t done = 0; done < requests; done += BATCH) {
        memset(last, 0, sizeof last);
        post(&driver, last);
        for (uint32_t index = 0; index < driver.info.queues; ++index)
            if (last[index])
                MUST(dmace_wait(driver.queue[index], last[index], PART_TIMEOUT));
        part_same("soak", memory + SPAN, driver.expected, SPAN);
        __atomic_add_fetch(&progress->checked, BATCH, __ATOMIC_RELAXED);
    }
    if (reset) {
        memset(last, 0, sizeof last);
        post(&driver, last);
        MUST(dmace_reset(driver.device));
        still("memory after a reset", memory + SPAN, driver.expected, SPAN, 0.02);
        for (uint32_t index = 0; index < driver.info.queues; ++index)
            MUST(dmace_queue_destroy(driver.queue[index]));
        MUST(dmace_deregister(driver.from));
        MUST(dmace_deregister(driver.to));
        __atomic_add_fetch(&progress->resets, 1, __ATOMIC_RELAXED);
        prepare(&driver);
    }
    /* Until it is killed, or its parent finds it at its end. */
    for (unsigned batch = 0; batch < (reset ? 1u : 1000u); ++batch) {
        post(&driver, last);
        for (uint32_t index = 0; index < driver.info.queues; ++index)
            MUST(dmace_wait(driver.queue[index], last[index], PART_TIMEOUT));
        part_same("soak, at the end", memory + SPAN, driver.expected, SPAN);
        __atomic_add_fetch(&progress->checked, BATCH, __ATOMIC_RELAXED);
    }
    dmace_close(driver.device);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *name = part_device(argc, argv);
    const uint64_t requests = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    const uint64_t interruptions = argc > 3 ? strtoull(argv[3], NULL, 10) : 200;
    unsigned char *memory = shared_memory("driver", 2 * SPAN), *scratch = malloc(2 * SPAN);
    progress *progress = shared_memory("progress", 4096);
    const double began = part_seconds();
    double shown = began;
    uint64_t kills = 0, epoch = 0;
    part_random state = {2024};
    REQUIRE(scratch && requests && interruptions);
    while (progress->checked < requests || kills + progress->resets < interruptions) {
        const uint64_t before = progress->checked, share = requests / interruptions + 1;
        const int reset = (int)(epoch++ % 2);
        int status;
        const pid_t driver = fork();
        REQUIRE(driver >= 0);
        if (!driver)
            drive(name, memory, progress, 1 + part_next(&state), share, reset);
        for (;;) {
            if (waitpid(driver, &status, WNOHANG)) {
                REQUIRE(WIFEXITED(status) && !WEXITSTATUS(status) && reset);
                break;
            }
            if (!reset && __atomic_load_n(&progress->checked, __ATOMIC_RELAXED) - before >= share) {
                part_sleep(0.001 * (double)part_below(&state, 30));
                REQUIRE(!kill(driver, SIGKILL));
                REQUIRE(waitpid(driver, &status, 0) == driver && WIFSIGNALED(status));
                ++kills;
                break;
            }
            part_sleep(0.005);
            if (part_seconds() - shown >= 5) {
                shown = part_seconds();
                printf("soak: %" PRIu64 " of %" PRIu64 " requests, %" PRIu64 " kills, %" PRIu64 " resets, %.0f s\n",
                       __atomic_load_n(&progress->checked, __ATOMIC_RELAXED), requests, kills, progress->resets,
                       shown - began);
            }
        }
        still("memory of the dead driver", memory, scratch, 2 * SPAN, 0.02);
        (void)part_next(&state);
    }
    printf("soak: %" PRIu64 " requests checked, %" PRIu64 " kills, %" PRIu64 " resets, %.0f s\n", progress->checked,
           kills, progress->resets, part_seconds() - began);
    free(scratch);
    return 0;
}
