/* SPDX-License-Identifier: Apache-2.0
 *
 * part.h: shared by the parts. A part is a program with the name of a device as its argument; it prints what it shows,
 * and ends with status 0 if all of it is right.
 */
#ifndef PART_H
#define PART_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libdmace.h"

/* A card is simulated: no wait is too short for that. */
#define PART_TIMEOUT INT64_C(120000000000)

/* The condition holds, or the part ends with its text. */
#define REQUIRE(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* A function of libdmace returns the expected number, or the part ends with its sentence. */
#define EXPECT(call, expected) \
    do { \
        const int part_result = (call); \
        if (part_result != (expected)) { \
            fprintf(stderr, "%s:%d: %s returns %d (%s), not %d: %s\n", __FILE__, __LINE__, #call, part_result, \
                    part_result > 0 ? dmace_status_name(part_result) : strerror(-part_result), (expected), \
                    dmace_error()); \
            exit(1); \
        } \
    } while (0)

#define MUST(call) EXPECT(call, 0)

static inline double part_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void part_sleep(double seconds)
{
    struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&span, &span) && errno == EINTR)
        ;
}

/* Random numbers: xorshift64*. A state is never 0. */
typedef struct part_random {
    uint64_t state;
} part_random;

static inline uint64_t part_next(part_random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(2685821657736338717);
}

/* A number below `limit`. */
static inline uint64_t part_below(part_random *random, uint64_t limit)
{
    return (part_next(random) >> 11) % limit;
}

static inline void part_fill(part_random *random, void *to, size_t length)
{
    unsigned char *bytes = to;
    for (size_t index = 0; index < length; index += 8) {
        const uint64_t value = part_next(random);
        memcpy(bytes + index, &value, length - index < 8 ? length - index : 8);
    }
}

/* Byte `index` of a pattern that the host can compute, too. */
static inline unsigned char part_pattern(uint64_t seed, uint64_t index)
{
    return (unsigned char)(((index + seed) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* The first byte that differs, or `length`. */
static inline size_t part_difference(const void *left, const void *right, size_t length)
{
    const unsigned char *a = left, *b = right;
    size_t index = 0;
    if (!memcmp(left, right, length))
        return length;
    while (a[index] == b[index])
        ++index;
    return index;
}

/* Both are equal, or the part ends with the first difference. */
static inline void part_same(const char *what, const void *found, const void *expected, size_t length)
{
    const size_t index = part_difference(found, expected, length);
    if (index < length) {
        fprintf(stderr, "%s: byte %zu of %zu is 0x%02x, not 0x%02x\n", what, index, length,
                ((const unsigned char *)found)[index], ((const unsigned char *)expected)[index]);
        exit(1);
    }
}

static inline const char *part_device(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s DEVICE [argument]\n", argv[0]);
        exit(2);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    return argv[1];
}

#endif
