/* SPDX-License-Identifier: Apache-2.0
 *
 * libdmace.h: the host's side of a dmace card, in C11 without any dependency but libc.
 *
 *     dmace_device *device;
 *     dmace_memory *from, *to;
 *     dmace_queue_handle *queue;
 *     uint64_t request;
 *     if (dmace_open("vfio:0000:01:00.0", &device) ||
 *         dmace_alloc(device, 65536, 0, DMACE_READ, &from) || dmace_alloc(device, 65536, 0, DMACE_WRITE, &to) ||
 *         dmace_queue_create(device, NULL, &queue) ||
 *         dmace_copy(queue, to, 0, from, 0, 65536, 0, &request) || dmace_wait(queue, request, DMACE_FOREVER))
 *         fprintf(stderr, "%s\n", dmace_error());
 *     dmace_close(device);
 *
 * RESULTS. Functions return 0, a negative errno, or where it says so the status of a request, which is positive
 * (DMACE_DMA_STATUS_* of dmace.h). dmace_error() then returns a sentence that names the value and the rule.
 *
 * THREADS. Any function may be called from any thread. Calls that configure one device are serialised. Several threads
 * may post to one queue and wait for its requests; each waits for its own.
 *
 * FORK. A child may store to doorbell pages and read completion words and memory from dmace_alloc(), through the
 * dmace_queue of dmace_queue_view(). It must not call anything else of this library for a device that its parent opened.
 *
 * PROTECTION. Each memory and each queue belongs to a protection domain, a number below dmace_info.domains. Requests
 * reach only memory of their queue's domain. A region of the card begins at a multiple of 4096: memory from
 * dmace_register() that does not, shares its first page with what lies in front of it, and requests that another program
 * builds itself reach that part, too.
 *
 * ENVIRONMENT. DMACE_TIMEOUT_MS: how long the card may take for a command, for instance to end requests that use memory
 * which is deregistered (default 60000; the call then returns -ETIMEDOUT, and may be repeated). DMACE_VFIO: container or
 * iommufd, where a kernel has both (default container; BARs of other functions and DMA-BUFs need it).
 */
#ifndef LIBDMACE_H
#define LIBDMACE_H

#include <stddef.h>
#include <stdint.h>

#include "dmace.h"
#include "dmace_transport.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* Version of this interface: 100 * major + minor. */
#define LIBDMACE_VERSION 100

#define DMACE_FOREVER INT64_C(-1)

typedef struct dmace_device dmace_device;
typedef struct dmace_memory dmace_memory;
typedef struct dmace_queue_handle dmace_queue_handle;

/* ---- Errors. */

/* The sentence of this thread's latest failure; "" before the first. Valid until the next call in this thread. */
const char *dmace_error(void);

/* "READ_DECERR" for DMACE_DMA_STATUS_READ_DECERR, and so on; "UNKNOWN" for any other number. */
const char *dmace_status_name(int status);

/* ---- Devices. */

/* A device. All sizes are read from the card. */
typedef struct dmace_info {
    char transport[16];
    uint32_t queues;           /* that requests can be posted to */
    uint32_t extended_queues;  /* the first ones, which descriptor rings can drive */
    uint32_t queue_depth;      /* words that wait in a queue */
    uint32_t regions;          /* of memory, at most, completion words not counted */
    uint32_t domains;
    uint32_t vectors;          /* of MSI-X, that have an eventfd */
    uint32_t beat_bytes;       /* width of the card's memory port */
    uint32_t segment_bytes;    /* longest burst */
    uint32_t max_copy;         /* bytes of one request, at most */
} dmace_info;

/* Opens a device and resets it.
 *
 *     vfio:DDDD:BB:DD.F      a PCI function bound to vfio-pci
 *     sim:LIBRARY[,OPTION]   a simulator, a shared library with dmace_transport_open()
 *
 * -EINVAL: no such kind of name. -ENODEV: the function is no dmace card, or another version of it. -EBUSY: another
 * process has it. -EACCES, -ENOENT and others as the system's. */
int dmace_open(const char *name, dmace_device **device);

/* The same over a table of functions, which closes `context` with the device, and on failure. */
int dmace_open_transport(const dmace_transport *transport, void *context, dmace_device **device);

/* Resets the device and releases everything; queues and memory of it must not be used afterwards. Null is ignored. */
void dmace_close(dmace_device *device);

