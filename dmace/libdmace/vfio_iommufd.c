/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_iommufd.c: VFIO by the function's character device and IOMMUFD, of Linux 6.6 and later. The requests are
 * declared here, as the kernel headers of many distributions are older.
 */
#include "vfio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REQUEST_BIND _IO(VFIO_TYPE, VFIO_BASE + 18)
#define REQUEST_ATTACH _IO(VFIO_TYPE, VFIO_BASE + 19)
#define REQUEST_IOAS_ALLOC _IO(';', 0x81)
#define REQUEST_IOAS_RANGES _IO(';', 0x84)
#define REQUEST_IOAS_MAP _IO(';', 0x85)
#define REQUEST_IOAS_UNMAP _IO(';', 0x86)

#define MAP_FIXED_ADDRESS 1u
#define MAP_WRITABLE 2u
#define MAP_READABLE 4u

struct bind { uint32_t size, flags; int32_t iommufd; uint32_t id; };
struct attach { uint32_t size, flags, table; };
struct ioas_alloc { uint32_t size, flags, ioas; };
struct ioas_range { uint64_t first, last; };
struct ioas_ranges { uint32_t size, ioas, count, reserved; uint64_t ranges, alignment; };
struct ioas_map { uint32_t size, flags, ioas, reserved; uint64_t address, length, io_address; };
struct ioas_unmap { uint32_t size, ioas; uint64_t io_address, length; };

/* The name in /dev/vfio/devices; false if there is none. */
static bool device_name(const vfio *card, char name[static 32])
{
    char path[64];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vfio-dev", card->function);
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        found = !strncmp(entry->d_name, "vfio", 4) && strlen(entry->d_name) < 32;
        if (found)
            strcpy(name, entry->d_name);
    }
    if (folder)
        closedir(folder);
    return found;
}

bool vfio_iommufd_present(const vfio *card)
{
    char name[32];
    return !access("/dev/iommu", F_OK) && device_name(card, name);
}

static int read_ranges(vfio *card)
{
    struct ioas_range found[DMACE_IO_RANGES];
    struct ioas_ranges ranges = {.size = sizeof ranges, .ioas = card->ioas, .count = DMACE_IO_RANGES,
                                 .ranges = (uintptr_t)found};
    if (ioctl(card->iommu, REQUEST_IOAS_RANGES, &ranges) && errno != EMSGSIZE)
        return dmace_fail(-errno, "Reading the ranges of I/O addresses: %s", strerror(errno));
    for (uint32_t index = 0; index < ranges.count && index < DMACE_IO_RANGES; ++index) {
        card->addresses.ranges[index].first = found[index].first;
        card->addresses.ranges[index].last = found[index].last;
        ++card->addresses.count;
    }
    return 0;
}

int vfio_iommufd_open(vfio *card)
{
    char name[32], path[64];
    if (!device_name(card, name))
        return dmace_fail(-ENOENT, "The function %s has no character device: IOMMUFD needs Linux 6.6 with "
                          "CONFIG_VFIO_DEVICE_CDEV", card->function);
    card->iommu = open("/dev/iommu", O_RDWR | O_CLOEXEC);
    if (card->iommu < 0)
        return dmace_fail(-errno, "Opening /dev/iommu: %s", strerror(errno));
    snprintf(path, sizeof path, "/dev/vfio/devices/%s", name);
    card->device = open(path, O_RDWR | O_CLOEXEC);
    if (card->device < 0)
        return dmace_fail(-errno, errno == EBUSY ? "Another process has the function %s: %s, %s" :
                          "The function %s cannot be opened: %s, %s", card->function, path, strerror(errno));
    struct bind bind = {.size = sizeof bind, .iommufd = card->iommu};
    if (ioctl(card->device, REQUEST_BIND, &bind))
        return dmace_fail(-errno, "Binding the function %s to IOMMUFD: %s", card->function, strerror(errno));
    struct ioas_alloc ioas = {.size = sizeof ioas};
    if (ioctl(card->iommu, REQUEST_IOAS_ALLOC, &ioas))
        return dmace_fail(-errno, "Creating an I/O address space: %s", strerror(errno));
    card->ioas = ioas.ioas;
    struct attach attach = {.size = sizeof attach, .table = card->ioas};
    if (ioctl(card->device, REQUEST_ATTACH, &attach))
        return dmace_fail(-errno, "Attaching the function %s to an I/O address space: %s", card->function,
                          strerror(errno));
    return read_ranges(card);
}

int vfio_iommufd_map(vfio *card, void *address, size_t length, uint32_t rights, uint64_t io_address)
{
    struct ioas_map map = {
        .size = sizeof map, .ioas = card->ioas, .address = (uintptr_t)address, .length = length,
        .io_address = io_address,
        .flags = MAP_FIXED_ADDRESS | (rights & DMACE_MAP_READ ? MAP_READABLE : 0) |
            (rights & DMACE_MAP_WRITE ? MAP_WRITABLE : 0)};
    if (!ioctl(card->iommu, REQUEST_IOAS_MAP, &map))
        return 0;
    const int code = -errno;
    if (code == -EFAULT)
        return dmace_fail(code, "IOMMUFD does not map %zu bytes at %p: they must be memory of this process, and a BAR "
                          "of another function needs DMACE_VFIO=container", length, address);
    return dmace_fail(code, "IOMMUFD does not map %zu bytes at %p: %s%s", length, address, strerror(-code),
                      code == -ENOMEM ? " (the limit of locked memory is ulimit -l)" : "");
}

int vfio_iommufd_unmap(vfio *card, uint64_t io_address, size_t length)
{
    struct ioas_unmap unmap = {.size = sizeof unmap, .ioas = card->ioas, .io_address = io_address, .length = length};
    if (ioctl(card->iommu, REQUEST_IOAS_UNMAP, &unmap))
        return dmace_fail(-errno, "IOMMUFD does not unmap %zu bytes at the I/O address %#llx: %s", length,
                          (unsigned long long)io_address, strerror(errno));
    return 0;
}
