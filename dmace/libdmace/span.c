/* SPDX-License-Identifier: Apache-2.0
 *
 * span.c: pages that the card reaches: of this process, or allocated on the card's side where it cannot reach those.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Transports give addresses that are multiples of DMACE_PAGE. For more, additional bytes are mapped, and the span
 * describes all of them: the caller rounds its address up. */
static size_t padded(size_t length, size_t alignment)
{
    length = (length + DMACE_PAGE - 1) & ~(size_t)(DMACE_PAGE - 1);
    return alignment > DMACE_PAGE ? length + alignment - DMACE_PAGE : length;
}

static int allocate_remote(dmace_device *device, dmace_span *span)
{
    const dmace_transport *transport = device->transport;
    if (!transport->allocate || !transport->release || !transport->save || !transport->load)
        return dmace_fail(-ENOTSUP, "The transport %s neither maps memory nor allocates it", transport->name);
    int code = transport->allocate(device->context, span->length, &span->io_address);
    if (code)
        return dmace_fail_transport(device, code, "Allocating memory of the card");
    span->allocated = true;
    void *zeros = calloc(1, span->length);
    if (!zeros) {
        dmace_span_release(device, span);
        return dmace_fail(-ENOMEM, "No memory for %zu zeros", span->length);
    }
    code = transport->save(device->context, span->io_address, zeros, span->length);
    free(zeros);
    if (!code)
        return 0;
    dmace_span_release(device, span);
    return dmace_fail_transport(device, code, "Clearing memory of the card");
}

int dmace_span_allocate(dmace_device *device, size_t length, size_t alignment, uint32_t rights, dmace_span *span)
{
    const size_t size = padded(length, alignment);
    *span = (dmace_span){.length = size};
    if (size < length)
        return dmace_fail(-ENOMEM, "Length of memory must leave space for its last page, not be %zu", length);
    if (!device->transport->map)
        return allocate_remote(device, span);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        const int code = -errno;
        return dmace_fail(code, "Allocating %zu bytes: %s", size, strerror(-code));
    }
    const int code = dmace_span_map(device, data, size, rights, span);
    if (code)
        munmap(data, size);
    else
        span->owned = true;
    return code;
}

int dmace_span_map(dmace_device *device, void *address, size_t length, uint32_t rights, dmace_span *span)
{
    const dmace_transport *transport = device->transport;
    *span = (dmace_span){.data = address, .length = length};
    if (!transport->map || !transport->unmap)
        return dmace_fail(-ENOTSUP, "The transport %s cannot map memory of this process; use dmace_alloc()",
                          transport->name);
    const int code = transport->map(device->context, address, length, rights, &span->io_address);
    if (code)
        return dmace_fail_transport(device, code, "Mapping memory for the card");
    span->mapped = true;
    if (span->io_address % DMACE_PAGE) {
        transport->unmap(device->context, span->io_address, length);
        span->mapped = false;
        return dmace_fail(-EIO, "The transport %s mapped memory at %#llx, which is no multiple of %u", transport->name,
                          (unsigned long long)span->io_address, DMACE_PAGE);
    }
    return 0;
}

/* A span that cannot be released stays as it is: the card may still reach it. */
int dmace_span_release(dmace_device *device, dmace_span *span)
{
    const dmace_transport *transport = device->transport;
    if (span->mapped) {
        const int code = transport->unmap(device->context, span->io_address, span->length);
        if (code)
            return dmace_fail_transport(device, code, "Unmapping memory");
        span->mapped = false;
    }
    if (span->allocated) {
        const int code = transport->release(device->context, span->io_address, span->length);
        if (code)
            return dmace_fail_transport(device, code, "Releasing memory of the card");
        span->allocated = false;
    }
    if (span->owned)
        munmap(span->data, span->length);
    *span = (dmace_span){0};
    return 0;
}

int dmace_span_load(const dmace_device *device, const dmace_span *span, uint64_t offset, void *data, size_t length)
{
    if (span->data) {
        memcpy(data, (const char *)span->data + offset, length);
        return 0;
    }
    if (!device->transport->load)
        return dmace_fail(-ENOTSUP, "This process cannot address the memory");
    const int code = device->transport->load(device->context, span->io_address + offset, data, length);
    return code ? dmace_fail_transport(device, code, "Loading from memory") : 0;
}

int dmace_span_save(const dmace_device *device, const dmace_span *span, uint64_t offset, const void *data,
                    size_t length)
{
    if (span->data) {
        memcpy((char *)span->data + offset, data, length);
        return 0;
    }
    if (!device->transport->save)
        return dmace_fail(-ENOTSUP, "This process cannot address the memory");
    const int code = device->transport->save(device->context, span->io_address + offset, data, length);
    return code ? dmace_fail_transport(device, code, "Storing to memory") : 0;
}
