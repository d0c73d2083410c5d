/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h: what the files of libdmace share. Lock order: queue.posting, queue.lock, device.lock, device.events.
 */
#ifndef DMACE_INTERNAL_H
#define DMACE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dmace_card.h"
#include "libdmace.h"

#define DMACE_PAGE 4096u
#define DMACE_MAX_QUEUES 64u
#define DMACE_MAX_REGIONS 256u
#define DMACE_MAX_VECTORS 256u

/* The RC word of a queue lies this far behind its SC word. */
#define DMACE_RC_OFFSET 64u

/* Failures of a queue that are remembered. */
#define DMACE_FAILURES 1024u

#define DMACE_LOG_LENGTH 64u

/* Requests of a queue that may wait or be in flight: counts in completion words have 32 bits. */
#define DMACE_MAX_PENDING (UINT64_C(1) << 30)

#define FIELD(value, name) (((value) & name##_MASK) >> name##_SHIFT)
#define MAKE(value, name) (((uint32_t)(value) << name##_SHIFT) & name##_MASK)

/* Memory that the card reaches, or of the card's side; in queues as well as in regions. */
typedef struct dmace_span {
    void *data;           /* page-aligned, or null */
    uint64_t io_address;
    size_t length;        /* a multiple of DMACE_PAGE */
    bool mapped;          /* unmap() is due */
    bool allocated;       /* release() is due */
    bool owned;           /* munmap() is due */
} dmace_span;

struct dmace_memory {
    dmace_device *device;
    dmace_memory *previous, *next;
    dmace_span span;
    uint64_t offset;      /* of the first byte in the region */
    size_t length;
    uint32_t region, domain, access;
    bool stale;           /* the device has been reset since, so the region is gone */
    bool revoked;         /* the region is invalid, and maybe still in use */
};

/* Requests that failed: numbers `first` to `last`. */
typedef struct dmace_failure {
    uint64_t first, last;
    int status;
} dmace_failure;

/* Requests that one call posted: the last one has the status of the first that fails. */
typedef struct dmace_group {
    struct dmace_group *next;
    uint64_t first, last;
    int status;
} dmace_group;

struct dmace_queue_handle {
    dmace_device *device;
    dmace_queue_handle *previous, *next;
    uint32_t number;
    dmace_queue_options options;
    dmace_span words;
    void *page;

    pthread_mutex_t posting;   /* held while one call posts its requests */
    pthread_mutex_t lock;      /* of everything below */
    pthread_cond_t changed;
    unsigned users;            /* calls in progress */
    bool dead;                 /* no more calls: it is being destroyed, or the device has been reset */
    bool gone;                 /* the card does not know it any more */
    int broken;                /* the status after which no request can complete, or 0 */
    bool refused;              /* words were refused: those that remain when the queue is idle */
    bool sleeping;             /* a thread polls the eventfd */
    int idle_checks;
    int64_t checked;           /* when a request completed, or the queue's state was read, last */
    int64_t interval;          /* until its state is read */
    uint64_t posted, completed, failed;
    uint64_t refused_total;    /* of `completed`: requests that never reached the queue */
    uint32_t engine_count, engine_failed;      /* as in the latest completion word */
    dmace_failure *failures;   /* a ring of DMACE_FAILURES, or null before the first */
    uint64_t failure_count;
    dmace_group *groups, **last_group;

    /* A descriptor ring; `entries` is 0 without one. */
    dmace_span ring;
    uint64_t ring_offset;      /* of the first descriptor in the span */
    uint32_t entries, head, tail;
    uint64_t *ends;            /* of each entry: the number of its last request */

    /* Its interrupt; guarded by device.events. */
    int event;
    uint32_t vector;
    dmace_queue_handle *next_of_vector;
};

typedef struct dmace_vector {
    dmace_queue_handle *queues;
    int fd;                    /* of a vector with several queues, which the dispatcher reads; else -1 */
} dmace_vector;

/* An entry of the card's error log. */
typedef struct dmace_log_entry {
    uint32_t queue, count;
    int status;
    bool taken;                /* the library has used it */
} dmace_log_entry;

struct dmace_device {
    const dmace_transport *transport;
    void *context;
    void *library;             /* of dlopen(), or null */
    dmace_info info;
    uint32_t window;           /* segments of a queue in flight at most: half of the entries of all */
    uint32_t card_vectors;
    int64_t limit;             /* ns that the card may take for a command */

    pthread_mutex_t lock;      /* of registers that are written in sequences, and of everything below */
    bool region_used[DMACE_MAX_REGIONS];
    dmace_queue_handle *numbers[DMACE_MAX_QUEUES];
    dmace_queue_handle *queues;
    dmace_memory *memories;
    dmace_log_entry log[DMACE_LOG_LENGTH];     /* entries that the library has removed from the card's log */
    unsigned log_length;

