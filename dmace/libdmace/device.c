/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c: opening, resetting and closing a card.
 */
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Commands end within some thousand cycles, but for reads that time out, and simulators are slow. */
#define DEFAULT_LIMIT_MS 60000

/* A card without this block responds with all ones; `present` is null for a block that every card has. */
static int check_block(dmace_device *device, const char *block, uint32_t offset, uint32_t id, uint32_t version,
                       bool *present)
{
    uint32_t found;
    int code = dmace_read(device, offset, &found);
    if (code)
        return code;
    if (present && !(*present = found != UINT32_MAX))
        return 0;
    if (found != id)
        return dmace_fail(-ENODEV, "ID of the %s must be %#010x, not %#010x: the device is no dmace card", block, id,
                          found);
    code = dmace_read(device, offset + 4, &found);
    if (code)
        return code;
    if (found != version)
        return dmace_fail(-ENODEV, "Version of the %s must be %u, not %u: use the library of the card's release", block,
                          version, found);
    return 0;
}

/* A card without an endpoint has the DMA engine's doorbell pages only; one without an adapter has no interrupts. */
static int read_sizes(dmace_device *device, bool has_adapter, bool has_endpoint)
{
    uint32_t sizes, sizes_2, adapter = 0, endpoint = 0;
    int code;
    if ((code = dmace_read(device, DMACE_DMA_SIZES_OFFSET, &sizes)) ||
        (code = dmace_read(device, DMACE_DMA_SIZES_2_OFFSET, &sizes_2)) ||
        (has_endpoint &&
         (code = dmace_read(device, DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_SIZES_OFFSET, &endpoint))) ||
        (has_adapter && (code = dmace_read(device, DMACE_BAR0_PCIE + DMACE_PCIE_SIZES_OFFSET, &adapter))))
        return code;
    dmace_info *info = &device->info;
    const dmace_transport *transport = device->transport;
    strncpy(info->transport, transport->name ? transport->name : "", sizeof info->transport - 1);
    info->queues = 1u << FIELD(sizes, DMACE_DMA_SIZES_QUEUE_BITS);
    info->extended_queues = 1u << FIELD(sizes, DMACE_DMA_SIZES_EXTENDED_BITS);
    info->queue_depth = 1u << FIELD(sizes, DMACE_DMA_SIZES_DEPTH_BITS);
    info->regions = 1u << FIELD(sizes, DMACE_DMA_SIZES_REGION_BITS);
    info->domains = DMACE_DMA_REGION_ACCESS_DOMAIN_MASK + 1;
    info->beat_bytes = 1u << FIELD(sizes, DMACE_DMA_SIZES_LANE_BITS);
    info->segment_bytes = 1u << FIELD(sizes, DMACE_DMA_SIZES_SEGMENT_BITS);
    info->max_copy = (uint32_t)DMACE_DMA_WORD_LENGTH_MASK;
    device->window = (1u << FIELD(sizes_2, DMACE_DMA_SIZES_2_ENTRY_BITS)) / 2;
    device->card_vectors = FIELD(adapter, DMACE_PCIE_SIZES_VECTORS);
    info->vectors = transport->interrupt ? transport->vectors : 0;
    if (info->vectors > device->card_vectors)
        info->vectors = device->card_vectors;
    if (info->queues > DMACE_MAX_QUEUES || info->regions > DMACE_MAX_REGIONS || info->extended_queues > info->queues ||
        (has_endpoint && FIELD(endpoint, DMACE_ENDPOINT_SIZES_DMA_PAGES) != info->queues))
        return dmace_fail(-ENODEV, "Sizes of the card must be those of a DMA engine, not %#010x with %u doorbell pages",
                          sizes, FIELD(endpoint, DMACE_ENDPOINT_SIZES_DMA_PAGES));
    return 0;
}

static int start(dmace_device *device)
{
    const dmace_transport *transport = device->transport;
    bool has_adapter, has_endpoint;
    int code = transport->reset ? transport->reset(device->context) : 0;
    if (code)
        return dmace_fail_transport(device, code, "Resetting the card");
    if ((code = check_block(device, "DMA engine", DMACE_BAR0_DMA + DMACE_DMA_ID_OFFSET, DMACE_DMA_ID_RESET,
                            DMACE_DMA_VERSION_RESET, NULL)) ||
        (code = check_block(device, "PCIe adapter", DMACE_BAR0_PCIE + DMACE_PCIE_ID_OFFSET, DMACE_PCIE_ID_RESET,
                            DMACE_PCIE_VERSION_RESET, &has_adapter)) ||
        (code = check_block(device, "endpoint", DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_ID_OFFSET, DMACE_ENDPOINT_ID_RESET,
                            DMACE_ENDPOINT_VERSION_RESET, &has_endpoint)))
        return code;
    return read_sizes(device, has_adapter, has_endpoint);
}

