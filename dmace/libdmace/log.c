/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: the card's error log, and the entries that the library has read from it in search of a queue's.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

/* With the device's lock held. Returns 1, or 0 if the log is empty. */
static int pop(dmace_device *device, dmace_log_entry *entry)
{
    uint32_t value;
    int code = dmace_read(device, DMACE_DMA_ERROR_LOG_OFFSET, &value);
    if (code || !(value & DMACE_DMA_ERROR_LOG_VALID_MASK))
        return code;
    entry->queue = FIELD(value, DMACE_DMA_ERROR_LOG_QUEUE);
    entry->status = (int)FIELD(value, DMACE_DMA_ERROR_LOG_STATUS);
    entry->taken = false;
    if ((code = dmace_read(device, DMACE_DMA_ERROR_LOG_COUNT_OFFSET, &entry->count)) ||
        (code = dmace_write(device, DMACE_DMA_ERROR_LOG_POP_OFFSET, DMACE_DMA_ERROR_LOG_POP_POP_MASK)))
        return code;
    return 1;
}

static void remove_oldest(dmace_device *device)
{
    memmove(device->log, device->log + 1, --device->log_length * sizeof *device->log);
}

/* Fills `entry` with the oldest entry of a queue that was not taken before; it stays in the log for dmace_pop_log().
 * Returns 1, or 0 if there is none. */
int dmace_log_take(dmace_device *device, uint32_t queue, dmace_log_entry *entry)
{
    int code = 0;
    pthread_mutex_lock(&device->lock);
    for (unsigned count = 0; count < device->info.queues; ++count) {
        dmace_log_entry found;
        if ((code = pop(device, &found)) <= 0)
            break;
        if (device->log_length == DMACE_LOG_LENGTH)
            remove_oldest(device);
        device->log[device->log_length++] = found;
    }
    if (code >= 0) {
        code = 0;
        for (unsigned index = 0; index < device->log_length && !code; ++index) {
            dmace_log_entry *found = &device->log[index];
            if (found->queue != queue || found->taken)
                continue;
            found->taken = true;
            *entry = *found;
            code = 1;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return code;
}

int dmace_pop_log(dmace_device *device, uint32_t *queue, int *status, uint32_t *count)
{
    if (!device || !queue || !status || !count)
        return dmace_fail(-EINVAL, "dmace_pop_log() needs a device and addresses for the entry");
    dmace_log_entry entry;
    int code = 1;
    pthread_mutex_lock(&device->lock);
    if (device->log_length) {
        entry = device->log[0];
        remove_oldest(device);
    } else {
        code = pop(device, &entry);
    }
    pthread_mutex_unlock(&device->lock);
    if (code == 1) {
        *queue = entry.queue;
        *status = entry.status;
        *count = entry.count;
    }
    return code;
}
