// SPDX-License-Identifier: Apache-2.0
// Jobs of the accelerator's fuzzer: steps that arbitrary software, threads, memories and links take, and random ones.
#pragma once

#include "ace_setup.h"
#include "dmace_ace.h"
#include "fuzz_steps.h"

enum Kind : unsigned {
    kStore, kCollective, kAnchor, kWrite, kProgram, kDirectory, kExtent, kDefine, kFailRead, kFailWrite, kFaults, kCut,
    kBeat, kCredit, kForge, kRevoke, kRecover, kReset, kWait
};

inline const std::vector<StepKind>& step_kinds() {
    static const std::vector<StepKind> kinds{
        {"store", 4}, {"collective", 4}, {"anchor", 3}, {"write", 3}, {"program", 3}, {"directory", 3}, {"extent", 6},
        {"define", 6}, {"fail_read", 2}, {"fail_write", 2}, {"faults", 4}, {"cut", 3}, {"beat", 5}, {"credit", 4},
        {"forge", 5}, {"revoke", 1}, {"recover", 0}, {"rst", 1}, {"wait", 1}};
    return kinds;
}

constexpr unsigned kRanks = 2;
constexpr uint32_t kCollectives[] = {
    DMACE_ACE_COLLECTIVE_ALL_REDUCE, DMACE_ACE_COLLECTIVE_REDUCE_SCATTER, DMACE_ACE_COLLECTIVE_ALL_GATHER,
    DMACE_ACE_COLLECTIVE_ALL_TO_ALL, DMACE_ACE_COLLECTIVE_BROADCAST, DMACE_ACE_COLLECTIVE_BARRIER};

// Makes steps: any bits, most of the time in the form of something valid. A third of the jobs are mild: the anchor's
// collectives must complete, as nothing may end them; most other jobs have a step early after which they need not.
class StepMaker : public JobMaker {
public:
    using JobMaker::JobMaker;

    Job job() override {
        mild_ = random_.chance(0.33);
        return JobMaker::job();
    }

    Step step() override {
        if (!mild_) return any_step();
        const uint64_t dice = random_.below(10);
        if (dice < 2) {
            // Links cope with up to 2 % of each fault.
            uint64_t rates = 0;
            for (const unsigned which : {0, 1, 2, 4, 5})
                if (random_.chance(0.4)) rates |= (1 + random_.below(20)) << 8 * which;
            return made(kFaults, {random_.below(kRanks), random_.below(2), rates, 1 + random_.below(2000)});
        }
        if (dice < 6) return made(kAnchor, {random_.below(5), random_.below(500), random_.below(4000)});
        for (;;) {
            const Step step = any_step();
            switch (step.kind) {
            case kStore: case kCollective: case kAnchor: case kProgram: case kDirectory: case kExtent: case kDefine: case kBeat:
            case kRevoke: case kWait: return step;
            default: break;
            }
        }
    }

private:
    Step any_step() {
        const uint64_t rank = random_.below(kRanks), port = random_.below(2), dice = random_.below(100);
        if (dice < 22) {
            const dmace_word word = command();
            return made(kStore, {random_.below(4), word.lo, word.hi, random_.chance(0.9) ? 0xFFFF : random_.below(0x10000)});
        }
        if (dice < 36)
            return made(kCollective, {random_.below(6) | random_.below(4) << 4 | random_.below(2) << 8 | random_.below(16) << 12,
                                      random_.below(700), random_.below(3000), random_.below(3000)});
        if (dice < 46) return made(kAnchor, {random_.below(5), random_.below(500), random_.below(4000)});
        if (dice < 52) {
            constexpr uint32_t kLikely[] = {DMACE_ACE_QUEUE_CLEAR_OFFSET, DMACE_ACE_COMMUNICATOR_REVOKE_OFFSET,
                                            DMACE_ACE_LINK_START_OFFSET, DMACE_ACE_LINK_STOP_OFFSET, DMACE_ACE_WATCHDOG_OFFSET};
            return made(kWrite, {rank, random_.chance(0.6) ? kLikely[random_.below(5)] : random_.below(0x180) & ~uint64_t{3},
                                 random_.chance(0.6) ? random_.below(8) : random_.next() >> 32});
        }
        if (dice < 58)
            return made(kProgram, {rank, random_.below(kTenantWords),
                                   random_.chance(0.7) ? uint64_t{1} << random_.below(48) : random_.next() & random_.next()});
        if (dice < 60) return made(kDirectory, {rank, random_.below(16), random_.next() & 0x3FFFFFF});
        if (dice < 63)
            return made(kExtent, {rank, random_.below(kRanks + 1), random_.below(600), random_.below(5000), random_.below(600),
                                  random_.chance(0.8) ? random_.below(5000) : random_.next() & 0xFFFFFFF});
        if (dice < 65)
            return made(kDefine, {rank, random_.chance(0.5) ? 1 : random_.next() & 0xFFFFFF, random_.below(3),
                                  random_.next() & 0xFF0FFF, random_.next() & 0xFF0030, random_.below(2000)});
        if (dice < 67) return made(kFailRead, {rank, 1 + random_.below(8)});
        if (dice < 69) return made(kFailWrite, {rank, 1 + random_.below(8)});
        if (dice < 75) {
            uint64_t rates = 0;
            for (unsigned which = 0; which < 6; ++which)
                if (random_.chance(0.4)) rates |= random_.below(random_.chance(0.8) ? 40 : 256) << 8 * which;
            return made(kFaults, {rank, port, rates, 1 + random_.below(2000)});
        }
        if (dice < 78) return made(kCut, {rank, port, random_.below(4000)});
        if (dice < 83) return made(kBeat, {rank, port, random_.next(), random_.next(), random_.next()});
        if (dice < 87) {
            const uint64_t low = random_.chance(0.7) ? random_.below(4) << 3 | (random_.next() & 0xE0) | random_.below(4) << 8 |
                                                           random_.below(4) << 16 | random_.below(512) << 57
                                                     : random_.next();
            return made(kCredit, {rank, port, low, random_.next()});
        }
        if (dice < 92)
            return made(kForge, {rank, port, 1 + random_.below(6), random_.chance(0.7) ? uint64_t{1} << random_.below(64) : random_.next(),
                                 random_.chance(0.7) ? 0 : random_.below(1 << 17)});
        if (dice < 94) return made(kRevoke, {rank});
        if (dice < 95) return made(kRecover, {});
        if (dice < 96) return made(kReset, {rank});
        return made(kWait, {random_.chance(0.7) ? random_.below(100) : random_.below(3000)});
    }

