/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_failures.c: requests that fail, are refused, or never complete.
 */
#include "cases.h"

#include "dmace_card.h"

static dmace_word copy(const bench *made, uint64_t from, uint64_t to, uint32_t length)
{
    return dmace_copy_word(dmace_memory_region(made->from), from, dmace_memory_region(made->to), to, length, 0);
}

/* Each status, between requests that succeed; all are posted before the first wait. */
static void statuses(void)
{
    for (uint32_t ring = 0; ring < 5; ring += 4) {
        bench made = open_bench("", &(dmace_queue_options){.ring = ring});
        dmace_memory *foreign;
        uint64_t requests[24], first;
        OK(dmace_alloc(made.device, 4096, 7, DMACE_READ | DMACE_WRITE, &foreign));
        const uint32_t from = dmace_memory_region(made.from), to = dmace_memory_region(made.to);
        const uint32_t other = dmace_memory_region(foreign);
        const struct { dmace_word word; int status; } all[] = {
            {{0, 0}, DMACE_DMA_STATUS_MALFORMED},
            {dmace_copy_word(from, 0, to, 0, 0, 0), DMACE_DMA_STATUS_ZERO_LENGTH},
            {dmace_copy_word(200, 0, to, 0, 1, 0), DMACE_DMA_STATUS_SRC_REGION},
            {dmace_copy_word(other, 0, to, 0, 1, 0), DMACE_DMA_STATUS_SRC_DOMAIN},
            {dmace_copy_word(to, 0, to, 0, 1, 0), DMACE_DMA_STATUS_SRC_RIGHTS},
            {dmace_copy_word(from, 65536, to, 0, 1, 0), DMACE_DMA_STATUS_SRC_BOUNDS},
            {dmace_copy_word(from, 0, 15, 0, 1, 0), DMACE_DMA_STATUS_DST_REGION},
            {dmace_copy_word(from, 0, other, 0, 1, 0), DMACE_DMA_STATUS_DST_DOMAIN},
            {dmace_copy_word(from, 0, from, 0, 1, 0), DMACE_DMA_STATUS_DST_RIGHTS},
            {dmace_copy_word(from, 0, to, 65530, 7, 0), DMACE_DMA_STATUS_DST_BOUNDS},
        };
        enum { COUNT = sizeof all / sizeof *all };
        OK(dmace_post_word(made.queue, copy(&made, 0, 0, 10), &first));
        for (int i = 0; i < COUNT; ++i) {
            OK(dmace_post_word(made.queue, all[i].word, &requests[2 * i]));
            OK(dmace_post_word(made.queue, copy(&made, 100 + i, 100 + i, 1), &requests[2 * i + 1]));
        }
        for (int i = COUNT - 1; i >= 0; --i) {
            OK(dmace_wait(made.queue, requests[2 * i + 1], DMACE_FOREVER));
            char sentence[100];
            snprintf(sentence, sizeof sentence, "Request %d of queue %u failed: %s, ", 2 + 2 * i,
                     dmace_queue_number(made.queue), dmace_status_name(all[i].status));
            REQUIRE_FAILS(dmace_wait(made.queue, requests[2 * i], DMACE_FOREVER), all[i].status, sentence);
            REQUIRE(made.target[100 + i] == made.source[100 + i]);
        }
        dmace_queue_stats stats;
        OK(dmace_get_queue_stats(made.queue, &stats));
        REQUIRE(stats.failed == COUNT && stats.requests == 1 + 2 * COUNT);
        uint32_t queue, count;
        int status;
        REQUIRE(dmace_pop_log(made.device, &queue, &status, &count) == 1);
        REQUIRE(queue == dmace_queue_number(made.queue) && status == DMACE_DMA_STATUS_MALFORMED && count == 1);
        REQUIRE(dmace_pop_log(made.device, &queue, &status, &count) == 0);
        REQUIRE_FAILS(dmace_pop_log(made.device, NULL, &status, &count), -EINVAL, "needs a device");
        close_bench(&made);
    }
    REQUIRE(!strcmp(dmace_status_name(99), "UNKNOWN") && !strcmp(dmace_status_name(-1), "UNKNOWN"));
    REQUIRE(!strcmp(dmace_status_name(0), "OK"));
}

/* No request that failed passes as one that succeeded, and the first failure is known exactly. */
static void skipped(void)
{
    bench made = open_bench("wrap", &(dmace_queue_options){.skip_errors = 1});
    uint64_t requests[60];
    uint32_t queue, count;
    int status;
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 6; ++i)
            OK(dmace_post_word(made.queue, i == 1 || i == 4 ? (dmace_word){0, 0} : copy(&made, i, i, 1),
                               &requests[6 * round + i]));
        OK(dmace_wait(made.queue, requests[6 * round], DMACE_FOREVER));
        REQUIRE_FAILS(dmace_wait(made.queue, requests[6 * round + 4], DMACE_FOREVER), DMACE_DMA_STATUS_MALFORMED, "of queue");
        REQUIRE(dmace_wait(made.queue, requests[6 * round + 1], DMACE_FOREVER) == DMACE_DMA_STATUS_MALFORMED);
        REQUIRE(dmace_wait(made.queue, requests[6 * round + 5], DMACE_FOREVER) >= 0);
    }
    REQUIRE(dmace_pop_log(made.device, &queue, &status, &count) == 1 && status == DMACE_DMA_STATUS_MALFORMED);
    close_bench(&made);
}

