/* SPDX-License-Identifier: Apache-2.0
 *
 * reset: a function-level reset under load. Requests of the time before end as cancelled, nothing is written to their
 * memory afterwards, and new queues work.
 */
#include "shared.h"

enum { ROUNDS = 12, SPAN = 1 << 18, MAX_QUEUES = 64 };

static dmace_device *device;
static dmace_info info;

static void round_of(part_random *state, unsigned char *scratch)
{
    dmace_memory *from, *to;
    dmace_queue_handle *queue[MAX_QUEUES];
    uint64_t last[MAX_QUEUES];
    unsigned cancelled = 0;
    MUST(dmace_alloc(device, SPAN, 0, DMACE_READ, &from));
    MUST(dmace_alloc(device, SPAN, 0, DMACE_WRITE, &to));
    unsigned char *source = dmace_memory_data(from), *destination = dmace_memory_data(to);
    part_fill(state, source, SPAN);

    /* After the previous reset, everything works. */
    for (uint32_t index = 0; index < info.queues; ++index) {
        const size_t piece = SPAN / info.queues;
        MUST(dmace_queue_create(device, NULL, &queue[index]));
        MUST(dmace_copy(queue[index], to, index * piece, from, index * piece, piece, 0, &last[index]));
    }
    for (uint32_t index = 0; index < info.queues; ++index)
        MUST(dmace_wait(queue[index], last[index], PART_TIMEOUT));
    part_same("after a reset", destination, source, SPAN - SPAN % info.queues);

    /* Load, and a reset somewhere in it. */
    const unsigned requests = 4 + (unsigned)part_below(state, 4 * info.queues);
    for (unsigned posted = 0; posted < requests; ++posted) {
        const uint64_t length = 1 + part_below(state, 30000);
        MUST(dmace_copy(queue[posted % info.queues], to, part_below(state, SPAN - length), from,
                        part_below(state, SPAN - length), length, 0, &last[posted % info.queues]));
    }
    MUST(dmace_reset(device));
    still("memory after a reset", destination, scratch, SPAN, 0.05);
    for (uint32_t index = 0; index < info.queues; ++index) {
        EXPECT(dmace_wait(queue[index], last[index], PART_TIMEOUT), -ECANCELED);
        ++cancelled;
        MUST(dmace_queue_destroy(queue[index]));
    }
    REQUIRE(cancelled == info.queues);
    MUST(dmace_deregister(from));
    MUST(dmace_deregister(to));
}

int main(int argc, char **argv)
{
    unsigned char *scratch = malloc(SPAN);
    part_random state = {7};
    REQUIRE(scratch);
    MUST(dmace_open(part_device(argc, argv), &device));
    MUST(dmace_get_info(device, &info));
    REQUIRE(info.queues <= MAX_QUEUES);
    for (unsigned round = 0; round < ROUNDS; ++round)
        round_of(&state, scratch);
    dmace_close(device);
    free(scratch);
    printf("reset: %u resets under load, correct copies between them\n", ROUNDS);
    return 0;
}