    // A command: any bits, or fields near their limits.
    dmace_word command() {
        if (random_.chance(0.2)) return {random_.next(), random_.next()};
        if (random_.chance(0.4)) return at_the_end();
        const auto near_limit = [&](uint64_t limit) {
            return random_.chance(0.6) ? random_.below(limit) : random_.chance(0.8) ? limit - random_.below(40) : random_.next() & 0xFFFFFFF;
        };
        dmace_ace_command made = {};
        const auto mostly = [&](double probability, uint64_t usual, uint64_t limit) {
            return static_cast<uint32_t>(random_.chance(probability) ? usual : random_.below(limit));
        };
        made.collective = mostly(0.9, 1 + random_.below(7), 16);
        made.flags = mostly(0.8, 1, 16);
        made.communicator = mostly(0.9, 0, 16);
        made.dtype = mostly(0.9, random_.below(10), 16);
        made.op = mostly(0.8, 0, 8);
        made.widen = mostly(0.8, 0, 2);
        made.root = mostly(0.7, random_.below(2), 256);
        made.src_region = mostly(0.8, 0, 9);
        made.dst_region = mostly(0.8, 1, 9);
        const uint64_t size = made.dtype == DMACE_ACE_TYPE_FP32 || made.dtype == DMACE_ACE_TYPE_INT32 ? 4 : made.dtype == 1 || made.dtype == 2 ? 2 : 1;
        const uint64_t region = kTenantBytes / size;
        made.src_offset = static_cast<uint32_t>(near_limit(region));
        made.dst_offset = static_cast<uint32_t>(near_limit(region));
        made.count = static_cast<uint32_t>(random_.chance(0.7) ? random_.below(600) : near_limit(region));
        return dmace_ace_word(&made);
    }

    // A valid command, of which one of the buffers ends at most a few elements before or behind its region's end.
    dmace_word at_the_end() {
        dmace_ace_command made = {};
        made.collective = static_cast<uint32_t>(1 + random_.below(6));
        made.flags = 1;
        made.dtype = random_.chance(0.7) ? DMACE_ACE_TYPE_INT8 : DMACE_ACE_TYPE_INT32;
        made.dst_region = 1;
        const uint64_t region = kTenantBytes / (made.dtype == DMACE_ACE_TYPE_INT8 ? 1 : 4), count = 1 + random_.below(300);
        (random_.chance(0.5) ? made.src_offset : made.dst_offset) =
            static_cast<uint32_t>(region - count * (random_.chance(0.5) ? 1 : kRanks) + random_.below(4) - 1);
        made.count = static_cast<uint32_t>(count);
        return dmace_ace_word(&made);
    }

    bool mild_ = false;
};