    pthread_mutex_t events;
    dmace_vector vectors[DMACE_MAX_VECTORS];
    pthread_t dispatcher;
    int dispatcher_wake;       /* an eventfd, or -1 without a dispatcher */
    bool dispatcher_stop;
};

/* error.c: each stores a sentence and returns `code`. */
int dmace_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "DOING: SENTENCE" with the transport's sentence for its latest failure. */
int dmace_fail_transport(const dmace_device *device, int code, const char *doing);

/* status.c */
const char *dmace_status_meaning(int status);
int dmace_fail_request(const dmace_queue_handle *queue, uint64_t request, int status);

/* clock.c: ns of CLOCK_MONOTONIC; when a timeout ends (INT64_MAX for none); longer stalls from call to call. */
int64_t dmace_now(void);
int64_t dmace_deadline(int64_t timeout);
void dmace_stall(unsigned *calls);

/* registers.c */
int dmace_read(dmace_device *device, uint32_t offset, uint32_t *value);
int dmace_write(dmace_device *device, uint32_t offset, uint32_t value);
int dmace_write_pair(dmace_device *device, uint32_t offset, uint64_t value);
/* A write, and a read behind it: doorbells do not wait for register writes before them, but a read does. */
int dmace_write_through(dmace_device *device, uint32_t offset, uint32_t value);
/* Polls a register until `mask` is 0 in it. */
int dmace_await_zero(dmace_device *device, uint32_t offset, uint32_t mask, const char *doing);

/* span.c */
int dmace_span_allocate(dmace_device *device, size_t length, size_t alignment, uint32_t rights, dmace_span *span);
int dmace_span_map(dmace_device *device, void *address, size_t length, uint32_t rights, dmace_span *span);
int dmace_span_release(dmace_device *device, dmace_span *span);
int dmace_span_load(const dmace_device *device, const dmace_span *span, uint64_t offset, void *data, size_t length);
int dmace_span_save(const dmace_device *device, const dmace_span *span, uint64_t offset, const void *data,
                    size_t length);

/* memory.c */
void dmace_memory_free(dmace_memory *memory);

/* regions.c */
int dmace_region_define(dmace_memory *memory);
int dmace_region_revoke(dmace_memory *memory);

/* bar.c */
bool dmace_is_function(const char *name);
/* The `size` bytes of pages from `first` on, in a BAR that has `length` bytes at `offset`. */
int dmace_bar_map(const char *function, unsigned bar, uint64_t offset, size_t length, uint64_t first, size_t size,
                  dmace_span *span);

/* queue.c */
void dmace_queue_kill(dmace_queue_handle *queue);
void dmace_queue_free(dmace_queue_handle *queue);
int dmace_queue_command(dmace_queue_handle *queue, uint32_t command);
/* Calls that use a queue are between these two; -ECANCELED if it is dead. */
int dmace_queue_enter(dmace_queue_handle *queue);
void dmace_queue_leave(dmace_queue_handle *queue);

/* queue_state.c: the registers of a queue, at one moment. */
typedef struct dmace_queue_registers {
    uint32_t state, result, count;
} dmace_queue_registers;
int dmace_queue_read(dmace_queue_handle *queue, dmace_queue_registers *registers);
int dmace_queue_read_locked(dmace_queue_handle *queue, dmace_queue_registers *registers);   /* device.lock is held */

/* post.c: with `posting` held. `rows` requests from one descriptor, or one from a word. */
int dmace_post_descriptor(dmace_queue_handle *queue, const uint64_t *descriptor, uint32_t rows, uint64_t *request);
int dmace_post_one(dmace_queue_handle *queue, dmace_word word, uint64_t *request);

/* progress.c: with `lock` held, reads what has completed. */
int dmace_queue_progress(dmace_queue_handle *queue);

/* failures.c: with `lock` held. */
int dmace_failure_add(dmace_queue_handle *queue, uint64_t first, uint64_t last, int status);
int dmace_failure_find(const dmace_queue_handle *queue, uint64_t request);
void dmace_groups_retire(dmace_queue_handle *queue);

/* log.c */
int dmace_log_take(dmace_device *device, uint32_t queue, dmace_log_entry *entry);

/* interrupts.c */
uint32_t dmace_queue_vector(const dmace_device *device, uint32_t number);
int dmace_interrupt_attach(dmace_queue_handle *queue);
void dmace_interrupt_detach(dmace_queue_handle *queue);     /* the eventfd stays open */
void dmace_interrupt_close(dmace_queue_handle *queue);
void dmace_dispatcher_end(dmace_device *device);
void dmace_vectors_close(dmace_device *device);

/* simulator.c, vfio.c */
int dmace_simulator_open(const char *name, const dmace_transport **transport, void **context, void **library);
int dmace_vfio_open(const char *function, const dmace_transport **transport, void **context);

#endif
