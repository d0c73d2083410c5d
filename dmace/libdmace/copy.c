/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.c: requests between memories: copies, 2-D copies, and signals.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_STRIDE (INT64_C(1) << 36)

static int check_flags(uint32_t flags)
{
    if (flags & ~(DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC | DMACE_DMA_FLAG_FENCE | DMACE_DMA_FLAG_IRQ))
        return dmace_fail(-EINVAL, "Flags of a request must be those of dmace.h, not %#x", flags);
    return 0;
}

static int check_memory(const dmace_queue_handle *queue, const dmace_memory *memory, const char *name)
{
    if (!memory || memory->device != queue->device)
        return dmace_fail(-EINVAL, "The %s must be memory of the queue's device", name);
    if (memory->access & DMACE_NO_REGION)
        return dmace_fail(-EINVAL, "The %s must have a region, and it has DMACE_NO_REGION", name);
    if (memory->stale || memory->revoked)
        return dmace_fail(-EINVAL, "The %s has no region any more: its device was reset, or it is being deregistered",
                          name);
    return 0;
}

static int check_range(const dmace_memory *memory, uint64_t offset, uint64_t length, const char *name)
{
    if (length > memory->length || offset > memory->length - length)
        return dmace_fail(-ERANGE, "Range of the %s must be in its %zu bytes, not %llu bytes at %llu", name,
                          memory->length, (unsigned long long)length, (unsigned long long)offset);
    return 0;
}

static int check_copy(const dmace_queue_handle *queue, const dmace_memory *to, uint64_t to_offset,
                      const dmace_memory *from, uint64_t from_offset, uint64_t length, uint32_t flags)
{
    int code;
    if (!queue)
        return dmace_fail(-EINVAL, "A copy needs a queue");
    if ((code = check_flags(flags)) || (code = check_memory(queue, to, "destination")) ||
        (code = check_memory(queue, from, "source")))
        return code;
    if (!length || length > queue->device->info.max_copy)
        return dmace_fail(-EINVAL, "Length of a copy must be 1 to %u bytes, not %llu", queue->device->info.max_copy,
                          (unsigned long long)length);
    code = check_range(from, from_offset, length, "source");
    return code ? code : check_range(to, to_offset, length, "destination");
}

static dmace_word copy_word(const dmace_memory *to, uint64_t to_offset, const dmace_memory *from, uint64_t from_offset,
                            uint64_t length, uint32_t flags)
{
    return dmace_copy_word(from->region, from->offset + from_offset, to->region, to->offset + to_offset,
                           (uint32_t)length, flags);
}

int dmace_copy(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, dmace_memory *from,
               uint64_t from_offset, uint64_t length, uint32_t flags, uint64_t *request)
{
    const int code = check_copy(queue, to, to_offset, from, from_offset, length, flags);
    return code ? code : dmace_post_word(queue, copy_word(to, to_offset, from, from_offset, length, flags), request);
}

int dmace_signal(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, uint64_t value, uint32_t flags,
                 uint64_t *request)
{
    int code;
    if (!queue)
        return dmace_fail(-EINVAL, "A signal needs a queue");
    if ((code = check_flags(flags)) || (code = check_memory(queue, to, "destination")) ||
        (code = check_range(to, to_offset, 8, "destination")))
        return code;
    if ((to->offset + to_offset) % 8)
        return dmace_fail(-EINVAL, "Address of a signal must be a multiple of 8, not %llu bytes into a page",
                          (unsigned long long)((to->offset + to_offset) % DMACE_PAGE));
    if (value >> 44)
        return dmace_fail(-EINVAL, "Value of a signal must be below 2^44, not %#llx", (unsigned long long)value);
    dmace_word word = dmace_copy_word((uint32_t)(value >> 36), value & DMACE_DMA_WORD_SRC_OFFSET_MASK, to->region,
                                      to->offset + to_offset, 8, flags);
    word.lo = (word.lo & ~DMACE_DMA_WORD_OPCODE_MASK) | DMACE_DMA_OP_SIGNAL;
    return dmace_post_word(queue, word, request);
}