static void free_device(dmace_device *device)
{
    dmace_dispatcher_end(device);
    device->transport->close(device->context);
    dmace_vectors_close(device);
    while (device->queues)
        dmace_queue_free(device->queues);
    while (device->memories)
        dmace_memory_free(device->memories);
    pthread_mutex_destroy(&device->lock);
    pthread_mutex_destroy(&device->events);
    if (device->library)
        dlclose(device->library);
    free(device);
}

static int open_with(const dmace_transport *transport, void *context, void *library, dmace_device **device)
{
    dmace_device *made = calloc(1, sizeof *made);
    if (!made) {
        transport->close(context);
        if (library)
            dlclose(library);
        return dmace_fail(-ENOMEM, "No memory for a device");
    }
    made->transport = transport;
    made->context = context;
    made->library = library;
    made->dispatcher_wake = -1;
    for (unsigned vector = 0; vector < DMACE_MAX_VECTORS; ++vector)
        made->vectors[vector].fd = -1;
    const char *limit = getenv("DMACE_TIMEOUT_MS");
    const long ms = limit ? strtol(limit, NULL, 10) : 0;
    made->limit = (ms > 0 ? ms : DEFAULT_LIMIT_MS) * INT64_C(1000000);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->events, NULL);
    const int code = start(made);
    if (code) {
        free_device(made);
        return code;
    }
    *device = made;
    return 0;
}

int dmace_open_transport(const dmace_transport *transport, void *context, dmace_device **device)
{
    if (!transport || !device)
        return dmace_fail(-EINVAL, "dmace_open_transport() needs a transport and an address for the device");
    if (transport->version != DMACE_TRANSPORT_VERSION)
        return dmace_fail(-ENODEV, "Version of a transport must be %u, not %u", DMACE_TRANSPORT_VERSION,
                          transport->version);
    if (!transport->close)
        return dmace_fail(-EINVAL, "A transport must have the function close");
    if (!transport->read || !transport->write || !transport->store || !transport->name) {
        transport->close(context);
        return dmace_fail(-EINVAL, "A transport must have a name and the functions read, write and store");
    }
    return open_with(transport, context, NULL, device);
}

int dmace_open(const char *name, dmace_device **device)
{
    if (!name || !device)
        return dmace_fail(-EINVAL, "dmace_open() needs a name and an address for the device");
    const dmace_transport *transport;
    void *context, *library = NULL;
    int code;
    if (!strncmp(name, "sim:", 4))
        code = dmace_simulator_open(name + 4, &transport, &context, &library);
    else if (!strncmp(name, "vfio:", 5))
        code = dmace_vfio_open(name + 5, &transport, &context);
    else
        code = dmace_fail(-EINVAL, "Name of a device must begin with vfio: or sim:, not be %s", name);
    return code ? code : open_with(transport, context, library, device);
}

void dmace_close(dmace_device *device)
{
    if (!device)
        return;
    for (dmace_queue_handle *queue = device->queues; queue; queue = queue->next)
        dmace_queue_kill(queue);
    free_device(device);
}

int dmace_get_info(dmace_device *device, dmace_info *info)
{
    if (!device || !info)
        return dmace_fail(-EINVAL, "dmace_get_info() needs a device and an address for its sizes");
    *info = device->info;
    return 0;
}

int dmace_reset(dmace_device *device)
{
    if (!device)
        return dmace_fail(-EINVAL, "dmace_reset() needs a device");
    if (!device->transport->reset)
        return dmace_fail(-ENOTSUP, "The transport %s cannot reset the card", device->transport->name);
    /* Queues end before the device's lock is taken: their threads may hold it. No queue is freed meanwhile, as only the
     * caller may destroy one. */
    pthread_mutex_lock(&device->lock);
    for (dmace_queue_handle *queue = device->queues; queue; queue = queue->next) {
        pthread_mutex_unlock(&device->lock);
        dmace_queue_kill(queue);
        dmace_interrupt_detach(queue);
        pthread_mutex_lock(&device->lock);
        queue->gone = true;
    }
    for (dmace_memory *memory = device->memories; memory; memory = memory->next)
        memory->stale = true;
    memset(device->region_used, 0, sizeof device->region_used);
    memset(device->numbers, 0, sizeof device->numbers);
    device->log_length = 0;
    const int code = start(device);
    pthread_mutex_unlock(&device->lock);
    return code;
}

int dmace_cycles(dmace_device *device, uint64_t *cycles)
{
    if (!device || !cycles)
        return dmace_fail(-EINVAL, "dmace_cycles() needs a device and an address for the number");
    if (!device->transport->cycles)
        return dmace_fail(-ENOTSUP, "The transport %s does not count cycles", device->transport->name);
    const int code = device->transport->cycles(device->context, cycles);
    return code ? dmace_fail_transport(device, code, "Reading the number of cycles") : 0;
}
