// SPDX-License-Identifier: Apache-2.0
// Threads that post copies to a DMA engine without end, and a check of every byte after the last one.
//
// Each queue copies from its source arena to its destination arena, slot by slot, from the first again after the last.
// The attributes of the two regions, AxCACHE, are options.
#pragma once

#include "cached_memory.h"
#include "engine.h"

using CachedEngine = EngineWith<CachedMemory<kBytes>>;

struct CopyConfig {
    uint32_t queues = 4, size = 4096, depth = 8;  // bytes of a request; requests in flight of a queue
    uint32_t slots = 64;                          // of an arena
    uint32_t read_cache = 3, write_cache = 3;     // AxCACHE of the source and of the destination
    double rate = 0;                              // bytes per cycle of all queues; 0: no limit
    uint64_t lead = 4000;                         // cycles of copies before the compute units start
};

class Copies {
public:
    uint64_t bytes = 0, checked = 0, wrong = 0;  // bytes: of completed requests
    bool stopped = false;

    Copies(CachedEngine& engine, const CopyConfig& config) : engine_(engine), config_(config), queues_(config.queues) {
        auto& memory = engine_.memory.bytes;
        memory.map(kCompletions, uint64_t{config.queues} * 16, 0);
        for (uint32_t number = 0; number < config.queues; ++number) {
            memory.map(source(number), extent(), 0);
            memory.map(target(number), extent(), 0);
            uint64_t state = number + 1;
            memory.each_run(source(number), extent(), [&](uint8_t* to, uint64_t length, uint64_t) {
                for (uint64_t at = 0; at < length; ++at) {
                    state = state * 6364136223846793005u + 1442695040888963407u;
                    to[at] = static_cast<uint8_t>(state >> 56 | 1);
                }
            });
            const auto word = [&](uint64_t address) { return reinterpret_cast<const volatile uint64_t*>(memory.at(address)); };
            const uint64_t sc = kCompletions + number * 16;
            queues_[number].gpu = {engine_.doorbell(number), word(sc), word(sc + 8)};
            configure(number, sc);
        }
        start_ = engine_.cycle;
    }

    // Actions of the threads before a cycle.
    void step() {
        for (Queue& queue : queues_)
            while (queue.ended < queue.posted &&
                   dmace_reached(dmace_try_sc(&queue.gpu, static_cast<uint32_t>(queue.ended + 1), 1),
                                 static_cast<uint32_t>(queue.ended + 1))) {
                ++queue.ended;
                bytes += config_.size;
            }
        if (stopped || engine_.stores_waiting() > 1) return;
        const double cycles = static_cast<double>(engine_.cycle - start_);
        if (config_.rate > 0 && static_cast<double>(posted_ * config_.size) > config_.rate * cycles) return;
        for (uint32_t tried = 0; tried < config_.queues; ++tried) {
            turn_ = (turn_ + 1) % config_.queues;
            if (queues_[turn_].posted == queues_[turn_].ended + config_.depth) continue;
            post(turn_);
            return;
        }
    }

    bool idle() const {
        return std::all_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.ended == queue.posted; });
    }

    // Compares all slots that were copied, and the others with their initial value.
    void check() {
        for (uint32_t number = 0; number < config_.queues; ++number) {
            const uint64_t copied = std::min<uint64_t>(queues_[number].posted, config_.slots) * config_.size;
            for (uint64_t at = 0; at < extent(); ++at)
                wrong += *engine_.memory.bytes.at(target(number) + at) !=
                         (at < copied ? *engine_.memory.bytes.at(source(number) + at) : 0);
            checked += copied;
        }
    }

private:
    static constexpr uint64_t kArenas = uint64_t{1} << 44, kArena = uint64_t{1} << 34, kCompletions = uint64_t{1} << 46;
    static constexpr uint32_t kDomain = 1;

    struct Queue {
        dmace_queue gpu = {};
        uint64_t posted = 0, ended = 0;
    };

    uint64_t extent() const { return uint64_t{config_.slots} * config_.size; }
    static uint64_t source(uint32_t number) { return kArenas + 2 * number * kArena; }
    static uint64_t target(uint32_t number) { return kArenas + (2 * number + 1) * kArena; }

    void configure(uint32_t number, uint64_t sc) {
        engine_.write(DMACE_DMA_REGION_ATTRIBUTES_OFFSET, config_.read_cache << DMACE_DMA_REGION_ATTRIBUTES_CACHE_SHIFT);
        engine_.define_region(2 * number, source(number), extent(), kDomain, true);
        engine_.write(DMACE_DMA_REGION_ATTRIBUTES_OFFSET, config_.write_cache << DMACE_DMA_REGION_ATTRIBUTES_CACHE_SHIFT);
        engine_.define_region(2 * number + 1, target(number), extent(), kDomain, false);
        engine_.write_pair(DMACE_DMA_QUEUE_SC_LO_OFFSET, sc);
        engine_.write_pair(DMACE_DMA_QUEUE_RC_LO_OFFSET, sc + 8);
        engine_.write(DMACE_DMA_QUEUE_CONFIG_OFFSET,
                      kDomain << DMACE_DMA_QUEUE_CONFIG_DOMAIN_SHIFT | DMACE_DMA_QUEUE_CONFIG_SC_ENABLE_MASK);
        engine_.write(DMACE_DMA_QUEUE_COMMIT_OFFSET, number);
        engine_.command(number, DMACE_DMA_COMMAND_START);
    }

    void post(uint32_t number) {
        Queue& queue = queues_[number];
        const uint64_t offset = queue.posted % config_.slots * config_.size;
        const uint32_t slot = static_cast<uint32_t>(queue.posted % 128);
        dmace_post_to(&queue.gpu, slot,
                      dmace_copy_word(2 * number, offset, 2 * number + 1, offset, config_.size, DMACE_DMA_FLAG_SC));
        engine_.merge(number, slot, 1);
        ++queue.posted;
        ++posted_;
    }

    CachedEngine& engine_;
    CopyConfig config_;
    std::vector<Queue> queues_;
    uint64_t posted_ = 0, start_ = 0;
    uint32_t turn_ = 0;
};
