// SPDX-License-Identifier: Apache-2.0
// Compute units, L2 and DRAM in one clock; a DMA engine's memory port joins them in cached_memory.h.
#pragma once

#include <cinttypes>

#include "compute.h"

struct MachineConfig {
    UnitConfig units;
    CacheConfig cache;
    DramConfig dram;
    PolicyConfig policy;
};

class Machine {
public:
    static constexpr uint32_t kUnits = 0;  // requester

    Dram dram;
    L2 l2;
    ComputeUnits units;
    uint64_t executed = 0, ended = 0;  // cycles at the end of the last work group, and of the write-backs of dirty lines

    Machine(const MachineConfig& config, const Trace& trace)
        : dram(config.dram), l2(config.cache, config.policy, dram), units(config.units, config.cache, config.policy, trace),
          flush_(config.policy.flush) {}

    // The first work group starts in the next cycle, and everything is counted from then on.
    void begin(uint64_t cycle) {
        begun_ = true;
        first_ = cycle;
        l2.begin();
        dram.counts = {};
    }

    // One cycle; `respond(response)` gets those of other requesters.
    template <class Respond>
    void step(uint64_t cycle, Respond respond) {
        dram.step(cycle);
        l2.step(cycle, [&](const L2::Response& response) {
            if (response.requester == kUnits) units.respond(response.token, response.store);
            else respond(response);
        });
        if (!begun_) return;
        if (!units.finished()) {
            units.step(cycle, l2, l2.idle() && dram.idle());
            if (units.finished()) executed = cycle - first_;
        } else if (!ended && (!flush_ || l2.flush(cycle)) && dram.idle()) {
            ended = cycle - first_;
        }
    }

    // Members of a JSON object.
    void print() const {
        const CacheCounts& c = l2.counts;
        const DramCounts& d = dram.counts;
        const std::pair<const char*, uint64_t> numbers[] = {
            {"cycles", ended}, {"executed", executed}, {"arithmetic", units.arithmetic},
            {"loads", c.loads}, {"load_hits", c.load_hits}, {"load_merges", c.load_merges},
            {"load_fills", c.load_fills}, {"load_bypasses", c.load_bypasses}, {"stores", c.stores},
            {"store_hits", c.store_hits}, {"store_allocations", c.store_allocations},
            {"store_bypasses", c.store_bypasses}, {"evictions", c.evictions}, {"write_backs", c.write_backs},
            {"rinsed", c.rinsed}, {"flushed", c.flushed}, {"allocation_bypasses", c.allocation_bypasses},
            {"predicted_bypasses", c.predicted_bypasses}, {"blocked", c.blocked}, {"mshr_stalls", c.mshr_stalls},
            {"write_stalls", c.write_stalls}, {"dram_reads", d.reads},
            {"dram_writes", d.writes}, {"dram_bytes_read", d.bytes_read}, {"dram_bytes_written", d.bytes_written},
            {"row_hits", d.row_hits}, {"row_misses", d.row_misses}, {"row_conflicts", d.row_conflicts},
            {"turnarounds", d.turnarounds}, {"dram_busy", d.busy}};
        const char* comma = "";
        for (const auto& [name, value] : numbers) {
            std::printf("%s\"%s\": %" PRIu64, comma, name, value);
            comma = ", ";
        }
    }

private:
    bool flush_, begun_ = false;
    uint64_t first_ = 0;
};
