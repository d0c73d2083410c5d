// SPDX-License-Identifier: Apache-2.0
// The host of a card in the same process: memory at I/O addresses of its own, interrupts by eventfds.
#pragma once

#include <cstring>
#include <map>
#include <unistd.h>

#include "device.h"
#include "guarded_copy.h"

class ProcessHost : public Host {
public:
    static constexpr uint64_t kPage = 4096, kFirst = uint64_t{1} << 32;

    // Ranges have an unmapped page between them.
    uint64_t map(uint8_t* bytes, uint64_t length, bool readable, bool writable) {
        const uint64_t address = next_;
        next_ += length + kPage;
        ranges_[address] = {length, bytes, readable, writable};
        return address;
    }
    bool unmap(uint64_t address, uint64_t length) {
        const auto found = ranges_.find(address);
        if (found == ranges_.end() || found->second.length != length) return false;
        ranges_.erase(found);
        return true;
    }

    // The card reaches nothing and signals nothing afterwards. Addresses are not used again.
    void clear() {
        ranges_.clear();
        events_.clear();
    }

    void connect(unsigned vector, int event) { events_[vector] = event; }

    bool read(uint64_t address, size_t length, uint8_t* data) override {
        const Range* range = find(address, length);
        if (!range || !range->readable) return false;
        std::memcpy(data, range->bytes + (address - start_), length);
        return true;
    }
    bool write(uint64_t address, size_t length, const uint8_t* data) override {
        const Range* range = find(address, length);
        if (!range || !range->writable) return false;
        guarded::copy_words(range->bytes + (address - start_), data, length);
        return true;
    }
    bool may_read_nothing(uint64_t address) override { return find(address, 1); }

    void interrupt(unsigned vector) override {
        const auto found = events_.find(vector);
        const uint64_t one = 1;
        // A full counter of an eventfd must not block: it is readable already.
        if (found != events_.end() && found->second >= 0 && ::write(found->second, &one, sizeof one) < 0) return;
    }

private:
    struct Range {
        uint64_t length;
        uint8_t* bytes;
        bool readable, writable;
    };

    const Range* find(uint64_t address, size_t length) {
        auto found = ranges_.upper_bound(address);
        if (found == ranges_.begin()) return nullptr;
        --found;
        start_ = found->first;
        const uint64_t offset = address - start_;
        return offset < found->second.length && length <= found->second.length - offset ? &found->second : nullptr;
    }

    std::map<uint64_t, Range> ranges_;
    std::map<unsigned, int> events_;
    uint64_t next_ = kFirst, start_ = 0;
};
