/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_queue.c: queues, rings, interrupts, threads.
 */
#include "cases.h"

#include <poll.h>

#include "dmace_card.h"

static void arguments(void)
{
    bench made = open_bench("", NULL);
    dmace_queue_handle *queue = made.queue, *other;
    dmace_device *second = open_fake("", NULL);
    dmace_memory *foreign;
    OK(dmace_alloc(second, 64, 0, DMACE_WRITE, &foreign));
#define COPY(to, to_offset, from, from_offset, length, flags) \
    dmace_copy(queue, to, to_offset, from, from_offset, length, flags, NULL)
    REQUIRE_FAILS(dmace_copy(NULL, made.to, 0, made.from, 0, 1, 0, NULL), -EINVAL, "needs a queue");
    REQUIRE_FAILS(COPY(NULL, 0, made.from, 0, 1, 0), -EINVAL, "destination must be memory");
    REQUIRE_FAILS(COPY(made.to, 0, NULL, 0, 1, 0), -EINVAL, "source must be memory");
    REQUIRE_FAILS(COPY(foreign, 0, made.from, 0, 1, 0), -EINVAL, "of the queue's device");
    REQUIRE_FAILS(COPY(made.to, 0, made.from, 0, 0, 0), -EINVAL, "1 to 268435455 bytes, not 0");
    REQUIRE_FAILS(COPY(made.to, 0, made.from, 0, 1 << 28, 0), -EINVAL, "not 268435456");
    REQUIRE_FAILS(COPY(made.to, 65535, made.from, 0, 2, 0), -ERANGE, "destination must be in its 65536 bytes, not 2 bytes");
    REQUIRE_FAILS(COPY(made.to, 0, made.from, UINT64_MAX, 2, 0), -ERANGE, "Range of the source");
    REQUIRE_FAILS(COPY(made.to, 0, made.from, 0, 1, 16), -EINVAL, "not 0x10");
    REQUIRE_FAILS(dmace_signal(queue, made.to, 4, 0, 0, NULL), -EINVAL, "multiple of 8");
    REQUIRE_FAILS(dmace_signal(queue, made.to, 0, UINT64_C(1) << 44, 0, NULL), -EINVAL, "below 2^44");
    REQUIRE_FAILS(dmace_signal(queue, made.to, 65536, 0, 0, NULL), -ERANGE, "8 bytes at 65536");
    REQUIRE_FAILS(dmace_copy_2d(queue, made.to, 0, 8, made.from, 0, 8, 8, 0, 0, NULL), -EINVAL, "Rows of a copy");
    REQUIRE_FAILS(dmace_copy_2d(queue, made.to, 0, 8, made.from, 0, -8, 8, 2, 0, NULL), -ERANGE, "Rows of the source");
    REQUIRE_FAILS(dmace_copy_2d(queue, made.to, 0, 65529, made.from, 0, 8, 8, 2, 0, NULL), -ERANGE, "the destination");
    REQUIRE_FAILS(dmace_copy_2d(queue, made.to, 0, INT64_MAX, made.from, 0, 8, 8, 2, 0, NULL), -EINVAL, "Stride");
    REQUIRE_FAILS(dmace_wait(queue, 1, 0), -EINVAL, "must be 1 to 0");
    REQUIRE_FAILS(dmace_wait(NULL, 1, 0), -EINVAL, "needs a queue");
    REQUIRE_FAILS(dmace_sleep(queue, 1, 0), -ENOTSUP, "has no interrupt");
    REQUIRE_FAILS(dmace_queue_eventfd(queue), -ENOTSUP, "has no interrupt");
#define CREATE(...) dmace_queue_create(made.device, &(dmace_queue_options){__VA_ARGS__}, &other)
    REQUIRE_FAILS(CREATE(.domain = 256), -EINVAL, "not 256");
    REQUIRE_FAILS(CREATE(.weight = 16), -EINVAL, "not 16");
    REQUIRE_FAILS(CREATE(.priority = 4), -EINVAL, "not 4");
    REQUIRE_FAILS(CREATE(.ring = 2), -EINVAL, "not 2");
    REQUIRE_FAILS(CREATE(.skip_errors = 2), -EINVAL, "0 or 1, not 0, 2 and 0");
    REQUIRE_FAILS(CREATE(.ring = 3, .pair = 2), -EINVAL, "0 or 1, not 0, 0 and 2");
    REQUIRE_FAILS(CREATE(.pair = 1), -EINVAL, "pair must be 0 for a queue without a ring, not 1");
    REQUIRE_FAILS(dmace_queue_create(NULL, NULL, &other), -EINVAL, "needs a device");
    REQUIRE_FAILS(dmace_queue_destroy(NULL), -EINVAL, "needs a queue");
    dmace_close(second);
    close_bench(&made);
}