/* The last row is in the memory, too; those between both are then. */
static int check_last_row(const dmace_memory *memory, uint64_t offset, int64_t stride, uint64_t length, uint32_t rows,
                          const char *name)
{
    if (stride < -MAX_STRIDE || stride >= MAX_STRIDE)
        return dmace_fail(-EINVAL, "Stride of the %s must be -2^36 to 2^36 - 1, not %lld", name, (long long)stride);
    int64_t distance;
    if (__builtin_mul_overflow(stride, (int64_t)(rows - 1), &distance) ||
        distance > (int64_t)memory->length || distance < -(int64_t)memory->length ||
        (int64_t)offset + distance < 0 || (uint64_t)((int64_t)offset + distance) > memory->length - length)
        return dmace_fail(-ERANGE, "Rows of the %s must be in its %zu bytes: %u rows with a stride of %lld are not",
                          name, memory->length, rows, (long long)stride);
    return 0;
}

/* With `posting` held: the next `rows` requests are one for dmace_wait(). */
static dmace_group *begin_group(dmace_queue_handle *queue, uint32_t rows)
{
    dmace_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    pthread_mutex_lock(&queue->lock);
    group->first = queue->posted + 1;
    group->last = queue->posted + rows;
    *queue->last_group = group;
    queue->last_group = &group->next;
    pthread_mutex_unlock(&queue->lock);
    return group;
}

/* Only some rows were posted, as an error ended the call: the last of them ends the group. */
static void cut_group(dmace_queue_handle *queue, uint64_t last)
{
    pthread_mutex_lock(&queue->lock);
    for (dmace_group *group = queue->groups; group; group = group->next)
        if (group->last > last)
            group->last = last;
    dmace_groups_retire(queue);
    pthread_mutex_unlock(&queue->lock);
}

static int post_rows(dmace_queue_handle *queue, dmace_word row, uint32_t rows, int64_t from_stride, int64_t to_stride,
                     uint32_t flags, uint64_t *request)
{
    const uint32_t every = flags & ~(DMACE_DMA_FLAG_FENCE | DMACE_DMA_FLAG_IRQ);
    int code = 0;
    for (uint32_t number = 0; number < rows && !code; ++number) {
        const uint32_t here = every | (number ? 0 : flags & DMACE_DMA_FLAG_FENCE) |
            (number < rows - 1 ? 0 : flags & DMACE_DMA_FLAG_IRQ);
        const dmace_word word = {row.lo | (uint64_t)here << DMACE_DMA_WORD_FLAGS_SHIFT, row.hi};
        code = dmace_post_one(queue, word, request);
        row.lo += (uint64_t)from_stride << DMACE_DMA_WORD_SRC_OFFSET_SHIFT;
        row.hi += (uint64_t)to_stride << DMACE_DMA_WORD_DST_OFFSET_SHIFT;
    }
    return code;
}

static int post_2d(dmace_queue_handle *queue, dmace_word row, uint32_t rows, int64_t from_stride, int64_t to_stride,
                   uint32_t flags, uint64_t *request)
{
    if (rows > 1 && !begin_group(queue, rows))
        return dmace_fail(-ENOMEM, "No memory for a request of %u rows", rows);
    int code;
    if (queue->entries) {
        uint64_t descriptor[8] = {0};
        dmace_ring ring = {.descriptors = descriptor, .entries = 1};
        dmace_ring_copy_2d(&ring, row, rows, from_stride, to_stride, flags | DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC, 0);
        code = dmace_post_descriptor(queue, descriptor, rows, request);
    } else {
        code = post_rows(queue, row, rows, from_stride, to_stride, flags, request);
    }
    if (code && rows > 1)
        cut_group(queue, queue->posted);
    return code;
}

int dmace_copy_2d(dmace_queue_handle *queue, dmace_memory *to, uint64_t to_offset, int64_t to_stride,
                  dmace_memory *from, uint64_t from_offset, int64_t from_stride, uint64_t length, uint32_t rows,
                  uint32_t flags, uint64_t *request)
{
    int code = check_copy(queue, to, to_offset, from, from_offset, length, flags);
    if (code)
        return code;
    if (!rows || rows > DMACE_MAX_PENDING)
        return dmace_fail(-EINVAL, "Rows of a copy must be 1 to 2^30, not %u", rows);
    if ((code = check_last_row(from, from_offset, from_stride, length, rows, "source")) ||
        (code = check_last_row(to, to_offset, to_stride, length, rows, "destination")) ||
        (code = dmace_queue_enter(queue)))
        return code;
    pthread_mutex_lock(&queue->posting);
    code = post_2d(queue, copy_word(to, to_offset, from, from_offset, length, 0), rows, from_stride, to_stride, flags,
                   request);
    pthread_mutex_unlock(&queue->posting);
    dmace_queue_leave(queue);
    return code;
}
