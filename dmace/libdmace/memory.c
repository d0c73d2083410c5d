/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c: memory that requests reach, each with a region of the card.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Longest region: offsets of words have 36 bits. */
#define MAX_REGION (UINT64_C(1) << 36)

static int check(dmace_device *device, size_t length, uint32_t domain, uint32_t access, dmace_memory **memory)
{
    const uint32_t all = DMACE_READ | DMACE_WRITE | DMACE_FLUSH | DMACE_RELAXED | DMACE_NO_SNOOP |
        DMACE_NO_REGION;
    if (!device || !memory)
        return dmace_fail(-EINVAL, "Memory needs a device and an address for its handle");
    if (!length || length > MAX_REGION - DMACE_PAGE)
        return dmace_fail(-EINVAL, "Length of memory must be 1 to 2^36 - %u bytes, not %zu", DMACE_PAGE, length);
    if (domain >= device->info.domains)
        return dmace_fail(-EINVAL, "Domain must be below %u, not %u", device->info.domains, domain);
    if (access & ~all || !(access & (DMACE_READ | DMACE_WRITE)))
        return dmace_fail(-EINVAL, "Access must have DMACE_READ, DMACE_WRITE or both, and no undefined bit, not be %#x",
                          access);
    return 0;
}

/* A flush is a read of no byte, which some IOMMUs refuse in memory that is only written. The card checks the rights. */
static uint32_t rights(uint32_t access)
{
    return (access & (DMACE_READ | DMACE_FLUSH) ? DMACE_MAP_READ : 0) | (access & DMACE_WRITE ? DMACE_MAP_WRITE : 0);
}

/* Gives a span a region. The span is released on failure. */
static int finish(dmace_device *device, dmace_span *span, uint64_t offset, size_t length, uint32_t domain,
                  uint32_t access, dmace_memory **memory)
{
    dmace_memory *made = calloc(1, sizeof *made);
    int code;
    if (made) {
        *made = (dmace_memory){.device = device, .span = *span, .offset = offset, .length = length, .domain = domain,
                               .access = access};
        pthread_mutex_lock(&device->lock);
        code = access & DMACE_NO_REGION ? 0 : dmace_region_define(made);
        if (!code) {
            made->next = device->memories;
            if (made->next)
                made->next->previous = made;
            device->memories = made;
        }
        pthread_mutex_unlock(&device->lock);
        if (!code) {
            *memory = made;
            return 0;
        }
        free(made);
    } else {
        code = dmace_fail(-ENOMEM, "No memory for a handle");
    }
    dmace_span_release(device, span);
    return code;
}

int dmace_alloc(dmace_device *device, size_t length, uint32_t domain, uint32_t access, dmace_memory **memory)
{
    dmace_span span;
    int code = check(device, length, domain, access, memory);
    if (!code)
        code = dmace_span_allocate(device, length, DMACE_PAGE, rights(access), &span);
    return code ? code : finish(device, &span, 0, length, domain, access, memory);
}

/* The pages around [offset, offset + length), where `offset` is an address or an offset in a file. */
static size_t pages(uint64_t offset, size_t length, uint64_t *first)
{
    *first = offset & ~(uint64_t)(DMACE_PAGE - 1);
    return (size_t)((offset - *first + length + DMACE_PAGE - 1) & ~(uint64_t)(DMACE_PAGE - 1));
}

int dmace_register(dmace_device *device, void *address, size_t length, uint32_t domain, uint32_t access,
                   dmace_memory **memory)
{
    int code = check(device, length, domain, access, memory);
    if (code)
        return code;
    if (!address || (uintptr_t)address > UINTPTR_MAX - length - DMACE_PAGE)
        return dmace_fail(-EINVAL, "Address of memory must be that of %zu bytes of this process, not %p", length,
                          address);
    uint64_t first;
    dmace_span span;
    const size_t size = pages((uintptr_t)address, length, &first);
    code = dmace_span_map(device, (void *)(uintptr_t)first, size, rights(access), &span);
    return code ? code : finish(device, &span, (uintptr_t)address - first, length, domain, access, memory);
}