/* Doorbells overtake register writes that no read has followed. */
static void late_writes(void)
{
    dmace_device *device = open_fake("late", NULL);
    for (int round = 0; round < 3; ++round) {
        dmace_memory *from, *to;
        dmace_queue_handle *queue;
        uint64_t request;
        OK(dmace_alloc(device, 4096, 0, DMACE_READ, &from));
        OK(dmace_queue_create(device, NULL, &queue));
        OK(dmace_alloc(device, 4096, 0, DMACE_WRITE, &to));
        memset(dmace_memory_data(from), round + 1, 4096);
        OK(dmace_copy(queue, to, 0, from, 0, 4096, 0, &request));
        OK(dmace_wait(queue, request, 10000000000));
        REQUIRE(!memcmp(dmace_memory_data(to), dmace_memory_data(from), 4096));
        OK(dmace_queue_destroy(queue));
        OK(dmace_deregister(from));
        OK(dmace_deregister(to));
    }
    dmace_close(device);
}

static void all_queues(void)
{
    void *context;
    dmace_device *device = open_fake("", &context);
    dmace_queue_handle *queues[FAKE_QUEUES], *queue;
    for (int i = 0; i < FAKE_QUEUES; ++i)
        OK(dmace_queue_create(device, NULL, &queues[i]));
    REQUIRE(dmace_queue_number(queues[3]) >= FAKE_EXTENDED && dmace_queue_number(queues[4]) < FAKE_EXTENDED);
    REQUIRE_FAILS(dmace_queue_create(device, NULL, &queue), -EBUSY, "All 8 queues");
    OK(dmace_queue_destroy(queues[0]));
    REQUIRE_FAILS(dmace_queue_create(device, &(dmace_queue_options){.ring = 3}, &queue), -EBUSY, "All 4 extended queues");
    OK(dmace_queue_create(device, NULL, &queue));
    REQUIRE(fake_maps(context) == FAKE_QUEUES);
    dmace_close(device);
}

static dmace_queue_handle *ring_of(dmace_device *device, uint32_t number, uint32_t pair)
{
    dmace_queue_handle *queue;
    uint32_t config;
    OK(dmace_queue_create(device, &(dmace_queue_options){.ring = 3, .pair = pair}, &queue));
    OK(dmace_read_register(device, DMACE_DMA_RING_CONFIG_OFFSET, &config));
    REQUIRE(config == (3 | pair << DMACE_DMA_RING_CONFIG_PAIR_SHIFT));
    REQUIRE(dmace_queue_number(queue) == number);
    return queue;
}

/* Which queues have rings with `pair`, and beside them. The fake card aborts when two rings overlap. */
static void pairs(void)
{
    dmace_device *device = open_fake("", NULL);
    dmace_queue_handle *queues[FAKE_QUEUES], *rings[FAKE_EXTENDED], *queue;
    const dmace_queue_options one = {.ring = 3}, both = {.ring = 3, .pair = 1};
    /* Nothing but a plain queue is beside a ring with `pair`. */
    rings[0] = ring_of(device, 0, 1);
    rings[2] = ring_of(device, 2, 0);
    REQUIRE_FAILS(dmace_queue_create(device, &both, &queue), -EBUSY,
                  "None of the card's 4 extended queues is free beside a queue without a ring, as pair requires");
    rings[3] = ring_of(device, 3, 0);
    REQUIRE_FAILS(dmace_queue_create(device, &one, &queue), -EBUSY,
                  "Each of the card's 4 extended queues is in use, or beside a ring with pair");
    for (int i = 0; i < 5; ++i)
        OK(dmace_queue_create(device, NULL, &queues[i]));
    REQUIRE(dmace_queue_number(queues[4]) == 1);
    REQUIRE_FAILS(dmace_queue_create(device, &both, &queue), -EBUSY, "All 4 extended queues of the card are in use");
    /* A destroyed ring leaves its part to the other queue. */
    OK(dmace_queue_destroy(rings[0]));
    OK(dmace_queue_destroy(queues[4]));
    rings[0] = ring_of(device, 0, 0);
    rings[1] = ring_of(device, 1, 0);
    OK(dmace_queue_destroy(rings[0]));
    OK(dmace_queue_destroy(rings[2]));
    REQUIRE_FAILS(dmace_queue_create(device, &both, &queue), -EBUSY, "is free beside a queue without a ring");
    OK(dmace_queue_destroy(rings[1]));
    rings[0] = ring_of(device, 0, 1);
    OK(dmace_queue_destroy(rings[0]));
    OK(dmace_queue_destroy(rings[3]));
    /* Pairs are kept whole: a second ring is beside the first one, and one with `pair` beside a plain queue. */
    rings[0] = ring_of(device, 0, 0);
    rings[1] = ring_of(device, 1, 0);
    rings[2] = ring_of(device, 2, 1);
    OK(dmace_queue_create(device, NULL, &queue));
    REQUIRE(dmace_queue_number(queue) == 3);
    for (int i = 0; i < 3; ++i)
        OK(dmace_queue_destroy(rings[i]));
    rings[2] = ring_of(device, 2, 1);
    OK(dmace_queue_create(device, NULL, &queue));
    /* A reset of the card frees everything. */
    REQUIRE(dmace_queue_number(queue) == 0);
    OK(dmace_reset(device));
    ring_of(device, 0, 1);
    ring_of(device, 2, 1);
    dmace_close(device);
}

