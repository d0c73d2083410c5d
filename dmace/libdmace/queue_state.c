/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_state.c: state and counters of a queue, from the card's registers.
 */
#include "internal.h"

#include <errno.h>

static int select_queue(dmace_queue_handle *queue)
{
    return dmace_write(queue->device, DMACE_DMA_QUEUE_SELECT_OFFSET, queue->number);
}

/* Result and count belong together: the result is the same before and after. */
int dmace_queue_read_locked(dmace_queue_handle *queue, dmace_queue_registers *found)
{
    dmace_device *device = queue->device;
    uint32_t again;
    int code = select_queue(queue);
    if (code || (code = dmace_read(device, DMACE_DMA_QUEUE_RESULT_OFFSET, &again)))
        return code;
    do {
        found->result = again;
        if ((code = dmace_read(device, DMACE_DMA_QUEUE_STATE_OFFSET, &found->state)) ||
            (code = dmace_read(device, DMACE_DMA_QUEUE_COUNT_OFFSET, &found->count)) ||
            (code = dmace_read(device, DMACE_DMA_QUEUE_RESULT_OFFSET, &again)))
            return code;
    } while (again != found->result);
    return 0;
}

int dmace_queue_read(dmace_queue_handle *queue, dmace_queue_registers *registers)
{
    pthread_mutex_lock(&queue->device->lock);
    const int code = dmace_queue_read_locked(queue, registers);
    pthread_mutex_unlock(&queue->device->lock);
    return code;
}

static int read_snapshot(dmace_queue_handle *queue, dmace_queue_stats *stats, uint32_t *requests, uint32_t *failed)
{
    dmace_device *device = queue->device;
    uint32_t low, high, segments, stalls;
    int code = select_queue(queue);
    if (code || (code = dmace_write(device, DMACE_DMA_QUEUE_SNAPSHOT_OFFSET, DMACE_DMA_QUEUE_SNAPSHOT_TAKE_MASK)) ||
        (code = dmace_await_zero(device, DMACE_DMA_QUEUE_SNAPSHOT_OFFSET, DMACE_DMA_QUEUE_SNAPSHOT_BUSY_MASK,
                                 "Copying the counters of a queue")) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_REQUESTS_OFFSET, requests)) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_FAILED_OFFSET, failed)) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_BYTES_LO_OFFSET, &low)) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_BYTES_HI_OFFSET, &high)) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_SEGMENTS_OFFSET, &segments)) ||
        (code = dmace_read(device, DMACE_DMA_SNAPSHOT_STALLS_OFFSET, &stalls)))
        return code;
    stats->bytes = (uint64_t)high << 32 | low;
    stats->segments = segments;
    stats->stalls = stalls;
    for (uint32_t bin = 0; bin < 16; ++bin)
        if ((code = dmace_write(device, DMACE_DMA_HISTOGRAM_BIN_OFFSET, bin)) ||
            (code = dmace_read(device, DMACE_DMA_HISTOGRAM_COUNT_OFFSET, &stats->histogram[bin])))
            return code;
    return 0;
}

int dmace_get_queue_stats(dmace_queue_handle *queue, dmace_queue_stats *stats)
{
    if (!queue || !stats)
        return dmace_fail(-EINVAL, "dmace_get_queue_stats() needs a queue and an address for its counters");
    int code = dmace_queue_enter(queue);
    if (code)
        return code;
    *stats = (dmace_queue_stats){0};
    uint32_t requests = 0, failed = 0;
    dmace_queue_registers registers = {0};
    pthread_mutex_lock(&queue->lock);
    pthread_mutex_lock(&queue->device->lock);
    code = read_snapshot(queue, stats, &requests, &failed);
    if (!code)
        code = dmace_queue_read_locked(queue, &registers);
    pthread_mutex_unlock(&queue->device->lock);
    /* The registers are ahead of the latest completion word by less than half their range. */
    stats->requests = queue->completed - queue->refused_total + (uint32_t)(requests - queue->engine_count);
    stats->failed = queue->failed + ((failed - queue->engine_failed) & DMACE_DMA_SNAPSHOT_FAILED_VALUE_MASK);
    pthread_mutex_unlock(&queue->lock);
    dmace_queue_leave(queue);
    stats->waiting = FIELD(registers.state, DMACE_DMA_QUEUE_STATE_WAITING);
    stats->in_flight = registers.state >> DMACE_DMA_QUEUE_STATE_IN_FLIGHT_SHIFT;
    return code;
}
