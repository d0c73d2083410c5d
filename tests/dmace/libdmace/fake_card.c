/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_card.c: a test double of a card for unit tests of libdmace. It has registers, regions, queues and rings as the
 * contract of the DMA engine defines them, one request at a time, and is written independently of the RTL.
 */
#include "fake_card.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dmace.h"
#include "dmace_card.h"

#define R(name) card->registers[DMACE_DMA_##name##_OFFSET / 4]
#define PAIR(name) (R(name##_LO) | (uint64_t)R(name##_HI) << 32)
#define PART(value, name) (((value) & DMACE_DMA_##name##_MASK) >> DMACE_DMA_##name##_SHIFT)

enum { SPANS = 64, LATE_WRITES = 64 };

struct span { uint64_t io, length; uint32_t rights; char *data; bool own; };
struct region { uint64_t base, length; uint32_t access, attributes; };
struct queue {
    bool enabled, held, refusing, ring, pair;    /* ring: it has a part of the descriptor buffer */
    uint64_t sc, rc, ring_base;
    uint32_t config, ring_size, count, failed, status, tail, next, row;
    uint64_t bytes;
    dmace_word words[FAKE_DEPTH];
    uint32_t waiting;
    dmace_word *page;
    uint32_t slot;
};
struct entry { uint32_t queue, status, count; };

struct card {
    pthread_mutex_t lock;
    pthread_t worker;
    bool end, stop, mute, slow, late, no_endpoint, no_adapter;
    struct { uint32_t offset, value; } writes[LATE_WRITES];    /* that a read has not forced into registers yet */
    unsigned late_writes;
    int busy, fail;
    uint32_t timed_out;
    uint32_t registers[0x200], first_count, id, version, snapshot[6];
    uint64_t next_io, refused, refused_length, cycles;
    struct span spans[SPANS];
    struct region regions[FAKE_REGIONS];
    struct queue queues[FAKE_QUEUES];
    struct entry log[FAKE_QUEUES];
    unsigned logged;
    int events[FAKE_VECTORS];
    dmace_word *pages;
    dmace_transport transport;
};

static _Thread_local char sentence[200];
static atomic_uint open_cards;

static char *reach(struct card *card, uint64_t io, uint64_t length, uint32_t rights)
{
    if (card->refused_length && io < card->refused + card->refused_length && card->refused < io + length)
        return NULL;
    for (int i = 0; i < SPANS; ++i) {
        struct span *span = &card->spans[i];
        if (span->data && io >= span->io && io + length <= span->io + span->length && (span->rights & rights) == rights)
            return span->data + (io - span->io);
    }
    return NULL;
}

static void add_log(struct card *card, uint32_t queue, uint32_t status)
{
    for (unsigned i = 0; i < card->logged; ++i)
        if (card->log[i].queue == queue)
            return;
    card->log[card->logged++] = (struct entry){queue, status, card->queues[queue].count};
}

static void publish(struct card *card, uint32_t number, bool interrupt)
{
    struct queue *queue = &card->queues[number];
    const uint64_t word = queue->count | (uint64_t)(queue->failed & 0xffffff) << 32 | (uint64_t)queue->status << 56;
    const uint64_t at[2] = {queue->rc, queue->sc};
    for (int i = 0; i < 2 && !card->mute; ++i) {
        char *to = reach(card, at[i], 8, DMACE_MAP_WRITE);
        if (to)
            atomic_store_explicit((_Atomic uint64_t *)to, word, memory_order_release);
    }
    const int event = card->events[1 + number % (FAKE_VECTORS - 1)];
    const uint64_t one = 1;
    if (interrupt && event >= 0 && write(event, &one, 8) < 0)
        abort();
}

static void fail_queue(struct card *card, uint32_t number, uint32_t status, bool counts)
{
    struct queue *queue = &card->queues[number];
    add_log(card, number, status);
    ++queue->failed;
    queue->status = status;
    queue->count += counts;
    publish(card, number, true);
}

static uint32_t check(struct card *card, struct queue *queue, uint32_t number, uint64_t offset, uint64_t length,
                      uint32_t right, uint32_t first)
{
    const struct region *region = number < FAKE_REGIONS ? &card->regions[number] : NULL;
    if (!region || !(region->access & DMACE_DMA_REGION_ACCESS_VALID_MASK))
        return first;
    if ((region->access & 0xff) != (queue->config & 0xff))
        return first + 1;
    if (!(region->access & right))
        return first + 2;
    return offset + length > region->length ? first + 3 : 0;
}