int dmace_get_info(dmace_device *device, dmace_info *info);

/* Function-level reset. All queues and memory of the device are gone: only dmace_queue_destroy() and dmace_deregister()
 * may be called with them, and dmace_wait(), which returns -ECANCELED. */
int dmace_reset(dmace_device *device);

/* A register in BAR 0, by its offset. */
int dmace_read_register(dmace_device *device, uint32_t offset, uint32_t *value);
int dmace_write_register(dmace_device *device, uint32_t offset, uint32_t value);

/* One store of 4, 8 or 16 bytes to BAR 2, at a multiple of its size: to a doorbell page of an engine other than the DMA
 * engine. Those of the DMA engine are the queues', whose requests the library counts. Everything that this thread has
 * stored to memory before is visible to the card first. */
int dmace_store(dmace_device *device, uint64_t offset, const void *data, size_t size);

/* Cycles of a simulated card's clock; -ENOTSUP for hardware. */
int dmace_cycles(dmace_device *device, uint64_t *cycles);

/* Removes the oldest entry of the error log: the queue whose request failed, its status, and its number in the queue.
 * Returns 1, or 0 if the log is empty. */
int dmace_pop_log(dmace_device *device, uint32_t *queue, int *status, uint32_t *count);

/* ---- Memory. */

#define DMACE_READ 1u         /* requests may read it */
#define DMACE_WRITE 2u        /* requests may write it */
#define DMACE_FLUSH 4u        /* a write has completed when it has arrived, and an address that is refused fails the
                               * request; without it, posted writes to such an address vanish. A round trip per segment */
#define DMACE_RELAXED 8u      /* relaxed ordering on PCIe */
#define DMACE_NO_SNOOP 16u    /* no snoop on PCIe */
#define DMACE_NO_REGION 32u   /* requests of queues cannot reach it, only other engines of the card, which are given
                               * dmace_memory_address(): for instance for completion words of the accelerator */

/* Memory of its own, zeroed, page-aligned, that is shared with processes forked later. */
int dmace_alloc(dmace_device *device, size_t length, uint32_t domain, uint32_t access, dmace_memory **memory);

/* Memory of the caller, of any alignment. It must stay valid until dmace_deregister(). */
int dmace_register(dmace_device *device, void *address, size_t length, uint32_t domain, uint32_t access,
                   dmace_memory **memory);

/* A span of a DMA-BUF: of a GPU's memory, where its driver exports it. */
int dmace_register_dmabuf(dmace_device *device, int fd, uint64_t offset, size_t length, uint32_t domain,
                          uint32_t access, dmace_memory **memory);

/* A span of a BAR of another PCI function ("0000:02:00.0"), for requests that go there peer to peer. */
int dmace_register_bar(dmace_device *device, const char *function, unsigned bar, uint64_t offset, size_t length,
                       uint32_t domain, uint32_t access, dmace_memory **memory);

/* A span of I/O addresses that something else has made reachable, from a multiple of 4096 on. */
int dmace_register_address(dmace_device *device, uint64_t io_address, size_t length, uint32_t domain, uint32_t access,
                           dmace_memory **memory);

/* Ends the use of memory. Requests that are in flight complete first, as long as there are any that use it; later ones
 * fail with SRC_REGION or DST_REGION. Afterwards the card cannot reach it. */
int dmace_deregister(dmace_memory *memory);

void *dmace_memory_data(const dmace_memory *memory);       /* null where this process cannot address it */
size_t dmace_memory_length(const dmace_memory *memory);
uint32_t dmace_memory_region(const dmace_memory *memory);  /* its number in words */
uint64_t dmace_memory_offset(const dmace_memory *memory);  /* of its first byte in the region */
uint64_t dmace_memory_address(const dmace_memory *memory); /* the I/O address of its first byte, for tables of engines
                                                            * other than the DMA engine; none may have it when the
                                                            * memory is deregistered */

/* Copies by the CPU, also where it cannot address the memory. */
int dmace_memory_load(dmace_memory *memory, uint64_t offset, void *data, size_t length);
int dmace_memory_save(dmace_memory *memory, uint64_t offset, const void *data, size_t length);

/* ---- Queues. */

