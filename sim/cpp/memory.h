// SPDX-License-Identifier: Apache-2.0
// Sparse byte memory: only mapped pages exist. Pages may be those of memory that belongs to the caller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>

class SparseMemory {
public:
    static constexpr uint64_t kPage = 1 << 16;

    // Maps [address, address + length), filled with `fill`.
    void map(uint64_t address, uint64_t length, uint8_t fill) {
        for (uint64_t page = address / kPage; page * kPage < address + length; ++page) {
            Page& found = pages_[page];
            if (!found.bytes) {
                found.owned.reset(new uint8_t[kPage]);
                found.bytes = found.owned.get();
                std::memset(found.bytes, fill, kPage);
            }
        }
    }

    // Makes [address, address + length) the caller's `bytes`, which must exist as long as this memory. Both are multiples
    // of a page.
    void share(uint64_t address, uint64_t length, uint8_t* bytes) {
        if (address % kPage || length % kPage)
            throw std::runtime_error("Shared memory must consist of pages of " + std::to_string(kPage) + " bytes.");
        for (uint64_t done = 0; done < length; done += kPage) pages_[(address + done) / kPage] = {bytes + done, nullptr};
        last_page_ = ~uint64_t{0};
    }

    // Pointer to the byte at an address, or null if it is not mapped. It remains valid, up to the end of its page.
    uint8_t* at(uint64_t address) {
        const uint64_t page = address / kPage;
        if (page != last_page_) {
            const auto found = pages_.find(page);
            if (found == pages_.end()) return nullptr;
            last_page_ = page;
            last_ = found->second.bytes;
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
    struct Page {
        uint8_t* bytes = nullptr;
        std::unique_ptr<uint8_t[]> owned;
    };
    std::unordered_map<uint64_t, Page> pages_;
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
