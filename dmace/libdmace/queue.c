/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: creating and destroying queues.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define DESCRIPTOR_BYTES 64u

int dmace_queue_command(dmace_queue_handle *queue, uint32_t command)
{
    return dmace_write_through(queue->device, DMACE_DMA_QUEUE_COMMAND_OFFSET,
                               MAKE(queue->number, DMACE_DMA_QUEUE_COMMAND_QUEUE) |
                               MAKE(command, DMACE_DMA_QUEUE_COMMAND_COMMAND));
}

int dmace_queue_enter(dmace_queue_handle *queue)
{
    pthread_mutex_lock(&queue->lock);
    const bool dead = queue->dead;
    queue->users += !dead;
    pthread_mutex_unlock(&queue->lock);
    return dead ? dmace_fail(-ECANCELED, "Queue %u has ended: its device was reset, or it is being destroyed",
                             queue->number) : 0;
}

void dmace_queue_leave(dmace_queue_handle *queue)
{
    pthread_mutex_lock(&queue->lock);
    if (!--queue->users && queue->dead)
        pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Ends all calls that use the queue. */
void dmace_queue_kill(dmace_queue_handle *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->dead = true;
    pthread_cond_broadcast(&queue->changed);
    while (queue->users)
        pthread_cond_wait(&queue->changed, &queue->lock);
    dmace_groups_retire(queue);
    pthread_mutex_unlock(&queue->lock);
}

static int check_options(const dmace_device *device, const dmace_queue_options *options)
{
    if (options->domain >= device->info.domains)
        return dmace_fail(-EINVAL, "Domain must be below %u, not %u", device->info.domains, options->domain);
    if (options->weight > 15)
        return dmace_fail(-EINVAL, "Weight of a queue must be 0 to 15, not %u", options->weight);
    if (options->priority > 3)
        return dmace_fail(-EINVAL, "Priority of a queue must be 0 to 3, not %u", options->priority);
    if (options->ring && (options->ring < 3 || options->ring > 16))
        return dmace_fail(-EINVAL, "Log2 of the entries of a ring must be 3 to 16, or 0 for none, not %u",
                          options->ring);
    if (options->interrupt > 1 || options->skip_errors > 1 || options->pair > 1)
        return dmace_fail(-EINVAL, "Options interrupt, skip_errors and pair must be 0 or 1, not %u, %u and %u",
                          options->interrupt, options->skip_errors, options->pair);
    if (options->pair && !options->ring)
        return dmace_fail(-EINVAL, "Option pair must be 0 for a queue without a ring, not 1");
    return 0;
}

/* With the device's lock held: the options of the other queue of an extended queue's pair, 2n and 2n + 1, or null if it
 * is free. */
static const dmace_queue_options *beside(const dmace_device *device, uint32_t number)
{
    const dmace_queue_handle *other = number < device->info.extended_queues ? device->numbers[number ^ 1] : NULL;
    return other ? &other->options : NULL;
}

/* With the device's lock held: how well a free number suits a queue, 0 if it does not. Rings need extended queues, and
 * one with `pair` a pair without another ring; all queues leave as many of these pairs as they can. Queues with an
 * interrupt should not share a vector. */
static int suits(const dmace_device *device, const dmace_queue_options *options, uint32_t number)
{
    const bool extended = number < device->info.extended_queues;
    const dmace_queue_options *other = beside(device, number);
    const bool ring = other && other->ring, pair = other && other->pair;
    if (device->numbers[number] || (options->ring && (!extended || pair || (options->pair && ring))))
        return 0;
    int score = !extended ? 3 : other && (options->pair || ring) ? 2 : 1;
    if (options->interrupt) {
        const uint32_t vector = dmace_queue_vector(device, number);
        if (vector >= device->info.vectors)
            return 0;
        score += device->vectors[vector].queues ? 0 : 4;
    }
    return score;
}

static int none_free(const dmace_device *device, const dmace_queue_options *options, bool extended_free)
{
    if (!options->ring)
        return dmace_fail(-EBUSY, "All %u queues of the card are in use", device->info.queues);
    return dmace_fail(-EBUSY, !extended_free ? "All %u extended queues of the card are in use" : options->pair ?
                      "None of the card's %u extended queues is free beside a queue without a ring, as pair requires" :
                      "Each of the card's %u extended queues is in use, or beside a ring with pair",
                      device->info.extended_queues);
}

static int take_number(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    int best = 0;
    bool extended_free = false;
    pthread_mutex_lock(&device->lock);
    pthread_mutex_lock(&device->events);
    for (uint32_t number = 0; number < device->info.queues; ++number) {
        const int score = suits(device, &queue->options, number);
        extended_free |= number < device->info.extended_queues && !device->numbers[number];
        if (score > best) {
            best = score;
            queue->number = number;
        }
    }
    pthread_mutex_unlock(&device->events);
    if (best) {
        device->numbers[queue->number] = queue;
        queue->next = device->queues;
        if (queue->next)
            queue->next->previous = queue;
        device->queues = queue;
    }
    pthread_mutex_unlock(&device->lock);
    return best ? 0 : none_free(device, &queue->options, extended_free);
}

static void unlink_queue(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    if (queue->previous)
        queue->previous->next = queue->next;
    else
        device->queues = queue->next;
    if (queue->next)
        queue->next->previous = queue->previous;
    if (device->numbers[queue->number] == queue)
        device->numbers[queue->number] = NULL;
}

static int allocate(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    int code = dmace_span_allocate(device, DMACE_PAGE, DMACE_PAGE, DMACE_MAP_WRITE, &queue->words);
    if (code || !queue->options.ring)
        return code;
    queue->entries = 1u << queue->options.ring;
    const size_t length = queue->entries * (size_t)DESCRIPTOR_BYTES;
    if (!(queue->ends = calloc(queue->entries, sizeof *queue->ends)))
        return dmace_fail(-ENOMEM, "No memory for a ring of %u entries", queue->entries);
    if ((code = dmace_span_allocate(device, length, length, DMACE_MAP_READ, &queue->ring)))
        return code;
    queue->ring_offset = -queue->ring.io_address & (length - 1);
    return 0;
}

/* With the device's lock held. Completion words begin with the counts that the queue has. */
static int configure(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    const dmace_queue_options *options = &queue->options;
    dmace_queue_registers now;
    int code = dmace_queue_read_locked(queue, &now);
    if (code)
        return code;
    queue->engine_count = now.count;
    queue->engine_failed = FIELD(now.result, DMACE_DMA_QUEUE_RESULT_FAILED);
    const uint64_t word = (uint64_t)queue->engine_failed << DMACE_DMA_COMPLETION_FAILED_SHIFT | now.count;
    if ((code = dmace_span_save(device, &queue->words, 0, &word, sizeof word)) ||
        (code = dmace_span_save(device, &queue->words, DMACE_RC_OFFSET, &word, sizeof word)))
        return code;
    if (options->ring &&
        ((code = dmace_write_pair(device, DMACE_DMA_RING_BASE_LO_OFFSET,
                                  queue->ring.io_address + queue->ring_offset)) ||
         (code = dmace_write_pair(device, DMACE_DMA_RING_RECORDS_LO_OFFSET, 0)) ||
         (code = dmace_write(device, DMACE_DMA_RING_CONFIG_OFFSET, MAKE(options->ring, DMACE_DMA_RING_CONFIG_SIZE) |
                                                                   MAKE(options->pair, DMACE_DMA_RING_CONFIG_PAIR)))))
        return code;
    if ((code = dmace_write_pair(device, DMACE_DMA_QUEUE_SC_LO_OFFSET, queue->words.io_address)) ||
        (code = dmace_write_pair(device, DMACE_DMA_QUEUE_RC_LO_OFFSET, queue->words.io_address + DMACE_RC_OFFSET)) ||
        (code = dmace_write(device, DMACE_DMA_QUEUE_CONFIG_OFFSET,
                            MAKE(options->domain, DMACE_DMA_QUEUE_CONFIG_DOMAIN) |
                            DMACE_DMA_QUEUE_CONFIG_SC_ENABLE_MASK | DMACE_DMA_QUEUE_CONFIG_RC_ENABLE_MASK |
                            MAKE(options->skip_errors, DMACE_DMA_QUEUE_CONFIG_SKIP_ERRORS) |
                            MAKE(options->ring ? DMACE_DMA_MODE_RING : DMACE_DMA_MODE_NATIVE,
                                 DMACE_DMA_QUEUE_CONFIG_MODE) |
                            MAKE(options->priority, DMACE_DMA_QUEUE_CONFIG_PRIORITY) |
                            MAKE(options->weight, DMACE_DMA_QUEUE_CONFIG_WEIGHT))) ||
        (code = dmace_write(device, DMACE_DMA_QUEUE_LIMIT_OFFSET,
                            options->segments < device->window ? options->segments : 0)) ||
        (code = dmace_write(device, DMACE_DMA_QUEUE_COMMIT_OFFSET, queue->number)))
        return code;
    return dmace_queue_command(queue, DMACE_DMA_COMMAND_START);
}

static int set_up(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    int code = allocate(queue);
    if (!code && queue->options.interrupt)
        code = dmace_interrupt_attach(queue);
    if (code)
        return code;
    if (device->transport->page)
        queue->page = device->transport->page(device->context, (uint64_t)queue->number * DMACE_DMA_DOORBELL_PAGE);
    pthread_mutex_lock(&device->lock);
    code = configure(queue);
    pthread_mutex_unlock(&device->lock);
    return code;
}

static void free_handle(dmace_queue_handle *queue)
{
    pthread_mutex_destroy(&queue->posting);
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->changed);
    free(queue->failures);
    free(queue->ends);
    free(queue);
}

