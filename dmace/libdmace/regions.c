/* SPDX-License-Identifier: Apache-2.0
 *
 * regions.c: entries of the card's region table.
 */
#include "internal.h"

#include <errno.h>

/* AxCACHE and AxQOS of a region, as the PCIe adapter reads them. */
#define CACHE_NO_SNOOP 2u
#define QOS_RELAXED 1u
#define QOS_FLUSH 4u

static int commit(dmace_device *device, uint32_t region, uint32_t access)
{
    const int code = dmace_write(device, DMACE_DMA_REGION_ACCESS_OFFSET, access);
    return code ? code : dmace_write_through(device, DMACE_DMA_REGION_COMMIT_OFFSET, region);
}

/* With the device's lock held: takes a free region for a memory. */
int dmace_region_define(dmace_memory *memory)
{
    dmace_device *device = memory->device;
    uint32_t region = 0;
    while (region < device->info.regions && device->region_used[region])
        ++region;
    if (region == device->info.regions)
        return dmace_fail(-ENOSPC, "All %u regions of the card are in use", region);
    const uint32_t qos = (memory->access & DMACE_RELAXED ? QOS_RELAXED : 0) |
        (memory->access & DMACE_FLUSH ? QOS_FLUSH : 0);
    const uint32_t cache = memory->access & DMACE_NO_SNOOP ? CACHE_NO_SNOOP : 0;
    int code;
    if ((code = dmace_write_pair(device, DMACE_DMA_REGION_BASE_LO_OFFSET, memory->span.io_address)) ||
        (code = dmace_write_pair(device, DMACE_DMA_REGION_LENGTH_LO_OFFSET, memory->offset + memory->length)) ||
        (code = dmace_write(device, DMACE_DMA_REGION_ATTRIBUTES_OFFSET,
                            MAKE(cache, DMACE_DMA_REGION_ATTRIBUTES_CACHE) |
                            MAKE(qos, DMACE_DMA_REGION_ATTRIBUTES_QOS))) ||
        (code = dmace_write(device, DMACE_DMA_REGION_PAGES_OFFSET, 0)) ||
        (code = commit(device, region, MAKE(memory->domain, DMACE_DMA_REGION_ACCESS_DOMAIN) |
                       (memory->access & DMACE_READ ? DMACE_DMA_REGION_ACCESS_READABLE_MASK : 0) |
                       (memory->access & DMACE_WRITE ? DMACE_DMA_REGION_ACCESS_WRITABLE_MASK : 0) |
                       DMACE_DMA_REGION_ACCESS_VALID_MASK)))
        return code;
    device->region_used[region] = true;
    memory->region = region;
    return 0;
}

/* With the device's lock held: no request that is scheduled later uses the region, and none that was scheduled before
 * is in flight afterwards. If that takes too long, the region stays taken, and the next call tries again. */
int dmace_region_revoke(dmace_memory *memory)
{
    dmace_device *device = memory->device;
    int code;
    if (!memory->revoked && (code = commit(device, memory->region, 0)))
        return code;
    memory->revoked = true;
    if ((code = dmace_write(device, DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_START_MASK)) ||
        (code = dmace_await_zero(device, DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_BUSY_MASK,
                                 "Waiting for requests that use the memory, which stays mapped")))
        return code;
    device->region_used[memory->region] = false;
    return 0;
}
