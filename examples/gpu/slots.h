/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.h: a doorbell page in plain memory, and what a thread does with it; CUDA device code and C++17.
 *
 * A card sees each store to its doorbell page. Plain memory does not, so its slots need a rule (README.md):
 *
 *     thread   draws a ticket of the queue; waits until fewer than 256 tickets before it are not yet taken; fences; stores
 *              its word to slot `ticket % 256` with one 16-byte store
 *     bridge   takes slots in order of tickets: loads 16 bytes; a slot is empty while its opcode is 0; clears it, then
 *              counts it as taken
 *
 * The queue executes words in order of tickets, so that the request of ticket n is complete when the completion words
 * have counted n + 1.
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "machine.h"

#if defined(__CUDA_ARCH__)
#define SLOTS_STORE_8(address, value) (*(address) = (value))
#else
#define SLOTS_STORE_8(address, value) __atomic_store_n((address), (value), __ATOMIC_RELAXED)
#endif

enum { SLOTS = DMACE_DMA_DOORBELL_PAGE / 16, SLOTS_LOADS = 200 };

/* What one queue's threads share with the bridge. */
typedef struct slots_queue {
    dmace_queue queue;               /* `doorbell` is the page in memory */
    const volatile uint64_t *taken;  /* words that the bridge has taken, in order */
    unsigned long long *tickets;     /* drawn; of the threads alone */
    uint32_t first;                  /* count of completed requests at the beginning */
} slots_queue;

/* What the threads found. */
typedef struct slots_tally {
    unsigned long long completed, wrong_bytes;
} slots_tally;

/* The work: thread t posts `rounds` copies of its block of `bytes` to queue t % queues, and checks each. */
typedef struct slots_job {
    const slots_queue *queue;
    slots_tally *tally;
    const volatile uint64_t *stop;   /* not 0: the bridge has ended */
    unsigned char *source, *target;  /* of threads * bytes */
    uint32_t source_region, target_region;
    uint64_t source_offset, target_offset;  /* of them in their regions */
    uint32_t threads, queues, rounds, bytes;
    uint32_t split;                  /* store words as two halves, which is wrong: the bridge must notice */
} slots_job;

/* Both halves of a word name the thread: blocks lie in reverse order in the target. The bridge recognises by it a word
 * whose halves are of different stores. */
DMACE_FN dmace_word slots_word(const slots_job *job, uint32_t thread)
{
    const uint64_t at = (uint64_t)thread * job->bytes, end = (uint64_t)(job->threads - 1u) * job->bytes;
    return dmace_copy_word(job->source_region, job->source_offset + at, job->target_region,
                           job->target_offset + end - at, job->bytes, DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC);
}

DMACE_FN int slots_empty(dmace_word word)
{
    return (word.lo >> DMACE_DMA_WORD_OPCODE_SHIFT & DMACE_DMA_WORD_OPCODE_MASK) == 0;
}

/* Whether a word, of a slot that is not empty, is one that a thread stored. */
DMACE_FN int slots_whole(const slots_job *job, dmace_word word)
{
    const uint64_t at = (word.lo >> DMACE_DMA_WORD_SRC_OFFSET_SHIFT & DMACE_DMA_WORD_SRC_OFFSET_MASK)
        - job->source_offset;
    dmace_word expected;
    if (at % job->bytes || at / job->bytes >= job->threads)
        return 0;
    expected = slots_word(job, (uint32_t)(at / job->bytes));
    return word.lo == expected.lo && word.hi == expected.hi;
}

DMACE_FN unsigned char slots_byte(uint32_t thread, uint32_t round, uint32_t index)
{
    return (unsigned char)((thread * 2654435761u ^ round * 40503u) >> 11) + (unsigned char)(index * 7u + 1u);
}

/* A store as it must not be. */
DMACE_FN void slots_post_split(const slots_queue *queue, uint32_t slot, dmace_word word)
{
    volatile uint64_t *to = (volatile uint64_t *)queue->queue.doorbell + slot * 2u;
    SLOTS_STORE_8(to, word.lo);
    MACHINE_PAUSE();
    SLOTS_STORE_8(to + 1, word.hi);
}

/* Post a word and return its ticket; 0 if the bridge has ended, else 1. */
DMACE_FN int slots_post(const slots_job *job, const slots_queue *queue, dmace_word word, uint64_t *ticket)
{
    *ticket = MACHINE_ADD(queue->tickets, 1ull);
    while (*ticket - DMACE_LOAD_8(queue->taken) >= SLOTS) {
        if (DMACE_LOAD_8(job->stop))
            return 0;
        MACHINE_STALL();
    }
    /* Orders the source data, and the load that found the slot free, before the store. */
    DMACE_RELEASE();
    if (job->split)
        slots_post_split(queue, (uint32_t)(*ticket % SLOTS), word);
    else
        dmace_post_to(&queue->queue, (uint32_t)(*ticket % SLOTS), word);
    return 1;
}

/* Wait for a completion word; 0 if the bridge has ended before. A failed request does not count, and ends the bridge. */
DMACE_FN int slots_wait(const slots_job *job, const volatile uint64_t *completion, uint32_t count)
{
    while (!dmace_reached(dmace_poll(completion, count, SLOTS_LOADS), count)) {
        if (DMACE_LOAD_8(job->stop))
            return 0;
        MACHINE_STALL();
    }
    return 1;
}

/* All that thread number `thread` does. */
DMACE_FN void slots_thread(const slots_job *job, uint32_t thread)
{
    const slots_queue *queue = &job->queue[thread % job->queues];
    unsigned char *source = job->source + (uint64_t)thread * job->bytes;
    const unsigned char *target = job->target + (uint64_t)(job->threads - 1u - thread) * job->bytes;
    uint32_t round, index;
    for (round = 0; round < job->rounds; ++round) {
        unsigned long long wrong = 0;
        uint64_t ticket;
        for (index = 0; index < job->bytes; ++index)
            source[index] = slots_byte(thread, round, index);
        if (!slots_post(job, queue, slots_word(job, thread), &ticket)
            || !slots_wait(job, queue->queue.sc, queue->first + (uint32_t)ticket + 1u)
            || !slots_wait(job, queue->queue.rc, queue->first + (uint32_t)ticket + 1u))
            return;
        for (index = 0; index < job->bytes; ++index)
            wrong += target[index] != slots_byte(thread, round, index);
        MACHINE_ADD(&job->tally->completed, 1ull);
        if (wrong)
            MACHINE_ADD(&job->tally->wrong_bytes, wrong);
    }
}

#endif
