/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c: which requests of a queue have completed, and which have failed, from its SC word. All with the queue's
 * lock held.
 *
 * In a queue that holds, the failed request is the one behind the count, and CLEAR lets the queue continue. In one that
 * skips errors, the error log has the number of the first failure; the others among the requests that have completed
 * since are not distinguished.
 */
#include "internal.h"

#include <inttypes.h>

#define FIRST_INTERVAL INT64_C(20000000)
#define LAST_INTERVAL INT64_C(1000000000)
#define REFUSED_INTERVAL INT64_C(5000000)

static bool is_refusal(int status)
{
    return status == DMACE_DMA_STATUS_OVERFLOW || status == DMACE_DMA_STATUS_DISABLED ||
        status == DMACE_DMA_STATUS_RING_RANGE;
}

/* No request completes after this: the queue must be destroyed. */
static int break_queue(dmace_queue_handle *queue, int status)
{
    queue->broken = status;
    return dmace_failure_add(queue, queue->completed + 1, queue->posted, status);
}

static int find_skipped(dmace_queue_handle *queue, uint64_t previous, uint32_t previous_count, int32_t failures,
                        int status)
{
    uint64_t first = previous + 1;
    int code;
    dmace_log_entry entry;
    while ((code = dmace_log_take(queue->device, queue->number, &entry)) > 0) {
        const uint64_t request = previous + 1 + (uint64_t)(int64_t)(int32_t)(entry.count - previous_count);
        if (is_refusal(entry.status) || entry.status == DMACE_DMA_STATUS_COMPLETION_ERROR || request < first)
            continue;
        if ((code = dmace_failure_add(queue, request, request, entry.status)))
            return code;
        if (request <= queue->completed) {
            first = request + 1;
            --failures;
        }
    }
    if (code || failures <= 0)
        return code;
    return dmace_failure_add(queue, first, queue->completed, status ? status : (int)DMACE_DMA_STATUS_MALFORMED);
}

/* `failures` more than before; `previous` requests had completed then. */
static int handle_failures(dmace_queue_handle *queue, uint64_t previous, uint32_t previous_count, int32_t failures,
                           int status)
{
    if (status == DMACE_DMA_STATUS_TIMEOUT || status == DMACE_DMA_STATUS_RING_FETCH)
        return break_queue(queue, status);
    dmace_queue_registers now;
    int code = dmace_queue_read(queue, &now);
    if (code)
        return code;
    if (now.state & DMACE_DMA_QUEUE_STATE_REFUSING_MASK && !queue->refused) {
        queue->refused = true;
        queue->idle_checks = 0;
        queue->interval = REFUSED_INTERVAL;
        failures -= is_refusal(status);
    }
    if (!queue->options.skip_errors && now.state & DMACE_DMA_QUEUE_STATE_HELD_MASK) {
        if ((code = dmace_failure_add(queue, queue->completed + 1, queue->completed + 1, status)))
            return code;
        return dmace_queue_command(queue, DMACE_DMA_COMMAND_CLEAR);
    }
    return failures > 0 ? find_skipped(queue, previous, previous_count, failures, status) : 0;
}

/* Processes a completion word. An older one than the latest has no effect. */
static int process(dmace_queue_handle *queue, uint64_t word)
{
    const uint32_t previous_count = queue->engine_count;
    const uint64_t previous = queue->completed;
    const int32_t ahead = (int32_t)(dmace_count(word) - previous_count);
    const int32_t failures = (int32_t)((dmace_failed(word) - queue->engine_failed) << 8) >> 8;
    if (ahead < 0 || failures < 0 || !(ahead | failures))
        return 0;
    queue->engine_count = dmace_count(word);
    queue->engine_failed = dmace_failed(word);
    queue->completed += (uint32_t)ahead;
    queue->failed += (uint32_t)failures;
    if (queue->posted < queue->completed)
        queue->posted = queue->completed;
    queue->idle_checks = 0;
    queue->checked = dmace_now();
    queue->interval = FIRST_INTERVAL;
    const int code = failures ? handle_failures(queue, previous, previous_count, failures, dmace_status(word)) : 0;
    dmace_groups_retire(queue);
    return code;
}

/* The words that were refused will not complete: those that remain when everything else has. */
static int end_refused(dmace_queue_handle *queue, bool enabled)
{
    const int status = !enabled ? DMACE_DMA_STATUS_DISABLED :
        queue->entries ? DMACE_DMA_STATUS_RING_RANGE : DMACE_DMA_STATUS_OVERFLOW;
    const int code = dmace_failure_add(queue, queue->completed + 1, queue->posted, status);
    if (code)
        return code;
    queue->refused_total += queue->posted - queue->completed;
    queue->completed = queue->posted;
    queue->refused = false;
    queue->interval = FIRST_INTERVAL;
    dmace_groups_retire(queue);
    return enabled ? dmace_queue_command(queue, DMACE_DMA_COMMAND_CLEAR) : 0;
}

/* Without progress for some time: maybe the words did not arrive, or the queue has refused requests. */
static int check_state(dmace_queue_handle *queue)
{
    dmace_queue_registers now;
    int code = dmace_queue_read(queue, &now);
    if (code)
        return code;
    const uint64_t completed = queue->completed;
    const uint64_t word = (uint64_t)(now.result & DMACE_DMA_QUEUE_RESULT_FAILED_MASK)
            << DMACE_DMA_COMPLETION_FAILED_SHIFT |
        (uint64_t)FIELD(now.result, DMACE_DMA_QUEUE_RESULT_STATUS) << DMACE_DMA_COMPLETION_STATUS_SHIFT | now.count;
    if ((code = process(queue, word)))
        return code;
    const bool enabled = now.state & DMACE_DMA_QUEUE_STATE_ENABLED_MASK;
    const bool refusing = !enabled || queue->refused || now.state & DMACE_DMA_QUEUE_STATE_REFUSING_MASK;
    const bool idle = completed == queue->completed && !(now.state & DMACE_DMA_QUEUE_STATE_WAITING_MASK) &&
        !(now.state >> DMACE_DMA_QUEUE_STATE_IN_FLIGHT_SHIFT);
    if (!idle || !refusing) {
        queue->idle_checks = 0;
        return 0;
    }
    return ++queue->idle_checks < 2 ? 0 : end_refused(queue, enabled);
}

int dmace_queue_progress(dmace_queue_handle *queue)
{
    uint64_t word;
    int code;
    if (queue->words.data) {
        word = __atomic_load_n((const uint64_t *)queue->words.data, __ATOMIC_ACQUIRE);
    } else if ((code = dmace_span_load(queue->device, &queue->words, 0, &word, sizeof word))) {
        return code;
    }
    if ((code = process(queue, word)))
        return code;
    if ((queue->completed == queue->posted && !queue->refused) || queue->broken)
        return 0;
    const int64_t now = dmace_now();
    if (now - queue->checked < queue->interval)
        return 0;
    if (!queue->refused && queue->interval < LAST_INTERVAL)
        queue->interval *= 2;
    queue->checked = now;
    return check_state(queue);
}
