// SPDX-License-Identifier: Apache-2.0
// Jobs of the fuzzer: steps that arbitrary software, threads and memory take, as text, and random ones.
#pragma once

#include "epoch.h"
#include "fuzz_steps.h"

enum Kind : unsigned { kStore, kWrite, kPoke, kFailRead, kFailWrite, kRevoke, kReset, kWait, kAnchor };

inline const std::vector<StepKind>& step_kinds() {
    static const std::vector<StepKind> kinds{{"store", 4}, {"write", 2}, {"poke", 2}, {"fail_read", 1}, {"fail_write", 1},
                                             {"revoke", 1}, {"rst", 0}, {"wait", 1}, {"anchor", 0}};
    return kinds;
}

// Makes steps: any bits, half of the time in the form of something valid.
class StepMaker : public JobMaker {
public:
    using JobMaker::JobMaker;

    Step step() override {
        Step step;
        const auto set = [&](Kind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
            step = made(kind, {a, b, c, d});
        };
        const uint64_t dice = random_.below(100);
        if (dice < 40) {
            const uint64_t queue = random_.below(4);
            dmace_word stored = word(queue);
            if (queue == 1 && random_.chance(0.7))          // ARK
                stored = {random_.below(8) << 18 | random_.below(6000) << 25 | random_.below(1 << 18), random_.next()};
            if (queue == 0 && random_.chance(0.7)) stored = {random_.below(1 << (kRingBits + 2)), 0};
            set(kStore, queue, stored.lo, stored.hi, random_.chance(0.8) ? 0xFFFF : random_.below(0x10000));
        } else if (dice < 55) {
            const uint64_t slot = random_.below(1 << kRingBits) * 8;
            const uint64_t half = random_.below(8);
            const dmace_word any = word(0);
            set(kPoke, slot + half, half == 0 ? (random_.chance(0.8) ? 1 | random_.below(4) << 8 | random_.below(4) << 12 |
                                                      random_.below(1 << 16) << 16 : random_.next())
                                          : half == 1 ? (random_.chance(0.8) ? 0 : random_.next())
                                          : half % 2 ? any.hi : any.lo);
        } else if (dice < 70) {
            // Commands more often than other registers.
            if (random_.chance(0.5))
                set(kWrite, DMACE_DMA_QUEUE_COMMAND_OFFSET, random_.below(4) | random_.below(8) << 8);
            else
                set(kWrite, random_.below(0x130) & ~uint64_t{3}, random_.chance(0.5) ? random_.below(64) : random_.next() >> 32);
        } else if (dice < 75) {
            set(kFailRead, 1 + random_.below(8));
        } else if (dice < 80) {
            set(kFailWrite, 1 + random_.below(8));
        } else if (dice < 84) {
            set(kRevoke, random_.below(4));
        } else if (dice < 86) {
            set(kReset);
        } else if (dice < 93) {
            set(kWait, random_.chance(0.7) ? random_.below(60) : random_.below(1500));
        } else {
            set(kAnchor);
        }
        return step;
    }

private:
    // A native word: any bits, or fields near their limits.
    dmace_word word(uint64_t queue) {
        if (random_.chance(0.3)) return {random_.next(), random_.next()};
        const auto near_limit = [&](uint64_t limit) {
            return random_.chance(0.6) ? random_.below(kArena) : random_.chance(0.5) ? limit - random_.below(70) : random_.next();
        };
        const uint64_t source = random_.chance(0.6) ? 2 * queue : random_.below(DMACE_DMA_REGIONS + 2);
        const uint64_t target = random_.chance(0.5) ? 2 * queue + 1 : random_.below(DMACE_DMA_REGIONS + 2);
        const uint64_t length = random_.chance(0.7) ? 1 + random_.below(600) : random_.chance(0.7) ? random_.below(1 << 17) : random_.next();
        const uint64_t mask36 = (uint64_t{1} << 36) - 1;
        return {(random_.chance(0.9) ? 1 + random_.below(2) : random_.below(16)) | random_.below(16) << 4 | (source & 0xFF) << 12 |
                    (target & 0xFF) << 20 | (near_limit(kArena) & mask36) << 28,
                (length & 0xFFFFFFF) | (near_limit(kArena - 3) & mask36) << 28};
    }
};
