// SPDX-License-Identifier: Apache-2.0
// Runs a job of the fuzzer on two accelerators, and checks containment, time limits, the results of valid collectives, and
// recovery by software.
//
// The steps of a job drive the tenant's queue; the anchor's queue posts valid collectives only. Regions and addresses are
// privileged: no step changes them.
#pragma once

#include <set>

#include "fuzz_anchors.h"

class AceFuzz : public FuzzAnchors {
public:
    std::string finding;         // empty if there is none
    std::set<uint64_t> covered;  // features

    using FuzzAnchors::FuzzAnchors;

    // Runs a job, once.
    void run(const Job& job) {
        try {
            power_up();
            begin();
            for (const Step& step : job.steps) {
                take(step);
                note(step.kind);
            }
            recover();
            verify();
            rules();
        } catch (const Found& sentence) {
            finding = "Cycle " + std::to_string(cluster_.cycle) + ": " + sentence.what();
        } catch (const std::runtime_error& error) {
            finding = error.what();
        }
    }

private:
    // -- Steps.

    void take(const Step& step) {
        const uint64_t* n = step.numbers;
        const unsigned rank = n[0] % kRanks, port = n[1] % 2;
        switch (step.kind) {
        case kStore:
            // On one rank, or on both.
            for (unsigned one = 0; one < kRanks; ++one)
                if (n[0] % 4 > 1 || one == rank) store(one, kTenant, {n[1], n[2]}, n[3]);
            return;
        case kCollective: return post(kTenant, n[0] & 15, n[0] >> 4 & 3, n[0] >> 8 & 1, n[0] >> 12 & 15, n[1] % 2000, n[2] % 4000, n[3] % 4000);
        case kAnchor: return anchor(kCollectives[n[0] % 5], n[1] % 500, n[2] % 4000);
        case kWrite: return any_register(rank, n[1] & 0xFFC, n[2]);
        case kProgram: return program(rank, n[1] % kTenantWords, n[2]);
        case kDirectory:
            cluster_[rank].post_write(DMACE_ACE_DIRECTORY_ENTRY_OFFSET, static_cast<uint32_t>(n[2]));
            return write(rank, DMACE_ACE_DIRECTORY_COMMIT_OFFSET, n[1] % 16);
        case kExtent:
            for (const auto& [offset, value] : {std::pair<uint32_t, uint64_t>{DMACE_ACE_EXTENT_SEND_COUNT_OFFSET, n[2]},
                                                {DMACE_ACE_EXTENT_SEND_PLACE_OFFSET, n[3]},
                                                {DMACE_ACE_EXTENT_RECEIVE_COUNT_OFFSET, n[4]},
                                                {DMACE_ACE_EXTENT_RECEIVE_PLACE_OFFSET, n[5]}})
                cluster_[rank].post_write(offset, value & 0xFFFFFFF);
            // In-flight collectives must not use the row.
            end_tenant(rank);
            return write(rank, DMACE_ACE_EXTENT_COMMIT_OFFSET, n[1] % kExtents);
        case kDefine: return define(rank, n);
        case kFailRead: disturbed_ = true; return cluster_[rank].memory.fail_read(1 + n[1] % 64);
        case kFailWrite: disturbed_ = true; return cluster_[rank].memory.fail_write(1 + n[1] % 64);
        case kFaults: return faults(rank, port, n[2], 1 + n[3] % 4000);
        case kCut:
            disturbed_ = true;
            cut_ = std::max(cut_, cluster_.cycle + n[2] % 4000);
            return cluster_[rank].out[port]->faults.cut(cluster_.cycle, cluster_.cycle + n[2] % 4000);
        case kBeat: return insert(rank, port, {n[2], n[3], n[4]});
        case kCredit: return credit(rank, port, n[2], n[3]);
        case kForge: {
            std::array<uint8_t, 12> mask{};
            std::memcpy(mask.data(), &n[3], 8);
            std::memcpy(mask.data() + 8, &n[4], 4);
            hostile_ = true;
            return cluster_[rank].out[port]->forge(1 + n[2] % 64, mask);
        }
        case kRevoke: return write(rank, DMACE_ACE_COMMUNICATOR_REVOKE_OFFSET, 0);
        case kRecover: return recover();
        case kReset: return restart(rank);
        case kWait: return ticks(n[0] % 4000);
        default: return;
        }
    }

