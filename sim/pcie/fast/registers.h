// SPDX-License-Identifier: Apache-2.0
// Set-up of the DMA engine through BAR 0: regions, queues, commands.
#pragma once

#include "dmace.h"
#include "system.h"

constexpr uint8_t kRelaxed = 1 << 1;

struct Region {
    uint32_t number = 0, domain = 0;
    uint64_t base = 0, length = 0;
    bool source = false;              // readable, otherwise writable
    uint32_t cache = 0, qos = 0;

    // Attributes of its requests on PCIe: no snoop (bit 0), relaxed ordering, ID-based ordering.
    uint8_t attributes() const { return static_cast<uint8_t>(cache >> 1 == 1 | (qos & 3) << 1); }
    bool flush() const { return qos >> 2 & 1; }
};

inline void define_region(System& system, const Region& region) {
    system.write_pair(DMACE_DMA_REGION_BASE_LO_OFFSET, region.base);
    system.write_pair(DMACE_DMA_REGION_LENGTH_LO_OFFSET, region.length);
    system.write(DMACE_DMA_REGION_ACCESS_OFFSET,
                 region.domain << DMACE_DMA_REGION_ACCESS_DOMAIN_SHIFT | DMACE_DMA_REGION_ACCESS_VALID_MASK |
                     (region.source ? DMACE_DMA_REGION_ACCESS_READABLE_MASK : DMACE_DMA_REGION_ACCESS_WRITABLE_MASK));
    system.write(DMACE_DMA_REGION_ATTRIBUTES_OFFSET, region.cache << DMACE_DMA_REGION_ATTRIBUTES_CACHE_SHIFT |
                                                         region.qos << DMACE_DMA_REGION_ATTRIBUTES_QOS_SHIFT);
    system.write(DMACE_DMA_REGION_COMMIT_OFFSET, region.number);
}

inline void command(System& system, uint32_t queue, uint32_t what) {
    system.write(DMACE_DMA_QUEUE_COMMAND_OFFSET,
                 queue << DMACE_DMA_QUEUE_COMMAND_QUEUE_SHIFT | what << DMACE_DMA_QUEUE_COMMAND_COMMAND_SHIFT);
}

// Configures a queue in native mode, and starts it.
inline void start_queue(System& system, uint32_t queue, uint32_t domain, uint64_t sc, uint64_t rc, bool skip_errors) {
    system.write_pair(DMACE_DMA_QUEUE_SC_LO_OFFSET, sc);
    system.write_pair(DMACE_DMA_QUEUE_RC_LO_OFFSET, rc);
    system.write(DMACE_DMA_QUEUE_CONFIG_OFFSET,
                 domain << DMACE_DMA_QUEUE_CONFIG_DOMAIN_SHIFT | DMACE_DMA_QUEUE_CONFIG_SC_ENABLE_MASK |
                     DMACE_DMA_QUEUE_CONFIG_RC_ENABLE_MASK |
                     (skip_errors ? DMACE_DMA_QUEUE_CONFIG_SKIP_ERRORS_MASK : 0));
    system.write(DMACE_DMA_QUEUE_COMMIT_OFFSET, queue);
    command(system, queue, DMACE_DMA_COMMAND_START);
}

// Waits until the adapter uses the settings of the configuration space. It polls for extended tags.
inline void await_settings(System& system, bool extended) {
    uint32_t status;
    do {
        status = system.read(kPcieRegisters + DMACE_PCIE_STATUS_OFFSET);
    } while (((status & DMACE_PCIE_STATUS_EXTENDED_TAGS_MASK) != 0) != extended ||
             128u << ((status & DMACE_PCIE_STATUS_MAX_PAYLOAD_MASK) >> DMACE_PCIE_STATUS_MAX_PAYLOAD_SHIFT) !=
                 system.card.limits.max_payload ||
             128u << ((status & DMACE_PCIE_STATUS_MAX_READ_MASK) >> DMACE_PCIE_STATUS_MAX_READ_SHIFT) !=
                 system.card.limits.max_read);
}

// Words for doorbells from `slot` of a queue's page on, merged into one store of a device.
inline void ring(System& system, unsigned device, uint32_t queue, uint32_t slot, const std::vector<dmace_word>& words) {
    system.store(device, memory_write(System::kBar2 + uint64_t{queue} * DMACE_DMA_DOORBELL_PAGE + 16 * slot,
                                      reinterpret_cast<const uint8_t*>(words.data()),
                                      static_cast<unsigned>(16 * words.size())));
}
