// SPDX-License-Identifier: Apache-2.0
// Jobs of the fuzzer of TLPs: steps that software, threads, memories, switches and forgers of TLPs take, and random ones.
#pragma once

#include "fuzz_steps.h"
#include "registers.h"

enum Act : unsigned {
    kRequest, kStore, kAccess, kForge, kRaw, kTamper, kExpire, kCopy, kAnchor, kSettings, kStalls, kMemory, kFlr,
    kLinkDown, kWait
};

inline const std::vector<StepKind>& step_kinds() {
    static const std::vector<StepKind> kinds{
        {"request", 6}, {"store", 4}, {"access", 4}, {"forge", 3}, {"raw", 5}, {"tamper", 3}, {"expire", 1}, {"copy", 1},
        {"anchor", 1}, {"settings", 1}, {"stalls", 1}, {"memory", 1}, {"flr", 2}, {"link", 1}, {"wait", 1}};
    return kinds;
}

// Changes of a completion.
enum class Change : unsigned {
    kDrop, kRepeat, kRepeatLate, kFields, kUnsupported, kAbort, kRetry, kPoison, kShorten, kLengthen, kChanges
};

constexpr unsigned kQueues = 4, kAnchorQueue = 3;
constexpr uint64_t kPartBytes = 1 << 16;  // of a queue: its source, its destination, its words

// Makes steps: any bits, most of the time in the form of something valid.
class StepMaker : public JobMaker {
public:
    using JobMaker::JobMaker;

    Step step() override {
        const uint64_t dice = random_.below(100);
        if (dice < 12) return request();
        if (dice < 22) {
            const dmace_word stored = word(random_.below(3));
            return made(kStore, {random_.below(3) | random_.below(256) << 8, stored.lo, stored.hi,
                                 random_.chance(0.8) ? 0xFFFF : random_.below(0x10000)});
        }
        if (dice < 30)
            return made(kAccess, {random_.below(2), random_.chance(0.5) ? random_.below(0x130) : random_.below(0x10000),
                                  random_.chance(0.4) ? 1 + random_.below(70) : 1, random_.next() & 0xFFFFFFFF});
        if (dice < 40)
            return made(kForge, {target(), random_.chance(0.4) ? 0 : bits(46), random_.below(1 << 16)});
        if (dice < 48)
            return made(kRaw, {target(), random_.chance(0.3) ? 0 : bits(64), random_.chance(0.6) ? 0 : bits(32),
                               random_.chance(0.5) ? 0 : random_.below(1 << 9), random_.below(1 << 16)});
        if (dice < 58)
            return made(kTamper, {1 + random_.below(24), random_.below(static_cast<unsigned>(Change::kChanges)),
                                  random_.chance(0.5) ? bits(46) : random_.below(2000)});
        if (dice < 60) return made(kExpire, {random_.below(64)});
        if (dice < 68) return made(kCopy, {random_.below(3) | random_.below(8) << 8});
        if (dice < 80) return made(kAnchor, {random_.below(6)});
        if (dice < 84) return made(kSettings, {random_.next() & 0xFF});
        if (dice < 87) return made(kStalls, {random_.next() & 0xFFFFFFFF});
        if (dice < 90) return made(kMemory, {random_.next() & 0xFFFF});
        if (dice < 92) return made(kFlr, {random_.below(256), random_.below(64)});
        if (dice < 93) return made(kLinkDown, {random_.below(300)});
        return made(kWait, {random_.chance(0.7) ? random_.below(100) : random_.below(1500)});
    }

private:
    // A few of the lowest bits.
    uint64_t bits(unsigned width) {
        uint64_t mask = 0;
        for (uint64_t left = 1 + random_.below(4); left; --left) mask |= uint64_t{1} << random_.below(width);
        return random_.chance(0.1) ? random_.next() & mask_of(width) : mask;
    }

    // A request in flight, or any tag; up to the first boundary, or all of it.
    uint64_t target() { return random_.below(64) | random_.below(2) << 8 | (random_.chance(0.2) ? 1 << 9 : 0); }

    // A packet on CQ: descriptor, sideband and payload.
    Step request() {
        uint64_t low = random_.next(), high = random_.next();
        if (random_.chance(0.85)) {
            uint32_t words[4] = {};
            const uint64_t bar = random_.chance(0.85) ? 2 * random_.below(2) : random_.below(8);
            const uint64_t most = random_.chance(0.3) ? 1024 : 40;
            put(words, completer_request::address, random_.below(1 << (bar == 2 ? kDoorbellBits - 2 : 14)));
            put(words, completer_request::dwords, random_.chance(0.95) ? 1 + random_.below(most) : random_.below(2048));
            put(words, completer_request::request_type, random_.chance(0.85) ? random_.below(2) : random_.below(16));
            put(words, completer_request::requester_id, random_.chance(0.5) ? 0 : random_.below(1 << 16));
            put(words, completer_request::tag, random_.below(256));
            put(words, completer_request::bar, bar);
            put(words, completer_request::bar_aperture, random_.below(64));
            put(words, completer_request::attributes, random_.below(8));
            put(words, completer_request::target_function, random_.chance(0.95) ? 0 : random_.below(256));
            put(words, completer_request::address_type, random_.chance(0.95) ? 0 : random_.below(4));
            put(words, completer_request::traffic_class, random_.chance(0.95) ? 0 : random_.below(8));
            std::memcpy(&low, words, 8);
            std::memcpy(&high, words + 2, 8);
        }
        const uint64_t enables = random_.chance(0.6) ? 0xFF : random_.below(256);
        const uint64_t payload = random_.chance(0.85) ? 0 : random_.below(512);
        const dmace_word data = word(random_.below(3));
        return made(kRequest, {low, high, enables | random_.chance(0.05) << 8 | payload << 9, data.lo, data.hi,
                               random_.below(1 << 16)});
    }

    // A native word: any bits, or fields near their limits.
    dmace_word word(uint64_t queue) {
        if (random_.chance(0.2)) return {random_.next(), random_.next()};
        const auto offset = [&] {
            return random_.chance(0.7) ? random_.below(kPartBytes)
                                       : random_.chance(0.7) ? kPartBytes - random_.below(70) : random_.next();
        };
        const auto source = static_cast<uint32_t>(random_.chance(0.8) ? 2 * queue : random_.below(DMACE_DMA_REGIONS));
        const auto target = static_cast<uint32_t>(random_.chance(0.8) ? 2 * queue + 1 : random_.below(DMACE_DMA_REGIONS));
        const uint64_t length = random_.chance(0.8) ? 1 + random_.below(1500) : random_.below(1 << 17);
        return dmace_copy_word(source, offset(), target, offset(), static_cast<uint32_t>(length),
                               static_cast<uint32_t>(random_.below(16)));
    }
};
