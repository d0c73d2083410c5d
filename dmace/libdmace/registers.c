/* SPDX-License-Identifier: Apache-2.0
 *
 * registers.c: accesses to BAR 0, and stores to BAR 2. The DMA engine's registers are at offset 0.
 */
#include "internal.h"

#include <errno.h>

_Static_assert(DMACE_BAR0_DMA == 0, "Offsets in dmace.h are offsets in BAR 0.");

int dmace_read(dmace_device *device, uint32_t offset, uint32_t *value)
{
    const int code = device->transport->read(device->context, offset, value);
    return code ? dmace_fail_transport(device, code, "Reading a register") : 0;
}

int dmace_write(dmace_device *device, uint32_t offset, uint32_t value)
{
    const int code = device->transport->write(device->context, offset, value);
    return code ? dmace_fail_transport(device, code, "Writing a register") : 0;
}

int dmace_write_through(dmace_device *device, uint32_t offset, uint32_t value)
{
    uint32_t ignored;
    const int code = dmace_write(device, offset, value);
    return code ? code : dmace_read(device, DMACE_DMA_ID_OFFSET, &ignored);
}

int dmace_write_pair(dmace_device *device, uint32_t offset, uint64_t value)
{
    const int code = dmace_write(device, offset, (uint32_t)value);
    return code ? code : dmace_write(device, offset + 4, (uint32_t)(value >> 32));
}

int dmace_await_zero(dmace_device *device, uint32_t offset, uint32_t mask, const char *doing)
{
    const int64_t deadline = dmace_deadline(device->limit);
    unsigned calls = 0;
    for (;;) {
        const bool last = dmace_now() >= deadline;
        uint32_t value;
        const int code = dmace_read(device, offset, &value);
        if (code)
            return code;
        if (!(value & mask))
            return 0;
        if (last)
            return dmace_fail(-ETIMEDOUT, "%s: the card is still at work after %lld ms", doing,
                              (long long)(device->limit / 1000000));
        dmace_stall(&calls);
    }
}

static int check_offset(uint32_t offset)
{
    if (offset % 4 || offset >= DMACE_BAR0_BYTES)
        return dmace_fail(-EINVAL, "Offset of a register must be a multiple of 4 below %#x, not %#x", DMACE_BAR0_BYTES,
                          offset);
    return 0;
}

int dmace_read_register(dmace_device *device, uint32_t offset, uint32_t *value)
{
    if (!device || !value)
        return dmace_fail(-EINVAL, "dmace_read_register() needs a device and an address for the value");
    const int code = check_offset(offset);
    return code ? code : dmace_read(device, offset, value);
}

int dmace_write_register(dmace_device *device, uint32_t offset, uint32_t value)
{
    if (!device)
        return dmace_fail(-EINVAL, "dmace_write_register() needs a device");
    const int code = check_offset(offset);
    return code ? code : dmace_write(device, offset, value);
}

int dmace_store(dmace_device *device, uint64_t offset, const void *data, size_t size)
{
    if (!device || !data)
        return dmace_fail(-EINVAL, "dmace_store() needs a device and data");
    if ((size != 4 && size != 8 && size != 16) || offset % size)
        return dmace_fail(-EINVAL, "A store must have 4, 8 or 16 bytes at a multiple of its size, not %zu at %#llx",
                          size, (unsigned long long)offset);
    DMACE_RELEASE();
    const int code = device->transport->store(device->context, offset, data, size);
    return code ? dmace_fail_transport(device, code, "Storing to a doorbell page") : 0;
}
