/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.h: what the unit tests of libdmace share. A case returns; a check that fails ends the program.
 */
#ifndef CASES_H
#define CASES_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_card.h"
#include "libdmace.h"

#define REQUIRE(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, dmace_error()); \
            _exit(1); \
        } \
    } while (0)

/* The result of an expression, and what its sentence contains. */
#define REQUIRE_FAILS(expression, code, text) \
    do { \
        const int got = (expression); \
        if (got != (int)(code) || !strstr(dmace_error(), text)) { \
            fprintf(stderr, "%s:%d: %s is %d: %s\n", __FILE__, __LINE__, #expression, got, dmace_error()); \
            _exit(1); \
        } \
    } while (0)

#define OK(expression) REQUIRE((expression) == 0)

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

extern const test_case device_cases[], memory_cases[], queue_cases[], failure_cases[], vfio_cases[];

/* The fake card as a library, for names of simulators. */
extern const char *fake_library;

/* Opens a fake card; `context` may be null. */
static inline dmace_device *open_fake(const char *argument, void **context)
{
    const dmace_transport *transport;
    void *made;
    char error[200];
    dmace_device *device;
    OK(dmace_transport_open(argument, &transport, &made, error, sizeof error));
    OK(dmace_open_transport(transport, made, &device));
    if (context)
        *context = made;
    return device;
}

/* A device with two memories and a queue. */
typedef struct bench {
    void *context;
    dmace_device *device;
    dmace_memory *from, *to;
    dmace_queue_handle *queue;
    uint8_t *source, *target;
} bench;

enum { BENCH_BYTES = 65536 };

static inline bench open_bench(const char *argument, const dmace_queue_options *options)
{
    bench made;
    made.device = open_fake(argument, &made.context);
    OK(dmace_alloc(made.device, BENCH_BYTES, 0, DMACE_READ, &made.from));
    OK(dmace_alloc(made.device, BENCH_BYTES, 0, DMACE_WRITE, &made.to));
    OK(dmace_queue_create(made.device, options, &made.queue));
    made.source = dmace_memory_data(made.from);
    made.target = dmace_memory_data(made.to);
    for (int i = 0; i < BENCH_BYTES && made.source; ++i)
        made.source[i] = (uint8_t)(i * 31 + (i >> 8) + 1);
    return made;
}

static inline void close_bench(bench *made)
{
    dmace_close(made->device);
    REQUIRE(!fake_open_cards());
}

#endif
