/* SPDX-License-Identifier: Apache-2.0
 *
 * vfio_cycles.c: cycles of a simulated card's clock, from a vendor-specific capability of its configuration space (PCI
 * Express Base 7.9.5), which hardware does not have.
 */
#include "vfio.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <unistd.h>

/* As in sim/vfio/config_space.h. */
#define CYCLES_ID 0xDACEu
#define CYCLES_LOW 8u
#define CYCLES_HIGH 12u

static bool read_config(const vfio *card, uint32_t offset, uint32_t *value)
{
    return pread(card->device, value, 4, (off_t)(card->config + offset)) == 4;
}

int vfio_cycles(void *context, uint64_t *cycles)
{
    const vfio *card = context;
    uint32_t low, high;
    /* The lower half latches the upper one. */
    if (!read_config(card, card->cycles + CYCLES_LOW, &low) || !read_config(card, card->cycles + CYCLES_HIGH, &high))
        return dmace_fail(-EIO, "The configuration space of the function %s cannot be read", card->function);
    *cycles = (uint64_t)high << 32 | low;
    return 0;
}

void vfio_find_cycles(vfio *card)
{
    uint32_t header, vendor, offset = PCI_CFG_SPACE_SIZE;
    for (int left = (PCI_CFG_SPACE_EXP_SIZE - PCI_CFG_SPACE_SIZE) / 8; left && offset >= PCI_CFG_SPACE_SIZE; --left) {
        if (!read_config(card, offset, &header) || !header || !read_config(card, offset + 4, &vendor))
            return;
        if (PCI_EXT_CAP_ID(header) == PCI_EXT_CAP_ID_VNDR && (vendor & 0xFFFF) == CYCLES_ID) {
            card->cycles = offset;
            card->transport.cycles = vfio_cycles;
            return;
        }
        offset = PCI_EXT_CAP_NEXT(header);
    }
}
