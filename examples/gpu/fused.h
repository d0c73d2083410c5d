/* SPDX-License-Identifier: Apache-2.0
 *
 * fused.h: workgroups that compute slices of a result and tick, and workgroups that wait for the slices; CUDA device code
 * and C++17.
 *
 *     sender    workgroup: writes a part of a slice, synchronizes; one thread ticks the slice's counter
 *               endpoint:  at the last part's tick, puts the slice to the neighbour, then stores the flag `arrived`
 *     receiver  workgroup: waits for the flag, uses its part, synchronizes; one thread ticks
 *               endpoint:  at the last part's tick, stores the flag `consumed` at the sender
 *
 * Nothing but the endpoints knows when a slice is complete. Iterations alternate between two buffers with a counter and
 * flags of their own, so that one is computed while the other is sent. Counters repeat: nothing is armed again.
 */
#ifndef FUSED_H
#define FUSED_H

#include "machine.h"

#include "dmace_endpoint.h"

enum { FUSED_LOADS = 200, FUSED_TICKS = DMACE_DMA_DOORBELL_PAGE / 8 };

/* What the threads found. */
typedef struct fused_tally {
    unsigned long long parts, wrong_bytes;
} fused_tally;

/* A rank's part of the work. Buffers and flags are numbered like counters: 2 * slice + iteration % 2. */
typedef struct fused_rank {
    dmace_block block;
    volatile uint64_t *flags;       /* written by the neighbour's endpoint: numbers of iterations, halved */
    unsigned char *data;            /* buffers of parts * bytes */
    unsigned long long *next;       /* work items that are taken; of the threads alone */
    volatile uint64_t *armed;       /* not 0: the counters are armed */
    uint32_t data_region, peer_data_region, peer_flag_region, page;
} fused_rank;

typedef struct fused_job {
    fused_rank sender, receiver;
    fused_tally *tally;
    const volatile uint64_t *stop;  /* not 0: the endpoints have ended */
    uint32_t slices, parts, bytes, iterations; /* parts of a slice, bytes of a part */
    uint32_t first;                 /* iterations that have been, an even number: where generations begin */
    uint32_t early;                 /* tick before the part is written, which is wrong: the receiver must notice */
} fused_job;

DMACE_FN uint32_t fused_counter(uint32_t slice, uint32_t iteration)
{
    return 2u * slice + iteration % 2u;
}

/* Iterations begin at `first` + 1: flags hold the generation before. */
DMACE_FN uint32_t fused_generation(uint32_t iteration)
{
    return (iteration + 1u) / 2u;
}

DMACE_FN unsigned char fused_byte(uint32_t slice, uint32_t iteration, uint32_t index)
{
    return (unsigned char)((slice * 2654435761u ^ iteration * 40503u) >> 11) + (unsigned char)(index * 7u + 1u);
}

/* ---- A workgroup: the threads of a block of the GPU, or one thread of the CPU. */

#if defined(__CUDA_ARCH__)
#define FUSED_LANE threadIdx.x
#define FUSED_LANES blockDim.x
#define FUSED_SYNCHRONIZE() __syncthreads()
#define FUSED_SHARED __shared__
#else
#define FUSED_LANE 0u
#define FUSED_LANES 1u
#define FUSED_SYNCHRONIZE() ((void)0)
#define FUSED_SHARED
#endif

/* Wait by the first thread; 0 for all if the endpoints have ended before. */
DMACE_FN int fused_wait(const fused_job *job, const volatile uint64_t *flag, uint64_t least)
{
    FUSED_SHARED int reached;
    if (FUSED_LANE == 0) {
        for (;;) {
            const uint64_t value = dmace_wait_signal(flag, least, DMACE_ENDPOINT_GENERATION_BITS, FUSED_LOADS);
            reached = dmace_signal_reached(value, least, DMACE_ENDPOINT_GENERATION_BITS);
            if (reached || DMACE_LOAD_8(job->stop))
                break;
            MACHINE_STALL();
        }
    }
    FUSED_SYNCHRONIZE();
    const int result = reached;
    FUSED_SYNCHRONIZE();
    return result;
}

/* Tick by the first thread, once all threads have reached this point. An endpoint sees each store to its tick page; here
 * the page is plain memory, so that the workgroup first waits until its slot is empty. */
DMACE_FN void fused_tick(const fused_job *job, const fused_rank *rank, uint32_t workgroup, uint32_t counter,
                         uint32_t generation)
{
    FUSED_SYNCHRONIZE();
    if (FUSED_LANE == 0) {
        const volatile uint64_t *slot = (const volatile uint64_t *)rank->block.ticks + workgroup % FUSED_TICKS;
        while (DMACE_LOAD_8(slot) && !DMACE_LOAD_8(job->stop))
            MACHINE_STALL();
        /* Makes the results of all threads visible to the endpoint. */
        DMACE_RELEASE();
        dmace_tick_to(&rank->block, workgroup, dmace_tick_word(counter, generation, 1));
    }
}

