// SPDX-License-Identifier: Apache-2.0
// The queues of a fuzzed card: their memory, their valid copies, and where the card may read and write.
//
// Each queue has a source in one memory, and a destination and completion words in the other. Addresses are privileged.
// A copy whose requests on PCIe may not have had their own completions is *disturbed*: it must complete, and writes
// within its destination, but its bytes and its status are not known.
#pragma once

#include "fuzz_job.h"

struct Copy {
    uint64_t from = 0, to = 0, length = 0;  // offsets in source and destination
    bool disturbed = false;
};

class FuzzTenants {
public:
    static constexpr uint64_t kFirst = 64 << 20, kMessages = 0x300000, kForeign = 0x380000;
    static constexpr uint8_t kGuard = 0xA5;
    static constexpr uint32_t kForeignDomain = 7;

    std::vector<Copy> copies[kQueues];  // valid ones, since START
    uint64_t posted = 0;

    explicit FuzzTenants(System& system) : system_(system) {
        for (auto& device : system_.devices) device->memory.bytes.map(device->memory.base() + kFirst, Arenas::kBytes);
        for (unsigned device = 0; device < 2; ++device)
            system_.memory(device).received = [this](const Tlp& tlp) { arrived(tlp); };
    }

    uint64_t source(unsigned queue) const { return part(queue % 2, queue, 0); }
    uint64_t destination(unsigned queue) const { return part(1 - queue % 2, queue, 1); }
    uint64_t words(unsigned queue) const { return part(1 - queue % 2, queue, 2); }
    uint64_t message(unsigned vector) const { return kFirst + kMessages + 4 * vector; }

    // Fills a queue's memory, and drops its copies.
    void fill(unsigned queue) {
        uint8_t *from = system_.at(source(queue)), *to = system_.at(destination(queue));
        for (uint64_t at = 0; at < kPartBytes; ++at) from[at] = value_of(queue, at);
        std::memset(to, kGuard, kPartBytes);
        std::memset(system_.at(words(queue)), 0, 16);
        copies[queue].clear();
        from_[queue] = to_[queue] = 0;
    }

    // Configures regions and queues, and starts these.
    void configure() {
        for (unsigned queue = 0; queue < kQueues; ++queue) {
            const uint32_t domain = queue + 1;
            define_region(system_, {2 * queue, domain, source(queue), kPartBytes, true, queue == 1 ? 2u : 0, queue});
            define_region(system_, {2 * queue + 1, domain, destination(queue), kPartBytes, false, 0, flushed(queue) ? 4u : queue});
            start_queue(system_, queue, domain, words(queue), words(queue) + 8, true);
        }
        for (const bool readable : {true, false})
            define_region(system_, {readable ? 8u : 9u, kForeignDomain, system_.memory(1).base() + kFirst + kForeign,
                                    kPartBytes, readable, 0, 0});
        for (unsigned vector = 0; vector < kMsixVectors; ++vector) {
            system_.write_pair(kMsixTable + 16 * vector, message(vector));
            system_.write_pair(kMsixTable + 16 * vector + 8, 0x1000 + vector);
        }
        // A read waits for the writes before it.
        system_.read(DMACE_DMA_ID_OFFSET);
    }

    // Posts one valid copy, unless its queue or its memory is full.
    bool copy(unsigned queue, uint64_t size) {
        static const uint64_t most[] = {16, 64, 300, 700, 1400, 3000};
        const uint64_t number = copies[queue].size();
        const uint64_t length = 1 + (number * 389 + size * 131 + 17) % most[size % 6];
        const uint64_t from = from_[queue] + number * 7 % 64, to = to_[queue] + number % 5;
        if (number - count(queue, 0) > DMACE_DMA_QUEUE_DEPTH - 1 || from + length > kPartBytes || to + length > kPartBytes) return false;
        copies[queue].push_back({from, to, length, false});
        ring(system_, queue % 2, queue, static_cast<uint32_t>(number % 256),
             {dmace_copy_word(2 * queue, from, 2 * queue + 1, to, static_cast<uint32_t>(length),
                              DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC | (number % 4 ? 0 : DMACE_DMA_FLAG_IRQ))});
        // No two copies have a byte of the bus in common.
        from_[queue] = (from + length + 127) & ~uint64_t{63};
        to_[queue] = to + length + number % 70;
        ++posted;
        return true;
    }