    // Any register but those of tables, which are privileged.
    void any_register(unsigned rank, uint32_t offset, uint64_t value) {
        switch (offset) {
        case DMACE_ACE_REGION_COMMIT_OFFSET: case DMACE_ACE_COMMUNICATOR_COMMIT_OFFSET: case DMACE_ACE_PROGRAM_COMMIT_OFFSET:
        case DMACE_ACE_DIRECTORY_COMMIT_OFFSET: case DMACE_ACE_EXTENT_COMMIT_OFFSET: case DMACE_ACE_QUEUE_COMMIT_OFFSET:
            return;
        case DMACE_ACE_COMMUNICATOR_REVOKE_OFFSET: case DMACE_ACE_WATCHDOG_OFFSET: case DMACE_ACE_LINK_PATIENCE_OFFSET:
        case DMACE_ACE_LINK_START_OFFSET: case DMACE_ACE_LINK_STOP_OFFSET:
            disturbed_ = true;
        }
        write(rank, offset, value);
    }

    void program(unsigned rank, uint64_t address, uint64_t mask) {
        const uint64_t word = kTenantProgram[rank][address] ^ mask;
        cluster_[rank].post_write(DMACE_ACE_PROGRAM_WORD_LO_OFFSET, static_cast<uint32_t>(word));
        cluster_[rank].post_write(DMACE_ACE_PROGRAM_WORD_HI_OFFSET, static_cast<uint32_t>(word >> 32 & 0xFFFF));
        write(rank, DMACE_ACE_PROGRAM_COMMIT_OFFSET, address);
    }

    // Ends the tenant's collectives on one rank.
    void end_tenant(unsigned rank) {
        for (unsigned one = 0; one < kRanks; ++one) restore_patience(one);
        write(rank, DMACE_ACE_COMMUNICATOR_REVOKE_OFFSET, 0);
        await_end(rank, 0);
        clear(rank, kTenant);
    }

    // The tenant's communicator becomes another, with the same share.
    void define(unsigned rank, const uint64_t* n) {
        end_tenant(rank);
        const uint32_t values[][2] = {
            {DMACE_ACE_COMMUNICATOR_SHAPE_OFFSET, static_cast<uint32_t>(n[1] & 0xFFFFFF)},
            {DMACE_ACE_COMMUNICATOR_PLACE_OFFSET, static_cast<uint32_t>(n[2] & 0xFFFFFF)},
            {DMACE_ACE_COMMUNICATOR_SHARE_OFFSET, kTenantShare},
            {DMACE_ACE_COMMUNICATOR_ROOT_OFFSET, static_cast<uint32_t>(n[3] & 0xFF0FFF)},
            {DMACE_ACE_COMMUNICATOR_MODE_OFFSET, static_cast<uint32_t>(n[4] & 0xFF0030) | 0x300 | (epoch_ & 15)},
            {DMACE_ACE_COMMUNICATOR_ONE_SHOT_OFFSET, static_cast<uint32_t>(n[5] & 0xFFFFF)}};
        for (const auto& [offset, value] : values) cluster_[rank].post_write(offset, value);
        write(rank, DMACE_ACE_COMMUNICATOR_COMMIT_OFFSET, 0);
    }

    void faults(unsigned rank, unsigned port, uint64_t rates, uint64_t cycles) {
        const auto rate = [rates](unsigned which) { return static_cast<double>(rates >> 8 * which & 0xFF) / 1024; };
        // A link copes with these; with more it may time out.
        disturbed_ |= rate(0) + rate(1) + rate(5) > 0.1 || (rate(3) > 0 && cycles > kTimeout);
        cluster_[rank].out[port]->faults.set({rate(0), rate(1), rate(2), rate(3), cycles, rate(4), rate(5), cycles, cycles});
    }

    void insert(unsigned rank, unsigned port, const std::array<uint64_t, 3>& bits) {
        static_assert(kLinkBytes <= 24, "a beat must fit into three words");
        cluster_[rank].out[port]->insert(bits.data(), cluster_.cycle);
    }

    // A CREDIT packet with a right CRC.
    void credit(unsigned rank, unsigned port, uint64_t low, uint64_t high) {
        const uint64_t header[2] = {low & ~uint64_t{7}, high & ((uint64_t{1} << (ACE_BEAT_LINK_HEADER_WIDTH - 64)) - 1)};
        uint8_t beat[24] = {};
        uint32_t crc = ~0u;
        for (unsigned byte = 0; byte < 12; ++byte) crc = crc32_after(crc, static_cast<uint8_t>(header[byte / 8] >> byte % 8 * 8));
        const auto set = [&beat](unsigned at, unsigned width, const uint64_t* value) {
            for (unsigned bit = 0; bit < width; ++bit)
                if (value[bit / 64] >> bit % 64 & 1) beat[(at + bit) / 8] |= static_cast<uint8_t>(1u << (at + bit) % 8);
        };
        const uint64_t check = static_cast<uint32_t>(~crc), one = 1;
        set(ACE_BEAT_LINK_HEADER, ACE_BEAT_LINK_HEADER_WIDTH, header);
        set(ACE_BEAT_CRC, ACE_BEAT_CRC_WIDTH, &check);
        set(ACE_BEAT_FIRST, 1, &one);
        set(ACE_BEAT_LAST, 1, &one);
        cluster_[rank].out[port]->insert(beat, cluster_.cycle);
        hostile_ = true;
    }

