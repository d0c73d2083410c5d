/* SPDX-License-Identifier: Apache-2.0
 *
 * copies: copies of many sizes and alignments, by several queues, of rows, with signals; completion by polling and by
 * interrupt. Every byte of the destination is checked, those around it, too.
 *
 * It needs nothing of Linux: `copies sim:LIBRARY` runs it over a simulator in its own process.
 */
#include "part.h"

enum { MIB = 1 << 20, MARGIN = 4096, SIZE = MIB + 2 * MARGIN, MAX_QUEUES = 64, GUARD = 0xa5 };

static dmace_device *device;
static dmace_info info;
static dmace_memory *from, *to;
static unsigned char *source, *destination, *expected;
static part_random state = {UINT64_C(0x123456789abcdef)};

/* One copy into a destination that is all guard bytes; the whole destination is compared. */
static void copy(dmace_queue_handle *queue, uint64_t to_offset, uint64_t from_offset, size_t length, int asleep)
{
    uint64_t request;
    memset(destination, GUARD, SIZE);
    memset(expected, GUARD, SIZE);
    memcpy(expected + to_offset, source + from_offset, length);
    MUST(dmace_copy(queue, to, to_offset, from, from_offset, length, asleep ? DMACE_DMA_FLAG_IRQ : 0, &request));
    MUST((asleep ? dmace_sleep : dmace_wait)(queue, request, PART_TIMEOUT));
    part_same("copy", destination, expected, SIZE);
}

static void sizes(dmace_queue_handle *queue)
{
    static const size_t lengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257,
                                     511, 512, 513, 1000, 2048, 4095, 4096, 4097, 10000, 65536, 65537};
    const unsigned count = sizeof lengths / sizeof *lengths;
    unsigned done = 0;
    for (unsigned index = 0; index < count; ++index)
        for (unsigned alignment = 0; alignment < (lengths[index] > 4097 ? 1u : 3u); ++alignment, ++done)
            copy(queue, alignment ? part_below(&state, 2 * MARGIN) : MARGIN, alignment ? part_below(&state, MARGIN) : 0,
                 lengths[index], 0);
    copy(queue, MARGIN + 3, 1, MIB, 0);
    copy(queue, MARGIN, 64, MIB, 0);
    printf("copies: %u copies of 1 byte to 1 MiB, aligned and not, guard bytes in place\n", done + 2);
}

/* All queues at once, each in a part of the destination of its own. */
static void queues(void)
{
    enum { EACH = 24, PIECE = 600 };
    dmace_queue_handle *queue[MAX_QUEUES];
    uint64_t last[MAX_QUEUES];
    const uint32_t count = info.queues < MAX_QUEUES ? info.queues : MAX_QUEUES;
    const size_t span = SIZE / count;
    memset(destination, GUARD, SIZE);
    memset(expected, GUARD, SIZE);
    for (uint32_t index = 0; index < count; ++index)
        MUST(dmace_queue_create(device, NULL, &queue[index]));
    for (unsigned piece = 0; piece < EACH; ++piece)
        for (uint32_t index = 0; index < count; ++index) {
            const size_t length = 1 + part_below(&state, PIECE), slot = span / EACH;
            const uint64_t at = index * span + piece * slot + part_below(&state, slot - PIECE);
            const uint64_t start = part_below(&state, SIZE - length);
            memcpy(expected + at, source + start, length);
            MUST(dmace_copy(queue[index], to, at, from, start, length, 0, &last[index]));
        }
    for (uint32_t index = 0; index < count; ++index)
        MUST(dmace_wait(queue[index], last[index], PART_TIMEOUT));
    part_same("queues", destination, expected, SIZE);
    for (uint32_t index = 0; index < count; ++index)
        MUST(dmace_queue_destroy(queue[index]));
    printf("copies: %u queues at once, %u copies each\n", count, (unsigned)EACH);
}

static void rows(const char *how, uint32_t ring, uint32_t pair)
{
    enum { ROWS = 20, LENGTH = 333, FROM_STRIDE = 401, TO_STRIDE = 777 };
    const dmace_queue_options options = {.ring = ring, .pair = pair};
    dmace_queue_handle *queue;
    uint64_t request;
    MUST(dmace_queue_create(device, &options, &queue));
    memset(destination, GUARD, SIZE);
    memset(expected, GUARD, SIZE);
    for (unsigned row = 0; row < ROWS; ++row)
        memcpy(expected + 100 + row * TO_STRIDE, source + 17 + row * FROM_STRIDE, LENGTH);
    MUST(dmace_copy_2d(queue, to, 100, TO_STRIDE, from, 17, FROM_STRIDE, LENGTH, ROWS, 0, &request));
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    part_same("rows", destination, expected, SIZE);
    MUST(dmace_queue_destroy(queue));
    printf("copies: %d rows of %d bytes, %s\n", ROWS, LENGTH, how);
}

/* A signal is stored once the copies in front of it have completed. */
static void signals(dmace_queue_handle *queue)
{
    const uint64_t value = UINT64_C(0xabcdef12345);
    volatile uint64_t *word = (volatile uint64_t *)(void *)(destination + SIZE - 64);
    const double limit = part_seconds() + 60;
    uint64_t request;
    memset(destination, GUARD, SIZE);
    memset(expected, GUARD, SIZE);
    memcpy(expected + 5, source + 9, 20000);
    *word = 0;
    memcpy(expected + SIZE - 64, &value, 8);
    MUST(dmace_copy(queue, to, 5, from, 9, 20000, 0, NULL));
    MUST(dmace_signal(queue, to, SIZE - 64, value, 0, &request));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        REQUIRE(part_seconds() < limit);
    part_same("signal", destination, expected, SIZE);
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    printf("copies: a signal is behind the data\n");
}

