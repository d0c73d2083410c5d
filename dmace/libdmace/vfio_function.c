/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_function.c: the PCI function behind VFIO: its driver, its BARs, its configuration space, and MSI-X.
 */
#include "vfio.h"

#include <errno.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Endpoint's and adapter's registers; the MSI-X table behind them belongs to the kernel. */
#define REGISTER_BYTES DMACE_BAR0_MSIX

/* The last part of a link in the function's folder of sysfs; false if there is no such link. */
static bool read_link(const vfio *card, const char *link, char *name, size_t size)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", card->function, link);
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = 0;
    const char *slash = strrchr(target, '/'), *last = slash ? slash + 1 : target;
    if (strlen(last) >= size)
        return false;
    strcpy(name, last);
    return true;
}

int vfio_check_driver(const vfio *card)
{
    char path[64], driver[64], unbind[64] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", card->function);
    if (access(path, F_OK))
        return dmace_fail(-ENOENT, "There is no PCI function %s", card->function);
    const bool bound = read_link(card, "driver", driver, sizeof driver);
    if (bound && strstr(driver, "vfio"))
        return 0;
    if (bound)
        snprintf(unbind, sizeof unbind, "echo %s > driver/unbind; ", card->function);
    return dmace_fail(-ENOENT, "The function %s must be bound to vfio-pci, not to %s: as root, `modprobe vfio-pci; "
                      "cd %s; echo vfio-pci > driver_override; %secho %s > /sys/bus/pci/drivers_probe`", card->function,
                      bound ? driver : "no driver", path, unbind, card->function);
}

int vfio_group_number(const vfio *card, unsigned *number)
{
    char name[64];
    if (!read_link(card, "iommu_group", name, sizeof name))
        return dmace_fail(-ENOENT, "The function %s has no IOMMU group: enable the IOMMU in the firmware and in the "
                          "kernel (intel_iommu=on)", card->function);
    *number = (unsigned)strtoul(name, NULL, 10);
    return 0;
}

static int read_region(vfio *card, uint32_t index, const char *name, uint64_t least, struct vfio_region_info *info)
{
    *info = (struct vfio_region_info){.argsz = sizeof *info, .index = index};
    if (ioctl(card->device, VFIO_DEVICE_GET_REGION_INFO, info))
        return dmace_fail(-errno, "Reading the size of %s: %s", name, strerror(errno));
    if (info->size < least)
        return dmace_fail(-ENODEV, "Size of %s must be at least %llu bytes, not %llu: the function %s is no dmace card",
                          name, (unsigned long long)least, (unsigned long long)info->size, card->function);
    return 0;
}

int vfio_function_enable(vfio *card, bool enable)
{
    uint16_t command;
    if (pread(card->device, &command, 2, (off_t)(card->config + PCI_COMMAND)) != 2)
        return dmace_fail(-EIO, "The configuration space of the function %s cannot be read", card->function);
    const uint16_t wanted = enable ? command | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER :
        command & (uint16_t)~PCI_COMMAND_MASTER;
    if (wanted != command && pwrite(card->device, &wanted, 2, (off_t)(card->config + PCI_COMMAND)) != 2)
        return dmace_fail(-EIO, "The configuration space of the function %s cannot be written", card->function);
    return 0;
}

/* Lets `count` vectors from `first` on signal eventfds. Returns as the ioctl. */
static int set_vectors(vfio *card, uint32_t first, uint32_t count, const int32_t *eventfds)
{
    char space[sizeof(struct vfio_irq_set) + DMACE_MAX_VECTORS * sizeof(int32_t)] __attribute__((aligned(8)));
    struct vfio_irq_set *set = (void *)space;
    *set = (struct vfio_irq_set){
        .argsz = (uint32_t)(sizeof *set + count * sizeof *eventfds), .index = VFIO_PCI_MSIX_IRQ_INDEX, .start = first,
        .count = count, .flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER};
    memcpy(set->data, eventfds, count * sizeof *eventfds);
    return ioctl(card->device, VFIO_DEVICE_SET_IRQS, set);
}

/* Enables as many vectors as the system has for the function, all without an eventfd. */
static void enable_vectors(vfio *card)
{
    struct vfio_irq_info info = {.argsz = sizeof info, .index = VFIO_PCI_MSIX_IRQ_INDEX};
    int32_t none[DMACE_MAX_VECTORS];
    if (ioctl(card->device, VFIO_DEVICE_GET_IRQ_INFO, &info) || !info.count)
        return;
    for (unsigned vector = 0; vector < DMACE_MAX_VECTORS; ++vector)
        none[vector] = -1;
    uint32_t count = info.count < DMACE_MAX_VECTORS ? info.count : DMACE_MAX_VECTORS;
    int granted;
    while (count && (granted = set_vectors(card, 0, count, none)))
        count = granted > 0 && (uint32_t)granted < count ? (uint32_t)granted : 0;
    card->transport.vectors = count;
}

int vfio_function_interrupt(void *context, uint32_t vector, int eventfd)
{
    vfio *card = context;
    if (vector >= card->transport.vectors)
        return dmace_fail(-EINVAL, "Vector must be below %u, not %u", card->transport.vectors, vector);
    const int32_t fd = eventfd;
    if (set_vectors(card, vector, 1, &fd))
        return dmace_fail(-errno, "Connecting vector %u: %s", vector, strerror(errno));
    return 0;
}

int vfio_function_reset(vfio *card)
{
    if (ioctl(card->device, VFIO_DEVICE_RESET))
        return dmace_fail(-errno, "Resetting the function %s: %s", card->function, strerror(errno));
    return vfio_function_enable(card, true);
}

int vfio_function_open(vfio *card)
{
    struct vfio_region_info config, bar0, bar2;
    int code;
    if ((code = read_region(card, VFIO_PCI_CONFIG_REGION_INDEX, "the configuration space", 256, &config)) ||
        (code = read_region(card, VFIO_PCI_BAR0_REGION_INDEX, "BAR 0", DMACE_BAR0_BYTES, &bar0)) ||
        (code = read_region(card, VFIO_PCI_BAR2_REGION_INDEX, "BAR 2", DMACE_DMA_DOORBELL_PAGE, &bar2)))
        return code;
    card->config = config.offset;
    card->bar0 = bar0.offset;
    if ((code = vfio_function_enable(card, true)))
        return code;
    if (bar0.flags & VFIO_REGION_INFO_FLAG_MMAP) {
        void *data = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, card->device,
                          (off_t)bar0.offset);
        card->registers = data == MAP_FAILED ? NULL : data;
    }
    void *pages = mmap(NULL, bar2.size, PROT_READ | PROT_WRITE, MAP_SHARED, card->device, (off_t)bar2.offset);
    if (pages == MAP_FAILED)
        return dmace_fail(-errno, "BAR 2 of the function %s cannot be mapped, and doorbells need stores of 16 bytes: "
                          "%s", card->function, strerror(errno));
    card->pages = pages;
    card->pages_length = bar2.size;
    enable_vectors(card);
    return 0;
}
