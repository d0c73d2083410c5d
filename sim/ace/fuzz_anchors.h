// SPDX-License-Identifier: Apache-2.0
// Valid collectives of the anchor and, after a recovery, of the tenant, and the checks of their results.
#pragma once

#include "fuzz_pair.h"

class FuzzAnchors : public FuzzPair {
public:
    uint64_t checked = 0, stores = 0;  // collectives; words at doorbells

    using FuzzPair::FuzzPair;

protected:
    // No anchor is in progress, and none was disturbed.
    void begin() {
        for (unsigned rank = 0; rank < kRanks; ++rank) guard(rank);
        operations_.clear();
        used_ = 0;
        disturbed_ = hostile_ = false;
    }

    void guard(unsigned rank) {
        auto& bytes = cluster_[rank].memory.bytes;
        for (uint64_t at = 0; at < kArena; ++at) *bytes.at(kBase + kAnchorTarget + at) = kGuard;
    }

    // `rst` of a rank: it writes nothing from now on. The other one may still write its results.
    void forget(unsigned rank) {
        guard(rank);
        for (Operation& operation : operations_) operation.number[rank] = kForgotten;
    }

    void recover() {
        check_anchors();
        bring_back();
        begin();
    }

    void store(unsigned rank, uint32_t queue, dmace_word word, uint64_t strobes) {
        Store made{queue, queue * 4096, {{word.lo, word.hi}}};
        made.strobes = static_cast<uint16_t>(strobes);
        cluster_[rank].post(std::move(made));
        if (!within(kStoreLimit, [&] { return !cluster_[rank].stores_waiting(); })) found("the doorbell port accepts no store.");
        ++stores;
    }

    static constexpr uint64_t kForgotten = ~uint64_t{0};

    struct Operation {
        uint32_t collective;
        uint64_t count, source, target;
        uint64_t number[kRanks];  // of the command, 32 bits; or kForgotten
    };

    static bool whole_source(uint32_t collective) {
        return collective == DMACE_ACE_COLLECTIVE_REDUCE_SCATTER || collective == DMACE_ACE_COLLECTIVE_ALL_TO_ALL;
    }
    static bool whole_target(uint32_t collective) {
        return collective == DMACE_ACE_COLLECTIVE_ALL_GATHER || collective == DMACE_ACE_COLLECTIVE_ALL_TO_ALL;
    }