/* The next item of work: iteration by iteration, slice by slice. */
DMACE_FN int fused_draw(const fused_job *job, const fused_rank *rank, uint32_t *iteration, uint32_t *slice,
                        uint32_t *part)
{
    FUSED_SHARED unsigned long long drawn;
    if (FUSED_LANE == 0)
        drawn = MACHINE_ADD(rank->next, 1ull);
    FUSED_SYNCHRONIZE();
    const unsigned long long item = drawn;
    FUSED_SYNCHRONIZE();
    *part = (uint32_t)(item % job->parts);
    *slice = (uint32_t)(item / job->parts % job->slices);
    *iteration = job->first + (uint32_t)(item / job->parts / job->slices) + 1u;
    return item < (unsigned long long)job->iterations * job->slices * job->parts;
}

/* ---- Setting up, by one thread of each rank: each counter posts one word or two, and repeats. */

DMACE_FN void fused_arm(const fused_job *job, const fused_rank *rank, int sends)
{
    const uint32_t buffer = job->parts * job->bytes;
    uint32_t counter;
    for (counter = 0; counter < 2u * job->slices; ++counter) {
        const uint64_t at = (uint64_t)counter * buffer;
        const dmace_word flag = dmace_signal_word(rank->peer_flag_region, 8u * counter, 0, 0);
        if (sends)
            dmace_prepare(&rank->block, counter, 0,
                          dmace_copy_word(rank->data_region, at, rank->peer_data_region, at, buffer, 0));
        dmace_prepare(&rank->block, counter, sends ? 1u : 0u, flag);
        dmace_arm(&rank->block, counter,
                  dmace_arm_word(DMACE_ENDPOINT_MODE_REPEAT, rank->page, job->parts,
                                 fused_generation(job->first + 1u), sends ? 1u : 0u, 1));
    }
    DMACE_STORE_8(rank->armed, UINT64_C(1));
}

/* ---- All that workgroup number `workgroup` of a rank does; the first one arms the counters. */

DMACE_FN void fused_send(const fused_job *job, uint32_t workgroup)
{
    const fused_rank *rank = &job->sender;
    uint32_t iteration, slice, part, index;
    if (workgroup == 0 && FUSED_LANE == 0)
        fused_arm(job, rank, 1);
    if (!fused_wait(job, rank->armed, 1))
        return;
    while (fused_draw(job, rank, &iteration, &slice, &part)) {
        const uint32_t counter = fused_counter(slice, iteration), generation = fused_generation(iteration);
        unsigned char *to = rank->data + ((uint64_t)counter * job->parts + part) * job->bytes;
        /* The receiver has consumed what was in the buffer. */
        if (!fused_wait(job, rank->flags + counter, generation - 1u))
            return;
        if (job->early) {
            fused_tick(job, rank, workgroup, counter, generation);
            MACHINE_PAUSE();
        }
        for (index = FUSED_LANE; index < job->bytes; index += FUSED_LANES)
            to[index] = fused_byte(slice, iteration, part * job->bytes + index);
        if (!job->early)
            fused_tick(job, rank, workgroup, counter, generation);
    }
}

DMACE_FN void fused_receive(const fused_job *job, uint32_t workgroup)
{
    const fused_rank *rank = &job->receiver;
    uint32_t iteration, slice, part, index;
    if (workgroup == 0 && FUSED_LANE == 0)
        fused_arm(job, rank, 0);
    if (!fused_wait(job, rank->armed, 1))
        return;
    while (fused_draw(job, rank, &iteration, &slice, &part)) {
        const uint32_t counter = fused_counter(slice, iteration), generation = fused_generation(iteration);
        const unsigned char *from = rank->data + ((uint64_t)counter * job->parts + part) * job->bytes;
        unsigned long long wrong = 0;
        if (!fused_wait(job, rank->flags + counter, generation))
            return;
        for (index = FUSED_LANE; index < job->bytes; index += FUSED_LANES)
            wrong += from[index] != fused_byte(slice, iteration, part * job->bytes + index);
        if (wrong)
            MACHINE_ADD(&job->tally->wrong_bytes, wrong);
        if (FUSED_LANE == 0)
            MACHINE_ADD(&job->tally->parts, 1ull);
        fused_tick(job, rank, workgroup, counter, generation);
    }
}

#endif