static uint32_t execute(struct card *card, struct queue *queue, dmace_word word)
{
    const uint32_t opcode = word.lo & 15, flags = word.lo >> 4 & 255, from = word.lo >> 12 & 255, to = word.lo >> 20 & 255;
    const uint64_t from_offset = word.lo >> 28, length = word.hi & DMACE_DMA_WORD_LENGTH_MASK, to_offset = word.hi >> 28;
    if ((opcode != 1 && opcode != 2) || flags & 0xf0 || (opcode == 2 && (length != 8 || to_offset % 8)))
        return DMACE_DMA_STATUS_MALFORMED;
    if (!length)
        return DMACE_DMA_STATUS_ZERO_LENGTH;
    uint32_t status = opcode == 2 ? 0 : check(card, queue, from, from_offset, length,
                                              DMACE_DMA_REGION_ACCESS_READABLE_MASK, DMACE_DMA_STATUS_SRC_REGION);
    if (!status)
        status = check(card, queue, to, to_offset, length, DMACE_DMA_REGION_ACCESS_WRITABLE_MASK,
                       DMACE_DMA_STATUS_DST_REGION);
    if (status)
        return status;
    const uint64_t value = (uint64_t)from << 36 | from_offset;
    const void *source = opcode == 2 ? (const void *)&value :
        reach(card, card->regions[from].base + from_offset, length, DMACE_MAP_READ);
    if (!source)
        return DMACE_DMA_STATUS_READ_DECERR;
    void *target = reach(card, card->regions[to].base + to_offset, length, DMACE_MAP_WRITE);
    if (!target)        /* only a flush notices that a posted write was refused */
        return card->regions[to].attributes >> 9 & 1 ? DMACE_DMA_STATUS_WRITE_DECERR : 0;
    memmove(target, source, length);
    queue->bytes += length;
    return 0;
}

/* The next request of a ring; `*last` with the descriptor's last request. */
static uint32_t next_of_ring(struct card *card, struct queue *queue, dmace_word *word, bool *last)
{
    const uint64_t at = queue->ring_base + (queue->next & ((1u << queue->ring_size) - 1)) * UINT64_C(64);
    const char *found = reach(card, at, 64, DMACE_MAP_READ);
    uint64_t d[8];
    *last = true;
    if (!found)
        return DMACE_DMA_STATUS_RING_FETCH;
    memcpy(d, found, 64);
    const uint32_t kind = d[0] & 15, flags = d[0] >> 4 & 255, count = d[0] >> 12 & 3;
    if (d[1] || (kind == 1 ? !count : kind != 2 || count || d[7]))
        return DMACE_DMA_STATUS_MALFORMED;
    *last = queue->row + 1 == (kind == 1 ? count : d[6]);
    *word = kind == 1 ? (dmace_word){d[2 + 2 * queue->row], d[3 + 2 * queue->row]} :
        (dmace_word){d[2] + (d[4] * queue->row << 28), d[3] + (d[5] * queue->row << 28)};
    word->lo |= (uint64_t)((queue->row ? 0 : flags & 4) | (*last ? flags & 11 : 0)) << 4;
    return 0;
}

static void accept_word(struct card *card, uint32_t number, dmace_word word)
{
    struct queue *queue = &card->queues[number];
    const bool ring = queue->config & 2u << DMACE_DMA_QUEUE_CONFIG_MODE_SHIFT;
    if (!queue->enabled) {
        if (!queue->refusing)
            add_log(card, number, DMACE_DMA_STATUS_DISABLED);
        queue->refusing = true;
    } else if (!queue->refusing && (ring ? (uint32_t)word.lo - queue->next > 1u << queue->ring_size :
                                    queue->waiting == FAKE_DEPTH)) {
        queue->refusing = true;
        fail_queue(card, number, ring ? DMACE_DMA_STATUS_RING_RANGE : DMACE_DMA_STATUS_OVERFLOW, false);
    } else if (!queue->refusing && ring) {
        if ((int32_t)((uint32_t)word.lo - queue->tail) > 0)
            queue->tail = (uint32_t)word.lo;
    } else if (!queue->refusing) {
        queue->words[queue->waiting++] = word;
    }
}

static dmace_word take_word(struct queue *queue)
{
    const dmace_word word = queue->words[0];
    memmove(queue->words, queue->words + 1, --queue->waiting * sizeof *queue->words);
    return word;
}

