/* SPDX-License-Identifier: Apache-2.0
 *
 * post.c: stores requests to a queue, never more than it can hold.
 */
#include "internal.h"

#include <errno.h>

#define SLOTS (DMACE_DMA_DOORBELL_PAGE / 16u)

static bool fits(dmace_queue_handle *queue, uint32_t requests)
{
    if (queue->refused)
        return false;
    if (!queue->entries)
        return queue->posted - queue->completed < queue->device->info.queue_depth;
    while (queue->head != queue->tail && queue->ends[queue->head & (queue->entries - 1)] <= queue->completed)
        ++queue->head;
    return queue->tail - queue->head < queue->entries &&
        queue->posted - queue->completed + requests <= DMACE_MAX_PENDING;
}

/* Waits until the queue can take this number of requests. Returns with its lock held on success. */
static int reserve(dmace_queue_handle *queue, uint32_t requests)
{
    unsigned calls = 0;
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        int code = 0;
        if (!queue->dead && !queue->broken && !fits(queue, requests))
            code = dmace_queue_progress(queue);
        if (queue->dead)
            code = dmace_fail(-ECANCELED, "Queue %u has ended: its device was reset, or it is being destroyed",
                              queue->number);
        else if (!code && queue->broken)
            code = dmace_fail(-EIO, "Queue %u has ended with %s: destroy it", queue->number,
                              dmace_status_name(queue->broken));
        if (!code && fits(queue, requests))
            return 0;
        pthread_mutex_unlock(&queue->lock);
        if (code)
            return code;
        dmace_stall(&calls);
    }
}

/* Stores 16 bytes to the doorbell page; `requests` of them begin with it. Ends the hold of the lock. */
static int store(dmace_queue_handle *queue, dmace_word word, uint32_t requests, uint64_t *request)
{
    dmace_device *device = queue->device;
    int code = 0;
    if (queue->posted == queue->completed) {
        queue->checked = dmace_now();
        queue->interval = INT64_C(20000000);
    }
    DMACE_RELEASE();
    if (queue->page) {
        char *slot = (char *)queue->page + queue->posted % SLOTS * 16;
        DMACE_STORE_16((volatile void *)slot, word.lo, word.hi);
    } else {
        const uint64_t offset = (uint64_t)queue->number * DMACE_DMA_DOORBELL_PAGE;
        code = device->transport->store(device->context, offset, &word, sizeof word);
    }
    if (code) {
        dmace_fail_transport(device, code, "Storing a request");
    } else {
        queue->posted += requests;
        if (request)
            *request = queue->posted;
    }
    pthread_mutex_unlock(&queue->lock);
    return code;
}

int dmace_post_descriptor(dmace_queue_handle *queue, const uint64_t *descriptor, uint32_t rows, uint64_t *request)
{
    int code = reserve(queue, rows);
    if (code)
        return code;
    const uint32_t entry = queue->tail & (queue->entries - 1);
    code = dmace_span_save(queue->device, &queue->ring, queue->ring_offset + entry * UINT64_C(64), descriptor, 64);
    if (code) {
        pthread_mutex_unlock(&queue->lock);
        return code;
    }
    queue->ends[entry] = queue->posted + rows;
    const dmace_word tail = {++queue->tail, 0};
    if ((code = store(queue, tail, rows, request)))
        --queue->tail;
    return code;
}

int dmace_post_one(dmace_queue_handle *queue, dmace_word word, uint64_t *request)
{
    word.lo |= (uint64_t)(DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC) << DMACE_DMA_WORD_FLAGS_SHIFT;
    if (queue->entries) {
        uint64_t descriptor[8] = {0};
        dmace_ring ring = {.descriptors = descriptor, .entries = 1};
        dmace_ring_list(&ring, &word, 1, 0, 0);
        return dmace_post_descriptor(queue, descriptor, 1, request);
    }
    const int code = reserve(queue, 1);
    return code ? code : store(queue, word, 1, request);
}

int dmace_post_word(dmace_queue_handle *queue, dmace_word word, uint64_t *request)
{
    if (!queue)
        return dmace_fail(-EINVAL, "dmace_post_word() needs a queue");
    int code = dmace_queue_enter(queue);
    if (code)
        return code;
    pthread_mutex_lock(&queue->posting);
    code = dmace_post_one(queue, word, request);
    pthread_mutex_unlock(&queue->posting);
    dmace_queue_leave(queue);
    return code;
}
