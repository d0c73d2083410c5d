/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_mapping.c: memory of this process, and DMA-BUFs, in the IOMMU's tables.
 */
#include "vfio.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int map_at(vfio *card, void *address, size_t length, uint32_t rights, uint64_t io_address)
{
    return (card->iommufd ? vfio_iommufd_map : vfio_container_map)(card, address, length, rights, io_address);
}

static int map_view(vfio *card, void *address, size_t length, uint32_t rights, void *view, uint64_t *io_address)
{
    vfio_mapping *mapping;
    pthread_mutex_lock(&card->lock);
    int code = vfio_address_take(&card->addresses, length, &mapping);
    if (!code && (code = map_at(card, address, length, rights, mapping->io_address))) {
        vfio_address_free(vfio_address_find(&card->addresses, mapping->io_address, length));
    } else if (!code) {
        mapping->view = view;
        *io_address = mapping->io_address;
    }
    pthread_mutex_unlock(&card->lock);
    return code;
}

int vfio_map(void *context, void *address, size_t length, uint32_t rights, uint64_t *io_address)
{
    return map_view(context, address, length, rights, NULL, io_address);
}

int vfio_unmap(void *context, uint64_t io_address, size_t length)
{
    vfio *card = context;
    pthread_mutex_lock(&card->lock);
    vfio_mapping **found = vfio_address_find(&card->addresses, io_address, length);
    int code;
    if (!*found)
        code = dmace_fail(-ENOENT, "No memory of %zu bytes is mapped at the I/O address %#llx", length,
                          (unsigned long long)io_address);
    else
        code = (card->iommufd ? vfio_iommufd_unmap : vfio_container_unmap)(card, io_address, length);
    if (!code) {
        if ((*found)->view)
            munmap((*found)->view, length);
        vfio_address_free(found);
    }
    pthread_mutex_unlock(&card->lock);
    return code;
}

/* A container maps pages of a device that this process has mapped. IOMMUFD does not. */
int vfio_map_dmabuf(void *context, int fd, uint64_t offset, size_t length, uint32_t rights, uint64_t *io_address)
{
    vfio *card = context;
    if (card->iommufd)
        return dmace_fail(-ENOTSUP, "IOMMUFD cannot map a DMA-BUF here: set DMACE_VFIO=container");
    const int protection = (rights & DMACE_MAP_READ ? PROT_READ : 0) | (rights & DMACE_MAP_WRITE ? PROT_WRITE : 0);
    void *view = mmap(NULL, length, protection, MAP_SHARED, fd, (off_t)offset);
    if (view == MAP_FAILED)
        return dmace_fail(errno == ENODEV ? -ENOTSUP : -errno, "The DMA-BUF cannot be mapped into this process, which "
                          "the IOMMU's container needs: %s", strerror(errno));
    const int code = map_view(card, view, length, rights, view, io_address);
    if (code)
        munmap(view, length);
    return code;
}
