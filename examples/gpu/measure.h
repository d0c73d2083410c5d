/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h: whether stores of threads reach the host whole and in order, and the host's the threads; CUDA device code
 * and C++17.
 *
 *     whole      threads store words whose halves are equal; the host looks for one whose halves are not
 *     out        threads store a round's number to 8 lines, then post it; the host looks for a line of an earlier round
 *     in         the host does so with a completion word; threads look for such a line
 *
 * Each is measured as dmace.h does it, and as it must not be done: with two stores, or without the fence.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "slots.h"

enum measure_kind { MEASURE_WHOLE, MEASURE_OUT, MEASURE_IN };
enum measure_store { MEASURE_WORD, MEASURE_RELAXED, MEASURE_VECTOR, MEASURE_HALVES, MEASURE_APART };
enum { MEASURE_LINES = 8, MEASURE_LINE = 64 / 8, MEASURE_THREADS = SLOTS };

typedef struct measure_job {
    uint32_t kind, store, fence, threads;
    uint64_t rounds;
    dmace_queue queue;                /* `doorbell`: a page in memory, with a slot for each thread */
    uint64_t *lines;                  /* MEASURE_LINES for each thread; for `in`, those of the first one */
    const volatile uint64_t *word;    /* rounds that the host has completed */
    unsigned long long *seen, *stale; /* of the threads, for `in` */
} measure_job;

/* A store of a GPU that it may combine with others: CUDA 12.4 or later. */
DMACE_FN void measure_relaxed(volatile void *address, dmace_word word)
{
#if defined(__CUDA_ARCH__)
    asm volatile("{\n\t.reg .b128 word;\n\tmov.b128 word, {%1, %2};\n\tst.relaxed.sys.global.b128 [%0], word;\n\t}"
                 :: "l"(__cvta_generic_to_global((const void *)address)), "l"(word.lo), "l"(word.hi) : "memory");
#else
    (void)address, (void)word;
#endif
}

/* The store of dmace.h, others of a GPU, and two halves, which is wrong. */
DMACE_FN void measure_store_word(const measure_job *job, uint32_t slot, dmace_word word)
{
    volatile uint64_t *to = (volatile uint64_t *)job->queue.doorbell + slot * 2u;
    if (job->store == MEASURE_WORD) {
        dmace_post_to(&job->queue, slot, word);
        return;
    }
#if defined(__CUDA_ARCH__)
    if (job->store == MEASURE_RELAXED) {
        measure_relaxed(to, word);
        return;
    }
    if (job->store == MEASURE_VECTOR) {
        asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};"
                     :: "l"(__cvta_generic_to_global((const void *)to)), "l"(word.lo), "l"(word.hi) : "memory");
        return;
    }
#endif
    SLOTS_STORE_8(to, word.lo);
    if (job->store == MEASURE_APART) {
        DMACE_RELEASE();
#if !defined(__CUDA_ARCH__)
        if (word.lo % 256u == 0)
            MACHINE_PAUSE();
#endif
    }
    SLOTS_STORE_8(to + 1, word.hi);
}

DMACE_FN void measure_out(const measure_job *job, uint32_t thread)
{
    uint64_t *lines = job->lines + (uint64_t)thread * MEASURE_LINES * MEASURE_LINE;
    uint64_t round;
    for (round = 1; round <= job->rounds; ++round) {
        const dmace_word word = {round, round};
        uint32_t line;
        for (line = 0; job->kind == MEASURE_OUT && line < MEASURE_LINES; ++line)
            lines[line * MEASURE_LINE] = round;
        if (job->fence)
            DMACE_RELEASE();
        measure_store_word(job, thread, word);
#if !defined(__CUDA_ARCH__)
        if (round % 1024u == 0)
            MACHINE_STALL();
#endif
    }
}

DMACE_FN void measure_in(const measure_job *job)
{
    unsigned long long seen = 0, stale = 0;
    uint64_t before = 0;
    while (before < job->rounds) {
        const uint64_t round = DMACE_LOAD_8(job->word);
        uint32_t line;
        int old = 0;
        if (round == before)
            continue;
        if (job->fence)
            DMACE_ACQUIRE();
        for (line = 0; line < MEASURE_LINES; ++line)
            old |= job->lines[line * MEASURE_LINE] < round;
        ++seen;
        stale += (unsigned long long)old;
        before = round;
    }
    MACHINE_ADD(job->seen, seen);
    MACHINE_ADD(job->stale, stale);
}

/* All that thread number `thread` does. */
DMACE_FN void measure_thread(const measure_job *job, uint32_t thread)
{
    if (job->kind == MEASURE_IN)
        measure_in(job);
    else
        measure_out(job, thread);
}

#endif
