/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_vfio.c: system calls of a test double of VFIO.
 */
#include "fake_vfio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dmace.h"
#include "dmace_card.h"

#define FUNCTION "/sys/bus/pci/devices/0000:ab:00.0"

fake_vfio_state fake_vfio;

static int file = -1;
static uint8_t *memory;       /* the file */
static char folder[] = "/tmp/fake_vfio_XXXXXX";
static int fds[16];           /* what the library has opened */

uint8_t *fake_vfio_file(void)
{
    return memory;
}

void fake_vfio_reset(void)
{
    if (file < 0) {
        file = memfd_create("fake_vfio", MFD_CLOEXEC);
        if (ftruncate(file, 2 << 20))
            abort();
        memory = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    memset(memory, 0, 2 << 20);
    const struct { uint32_t offset, value; } registers[] = {
        {DMACE_DMA_ID_OFFSET, DMACE_DMA_ID_RESET}, {DMACE_DMA_VERSION_OFFSET, DMACE_DMA_VERSION_RESET},
        {DMACE_DMA_SIZES_OFFSET, 3 | 4 << 4 | 3 << 8 | 3 << 12 | 4 << 16 | 3 << 20 | 8 << 24 | 1 << 28},
        {DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_ID_OFFSET, DMACE_ENDPOINT_ID_RESET},
        {DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_VERSION_OFFSET, 1},
        {DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_SIZES_OFFSET, 8 << DMACE_ENDPOINT_SIZES_DMA_PAGES_SHIFT},
        {DMACE_BAR0_PCIE + DMACE_PCIE_ID_OFFSET, DMACE_PCIE_ID_RESET}, {DMACE_BAR0_PCIE + DMACE_PCIE_VERSION_OFFSET, 1},
        {DMACE_BAR0_PCIE + DMACE_PCIE_SIZES_OFFSET, 6u << DMACE_PCIE_SIZES_VECTORS_SHIFT},
    };
    for (size_t i = 0; i < sizeof registers / sizeof *registers; ++i)
        memcpy(memory + FAKE_BAR0 + registers[i].offset, &registers[i].value, 4);
    fake_vfio = (fake_vfio_state){
        .present = true, .driver = "vfio-pci", .viable = true, .has_group = true, .bar0_bytes = 1 << 16,
        .granted = FAKE_VFIO_VECTORS, .range_count = 2,
        .ranges = {{0, 0xfedfffff}, {0xfef00000, UINT64_C(0x7fffffffff)}}};
}

static int opened(void)
{
    ++fake_vfio.open_files;
    const int fd = fcntl(file, F_DUPFD_CLOEXEC, 100);
    fds[fd % 16] = fd;
    return fd;
}

int __real_close(int fd);
int __wrap_close(int fd)
{
    if (fd >= 100 && fds[fd % 16] == fd) {
        --fake_vfio.open_files;
        fds[fd % 16] = 0;
    }
    return __real_close(fd);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (!fake_vfio.present || strncmp(path, "/dev/", 5))
        return __real_open(path, flags);
    const bool container = !strcmp(path, "/dev/vfio/vfio"), iommu = !strcmp(path, "/dev/iommu");
    if (container ? !fake_vfio.has_group : iommu ? false : fake_vfio.open_error) {
        errno = container ? ENOENT : fake_vfio.open_error;
        return -1;
    }
    if (!container && !iommu && strcmp(path, "/dev/vfio/7") && strcmp(path, "/dev/vfio/devices/vfio3"))
        abort();
    return opened();
}

ssize_t __real_readlink(const char *path, char *to, size_t size);
ssize_t __wrap_readlink(const char *path, char *to, size_t size)
{
    const char *target = NULL;
    if (!strcmp(path, FUNCTION "/driver") && fake_vfio.driver)
        target = fake_vfio.driver;
    if (!strcmp(path, FUNCTION "/iommu_group") && fake_vfio.has_group)
        target = "../../../kernel/iommu_groups/7";
    if (!target) {
        errno = ENOENT;
        return -1;
    }
    return snprintf(to, size, "../%s", target);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    if (!fake_vfio.present)
        return __real_access(path, mode);
    return !strcmp(path, "/dev/vfio/vfio") && !fake_vfio.has_group ? -1 : 0;
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    char name[64];
    if (strcmp(path, FUNCTION "/vfio-dev"))
        return __real_opendir(path);
    if (!mkdtemp(strcpy(folder, "/tmp/fake_vfio_XXXXXX")))
        abort();
    snprintf(name, sizeof name, "%s/vfio3", folder);
    if (mkdir(name, 0700))
        abort();
    DIR *made = __real_opendir(folder);
    return made;
}

int __real_closedir(DIR *directory);
int __wrap_closedir(DIR *directory)
{
    char name[64];
    snprintf(name, sizeof name, "%s/vfio3", folder);
    rmdir(name);
    rmdir(folder);
    return __real_closedir(directory);
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static int map(uint64_t io, uint64_t length, uint64_t address, uint32_t flags)
{
    if (fake_vfio.map_error)
        return fail(fake_vfio.map_error);
    for (unsigned i = 0; i < fake_vfio.map_count; ++i)
        if (io < fake_vfio.maps[i].io + fake_vfio.maps[i].length && fake_vfio.maps[i].io < io + length)
            return fail(EEXIST);
    bool valid = false;
    for (unsigned i = 0; i < fake_vfio.range_count; ++i)
        valid |= io >= fake_vfio.ranges[i][0] && io + length - 1 <= fake_vfio.ranges[i][1];
    if (!valid || fake_vfio.map_count == FAKE_VFIO_MAPS)
        return fail(EINVAL);
    const unsigned at = fake_vfio.map_count++;
    fake_vfio.maps[at].io = io;
    fake_vfio.maps[at].length = length;
    fake_vfio.maps[at].address = address;
    fake_vfio.maps[at].flags = flags;
    return 0;
}

static int unmap(uint64_t io, uint64_t length)
{
    for (unsigned i = 0; i < fake_vfio.map_count; ++i)
        if (fake_vfio.maps[i].io == io && fake_vfio.maps[i].length == length) {
            fake_vfio.maps[i] = fake_vfio.maps[--fake_vfio.map_count];
            return 0;
        }
    return fail(ENOENT);
}

static int set_irqs(const struct vfio_irq_set *set)
{
    const int32_t *found = (const void *)set->data;
    if (set->index != VFIO_PCI_MSIX_IRQ_INDEX)
        abort();
    if (set->start + set->count > fake_vfio.granted)
        return set->count > 1 ? (int)fake_vfio.granted : fail(EINVAL);
    memcpy(fake_vfio.eventfds + set->start, found, set->count * 4);
    return 0;
}

static int region(struct vfio_region_info *info)
{
    info->flags = fake_vfio.no_mmap ? 3 : 7;
    info->size = info->index == VFIO_PCI_CONFIG_REGION_INDEX ? 256 :
        info->index == VFIO_PCI_BAR0_REGION_INDEX ? fake_vfio.bar0_bytes : FAKE_BAR2_BYTES;
    info->offset = info->index == VFIO_PCI_CONFIG_REGION_INDEX ? FAKE_CONFIG :
        info->index == VFIO_PCI_BAR0_REGION_INDEX ? FAKE_BAR0 : FAKE_BAR2;
    return 0;
}

static int container_info(struct vfio_iommu_type1_info *info)
{
    const uint32_t head = sizeof *info, size = (uint32_t)(head + sizeof(struct vfio_iommu_type1_info_cap_iova_range) +
                                                          fake_vfio.range_count * 16);
    const uint32_t given = info->argsz;
    info->argsz = fake_vfio.old_kernel ? head : size;
    if (fake_vfio.old_kernel || given < size)
        return 0;
    struct vfio_iommu_type1_info_cap_iova_range *found = (void *)((char *)info + head);
    info->flags = VFIO_IOMMU_INFO_CAPS;
    info->cap_offset = head;
    found->header.id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE;
    found->header.next = 0;
    found->nr_iovas = fake_vfio.range_count;
    memcpy(found->iova_ranges, fake_vfio.ranges, fake_vfio.range_count * 16);
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    uint32_t *words = argument;
    uint64_t *longs = argument;
    (void)fd;
    switch (request) {
    case VFIO_GET_API_VERSION: return VFIO_API_VERSION;
    case VFIO_CHECK_EXTENSION: return 1;
    case VFIO_GROUP_GET_STATUS: words[1] = fake_vfio.viable; return 0;
    case VFIO_GROUP_SET_CONTAINER: case VFIO_SET_IOMMU: return 0;
    case VFIO_GROUP_GET_DEVICE_FD: return opened();
    case VFIO_IOMMU_GET_INFO: return container_info(argument);
    case VFIO_DEVICE_GET_REGION_INFO: return region(argument);
    case VFIO_DEVICE_GET_IRQ_INFO: ((struct vfio_irq_info *)argument)->count = FAKE_VFIO_VECTORS; return 0;
    case VFIO_DEVICE_SET_IRQS: return set_irqs(argument);
    case VFIO_DEVICE_RESET: ++fake_vfio.resets; return 0;
    case VFIO_IOMMU_MAP_DMA: {
        const struct vfio_iommu_type1_dma_map *found = argument;
        return map(found->iova, found->size, found->vaddr, found->flags);
    }
    case VFIO_IOMMU_UNMAP_DMA: {
        const struct vfio_iommu_type1_dma_unmap *found = argument;
        return unmap(found->iova, found->size);
    }
    case _IO(';', 0x81): words[2] = 5; return 0;
    case _IO(';', 0x84):
        if (words[1] != 5)
            abort();
        words[2] = fake_vfio.range_count;
        memcpy((void *)(uintptr_t)longs[2], fake_vfio.ranges, fake_vfio.range_count * 16);
        return 0;
    case _IO(';', 0x85): return map(longs[4], longs[3], longs[2], words[1]);
    case _IO(';', 0x86): return unmap(longs[1], longs[2]);
    case _IO(';', 100 + 18): words[3] = 1; return 0;
    case _IO(';', 100 + 19): return words[2] == 5 ? 0 : fail(ENOENT);
    }
    abort();
}
