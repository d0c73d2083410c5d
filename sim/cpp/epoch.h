// SPDX-License-Identifier: Apache-2.0
// An epoch of a queue for handover.h: its memory, its requests and its configuration.
#pragma once

#include "engine.h"

constexpr uint64_t kBase = uint64_t{0x5A5A} << 48, kEpochSpan = 1 << 20;  // addresses use all their bits
constexpr uint64_t kSource = 0, kDestination = 0x40000, kWords = 0x80000, kFlags = 0x81000, kRing = 0x82000,
                   kRecords = 0x83000;
constexpr uint64_t kArena = 1 << 16;
constexpr uint32_t kRingBits = 4, kDomain = 5;
constexpr uint8_t kGuard = 0xA5;

struct Request {
    uint64_t source, destination, length;
    bool signal;
};

// An epoch of a queue: from its configuration to its end.
struct Epoch {
    uint64_t base = 0;
    bool pair = false;  // a ring with the descriptors of both rings of its pair of queues
    uint32_t mode = 0, posted = 0, posted_descriptors = 0;
    uint64_t used = 0;  // bytes of the destination in use
    std::vector<Request> requests;
};

// Configures the queue for the epoch, and starts it.
template <class Responder>
void configure_queue(EngineWith<Responder>& engine, uint32_t queue, const Epoch& epoch) {
    engine.define_region(2 * queue, epoch.base + kSource, kArena, kDomain, true);
    engine.define_region(2 * queue + 1, epoch.base + kDestination, kArena, kDomain, false);
    engine.write_pair(DMACE_DMA_QUEUE_SC_LO_OFFSET, epoch.base + kWords);
    engine.write_pair(DMACE_DMA_QUEUE_RC_LO_OFFSET, epoch.base + kWords + 8);
    engine.write_pair(DMACE_DMA_RING_BASE_LO_OFFSET, epoch.base + kRing);
    engine.write_pair(DMACE_DMA_RING_RECORDS_LO_OFFSET, epoch.base + kRecords);
    engine.write(DMACE_DMA_RING_CONFIG_OFFSET,
                 kRingBits << DMACE_DMA_RING_CONFIG_SIZE_SHIFT | DMACE_DMA_RING_CONFIG_RECORDS_MASK |
                     (epoch.pair ? DMACE_DMA_RING_CONFIG_PAIR_MASK : 0));
    engine.write(DMACE_DMA_QUEUE_ARK_OFFSET, 2 * queue);
    engine.write(DMACE_DMA_QUEUE_CONFIG_OFFSET,
                 kDomain << DMACE_DMA_QUEUE_CONFIG_DOMAIN_SHIFT | DMACE_DMA_QUEUE_CONFIG_SC_ENABLE_MASK |
                     DMACE_DMA_QUEUE_CONFIG_RC_ENABLE_MASK | epoch.mode << DMACE_DMA_QUEUE_CONFIG_MODE_SHIFT);
    engine.write(DMACE_DMA_QUEUE_COMMIT_OFFSET, queue);
    if (epoch.mode == DMACE_DMA_MODE_ARK) {
        engine.write_pair(DMACE_DMA_CONNECTION_RC_LO_OFFSET, epoch.base + kFlags);
        engine.write(DMACE_DMA_CONNECTION_CONFIG_OFFSET,
                     (2 * queue + 1) << DMACE_DMA_CONNECTION_CONFIG_BASE_SHIFT |
                         kDomain << DMACE_DMA_CONNECTION_CONFIG_DOMAIN_SHIFT | DMACE_DMA_CONNECTION_CONFIG_VALID_MASK);
        engine.write(DMACE_DMA_CONNECTION_COMMIT_OFFSET, queue);
    }
    engine.command(queue, DMACE_DMA_COMMAND_START);
}
