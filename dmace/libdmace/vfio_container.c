/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_container.c: VFIO by the function's IOMMU group and a container of type 1, version 2.
 */
#include "vfio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

static int open_group(vfio *card, unsigned number)
{
    char path[32];
    snprintf(path, sizeof path, "/dev/vfio/%u", number);
    card->group = open(path, O_RDWR | O_CLOEXEC);
    if (card->group >= 0)
        return 0;
    switch (errno) {
    case EBUSY:
        return dmace_fail(-EBUSY, "Another process has the function %s: %s is in use", card->function, path);
    case EACCES:
    case EPERM:
        return dmace_fail(-EACCES, "This user may not open %s: let root change its owner (chown)", path);
    case ENOENT:
        return dmace_fail(-ENOENT, "There is no %s: the function %s needs an IOMMU, which is enabled in the firmware "
                          "and by the kernel (intel_iommu=on)", path, card->function);
    default:
        return dmace_fail(-errno, "Opening %s: %s", path, strerror(errno));
    }
}

static int check_group(vfio *card, unsigned number)
{
    struct vfio_group_status status = {.argsz = sizeof status};
    if (ioctl(card->group, VFIO_GROUP_GET_STATUS, &status))
        return dmace_fail(-errno, "Reading the state of IOMMU group %u: %s", number, strerror(errno));
    if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
        return dmace_fail(-EPERM, "IOMMU group %u has functions with other drivers: bind all of "
                          "/sys/kernel/iommu_groups/%u/devices to vfio-pci, or to none", number, number);
    return 0;
}

/* The ranges of I/O addresses: a capability in the information about the container. */
static int read_ranges(vfio *card)
{
    struct vfio_iommu_type1_info head = {.argsz = sizeof head};
    if (ioctl(card->iommu, VFIO_IOMMU_GET_INFO, &head))
        return dmace_fail(-errno, "Reading the sizes of the IOMMU: %s", strerror(errno));
    const size_t size = head.argsz < sizeof head ? sizeof head : head.argsz;
    struct vfio_iommu_type1_info *info = calloc(1, size);
    if (!info)
        return dmace_fail(-ENOMEM, "No memory for the sizes of the IOMMU");
    info->argsz = (uint32_t)size;
    vfio_addresses *addresses = &card->addresses;
    if (!ioctl(card->iommu, VFIO_IOMMU_GET_INFO, info) && info->flags & VFIO_IOMMU_INFO_CAPS) {
        uint32_t at = info->cap_offset;
        while (at && at + sizeof(struct vfio_info_cap_header) <= size) {
            const struct vfio_info_cap_header *header = (const void *)((const char *)info + at);
            const struct vfio_iommu_type1_info_cap_iova_range *found = (const void *)header;
            if (header->id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE)
                for (uint32_t index = 0; index < found->nr_iovas && addresses->count < DMACE_IO_RANGES; ++index) {
                    addresses->ranges[addresses->count].first = found->iova_ranges[index].start;
                    addresses->ranges[addresses->count++].last = found->iova_ranges[index].end;
                }
            at = header->next;
        }
    }
    free(info);
    if (!addresses->count) {      /* an old kernel: below the interrupts of x86 */
        addresses->ranges[0].last = 0xfedfffff;
        addresses->count = 1;
    }
    return 0;
}

int vfio_container_open(vfio *card)
{
    unsigned number;
    int code = vfio_group_number(card, &number);
    if (code)
        return code;
    card->iommu = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
    if (card->iommu < 0)
        return dmace_fail(-errno, "Opening /dev/vfio/vfio: %s%s", strerror(errno),
                          errno == ENOENT ? ": load the module vfio-pci" : "");
    if (ioctl(card->iommu, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
        ioctl(card->iommu, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) <= 0)
        return dmace_fail(-ENOTSUP, "VFIO of this kernel must be version %d with an IOMMU of type 1", VFIO_API_VERSION);
    if ((code = open_group(card, number)) || (code = check_group(card, number)))
        return code;
    if (ioctl(card->group, VFIO_GROUP_SET_CONTAINER, &card->iommu) ||
        ioctl(card->iommu, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
        return dmace_fail(-errno, "Adding IOMMU group %u to a container: %s", number, strerror(errno));
    card->device = ioctl(card->group, VFIO_GROUP_GET_DEVICE_FD, card->function);
    if (card->device < 0)
        return dmace_fail(-errno, "Opening the function %s of IOMMU group %u: %s", card->function, number,
                          strerror(errno));
    return read_ranges(card);
}

int vfio_container_map(vfio *card, void *address, size_t length, uint32_t rights, uint64_t io_address)
{
    const struct vfio_iommu_type1_dma_map map = {
        .argsz = sizeof map, .vaddr = (uintptr_t)address, .iova = io_address, .size = length,
        .flags = (rights & DMACE_MAP_READ ? VFIO_DMA_MAP_FLAG_READ : 0) |
            (rights & DMACE_MAP_WRITE ? VFIO_DMA_MAP_FLAG_WRITE : 0)};
    if (!ioctl(card->iommu, VFIO_IOMMU_MAP_DMA, &map))
        return 0;
    const int code = -errno;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (code == -ENOMEM && limit.rlim_cur != RLIM_INFINITY)
        return dmace_fail(code, "%zu bytes cannot be locked: raise the limit of locked memory (ulimit -l), now %llu "
                          "KiB", length, (unsigned long long)limit.rlim_cur / 1024);
    return dmace_fail(code, "The IOMMU does not map %zu bytes at %p: %s", length, address, strerror(-code));
}

int vfio_container_unmap(vfio *card, uint64_t io_address, size_t length)
{
    struct vfio_iommu_type1_dma_unmap unmap = {.argsz = sizeof unmap, .iova = io_address, .size = length};
    if (ioctl(card->iommu, VFIO_IOMMU_UNMAP_DMA, &unmap))
        return dmace_fail(-errno, "The IOMMU does not unmap %zu bytes at the I/O address %#llx: %s", length,
                          (unsigned long long)io_address, strerror(errno));
    if (unmap.size != length)
        return dmace_fail(-EIO, "The IOMMU unmapped %llu of %zu bytes at the I/O address %#llx",
                          (unsigned long long)unmap.size, length, (unsigned long long)io_address);
    return 0;
}
