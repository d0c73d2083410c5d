// SPDX-License-Identifier: Apache-2.0
// Policies of the L2: which requests of the compute units allocate, and the predictor of reuse by PC.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

struct PolicyConfig {
    bool loads = true, stores = true;  // allocate
    bool regions = false;              // each stream's attributes decide instead of `loads` and `stores`
    bool allocation_bypass = false;    // bypass instead of a stall where every way of the set awaits its fill
    bool rinse = false;                // write back all dirty lines of the DRAM row of an evicted dirty line
    bool predict = false;              // PCs without reuse bypass
    bool flush = true;                 // write back all dirty lines after the last work group
    uint32_t counter = 7, reuse = 2, waste = 1;  // largest count, and its steps up and down
    uint32_t sampled = 32;                       // one of this number of sets allocates whatever is predicted
};

// A saturating counter for each PC: up at the first reuse of a line, down at an eviction without reuse.
class ReusePredictor {
public:
    static constexpr uint32_t kCounters = 256;

    explicit ReusePredictor(const PolicyConfig& config) : config_(config), counts_(kCounters, config.counter) {}

    bool expects_reuse(uint32_t pc) const { return counts_[pc % kCounters] > 0; }
    void reused(uint32_t pc) {
        uint32_t& count = counts_[pc % kCounters];
        count = std::min(count + config_.reuse, config_.counter);
    }
    void wasted(uint32_t pc) {
        uint32_t& count = counts_[pc % kCounters];
        count -= std::min(count, config_.waste);
    }

private:
    PolicyConfig config_;
    std::vector<uint32_t> counts_;
};