/* Sets of options, for cases that all kinds of queues pass. */
static const struct { const char *card; dmace_queue_options options; } kinds[] = {
    {"", {.weight = 3, .priority = 2, .segments = 4}}, {"page", {.segments = 999}}, {"remote", {.domain = 0}},
    {"", {.ring = 3}}, {"page", {.ring = 5}}, {"remote", {.ring = 4}}, {"", {.interrupt = 1}}, {"wrap", {.skip_errors = 1}},
    {"wrap", {.ring = 3}}, {"", {.ring = 3, .pair = 1}}, {"noendpoint slow", {.interrupt = 1}},
};

static void copies(void)
{
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
        bench made = open_bench(kinds[kind].card, &kinds[kind].options);
        static uint8_t source[BENCH_BYTES], target[BENCH_BYTES];
        uint64_t request = 0, last = 0;
        dmace_queue_stats stats;
        for (int i = 0; i < BENCH_BYTES; ++i)
            source[i] = (uint8_t)(i * 17 + (i >> 8));
        OK(dmace_memory_save(made.from, 0, source, sizeof source));
        for (int i = 0; i < 300; ++i) {
            OK(dmace_copy(made.queue, made.to, i * 3, made.from, i * 7, 3, 0, &request));
            REQUIRE(request == ++last);
        }
        OK(dmace_copy_2d(made.queue, made.to, 20000, -100, made.from, 5, 300, 64, 150, DMACE_DMA_FLAG_FENCE, &request));
        REQUIRE(request == last + 150);
        OK(dmace_signal(made.queue, made.to, 24000, UINT64_C(0xfedcba98765), 0, &request));
        OK(dmace_wait(made.queue, request, DMACE_FOREVER));
        OK(dmace_wait(made.queue, 1, 0));
        OK(dmace_memory_load(made.to, 0, target, sizeof target));
        for (int i = 0; i < 300; ++i)
            REQUIRE(!memcmp(target + i * 3, source + i * 7, 3));
        for (int i = 0; i < 150; ++i)
            REQUIRE(!memcmp(target + 20000 - i * 100, source + 5 + i * 300, 64));
        REQUIRE(!memcmp(target + 24000, &(uint64_t){UINT64_C(0xfedcba98765)}, 8));
        OK(dmace_get_queue_stats(made.queue, &stats));
        REQUIRE(stats.requests == 451 && !stats.failed && !stats.waiting && stats.histogram[2] == 20);
        REQUIRE(stats.bytes == 300 * 3 + 150 * 64 + 8);
        OK(dmace_queue_destroy(made.queue));
        REQUIRE(fake_maps(made.context) == 2);
        close_bench(&made);
    }
}

enum { THREADS = 8, EACH = 250 };

typedef struct poster {
    bench *made;
    int number;
} poster;

static void *post(void *argument)
{
    const poster *self = argument;
    bench *made = self->made;
    uint64_t requests[EACH];
    for (int i = 0; i < EACH; ++i) {
        const uint64_t at = (uint64_t)(self->number * EACH + i) * 16;
        OK(dmace_copy(made->queue, made->to, at, made->from, at, 16, DMACE_DMA_FLAG_IRQ, &requests[i]));
        if (i % 3 == 0)
            OK((dmace_queue_eventfd(made->queue) < 0 ? dmace_wait : dmace_sleep)(made->queue, requests[i], DMACE_FOREVER));
        if (i % 3 == 0)
            REQUIRE(!memcmp(made->target + at, made->source + at, 16));
    }
    OK(dmace_wait(made->queue, requests[EACH - 1], DMACE_FOREVER));
    return NULL;
}

static void threads(void)
{
    for (int kind = 0; kind < 3; ++kind) {
        bench made = open_bench("", &(dmace_queue_options){.interrupt = kind == 1, .ring = kind == 2 ? 3 : 0});
        pthread_t made_threads[THREADS];
        poster posters[THREADS];
        for (int i = 0; i < THREADS; ++i) {
            posters[i] = (poster){&made, i};
            pthread_create(&made_threads[i], NULL, post, &posters[i]);
        }
        for (int i = 0; i < THREADS; ++i)
            pthread_join(made_threads[i], NULL);
        REQUIRE(!memcmp(made.source, made.target, (size_t)THREADS * EACH * 16));
        close_bench(&made);
    }
}

