/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h: stores and loads that both sides of a page in memory need beyond dmace.h; CUDA device code and C++17.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer knows atomic operations, but neither fences nor assembly. */
#define DMACE_STORE_16(address, lo, hi) \
    __atomic_store_n((volatile unsigned __int128 *)(address), (unsigned __int128)(hi) << 64 | (lo), __ATOMIC_RELEASE)
#define DMACE_STORE_8(address, value) \
    __atomic_store_n((volatile uint64_t *)(address), (uint64_t)(value), __ATOMIC_RELEASE)
#define DMACE_LOAD_8(address) __atomic_load_n(address, __ATOMIC_ACQUIRE)
#define DMACE_RELEASE() ((void)0)
#define DMACE_ACQUIRE() ((void)0)
#endif

#include "dmace.h"

#if defined(__CUDA_ARCH__)
#define MACHINE_ADD(counter, value) atomicAdd((counter), (value))
#define MACHINE_STALL() __nanosleep(200)
#define MACHINE_PAUSE() __nanosleep(50000)
#else
#include <sched.h>
#include <unistd.h>
#define MACHINE_ADD(counter, value) __atomic_fetch_add((counter), (value), __ATOMIC_RELAXED)
#define MACHINE_STALL() sched_yield()
#define MACHINE_PAUSE() usleep(200)
#endif

#include <emmintrin.h>

/* One load of 16 bytes on the host: atomic on x86 processors with AVX, by the manuals of both manufacturers. */
static inline dmace_word machine_load_16(const dmace_word *slot)
{
    dmace_word word;
#if defined(__SANITIZE_THREAD__)
    const unsigned __int128 found = __atomic_load_n((const volatile unsigned __int128 *)slot, __ATOMIC_ACQUIRE);
    word.lo = (uint64_t)found;
    word.hi = (uint64_t)(found >> 64);
#else
    const __m128i found = *(const volatile __m128i *)slot;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    word.lo = (uint64_t)_mm_cvtsi128_si64(found);
    word.hi = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(found, found));
#endif
    return word;
}

#endif
