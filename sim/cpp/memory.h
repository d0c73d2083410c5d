// SPDX-License-Identifier: Apache-2.0
// Sparse byte memory: only mapped pages exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>

class SparseMemory {
public:
    static constexpr uint64_t kPage = 1 << 16;

    // Maps [address, address + length), filled with `fill`.
    void map(uint64_t address, uint64_t length, uint8_t fill) {
        for (uint64_t page = address / kPage; page * kPage < address + length; ++page) {
            auto& bytes = pages_[page];
            if (!bytes) {
                bytes.reset(new uint8_t[kPage]);
                std::memset(bytes.get(), fill, kPage);
            }
        }
    }

    // Pointer to the byte at an address, or null if it is not mapped. It remains valid, up to the end of its page.
    uint8_t* at(uint64_t address) {
        const uint64_t page = address / kPage;
        if (page != last_page_) {
            const auto found = pages_.find(page);
            if (found == pages_.end()) return nullptr;
            last_page_ = page;
            last_ = found->second.get();
        }
        return last_ + address % kPage;
    }

    // Calls `visit(pointer, length)` for each run of [address, address + length) that lies in one page.
    template <class Visit>
    void each_run(uint64_t address, uint64_t length, Visit visit) {
        while (length) {
            const uint64_t run = std::min(length, kPage - address % kPage);
            visit(at(address), run, address);
            address += run;
            length -= run;
        }
    }

private:
    std::unordered_map<uint64_t, std::unique_ptr<uint8_t[]>> pages_;
    uint64_t last_page_ = ~uint64_t{0};
    uint8_t* last_ = nullptr;
};

// xorshift64*: the same numbers on every platform for the same seed.
class Random {
public:
    explicit Random(uint64_t seed) : state_((seed + 1) * 0x9E3779B97F4A7C15u) {
        if (!state_) state_ = 1;
    }
    uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Du;
    }
    uint64_t below(uint64_t limit) { return next() % limit; }
    bool chance(double probability) {
        return probability > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < probability;
    }

private:
    uint64_t state_;
};