int dmace_queue_create(dmace_device *device, const dmace_queue_options *options, dmace_queue_handle **queue)
{
    static const dmace_queue_options defaults;
    if (!device || !queue)
        return dmace_fail(-EINVAL, "dmace_queue_create() needs a device and an address for the queue");
    int code = check_options(device, options ? options : &defaults);
    if (code)
        return code;
    if (options && options->interrupt && device->info.vectors < 2)
        return dmace_fail(-ENOTSUP, "Queues of this device have no interrupt: it has %u vectors, and the first is not "
                          "theirs", device->info.vectors);
    dmace_queue_handle *made = calloc(1, sizeof *made);
    if (!made)
        return dmace_fail(-ENOMEM, "No memory for a queue");
    made->device = device;
    made->options = options ? *options : defaults;
    made->event = -1;
    made->last_group = &made->groups;
    pthread_mutex_init(&made->posting, NULL);
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if ((code = take_number(made))) {
        free_handle(made);
        return code;
    }
    if ((code = set_up(made))) {
        char kept[512];
        snprintf(kept, sizeof kept, "%s", dmace_error());
        dmace_queue_destroy(made);
        return dmace_fail(code, "%s", kept);
    }
    *queue = made;
    return 0;
}

/* With the device's lock held: afterwards nothing of the queue is in flight, and its part of the card's descriptors is
 * free for the other queue of its pair, which takes RESET and another mode. */