static void interrupts(void)
{
    const dmace_queue_options options = {.interrupt = 1};
    dmace_queue_handle *queue;
    if (!info.vectors) {
        printf("copies: %s has no interrupts\n", info.transport);
        return;
    }
    MUST(dmace_queue_create(device, &options, &queue));
    REQUIRE(dmace_queue_eventfd(queue) >= 0);
    for (unsigned index = 0; index < 50; ++index)
        copy(queue, part_below(&state, MARGIN), part_below(&state, MARGIN), 1 + part_below(&state, 3000), 1);
    MUST(dmace_queue_destroy(queue));
    printf("copies: 50 completions by interrupt\n");
}

/* Memory of the caller with an odd address, and what the card refuses. */
static void edges(void)
{
    enum { LENGTH = 5000 };
    const dmace_queue_options options = {.domain = info.domains - 1};
    unsigned char *mine = malloc(3 * MARGIN);
    dmace_queue_handle *queue;
    dmace_memory *odd, *constant, *mate;
    dmace_word word;
    uint64_t request;
    REQUIRE(mine);
    memset(mine, GUARD, 3 * MARGIN);
    memcpy(expected, mine, 3 * MARGIN);
    MUST(dmace_register(device, mine + 13, LENGTH, options.domain, DMACE_READ | DMACE_WRITE, &odd));
    MUST(dmace_alloc(device, MARGIN, options.domain, DMACE_READ, &constant));
    MUST(dmace_alloc(device, MARGIN, options.domain, DMACE_READ | DMACE_WRITE, &mate));
    MUST(dmace_queue_create(device, &options, &queue));
    part_fill(&state, dmace_memory_data(mate), MARGIN);
    memcpy(expected + 14, (unsigned char *)dmace_memory_data(mate) + 1, 3000);
    MUST(dmace_copy(queue, odd, 1, mate, 1, 3000, 0, &request));
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    part_same("odd address", mine, expected, 3 * MARGIN);

    EXPECT(dmace_copy(queue, odd, LENGTH - 9, mate, 0, 10, 0, &request), -ERANGE);
    word = dmace_copy_word(dmace_memory_region(mate), MARGIN - 9, dmace_memory_region(odd), 4096, 10, DMACE_DMA_FLAG_SC);
    MUST(dmace_post_word(queue, word, &request));
    EXPECT(dmace_wait(queue, request, PART_TIMEOUT), (int)DMACE_DMA_STATUS_SRC_BOUNDS);
    word = dmace_copy_word(dmace_memory_region(mate), 0, dmace_memory_region(constant), 0, 10, DMACE_DMA_FLAG_SC);
    MUST(dmace_post_word(queue, word, &request));
    EXPECT(dmace_wait(queue, request, PART_TIMEOUT), (int)DMACE_DMA_STATUS_DST_RIGHTS);
    if (info.domains > 1) {
        word = dmace_copy_word(dmace_memory_region(from), 0, dmace_memory_region(mate), 0, 10, DMACE_DMA_FLAG_SC);
        MUST(dmace_post_word(queue, word, &request));
        EXPECT(dmace_wait(queue, request, PART_TIMEOUT), (int)DMACE_DMA_STATUS_SRC_DOMAIN);
    }
    MUST(dmace_copy(queue, odd, 1, mate, 1, 3000, 0, &request));
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    part_same("after failures", mine, expected, 3 * MARGIN);
    MUST(dmace_queue_destroy(queue));
    MUST(dmace_deregister(odd));
    MUST(dmace_deregister(constant));
    MUST(dmace_deregister(mate));
    free(mine);
    printf("copies: memory at an odd address; bounds, rights and domains are checked by the card\n");
}

int main(int argc, char **argv)
{
    dmace_queue_handle *queue;
    uint64_t cycles;
    MUST(dmace_open(part_device(argc, argv), &device));
    MUST(dmace_get_info(device, &info));
    printf("copies: %s, %u queues, %u regions, %u bits, %u vectors\n", info.transport, info.queues, info.regions,
           8 * info.beat_bytes, info.vectors);
    MUST(dmace_alloc(device, SIZE, 0, DMACE_READ, &from));
    MUST(dmace_alloc(device, SIZE, 0, DMACE_WRITE, &to));
    source = dmace_memory_data(from);
    destination = dmace_memory_data(to);
    expected = malloc(SIZE);
    REQUIRE(source && destination && expected);
    part_fill(&state, source, SIZE);

    MUST(dmace_queue_create(device, NULL, &queue));
    sizes(queue);
    signals(queue);
    MUST(dmace_queue_destroy(queue));
    queues();
    rows("a request each", 0, 0);
    if (info.extended_queues) {
        rows("one descriptor of a ring", 4, 0);
        rows("one descriptor of a ring with pair", 4, 1);
    }
    interrupts();
    edges();
    if (!dmace_cycles(device, &cycles))
        printf("copies: %" PRIu64 " cycles\n", cycles);
    dmace_close(device);
    free(expected);
    return 0;
}