    // Unless its words might not fit.
    void anchor(uint32_t collective, uint64_t count, uint64_t source) {
        const uint64_t received = count * (whole_target(collective) ? kRanks : 1);
        if (4 * (used_ + received) > kArena) return;
        for (unsigned rank = 0; rank < kRanks; ++rank)
            if (static_cast<uint32_t>(posted_[rank][kAnchorQueue]) - static_cast<uint32_t>(word_of(rank, kAnchorQueue)) >= 3) return;
        dmace_ace_command made = {};
        made.collective = collective;
        made.flags = DMACE_ACE_FLAG_SC;
        made.communicator = 1;
        made.dtype = DMACE_ACE_TYPE_INT32;
        made.src_region = 2, made.dst_region = 3;
        made.src_offset = static_cast<uint32_t>(source), made.dst_offset = static_cast<uint32_t>(used_);
        made.count = static_cast<uint32_t>(count);
        Operation operation{collective, count, source, used_, {}};
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            store(rank, kAnchorQueue, dmace_ace_word(&made), 0xFFFF);
            operation.number[rank] = static_cast<uint32_t>(++posted_[rank][kAnchorQueue]);
        }
        operations_.push_back(operation);
        used_ += received + 3;
        ++checked;
    }

    uint32_t element(unsigned rank, uint64_t at) {
        uint32_t value;
        std::memcpy(&value, cluster_[rank].memory.bytes.at(kBase + kAnchorSource + 4 * at), 4);
        return value;
    }

    uint32_t expected(const Operation& operation, unsigned rank, uint64_t at) {
        const uint64_t source = operation.source, count = operation.count;
        switch (operation.collective) {
        case DMACE_ACE_COLLECTIVE_ALL_REDUCE: return element(0, source + at) + element(1, source + at);
        case DMACE_ACE_COLLECTIVE_REDUCE_SCATTER: return element(0, source + rank * count + at) + element(1, source + rank * count + at);
        case DMACE_ACE_COLLECTIVE_ALL_GATHER: return element(static_cast<unsigned>(at / count), source + at % count);
        case DMACE_ACE_COLLECTIVE_ALL_TO_ALL: return element(static_cast<unsigned>(at / count), source + rank * count + at % count);
        default: return element(0, source + at);
        }
    }

    bool completed(unsigned rank) {
        return static_cast<uint32_t>(word_of(rank, kAnchorQueue)) == static_cast<uint32_t>(posted_[rank][kAnchorQueue]);
    }

    // Anchors complete with the right results, and write nothing else. Where links, memories or software may have ended
    // them, those before the first error have; with forged packets, only the memory outside of their buffers is checked.
    void check_anchors() {
        const bool ended = within(disturbed_ || hostile_ ? 5000 : kCollectiveLimit, [&] { return completed(0) && completed(1); });
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            const uint64_t word = word_of(rank, kAnchorQueue);
            const std::string who = "the anchor of rank " + std::to_string(rank);
            if (static_cast<int32_t>(static_cast<uint32_t>(word) - static_cast<uint32_t>(posted_[rank][kAnchorQueue])) > 0)
                found(who + " has completed collectives that were not posted.");
            if (!disturbed_ && !hostile_) {
                if (word >> 56) found(who + " failed with status " + number(word >> 56) + ".");
                if (!ended && !completed(rank)) found(who + " has not completed its collectives.");
            }
            check_results(rank, word);
        }
    }

    void check_results(unsigned rank, uint64_t word) {
        auto& bytes = cluster_[rank].memory.bytes;
        uint64_t at = 0;
        const auto guarded = [&](uint64_t end) {
            for (; at < end; ++at)
                if (*bytes.at(kBase + kAnchorTarget + at) != kGuard)
                    found("byte " + std::to_string(at) + " of the anchor's memory at rank " + std::to_string(rank) + " was overwritten.");
        };
        const bool good = !(word >> 56) && (word >> 32) == failed_[rank][kAnchorQueue] && !hostile_;
        for (const Operation& operation : operations_) {
            if (operation.number[rank] == kForgotten) continue;
            guarded(4 * operation.target);
            const uint64_t received = operation.count * (whole_target(operation.collective) ? kRanks : 1);
            at += 4 * received;
            // With an error, all later ones have failed.
            if (!good || static_cast<int32_t>(static_cast<uint32_t>(word) - static_cast<uint32_t>(operation.number[rank])) < 0) continue;
            for (uint64_t index = 0; index < received; ++index) {
                uint32_t value;
                std::memcpy(&value, bytes.at(kBase + kAnchorTarget + 4 * (operation.target + index)), 4);
                if (value != expected(operation, rank, index))
                    found("element " + std::to_string(index) + " of the anchor's collective " + std::to_string(operation.collective) +
                          " of " + std::to_string(operation.count) + " elements is wrong at rank " + std::to_string(rank) + ".");
            }
        }
        guarded(kArena);
    }

    // After a recovery, each kind of collective works on both communicators.
    void verify() {
        try {
            for (const uint32_t collective : {kCollectives[0], kCollectives[1], kCollectives[3]}) {
                anchor(collective, 301, 17);
                ticks(2000);
            }
            anchor(kCollectives[0], 60, 5);
            check_anchors();
            dmace_ace_command made = {};
            made.collective = DMACE_ACE_COLLECTIVE_ALL_REDUCE;
            made.flags = DMACE_ACE_FLAG_SC;
            made.dtype = DMACE_ACE_TYPE_INT32;
            made.dst_region = 1;
            made.count = 700;
            for (unsigned rank = 0; rank < kRanks; ++rank) store(rank, kTenant, dmace_ace_word(&made), 0xFFFF);
            if (!within(kCollectiveLimit, [&] {
                    for (unsigned rank = 0; rank < kRanks; ++rank)
                        if (static_cast<uint32_t>(word_of(rank, kTenant)) != static_cast<uint32_t>(posted_[rank][kTenant] + 1)) return false;
                    return true;
                }))
                found("the tenant's collective does not complete.");
            for (unsigned rank = 0; rank < kRanks; ++rank) {
                if (word_of(rank, kTenant) >> 56) found("the tenant's collective failed with status " + number(word_of(rank, kTenant) >> 56) + ".");
                for (uint64_t index = 0; index < made.count; ++index) {
                    uint32_t sum = 0, value;
                    for (unsigned other = 0; other < kRanks; ++other) {
                        std::memcpy(&value, cluster_[other].memory.bytes.at(kBase + kTenantSource + 4 * index), 4);
                        sum += value;
                    }
                    std::memcpy(&value, cluster_[rank].memory.bytes.at(kBase + kTenantTarget + 4 * index), 4);
                    if (value != sum) found("element " + std::to_string(index) + " of the tenant's collective is wrong.");
                }
            }
            ++checked;
        } catch (const Found& sentence) {
            found(std::string("after recovery, ") + sentence.what());
        }
    }

    bool disturbed_ = false;  // anchors may have been ended
    bool hostile_ = false;    // packets of the anchor's communicator may have been forged

private:
    std::vector<Operation> operations_;
    uint64_t used_ = 0;  // elements of the target
};