static int reset(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    int code;
    if ((code = dmace_queue_command(queue, DMACE_DMA_COMMAND_RESET)) ||
        (code = dmace_write(device, DMACE_DMA_QUEUE_SELECT_OFFSET, queue->number)) ||
        (code = dmace_await_zero(device, DMACE_DMA_QUEUE_STATE_OFFSET, DMACE_DMA_QUEUE_STATE_RESETTING_MASK,
                                 "Resetting a queue")))
        return code;
    if ((code = dmace_await_zero(device, DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_BUSY_MASK,
                                 "Waiting for requests of a queue that was reset")) || !queue->options.ring)
        return code;
    if ((code = dmace_write(device, DMACE_DMA_QUEUE_CONFIG_OFFSET,
                            MAKE(DMACE_DMA_MODE_NATIVE, DMACE_DMA_QUEUE_CONFIG_MODE))))
        return code;
    return dmace_write_through(device, DMACE_DMA_QUEUE_COMMIT_OFFSET, queue->number);
}

int dmace_queue_destroy(dmace_queue_handle *queue)
{
    if (!queue)
        return dmace_fail(-EINVAL, "dmace_queue_destroy() needs a queue");
    dmace_device *device = queue->device;
    int code = 0;
    dmace_queue_kill(queue);
    dmace_interrupt_detach(queue);
    pthread_mutex_lock(&device->lock);
    if (!queue->gone && !(code = reset(queue)))
        queue->gone = true;
    if (!code && !(code = dmace_span_release(device, &queue->words)) &&
        !(code = dmace_span_release(device, &queue->ring)))
        unlink_queue(queue);
    pthread_mutex_unlock(&device->lock);
    if (!code) {
        dmace_interrupt_close(queue);
        free_handle(queue);
    }
    return code;
}

/* When the transport is closed. */
void dmace_queue_free(dmace_queue_handle *queue)
{
    unlink_queue(queue);
    dmace_interrupt_close(queue);
    if (queue->words.owned)
        munmap(queue->words.data, queue->words.length);
    if (queue->ring.owned)
        munmap(queue->ring.data, queue->ring.length);
    free_handle(queue);
}

uint32_t dmace_queue_number(const dmace_queue_handle *queue)
{
    return queue ? queue->number : 0;
}

dmace_queue dmace_queue_view(const dmace_queue_handle *queue)
{
    if (!queue)
        return (dmace_queue){0};
    char *words = queue->words.data;
    return (dmace_queue){queue->page, (const volatile uint64_t *)words,
                         words ? (const volatile uint64_t *)(words + DMACE_RC_OFFSET) : NULL};
}