/* The rows of a 2-D copy are one for dmace_wait(). */
static void rows(void)
{
    for (uint32_t ring = 0; ring < 4; ring += 3) {
        bench made = open_bench("", &(dmace_queue_options){.ring = ring});
        dmace_memory *hole;
        uint64_t request, next;
        OK(dmace_register_address(made.device, UINT64_C(1) << 40, 4096, 0, DMACE_READ, &hole));
        OK(dmace_copy_2d(made.queue, made.to, 0, 64, hole, 0, 16, 16, 20, 0, &request));
        OK(dmace_copy_2d(made.queue, made.to, 0, 64, made.from, 0, 16, 16, 20, 0, &next));
        REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_READ_DECERR, "Request 20 of");
        REQUIRE(dmace_wait(made.queue, 3, DMACE_FOREVER) == DMACE_DMA_STATUS_READ_DECERR);
        OK(dmace_wait(made.queue, next, DMACE_FOREVER));
        close_bench(&made);
    }
}

/* Words that another program stores fill the queue, so that words of the library are refused. */
static void overflow(void)
{
    bench made = open_bench("", NULL);
    const dmace_word word = copy(&made, 0, 0, 1);
    uint64_t requests[4];
    const dmace_transport *transport;
    void *context;
    char error[200];
    OK(dmace_transport_open("", &transport, &context, error, sizeof error));     /* for its functions */
    fake_stop(made.context, 1);
    for (int i = 0; i < FAKE_DEPTH - 1; ++i)
        OK(transport->store(made.context, dmace_queue_number(made.queue) * UINT64_C(4096), &word, 16));
    transport->close(context);
    for (int i = 0; i < 4; ++i)
        OK(dmace_post_word(made.queue, word, &requests[i]));
    fake_stop(made.context, 0);
    /* The other program's words count as well, so the library's numbers are no longer its own; nothing hangs. */
    for (int i = 0; i < 4; ++i)
        REQUIRE(dmace_wait(made.queue, requests[i], DMACE_FOREVER) >= 0);
    dmace_queue_stats stats;
    OK(dmace_get_queue_stats(made.queue, &stats));
    REQUIRE(stats.failed == 1);
    usleep(100000);
    uint64_t request;
    for (int i = 0; i < 50; ++i)
        OK(dmace_post_word(made.queue, word, &request));
    REQUIRE(dmace_wait(made.queue, request, DMACE_FOREVER) >= 0);
    close_bench(&made);
}

static void disabled(void)
{
    bench made = open_bench("", NULL);
    uint64_t first, second;
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &first));
    OK(dmace_wait(made.queue, first, DMACE_FOREVER));
    OK(dmace_write_register(made.device, DMACE_DMA_QUEUE_COMMAND_OFFSET,
                            dmace_queue_number(made.queue) | DMACE_DMA_COMMAND_RESET << 8));
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &first));
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &second));
    REQUIRE_FAILS(dmace_wait(made.queue, second, DMACE_FOREVER), DMACE_DMA_STATUS_DISABLED, "the queue is not started");
    REQUIRE_FAILS(dmace_wait(made.queue, first, DMACE_FOREVER), DMACE_DMA_STATUS_DISABLED, "Request 2 of queue");
    close_bench(&made);
}

static void timed_out(void)
{
    bench made = open_bench("", NULL);
    uint64_t first, second;
    fake_time_out(made.context, dmace_queue_number(made.queue));
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &first));
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &second));
    REQUIRE_FAILS(dmace_wait(made.queue, second, DMACE_FOREVER), DMACE_DMA_STATUS_TIMEOUT, "watchdog");
    REQUIRE_FAILS(dmace_wait(made.queue, first, DMACE_FOREVER), DMACE_DMA_STATUS_TIMEOUT, "watchdog");
    REQUIRE_FAILS(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &first), -EIO, "has ended with TIMEOUT");
    OK(dmace_queue_destroy(made.queue));
    close_bench(&made);
}

/* A ring whose descriptors cannot be read ends. */
static void ring_fetch(void)
{
    bench made = open_bench("", &(dmace_queue_options){.ring = 3});
    uint64_t request;
    fake_refuse(made.context, 0, 1 << 30);     /* of the completion words, too */
    OK(dmace_copy_2d(made.queue, made.to, 0, 8, made.from, 0, 8, 8, 100, 0, &request));
    REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_RING_FETCH, "read of its descriptor");
    REQUIRE_FAILS(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, NULL), -EIO, "has ended with RING_FETCH");
    close_bench(&made);
}

/* Completion words that do not arrive: the registers have the count and the failure. */
static void lost_words(void)
{
    bench made = open_bench("", NULL);
    uint64_t first, second;
    fake_mute(made.context, 1);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 8, 0, &first));
    OK(dmace_post_word(made.queue, (dmace_word){0, 0}, &second));
    OK(dmace_wait(made.queue, first, DMACE_FOREVER));
    REQUIRE_FAILS(dmace_wait(made.queue, second, DMACE_FOREVER), DMACE_DMA_STATUS_MALFORMED, "MALFORMED");
    close_bench(&made);
}

const test_case failure_cases[] = {
    {"statuses", statuses}, {"skipped", skipped}, {"rows", rows}, {"overflow", overflow}, {"disabled", disabled},
    {"timed_out", timed_out}, {"ring_fetch", ring_fetch}, {"lost_words", lost_words}, {NULL, NULL},
};
