/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_addresses.c: I/O addresses, first fit in the ranges that the IOMMU accepts.
 */
#include "vfio.h"

#include <errno.h>
#include <stdlib.h>

/* No I/O address is so low: an address that was never set is refused. */
#define LOWEST UINT64_C(0x10000)

/* The lowest address from `from` on, in any range, that `length` bytes fit at; 0 if there is none. */
static uint64_t next_in_ranges(const vfio_addresses *addresses, uint64_t from, size_t length)
{
    for (unsigned index = 0; index < addresses->count; ++index) {
        const uint64_t low = addresses->ranges[index].first, high = addresses->ranges[index].last;
        const uint64_t first = ((low > from ? low : from) + DMACE_PAGE - 1) & ~(uint64_t)(DMACE_PAGE - 1);
        if (first >= from && first <= high && high - first >= length - 1)
            return first;
    }
    return 0;
}

int vfio_address_take(vfio_addresses *addresses, size_t length, vfio_mapping **mapping)
{
    vfio_mapping **link = &addresses->mappings;
    uint64_t at = next_in_ranges(addresses, LOWEST, length);
    while (at && *link && (*link)->io_address < at + length) {
        at = next_in_ranges(addresses, (*link)->io_address + (*link)->length, length);
        while (*link && (*link)->io_address < at)
            link = &(*link)->next;
    }
    if (!at)
        return dmace_fail(-ENOSPC, "The IOMMU has no free I/O addresses for %zu bytes", length);
    vfio_mapping *made = calloc(1, sizeof *made);
    if (!made)
        return dmace_fail(-ENOMEM, "No memory for a mapping");
    *made = (vfio_mapping){.next = *link, .io_address = at, .length = length};
    *link = made;
    *mapping = made;
    return 0;
}

/* The link to a mapping, of null if there is none. */
vfio_mapping **vfio_address_find(vfio_addresses *addresses, uint64_t io_address, size_t length)
{
    vfio_mapping **link = &addresses->mappings;
    while (*link && ((*link)->io_address != io_address || (*link)->length != length))
        link = &(*link)->next;
    return link;
}

void vfio_address_free(vfio_mapping **link)
{
    vfio_mapping *mapping = *link;
    *link = mapping->next;
    free(mapping);
}
