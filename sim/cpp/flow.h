// SPDX-License-Identifier: Apache-2.0
// Flows of requests, and the queues that they are posted to: their state, their memory and their configuration.
#pragma once

#include <algorithm>
#include <memory>

#include "engine.h"

constexpr uint64_t kFirstTarget = uint64_t{0xA5C3} << 48;  // addresses use all their bits
constexpr uint64_t kTargetSpan = uint64_t{1} << 40, kArenaSpan = uint64_t{1} << 32;
constexpr uint64_t kWords = kFirstTarget + kTargetSpan - kArenaSpan;  // SC and RC words, in the first target
constexpr uint64_t kRings = kWords + kArenaSpan / 2, kRingSpan = uint64_t{1} << 24;  // a ring, followed by its records
// Entries are free when SC has counted them: four latencies, at one descriptor per two cycles.
constexpr uint32_t kRingBits = 12;
constexpr uint8_t kGuard = 0xA5;
constexpr uint32_t kDomain = 5;

// Requests of one shape, posted to `count` queues from `first` on.
struct Flow {
    uint32_t first = 0, count = 1;
    uint32_t size = 64;
    uint32_t depth = 1;        // maximum of requests of a queue that are posted and not complete
    uint64_t requests = 0;     // per queue; 0: until the end of the run
    uint64_t start = 0;        // cycles after the start of the run
    uint32_t burst = 1;        // words in one doorbell burst
    uint32_t source = 0, destination = 0;              // targets
    uint32_t source_shift = 0, destination_shift = 0;  // offsets from an aligned address
    uint32_t random_shift = 0;  // if not 0: both offsets are random per request, less than this
    uint32_t size_from = 0;     // if not 0: random sizes from this to `size`, half of them short
    uint32_t across = 0;        // 1: the middle of each source is at a multiple of 4 KiB
    uint32_t waiting = 0;  // if not 0: maximum of posted requests whose first read has not been issued
    double rate = 0;     // requests per cycle, all queues of the flow; 0: no limit
    uint32_t target = 0, limit = 0, priority = 0, weight = 0;  // in QUEUE_CONFIG, QUEUE_LIMIT
    uint32_t flags = DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC;
    uint32_t ring = 0;     // if not 0: posted through a descriptor ring, with this number of words per descriptor
    uint32_t records = 0;  // 1: each descriptor writes a record
    uint32_t pair = 0;     // 1: the ring prefetches as many descriptors as both rings of its pair
    uint32_t misbehaves = 0;  // a Misbehaviour: no posted word moves data, and no thread waits for it
};

enum Misbehaviour : uint32_t { kBehaves, kBounds, kMalformed, kNotStarted, kMisbehaviours };

struct Request {
    uint64_t source, destination;
    uint32_t size;
    uint32_t moved = 0;  // bytes with a write response
    uint64_t posted = 0, issued = 0, done = 0, seen = 0;
};

// A completion word: completions not yet published, and the cycles in which its outstanding writes were issued.
struct Word {
    std::deque<uint64_t> unreported;  // cycle in which each request and all before it were written
    std::deque<uint64_t> issued;
    uint32_t count = 0;
};

struct Queue {
    uint32_t number = 0;
    const Flow* flow = nullptr;
    uint64_t source_base = 0, destination_base = 0, stride = 0, slots = 0, source_slots = 0;
    uint64_t made = 0, posted = 0, issued = 0, done = 0, ended = 0;  // requests
    std::deque<Request> open;                                        // requests from number `ended` on
    dmace_queue gpu = {};  // state of its threads
    dmace_ring ring = {};
    std::unique_ptr<uint8_t[]> ring_bytes;  // descriptors, then records: threads see each as one array
    std::deque<uint64_t> reported;         // number of requests up to each ring doorbell in flight
    std::deque<uint64_t> ends;             // number of requests up to the end of each descriptor in the ring
    std::deque<uint64_t> record_ends;      // the same for descriptors whose record is outstanding
    std::deque<uint64_t> pending_ends;     // the same for descriptors whose requests are not all written
    std::deque<uint64_t> pending_records;  // cycle in which these were written, until the record is issued
    Word sc, rc;
    uint32_t sc_count = 0, rc_count = 0;
    uint64_t sc_issued = 0, rc_issued = 0;  // cycle of the latest AW
    uint64_t bytes = 0;                     // payload written in the window
    std::vector<Request> single;            // the request of a flow with one request

    Request& request(uint64_t number_of_it) { return open[number_of_it - ended]; }
};

