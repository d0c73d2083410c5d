/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio.h: what the files of the transport `vfio` share. Sentences of failures are stored with dmace_fail().
 */
#ifndef DMACE_VFIO_H
#define DMACE_VFIO_H

#include "internal.h"

#define DMACE_IO_RANGES 64u

/* A mapping of the IOMMU. */
typedef struct vfio_mapping {
    struct vfio_mapping *next;
    uint64_t io_address;
    size_t length;
    void *view;           /* of a DMA-BUF, mapped into this process, or null */
} vfio_mapping;

/* I/O addresses: ranges that the IOMMU accepts, and those in use, both ascending. */
typedef struct vfio_addresses {
    struct {
        uint64_t first, last;
    } ranges[DMACE_IO_RANGES];
    unsigned count;
    vfio_mapping *mappings;
} vfio_addresses;

typedef struct vfio {
    dmace_transport transport;
    char function[17];
    bool iommufd;         /* not a container */
    int iommu;            /* /dev/vfio/vfio, or /dev/iommu */
    int group;            /* of a container, else -1 */
    int device;
    uint32_t ioas;        /* of iommufd */
    uint64_t config;      /* offsets in the device's file */
    uint64_t bar0;
    uint32_t cycles;      /* offset of the capability with cycles in the configuration space, of a simulated card */
    volatile uint32_t *registers;    /* BAR 0, or null: by pread() and pwrite() */
    char *pages;          /* BAR 2 */
    uint64_t pages_length;
    pthread_mutex_t lock; /* of `addresses` and of mappings */
    vfio_addresses addresses;
} vfio;

/* vfio_addresses.c */
int vfio_address_take(vfio_addresses *addresses, size_t length, vfio_mapping **mapping);
vfio_mapping **vfio_address_find(vfio_addresses *addresses, uint64_t io_address, size_t length);
void vfio_address_free(vfio_mapping **mapping);

/* vfio_container.c, vfio_iommufd.c: opening fills in `iommu`, `device`, and the ranges of `addresses`; vfio.c closes
 * the files, on failure too. */
int vfio_container_open(vfio *card);
int vfio_container_map(vfio *card, void *address, size_t length, uint32_t rights, uint64_t io_address);
int vfio_container_unmap(vfio *card, uint64_t io_address, size_t length);
int vfio_iommufd_open(vfio *card);
int vfio_iommufd_map(vfio *card, void *address, size_t length, uint32_t rights, uint64_t io_address);
int vfio_iommufd_unmap(vfio *card, uint64_t io_address, size_t length);
bool vfio_iommufd_present(const vfio *card);

/* vfio_function.c */
int vfio_check_driver(const vfio *card);
int vfio_group_number(const vfio *card, unsigned *number);
int vfio_function_open(vfio *card);     /* regions, bus mastering, MSI-X */
int vfio_function_reset(vfio *card);
int vfio_function_enable(vfio *card, bool enable);
int vfio_function_interrupt(void *context, uint32_t vector, int eventfd);

/* vfio_cycles.c */
int vfio_cycles(void *context, uint64_t *cycles);
void vfio_find_cycles(vfio *card);      /* sets `transport.cycles` if the card has them */

/* vfio_mapping.c: functions of the transport. */
int vfio_map(void *context, void *address, size_t length, uint32_t rights, uint64_t *io_address);
int vfio_unmap(void *context, uint64_t io_address, size_t length);
int vfio_map_dmabuf(void *context, int fd, uint64_t offset, size_t length, uint32_t rights, uint64_t *io_address);

#endif