/* Memory comes and goes while another thread posts; a queue is destroyed under a thread that waits. */
static void *churn(void *argument)
{
    bench *made = argument;
    for (int i = 0; i < 60; ++i) {
        dmace_memory *memory;
        OK(dmace_alloc(made->device, 8192, 0, DMACE_WRITE, &memory));
        OK(dmace_copy(made->queue, memory, 0, made->from, 0, 8192, 0, NULL));
        OK(dmace_deregister(memory));
    }
    return NULL;
}

static void *wait_for_end(void *argument)
{
    bench *made = argument;
    REQUIRE(dmace_wait(made->queue, 1, DMACE_FOREVER) == -ECANCELED);
    return NULL;
}

static void traffic(void)
{
    bench made = open_bench("", NULL);
    pthread_t thread, poster_thread;
    poster self = {&made, 0};
    pthread_create(&thread, NULL, churn, &made);
    pthread_create(&poster_thread, NULL, post, &self);
    pthread_join(thread, NULL);
    pthread_join(poster_thread, NULL);
    OK(dmace_queue_destroy(made.queue));
    OK(dmace_queue_create(made.device, NULL, &made.queue));
    fake_stop(made.context, 1);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 64, 0, NULL));
    REQUIRE_FAILS(dmace_wait(made.queue, 1, 0), -ETIMEDOUT, "has not completed within 0 ns");
    REQUIRE_FAILS(dmace_wait(made.queue, 1, 2000000), -ETIMEDOUT, "has not completed within 2000000 ns");
    pthread_create(&thread, NULL, wait_for_end, &made);
    usleep(10000);
    OK(dmace_queue_destroy(made.queue));
    pthread_join(thread, NULL);
    close_bench(&made);
}

/* More queues than vectors: those that share one all get its events. */
static void interrupts(void)
{
    bench made = open_bench("", &(dmace_queue_options){.interrupt = 1});
    dmace_queue_handle *queues[FAKE_QUEUES - 1];
    uint64_t request, count;
    for (int i = 0; i < FAKE_QUEUES - 1; ++i)
        OK(dmace_queue_create(made.device, &(dmace_queue_options){.interrupt = 1}, &queues[i]));
    for (int round = 0; round < 20; ++round)
        for (int i = 0; i < FAKE_QUEUES - 1; ++i) {
            struct pollfd event = {.fd = dmace_queue_eventfd(queues[i]), .events = POLLIN};
            while (read(event.fd, &count, 8) == 8)
                ;
            OK(dmace_copy(queues[i], made.to, 0, made.from, 0, 64, DMACE_DMA_FLAG_IRQ, &request));
            if (round % 2)
                REQUIRE(poll(&event, 1, 5000) == 1);
            OK(dmace_sleep(queues[i], request, DMACE_FOREVER));
        }
    fake_stop(made.context, 1);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 64, DMACE_DMA_FLAG_IRQ, &request));
    REQUIRE_FAILS(dmace_sleep(made.queue, request, 3000000), -ETIMEDOUT, "3000000 ns");
    fake_stop(made.context, 0);
    for (int i = 0; i < FAKE_QUEUES - 2; ++i)
        OK(dmace_queue_destroy(queues[i]));
    OK(dmace_sleep(made.queue, request, DMACE_FOREVER));
    close_bench(&made);
}

static void create_failures(void)
{
    for (uint32_t kind = 0; kind < 3; ++kind) {
        void *context;
        dmace_device *device = open_fake("", &context);
        dmace_queue_handle *queue;
        const dmace_queue_options options = {.interrupt = 1, .ring = kind ? 4 : 0, .pair = kind == 2};
        int calls = 0, code;
        do {
            fake_fail_call(context, calls++);
            code = dmace_queue_create(device, &options, &queue);
            fake_fail_call(context, -1);
            REQUIRE(!code || (code == -EIO && strstr(dmace_error(), "the test made") && !fake_maps(context)));
        } while (code);
        REQUIRE(calls > 15);
        for (calls = 1, code = 1; code; ++calls) {
            fake_fail_call(context, calls);
            code = dmace_queue_destroy(queue);
            fake_fail_call(context, -1);
        }
        REQUIRE(calls > 4 && !fake_maps(context));
        dmace_close(device);
    }
}

const test_case queue_cases[] = {
    {"queue_arguments", arguments}, {"all_queues", all_queues}, {"pairs", pairs},
    {"late_writes", late_writes}, {"copies", copies}, {"threads", threads},
    {"traffic", traffic}, {"interrupts", interrupts}, {"create_failures", create_failures}, {NULL, NULL},
};