// Assigns the queue its arenas, its completion words and its ring, and fills the arenas.
inline void prepare_queue(Engine& engine, Queue& queue, const Flow& flow) {
    queue.flow = &flow;
    const uint64_t extent = uint64_t{flow.size} + std::max(flow.random_shift, kBytes) + kBytes;
    // Aligned requests of less than a page do not cross a page boundary.
    if (flow.size >= 4096 || flow.across) {
        queue.stride = (extent + (flow.across ? 4096 : 0) + 4095) / 4096 * 4096;
    } else {
        queue.stride = 2 * kBytes;
        while (queue.stride < extent) queue.stride *= 2;
    }
    queue.slots = flow.depth + 1;
    if (flow.requests) queue.slots = std::min(queue.slots, flow.requests + 1);
    queue.source_slots = queue.slots + 1;
    queue.source_base = kFirstTarget + flow.source * kTargetSpan + 2 * queue.number * kArenaSpan;
    queue.destination_base = kFirstTarget + flow.destination * kTargetSpan + (2 * queue.number + 1) * kArenaSpan;
    auto& bytes = engine.memory.bytes;
    bytes.map(queue.source_base, queue.source_slots * queue.stride, 0);
    bytes.map(queue.destination_base, queue.slots * queue.stride, kGuard);
    uint64_t state = queue.number + 1;
    bytes.each_run(queue.source_base, queue.source_slots * queue.stride,
                   [&](uint8_t* to, uint64_t length, uint64_t) {
                       for (uint64_t at = 0; at < length; at += 8) {
                           state = state * 6364136223846793005u + 1442695040888963407u;
                           const uint64_t word = state ^ state >> 29;
                           std::memcpy(to + at, &word, 8);
                       }
                   });
    const auto word = [&](uint64_t address) {
        return reinterpret_cast<const volatile uint64_t*>(bytes.at(address));
    };
    if (flow.ring) {
        const uint64_t ring = kRings + queue.number * kRingSpan, records = ring + kRingSpan / 2;
        const uint64_t length = uint64_t{64} << kRingBits, record_length = SparseMemory::kPage;
        static_assert((uint64_t{8} << kRingBits) <= SparseMemory::kPage);
        queue.ring_bytes.reset(new uint8_t[length + record_length]());
        bytes.share(ring, length, queue.ring_bytes.get());
        bytes.share(records, record_length, queue.ring_bytes.get() + length);
        queue.ring = {reinterpret_cast<volatile uint64_t*>(bytes.at(ring)),
                      reinterpret_cast<const volatile uint64_t*>(bytes.at(records)), 1u << kRingBits, 0, 0};
    }
    queue.gpu = {engine.doorbell(queue.number), word(kWords + queue.number * 16), word(kWords + queue.number * 16 + 8)};
}

// Defines the queue's regions, configures it, and starts it unless its flow is of kNotStarted.
inline void configure_queue(Engine& engine, const Queue& queue) {
    engine.define_region(2 * queue.number, queue.source_base, queue.source_slots * queue.stride, kDomain, true);
    engine.define_region(2 * queue.number + 1, queue.destination_base, queue.slots * queue.stride, kDomain, false);
    const uint64_t sc = kWords + queue.number * 16, rc = sc + 8;
    engine.write_pair(DMACE_DMA_QUEUE_SC_LO_OFFSET, sc);
    engine.write_pair(DMACE_DMA_QUEUE_RC_LO_OFFSET, rc);
    if (queue.flow->ring) {
        const uint64_t ring = kRings + queue.number * kRingSpan, records = ring + kRingSpan / 2;
        engine.write_pair(DMACE_DMA_RING_BASE_LO_OFFSET, ring);
        engine.write_pair(DMACE_DMA_RING_RECORDS_LO_OFFSET, records);
        engine.write(DMACE_DMA_RING_CONFIG_OFFSET, kRingBits << DMACE_DMA_RING_CONFIG_SIZE_SHIFT |
                                                         DMACE_DMA_RING_CONFIG_RECORDS_MASK |
                                                         queue.flow->pair << DMACE_DMA_RING_CONFIG_PAIR_SHIFT);
    }
    const Flow& flow = *queue.flow;
    engine.write(DMACE_DMA_QUEUE_CONFIG_OFFSET,
                 kDomain << DMACE_DMA_QUEUE_CONFIG_DOMAIN_SHIFT | DMACE_DMA_QUEUE_CONFIG_SC_ENABLE_MASK |
                     DMACE_DMA_QUEUE_CONFIG_RC_ENABLE_MASK |
                     (flow.misbehaves ? DMACE_DMA_QUEUE_CONFIG_SKIP_ERRORS_MASK : 0) |
                     (flow.ring ? DMACE_DMA_MODE_RING << DMACE_DMA_QUEUE_CONFIG_MODE_SHIFT : 0) |
                     flow.target << DMACE_DMA_QUEUE_CONFIG_TARGET_SHIFT |
                     flow.priority << DMACE_DMA_QUEUE_CONFIG_PRIORITY_SHIFT |
                     flow.weight << DMACE_DMA_QUEUE_CONFIG_WEIGHT_SHIFT);
    engine.write(DMACE_DMA_QUEUE_LIMIT_OFFSET, queue.flow->limit);
    engine.write(DMACE_DMA_QUEUE_COMMIT_OFFSET, queue.number);
    if (queue.flow->misbehaves == kNotStarted) return;
    engine.command(queue.number, DMACE_DMA_COMMAND_START);
}