typedef struct dmace_queue_options {
    uint32_t domain;
    uint32_t weight;     /* share within its class, 1 to 15; 0 is 1 */
    uint32_t priority;   /* class, 0 to 3 */
    uint32_t segments;   /* in flight, at most; 0 for no limit */
    uint32_t ring;       /* log2 of the entries of a descriptor ring, 3 to 16; 0 for none */
    uint32_t interrupt;  /* 1: requests with DMACE_DMA_FLAG_IRQ signal dmace_queue_eventfd() */
    uint32_t skip_errors;  /* 1: requests behind a failed one are executed, and of several failures only the first is
                            * known exactly: requests behind it that may have failed are reported as failed. 0: the
                            * queue holds, and the next call that waits, for a request or to post one, clears it */
    uint32_t pair;       /* 1: the ring prefetches twice as many descriptors, of both queues of a pair, 2n and 2n + 1; the
                          * other queue then has no ring. Needs `ring`, and a pair in which no queue has one */
} dmace_queue_options;

/* Configures and starts a free queue. `options` null: all 0. -EBUSY: none is free, or for a ring none whose pair allows
 * it, because of `pair` of this ring or of the one beside it. */
int dmace_queue_create(dmace_device *device, const dmace_queue_options *options, dmace_queue_handle **queue);

/* Resets the queue and frees it. Requests that wait are discarded, those in flight complete. */
int dmace_queue_destroy(dmace_queue_handle *queue);

uint32_t dmace_queue_number(const dmace_queue_handle *queue);

/* The queue for a thread that posts without this library: the doorbell page, null where the transport cannot map it, and
 * both completion words. Do not mix: the library counts only its own requests. */
dmace_queue dmace_queue_view(const dmace_queue_handle *queue);

/* Post a request; `request` receives its number in the queue, from 1 on, and may be null. `flags`: DMACE_DMA_FLAG_FENCE,
 * DMACE_DMA_FLAG_IRQ; SC and RC are always set. They wait while the queue is full. -ERANGE: a range is not in its memory;
 * the card checks it, too, so that dmace_post_word() with such a range returns a request that fails. */
int dmace_copy(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, dmace_memory *from,
               uint64_t from_offset, uint64_t length, uint32_t flags, uint64_t *request);

/* `rows` rows of `length` bytes, each a request with a number. `request` is that of the last row, and has the status of
 * the first row that fails. With a ring it is one descriptor. */
int dmace_copy_2d(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, int64_t to_stride,
                  dmace_memory *from, uint64_t from_offset, int64_t from_stride, uint64_t length, uint32_t rows,
                  uint32_t flags, uint64_t *request);

/* Store 8 bytes, a value below 2^44, at a multiple of 8, once every earlier request has completed. */
int dmace_signal(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, uint64_t value, uint32_t flags,
                 uint64_t *request);

/* Any native word. */
int dmace_post_word(dmace_queue_handle *queue, dmace_word word, uint64_t *request);

/* Wait until a request has completed. 0, its status, -ETIMEDOUT, or -ECANCELED after a reset. A timeout of 0 polls once.
 * Statuses of the latest 1024 failures are known, those of older ones are 0. After DMACE_DMA_STATUS_TIMEOUT and _RING_FETCH
 * all requests in progress have that status, and posts return -EIO: destroy the queue. */
int dmace_wait(dmace_queue_handle *queue, uint64_t request, int64_t timeout_ns);

/* The same, asleep until the interrupt of a request with DMACE_DMA_FLAG_IRQ. */
int dmace_sleep(dmace_queue_handle *queue, uint64_t request, int64_t timeout_ns);

/* Readable when a request with DMACE_DMA_FLAG_IRQ has completed; -ENOTSUP if the queue has no interrupt. Read it, then
 * look: several completions may share one interrupt, and several queues a vector. */
int dmace_queue_eventfd(const dmace_queue_handle *queue);

typedef struct dmace_queue_stats {
    uint64_t requests, failed, bytes, segments, stalls;  /* since the queue was created; requests includes failed;
                                                          * segments and stalls wrap at 2^32, bytes at 2^48 */
    uint32_t waiting, in_flight;                         /* whether words wait; segments in flight */
    uint32_t histogram[16];                              /* latencies: [n] counts 2^n to less than 2^(n+1) cycles */
} dmace_queue_stats;

int dmace_get_queue_stats(dmace_queue_handle *queue, dmace_queue_stats *stats);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
