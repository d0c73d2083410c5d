/* SPDX-License-Identifier: Apache-2.0
 *
 * dmace_transport.h: how libdmace reaches a card. A transport carries accesses to the card's registers and doorbell
 * pages, makes memory reachable for its DMA, and delivers its interrupts.
 *
 * libdmace contains the transport `vfio`. The simulator is a shared library that exports dmace_transport_open(); any
 * other program may hand its own table to dmace_open_transport().
 *
 * All functions may be called from several threads at once. They return 0, or a negative errno with a sentence in the
 * buffer that `error` of the context's open function was given, or in errno's words if there is none. Functions that are
 * null are not supported: libdmace then returns -ENOTSUP.
 */
#ifndef DMACE_TRANSPORT_H
#define DMACE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; dmace_transport.version must be equal. */
#define DMACE_TRANSPORT_VERSION 1u

/* Rights of the card in memory that is mapped for it. */
#define DMACE_MAP_READ 1u
#define DMACE_MAP_WRITE 2u

typedef struct dmace_transport {
    uint32_t version;

    /* One word for messages: "vfio", "sim". */
    const char *name;

    /* A 32-bit register in BAR 0, at a multiple of 4. A read returns after every earlier write and store has arrived. */
    int (*read)(void *context, uint32_t offset, uint32_t *value);
    int (*write)(void *context, uint32_t offset, uint32_t value);

    /* One store of 4, 8 or 16 bytes to BAR 2, at a multiple of its size: one PCIe write request. */
    int (*store)(void *context, uint64_t offset, const void *data, size_t size);

    /* The doorbell page at an offset in BAR 2 as memory to store to, 4 KiB; null if pages cannot be mapped. It is
     * valid until close. */
    void *(*page)(void *context, uint64_t offset);

    /* Let the card reach [address, address + length) of this process, both multiples of 4096, at an I/O address of the
     * transport's choice, a multiple of 4096. `rights`: DMACE_MAP_READ, DMACE_MAP_WRITE. The memory stays mapped and must
     * stay valid until unmap, which takes exactly what a map gave. After unmap has returned, the card cannot reach it. */
    int (*map)(void *context, void *address, size_t length, uint32_t rights, uint64_t *io_address);
    int (*unmap)(void *context, uint64_t io_address, size_t length);

    /* The same for a span of a DMA-BUF. */
    int (*map_dmabuf)(void *context, int fd, uint64_t offset, size_t length, uint32_t rights, uint64_t *io_address);

    /* Memory of the card's side, where it cannot reach that of this process (a board at a serial line). With these, map
     * is null. Addresses are multiples of 4096. */
    int (*allocate)(void *context, size_t length, uint64_t *io_address);
    int (*release)(void *context, uint64_t io_address, size_t length);
    int (*load)(void *context, uint64_t io_address, void *data, size_t length);
    int (*save)(void *context, uint64_t io_address, const void *data, size_t length);

    /* Number of MSI-X vectors; let a vector signal an eventfd, which stays the caller's, or none with -1. */
    uint32_t vectors;
    int (*interrupt)(void *context, uint32_t vector, int eventfd);

    /* Function-level reset; registers have their reset values afterwards, memory stays mapped, and interrupts stay
     * with their eventfds. */
    int (*reset)(void *context);

    /* Cycles of the card's clock in which it was at work; only simulators know. */
    int (*cycles)(void *context, uint64_t *cycles);

    /* The sentence of this thread's latest failure, or null. */
    const char *(*error)(void *context);

    /* The card is reset, nothing is in flight, and all memory is unmapped afterwards. */
    void (*close)(void *context);
} dmace_transport;

/* Exported by a transport that is a shared library. `argument`: what the user wrote behind the library's path and a
 * comma in the name of the device, or "". On failure a sentence is written to `error`, of `size` bytes. */
int dmace_transport_open(const char *argument, const dmace_transport **transport, void **context, char *error,
                         size_t size);
typedef int dmace_transport_open_function(const char *argument, const dmace_transport **transport, void **context,
                                          char *error, size_t size);

#ifdef __cplusplus
}
#endif

#endif