    uint64_t word(unsigned queue, unsigned which) {
        uint64_t value;
        std::memcpy(&value, system_.at(words(queue)) + 8 * which, 8);
        return value;
    }
    uint64_t count(unsigned queue, unsigned which) { return dmace_count(word(queue, which)); }

    // The copies of which a request of the card may be a part get an arbitrary result.
    void disturb(const Tlp& tlp) {
        const auto [offset, bytes] = enabled_bytes(tlp);
        // A read of no byte is behind a write that ends in its double word, or begins there.
        const uint64_t start = tlp.address + offset, length = tlp.first_be ? bytes : 4;
        for (unsigned queue = 0; queue < kQueues; ++queue)
            for (Copy& copy : copies[queue]) {
                const uint64_t base = inside(start, source(queue), kPartBytes) ? source(queue) + copy.from
                                                                               : destination(queue) + copy.to;
                if (start < base + copy.length && base < start + length) copy.disturbed = true;
            }
    }

    uint64_t disturbed(unsigned queue) const {
        return static_cast<uint64_t>(std::count_if(copies[queue].begin(), copies[queue].end(),
                                                   [](const Copy& copy) { return copy.disturbed; }));
    }

    // Offset of a byte of a destination that is wrong, if any. While copies are not complete, bytes may be unwritten.
    bool wrong_byte(unsigned queue, bool complete, uint64_t& where) {
        const uint8_t* to = system_.at(destination(queue));
        std::vector<bool> known(kPartBytes, true);
        std::vector<uint8_t> expected(kPartBytes, kGuard);
        std::vector<bool> optional(kPartBytes, false);
        for (const Copy& copy : copies[queue])
            for (uint64_t index = 0; index < copy.length; ++index) {
                known[copy.to + index] = !copy.disturbed;
                expected[copy.to + index] = value_of(queue, copy.from + index);
                optional[copy.to + index] = !complete;
            }
        for (where = 0; where < kPartBytes; ++where)
            if (known[where] && to[where] != expected[where] && !(optional[where] && to[where] == kGuard)) return true;
        return false;
    }

private:
    static bool inside(uint64_t address, uint64_t base, uint64_t length) { return address - base < length; }
    static bool flushed(unsigned queue) { return queue == kAnchorQueue || queue == 2; }
    static uint8_t value_of(unsigned queue, uint64_t at) {
        return static_cast<uint8_t>(at * 7 + (at >> 8) * 13 + queue + 1);
    }

    uint64_t part(unsigned device, unsigned queue, unsigned which) const {
        return system_.devices[device]->memory.base() + kFirst + (queue * 3 + which) * kPartBytes;
    }

    // A request of the card at a memory: reads are of sources, and of no byte of destinations; writes are to destinations,
    // completion words and messages.
    void arrived(const Tlp& tlp) {
        const std::string title = "RQ, " + tlp.title();
        const auto [offset, length] = enabled_bytes(tlp);
        const uint64_t start = tlp.address + offset, end = start + length;
        const auto within = [&](uint64_t base, uint64_t size) { return start >= base && end <= base + size; };
        const bool read = tlp.kind == Kind::kRead;
        for (unsigned queue = 0; queue < kQueues; ++queue) {
            if (read ? within(source(queue), kPartBytes) && tlp.first_be : within(destination(queue), kPartBytes)) return;
            if (read && !tlp.first_be && within(destination(queue), kPartBytes)) return;
            if (!read && length == 8 && start % 8 == 0 && within(words(queue), 16)) return;
        }
        if (!read && length == 4 && start % 4 == 0 && within(message(0), 4 * kMsixVectors)) return;
        throw Violation(title + ": it is where no queue may " + (read ? "read." : "write."));
    }

    System& system_;
    uint64_t from_[kQueues] = {}, to_[kQueues] = {};
};