    // `rst` of a rank at any moment; then software recovers both.
    void restart(unsigned rank) {
        check_anchors();
        rules();
        MemoryOptions options = options_;
        options.seed = cluster_.cycle;
        cluster_[rank].restart(options);
        watchers_[rank].axi.clear();
        for (uint32_t queue = 0; queue < kQueues; ++queue) {
            const uint64_t zero = 0;
            std::memcpy(cluster_[rank].memory.bytes.at(kBase + kWords + kWordPitch * queue), &zero, 8);
            posted_[rank][queue] = failed_[rank][queue] = 0;
        }
        forget(rank);
        disturbed_ = hostile_ = true;
        // Completion words need a queue's configuration.
        for (const SetUp& access : kSetUp[rank])
            if (access.offset != DMACE_ACE_COMMUNICATOR_COMMIT_OFFSET) cluster_[rank].post_write(access.offset, access.value);
        settle();
        recover();
    }

    // A collective on both ranks, of any types, by the tenant. Its results are not checked.
    void post(uint32_t queue, uint64_t kind, uint64_t more, uint64_t widen, uint64_t dtype, uint64_t count, uint64_t source, uint64_t target) {
        dmace_ace_command made = {};
        made.collective = kCollectives[kind % 6];
        made.flags = DMACE_ACE_FLAG_SC | (more & 1 ? DMACE_ACE_FLAG_VARYING : 0) | (more == 2 ? DMACE_ACE_FLAG_ORDERED : 0);
        made.dtype = static_cast<uint32_t>(dtype);
        made.widen = static_cast<uint32_t>(widen);
        made.src_region = 0, made.dst_region = 1;
        made.src_offset = static_cast<uint32_t>(source), made.dst_offset = static_cast<uint32_t>(target);
        made.count = static_cast<uint32_t>(count);
        for (unsigned rank = 0; rank < kRanks; ++rank) store(rank, queue, dmace_ace_word(&made), 0xFFFF);
    }

    // -- Coverage: states after each kind of step, and counters by their number of bits.

    void note(unsigned kind) {
        if (++stage_ % 4) return;
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            const uint32_t state = selected(rank, DMACE_ACE_COMMUNICATOR_SELECT_OFFSET, 0, DMACE_ACE_COMMUNICATOR_STATE_OFFSET) & 7;
            const uint32_t fault = read(rank, DMACE_ACE_FAULT_OFFSET) & 0xFF;
            const uint32_t queue = selected(rank, DMACE_ACE_QUEUE_SELECT_OFFSET, 0, DMACE_ACE_QUEUE_STATE_OFFSET);
            covered.insert(uint64_t{1} << 48 | uint64_t{kind} << 40 | state << 16 | fault << 8);
            covered.insert(uint64_t{2} << 48 | (queue & 0xFF) << 8 | ((queue >> 8 & 0xFF) != 0) << 1 | ((queue >> 16) != 0));
            const uint32_t link = selected(rank, DMACE_ACE_LINK_SELECT_OFFSET, stage_ / 4 % 2, DMACE_ACE_LINK_STATE_OFFSET);
            covered.insert(uint64_t{3} << 48 | uint64_t{kind} << 40 | (link >> 29) << 8 | (link & 3));
            for (const uint32_t offset : {DMACE_ACE_LINK_REPLAYS_OFFSET, DMACE_ACE_LINK_CRC_ERRORS_OFFSET, DMACE_ACE_LINK_SEQUENCE_ERRORS_OFFSET,
                                          DMACE_ACE_LINK_DUPLICATES_OFFSET, DMACE_ACE_LINK_TIMEOUTS_OFFSET, DMACE_ACE_LINK_STALE_OFFSET,
                                          DMACE_ACE_COUNT_LATE_PACKETS_LO_OFFSET, DMACE_ACE_COUNT_BAD_PACKETS_LO_OFFSET}) {
                const uint32_t count = read(rank, offset);
                covered.insert(uint64_t{4} << 48 | offset << 8 | (count ? 32u - static_cast<unsigned>(__builtin_clz(count)) : 0u));
            }
            const uint32_t fsm = selected(rank, DMACE_ACE_FSM_SELECT_OFFSET, 0, DMACE_ACE_FSM_STATE_OFFSET);
            covered.insert(uint64_t{5} << 48 | (fsm & 0xFF3));
        }
    }

    uint64_t stage_ = 0;
};
