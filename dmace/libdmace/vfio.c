/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio.c: the transport of a PCI function that is bound to vfio-pci.
 */
#include "vfio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int read_register(void *context, uint32_t offset, uint32_t *value)
{
    vfio *card = context;
    if (card->registers && offset < DMACE_BAR0_MSIX)
        *value = card->registers[offset / 4];
    else if (pread(card->device, value, 4, (off_t)(card->bar0 + offset)) != 4)
        return dmace_fail(-EIO, "The register at %#x of the function %s cannot be read", offset, card->function);
    return 0;
}

static int write_register(void *context, uint32_t offset, uint32_t value)
{
    vfio *card = context;
    if (card->registers && offset < DMACE_BAR0_MSIX)
        card->registers[offset / 4] = value;
    else if (pwrite(card->device, &value, 4, (off_t)(card->bar0 + offset)) != 4)
        return dmace_fail(-EIO, "The register at %#x of the function %s cannot be written", offset, card->function);
    return 0;
}

static int store(void *context, uint64_t offset, const void *data, size_t size)
{
    vfio *card = context;
    uint64_t words[2] = {0, 0};
    if ((size != 4 && size != 8 && size != 16) || offset % size || offset >= card->pages_length)
        return dmace_fail(-EINVAL, "A store to BAR 2 must be 4, 8 or 16 aligned bytes below %#llx, not %zu at %#llx",
                          (unsigned long long)card->pages_length, size, (unsigned long long)offset);
    memcpy(words, data, size);
    volatile char *to = card->pages + offset;
    if (size == 16)
        DMACE_STORE_16(to, words[0], words[1]);
    else if (size == 8)
        *(volatile uint64_t *)to = words[0];
    else
        *(volatile uint32_t *)to = (uint32_t)words[0];
    return 0;
}

static void *page(void *context, uint64_t offset)
{
    vfio *card = context;
    return offset < card->pages_length ? card->pages + offset : NULL;
}

static int reset(void *context)
{
    return vfio_function_reset(context);
}

static const char *error(void *context)
{
    (void)context;
    return dmace_error();
}

static void close_card(void *context)
{
    vfio *card = context;
    if (card->pages) {      /* it was opened completely */
        vfio_function_enable(card, false);
        vfio_function_reset(card);
        vfio_function_enable(card, false);
    }
    while (card->addresses.mappings)
        if (vfio_unmap(card, card->addresses.mappings->io_address, card->addresses.mappings->length))
            vfio_address_free(&card->addresses.mappings);       /* closing the IOMMU's file ends the mapping */
    if (card->registers)
        munmap((void *)(uintptr_t)card->registers, DMACE_BAR0_MSIX);
    if (card->pages)
        munmap(card->pages, card->pages_length);
    if (card->device >= 0)
        close(card->device);
    if (card->group >= 0)
        close(card->group);
    if (card->iommu >= 0)
        close(card->iommu);
    pthread_mutex_destroy(&card->lock);
    free(card);
}

static int choose(vfio *card)
{
    const char *wanted = getenv("DMACE_VFIO");
    if (wanted && *wanted && strcmp(wanted, "container") && strcmp(wanted, "iommufd"))
        return dmace_fail(-EINVAL, "DMACE_VFIO must be container or iommufd, not %s", wanted);
    if (wanted && *wanted)
        card->iommufd = !strcmp(wanted, "iommufd");
    else
        card->iommufd = access("/dev/vfio/vfio", F_OK) && vfio_iommufd_present(card);
    return 0;
}

int dmace_vfio_open(const char *function, const dmace_transport **transport, void **context)
{
    if (!dmace_is_function(function))
        return dmace_fail(-EINVAL, "Name of a function must be DDDD:BB:DD.F, not %s", function);
    if (sysconf(_SC_PAGESIZE) != DMACE_PAGE)
        return dmace_fail(-ENOTSUP, "Pages of this machine must have %u bytes, not %ld", DMACE_PAGE,
                          sysconf(_SC_PAGESIZE));
    vfio *card = calloc(1, sizeof *card);
    if (!card)
        return dmace_fail(-ENOMEM, "No memory for a transport");
    *card = (vfio){
        .iommu = -1, .group = -1, .device = -1,
        .transport = {.version = DMACE_TRANSPORT_VERSION, .name = "vfio", .read = read_register,
                      .write = write_register, .store = store, .page = page, .map = vfio_map, .unmap = vfio_unmap,
                      .map_dmabuf = vfio_map_dmabuf,
                      .interrupt = vfio_function_interrupt, .reset = reset, .error = error, .close = close_card}};
    strncpy(card->function, function, sizeof card->function - 1);
    pthread_mutex_init(&card->lock, NULL);
    int code;
    if ((code = vfio_check_driver(card)) || (code = choose(card)) ||
        (code = card->iommufd ? vfio_iommufd_open(card) : vfio_container_open(card)) ||
        (code = vfio_function_open(card))) {
        char kept[512];
        strncpy(kept, dmace_error(), sizeof kept - 1);
        kept[sizeof kept - 1] = 0;
        close_card(card);
        return dmace_fail(code, "%s", kept);
    }
    vfio_find_cycles(card);
    *transport = &card->transport;
    *context = card;
    return 0;
}