int dmace_register_dmabuf(dmace_device *device, int fd, uint64_t offset, size_t length, uint32_t domain,
                          uint32_t access, dmace_memory **memory)
{
    int code = check(device, length, domain, access, memory);
    if (code)
        return code;
    if (fd < 0 || offset > (uint64_t)INT64_MAX - length - DMACE_PAGE)
        return dmace_fail(-EINVAL, "A span of a DMA-BUF needs a file descriptor and an offset below 2^63, not %d and "
                          "%#llx", fd, (unsigned long long)offset);
    const dmace_transport *transport = device->transport;
    if (!transport->map_dmabuf || !transport->unmap)
        return dmace_fail(-ENOTSUP, "The transport %s cannot map a DMA-BUF", transport->name);
    uint64_t first;
    dmace_span span = {0};
    span.length = pages(offset, length, &first);
    code = transport->map_dmabuf(device->context, fd, first, span.length, rights(access), &span.io_address);
    if (code)
        return dmace_fail_transport(device, code, "Mapping a DMA-BUF");
    span.mapped = true;
    return finish(device, &span, offset - first, length, domain, access, memory);
}

int dmace_register_bar(dmace_device *device, const char *function, unsigned bar, uint64_t offset, size_t length,
                       uint32_t domain, uint32_t access, dmace_memory **memory)
{
    int code = check(device, length, domain, access, memory);
    if (code)
        return code;
    uint64_t first;
    dmace_span span, pages_of_bar;
    const size_t size = pages(offset, length, &first);
    if ((code = dmace_bar_map(function, bar, offset, length, first, size, &pages_of_bar)))
        return code;
    code = dmace_span_map(device, pages_of_bar.data, size, rights(access), &span);
    if (code) {
        munmap(pages_of_bar.data, size);
        return code;
    }
    span.owned = true;
    return finish(device, &span, offset - first, length, domain, access, memory);
}

int dmace_register_address(dmace_device *device, uint64_t io_address, size_t length, uint32_t domain, uint32_t access,
                           dmace_memory **memory)
{
    const int code = check(device, length, domain, access, memory);
    if (code)
        return code;
    if (io_address % DMACE_PAGE || io_address > UINT64_MAX - length)
        return dmace_fail(-EINVAL, "I/O address must be a multiple of %u with %zu bytes behind it, not %#llx",
                          DMACE_PAGE, length, (unsigned long long)io_address);
    dmace_span span = {.io_address = io_address, .length = length};
    return finish(device, &span, 0, length, domain, access, memory);
}

int dmace_deregister(dmace_memory *memory)
{
    if (!memory)
        return dmace_fail(-EINVAL, "dmace_deregister() needs memory");
    dmace_device *device = memory->device;
    pthread_mutex_lock(&device->lock);
    int code = memory->stale || memory->access & DMACE_NO_REGION ? 0 : dmace_region_revoke(memory);
    if (!code) {
        memory->stale = true;      /* if it stays mapped, the next call only unmaps it */
        code = dmace_span_release(device, &memory->span);
    }
    if (!code) {
        if (memory->previous)
            memory->previous->next = memory->next;
        else
            device->memories = memory->next;
        if (memory->next)
            memory->next->previous = memory->previous;
    }
    pthread_mutex_unlock(&device->lock);
    if (!code)
        free(memory);
    return code;
}

/* When the transport is closed. */
void dmace_memory_free(dmace_memory *memory)
{
    memory->device->memories = memory->next;
    if (memory->span.owned)
        munmap(memory->span.data, memory->span.length);
    free(memory);
}

void *dmace_memory_data(const dmace_memory *memory)
{
    return memory && memory->span.data ? (char *)memory->span.data + memory->offset : NULL;
}

size_t dmace_memory_length(const dmace_memory *memory)
{
    return memory ? memory->length : 0;
}

uint32_t dmace_memory_region(const dmace_memory *memory)
{
    return memory ? memory->region : 0;
}

uint64_t dmace_memory_offset(const dmace_memory *memory)
{
    return memory ? memory->offset : 0;
}

uint64_t dmace_memory_address(const dmace_memory *memory)
{
    return memory ? memory->span.io_address + memory->offset : 0;
}

static int check_access(const dmace_memory *memory, uint64_t offset, const void *data, size_t length)
{
    if (!memory || (!data && length))
        return dmace_fail(-EINVAL, "A copy by the CPU needs memory and an address");
    if (length > memory->length || offset > memory->length - length)
        return dmace_fail(-ERANGE, "Range must be in the memory's %zu bytes, not %zu bytes at %llu", memory->length,
                          length, (unsigned long long)offset);
    return 0;
}

int dmace_memory_load(dmace_memory *memory, uint64_t offset, void *data, size_t length)
{
    const int code = check_access(memory, offset, data, length);
    return code ? code : dmace_span_load(memory->device, &memory->span, memory->offset + offset, data, length);
}

int dmace_memory_save(dmace_memory *memory, uint64_t offset, const void *data, size_t length)
{
    const int code = check_access(memory, offset, data, length);
    return code ? code : dmace_span_save(memory->device, &memory->span, memory->offset + offset, data, length);
}