static void advance(struct card *card, uint32_t number)
{
    struct queue *queue = &card->queues[number];
    const bool ring = queue->config & 2u << DMACE_DMA_QUEUE_CONFIG_MODE_SHIFT;
    bool last = true;
    dmace_word word = {0, 0};
    uint32_t status = 0;
    if (!queue->enabled || queue->held || (ring ? queue->next == queue->tail : !queue->waiting))
        return;
    if (card->timed_out == number) {
        queue->held = true;
        fail_queue(card, number, DMACE_DMA_STATUS_TIMEOUT, false);
        return;
    }
    if (ring)
        status = next_of_ring(card, queue, &word, &last);
    else
        word = take_word(queue);
    if (!status)
        status = execute(card, queue, word);
    queue->row = last ? 0 : queue->row + 1;
    queue->next += ring && last;
    card->cycles += 100;
    if (status && !(queue->config & DMACE_DMA_QUEUE_CONFIG_SKIP_ERRORS_MASK)) {
        queue->held = true;
        fail_queue(card, number, status, false);
    } else if (status) {
        fail_queue(card, number, status, true);
    } else {
        ++queue->count;
        if (word.lo >> 4 & (DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC))
            publish(card, number, word.lo >> 4 & DMACE_DMA_FLAG_IRQ);
    }
}

static void poll_page(struct card *card, uint32_t number)
{
    struct queue *queue = &card->queues[number];
    for (uint32_t i = 0; i < 256; ++i) {
        volatile uint64_t *slot = (volatile uint64_t *)&card->pages[number * 256 + (queue->slot & 255)];
        ++queue->slot;
        if (!slot[0])
            continue;
        const dmace_word word = {slot[0], slot[1]};
        slot[0] = slot[1] = 0;
        accept_word(card, number, word);
    }
}

static void *work(void *argument)
{
    struct card *card = argument;
    for (bool end = false; !end;) {
        pthread_mutex_lock(&card->lock);
        for (uint32_t number = 0; number < FAKE_QUEUES; ++number) {
            if (card->pages)
                poll_page(card, number);
            if (!card->stop)
                advance(card, number);
        }
        end = card->end;
        pthread_mutex_unlock(&card->lock);
        nanosleep(&(struct timespec){0, card->slow ? 100000 : 1000}, NULL);
    }
    return NULL;
}

#include "fake_registers.h"

static int map(void *context, void *address, size_t length, uint32_t rights, uint64_t *io)
{
    struct card *card = context;
    int code = enter(card);
    if (code)
        return code;
    code = -ENOSPC;
    for (int i = 0; i < SPANS && code; ++i)
        if (!card->spans[i].data) {
            *io = card->next_io;
            card->next_io += length + 8192;
            card->spans[i] = (struct span){*io, length, rights, address, false};
            code = 0;
        }
    pthread_mutex_unlock(&card->lock);
    return code;
}

static int allocate(void *context, size_t length, uint64_t *io)
{
    char *data = aligned_alloc(4096, length);
    if (!data)
        return -ENOMEM;
    memset(data, 0xee, length);
    const int code = map(context, data, length, DMACE_MAP_READ | DMACE_MAP_WRITE, io);
    if (code)
        free(data);
    else
        for (int i = 0; i < SPANS; ++i)
            if (((struct card *)context)->spans[i].data == data)
                ((struct card *)context)->spans[i].own = true;
    return code;
}

static int unmap(void *context, uint64_t io, size_t length)
{
    struct card *card = context;
    int code = enter(card);
    if (code)
        return code;
    code = -ENOENT;
    for (int i = 0; i < SPANS; ++i)
        if (card->spans[i].data && card->spans[i].io == io && card->spans[i].length == length) {
            if (card->spans[i].own)
                free(card->spans[i].data);
            card->spans[i] = (struct span){0};
            code = 0;
        }
    pthread_mutex_unlock(&card->lock);
    return code;
}

static int load(void *context, uint64_t io, void *data, size_t length)
{
    struct card *card = context;
    pthread_mutex_lock(&card->lock);
    const void *from = reach(card, io, length, 0);
    if (from)
        memcpy(data, from, length);
    pthread_mutex_unlock(&card->lock);
    return from ? 0 : -EFAULT;
}

static int save(void *context, uint64_t io, const void *data, size_t length)
{
    struct card *card = context;
    pthread_mutex_lock(&card->lock);
    void *to = reach(card, io, length, 0);
    if (to)
        memcpy(to, data, length);
    pthread_mutex_unlock(&card->lock);
    return to ? 0 : -EFAULT;
}

#include "fake_transport.h"
