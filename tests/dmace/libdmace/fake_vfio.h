/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_vfio.h: a test double of Linux's VFIO with one function, 0000:ab:00.0. The linker redirects the system calls of
 * the library to it (--wrap). Registers are memory without function.
 */
#ifndef FAKE_VFIO_H
#define FAKE_VFIO_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_VFIO_MAPS = 16, FAKE_VFIO_VECTORS = 6 };

/* Offsets in the function's file. */
enum { FAKE_CONFIG = 0, FAKE_BAR0 = 0x10000, FAKE_BAR2 = 0x100000, FAKE_BAR2_BYTES = 8 * 4096 };

typedef struct fake_vfio_state {
    bool present;             /* else system calls are passed on */
    const char *driver;       /* or null */
    int open_error;           /* of the group, or of the character device */
    bool viable, old_kernel, no_mmap, has_group;
    uint32_t bar0_bytes, granted;   /* vectors */
    int map_error;
    struct { uint64_t io, length, address; uint32_t flags; } maps[FAKE_VFIO_MAPS];
    unsigned map_count, resets, open_files;
    int eventfds[FAKE_VFIO_VECTORS];
    uint64_t ranges[4][2];
    unsigned range_count;
} fake_vfio_state;

extern fake_vfio_state fake_vfio;

void fake_vfio_reset(void);            /* the state of a usable function */
uint8_t *fake_vfio_file(void);         /* the function's file as memory */

#endif
