// SPDX-License-Identifier: Apache-2.0
// The two accelerators of the fuzzer, which have two links to each other: time limits of accesses, the rules of AXI, the
// rights of all queues, and recovery by software.
//
// Queue 0 of each rank is the tenant's, with communicator 0. Queue 1, the anchor's, has communicator 1. Each has regions of
// its own.
#pragma once

#include "axi_rules.h"
#include "cluster.h"
#include "fuzz_job.h"

constexpr uint32_t kTenant = 0, kAnchorQueue = 1;
constexpr uint8_t kGuard = 0xA5;

// The sentence of a finding.
class Found : public std::runtime_error {
    using runtime_error::runtime_error;
};

class FuzzPair {
public:
    explicit FuzzPair(const Job& job)
        : options_(memory_of(job)), cluster_({{kRanks, 1, 1}}, links_of(job), std::vector<Target>(kRanks, target()),
                                             std::vector<MemoryOptions>(kRanks, options_), job.seed, 1) {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            watchers_[rank].fuzz = this;
            cluster_[rank].listener = &watchers_[rank];
        }
    }

protected:
    static constexpr uint64_t kAccess = 20000, kStoreLimit = 100000, kEnd = 200000, kLinkUp = 20000, kCollectiveLimit = 300000;

    [[noreturn]] static void found(const std::string& sentence) { throw Found(sentence); }

    static std::string number(uint64_t value) {
        char text[32];
        std::snprintf(text, sizeof text, "%#" PRIx64, value);
        return text;
    }

    static MemoryOptions memory_of(const Job& job) {
        MemoryOptions options;
        options.jitter = static_cast<unsigned>(job.jitter);
        options.stall = static_cast<double>(job.stall) / 100;
        return options;
    }

    static std::array<LinkOptions, kDimensions> links_of(const Job& job) {
        LinkOptions options;
        options.latency = 1 + static_cast<unsigned>(job.seed % 30);
        options.stall = job.seed % 3 ? 0 : static_cast<double>(job.stall) / 200;
        return {options, options, options};
    }

    static Target target() {
        Target made;
        made.size = ~uint64_t{0};
        made.read_latency = made.write_latency = 20;
        return made;
    }

    // -- Rights, and AXI.

    struct Watcher : Listener {
        FuzzPair* fuzz = nullptr;
        AxiRules<ACE_DATA_BYTES> axi;

        void pins(const Vtop& top) override { axi.sample(top, fuzz->cluster_[static_cast<size_t>(this - fuzz->watchers_)].memory.out); }

        void read(uint64_t address, unsigned beats) override {
            const uint64_t start = address / ACE_DATA_BYTES * ACE_DATA_BYTES, last = start + uint64_t{beats} * ACE_DATA_BYTES - 1;
            for (const uint64_t part : {kTenantSource, kAnchorSource})
                if (start >= kBase + part && last < kBase + part + round_up(part == kTenantSource ? kTenantBytes : kArena)) return;
            found("a read was issued at " + number(address) + ", where no queue may read.");
        }

        void wrote(const WriteBurst& burst) override {
            const uint64_t start = burst.address / ACE_DATA_BYTES * ACE_DATA_BYTES;
            for (size_t index = 0; index < burst.data.size(); ++index)
                if (burst.enabled[index / 8] >> index % 8 & 1 && !writable(start + index))
                    found("a byte was written at " + number(start + index) + ", where no queue may write.");
        }

        static uint64_t round_up(uint64_t bytes) { return (bytes + ACE_DATA_BYTES - 1) / ACE_DATA_BYTES * ACE_DATA_BYTES; }

        static bool writable(uint64_t address) {
            const uint64_t at = address - kBase;
            return at - kTenantTarget < kTenantBytes || at - kAnchorTarget < kArena || at - kWords < 8 || at - kWords - kWordPitch < 8;
        }
    };

    void rules() {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            if (!watchers_[rank].axi.broken.empty()) found(watchers_[rank].axi.broken);
            if (cluster_[rank].memory.illegal_accesses()) found("rank " + std::to_string(rank) + " accessed addresses without memory.");
        }
    }

    // -- Time and registers.

    void ticks(uint64_t cycles) {
        cluster_.run(cycles, [] { return false; });
    }

    template <class Done>
    bool within(uint64_t cycles, Done done) {
        return cluster_.run(cycles, done);
    }

    void settle() {
        size_t most = 0;
        for (unsigned rank = 0; rank < kRanks; ++rank) most = std::max(most, cluster_[rank].accesses_waiting());
        if (!within(kAccess + 100 * most, [&] {
                for (unsigned rank = 0; rank < kRanks; ++rank)
                    if (cluster_[rank].accesses_waiting()) return false;
                return true;
            }))
            found("a register access has no response.");
    }

    void write(unsigned rank, uint32_t offset, uint64_t value) {
        cluster_[rank].post_write(offset, static_cast<uint32_t>(value));
        settle();
    }

    uint32_t read(unsigned rank, uint32_t offset) {
        cluster_[rank].values.clear();
        cluster_[rank].post_read(offset);
        settle();
        return cluster_[rank].values.front();
    }

    uint32_t selected(unsigned rank, uint32_t select, uint32_t which, uint32_t offset) {
        write(rank, select, which);
        return read(rank, offset);
    }

    uint32_t communicator_state(unsigned rank, uint32_t communicator) {
        return selected(rank, DMACE_ACE_COMMUNICATOR_SELECT_OFFSET, communicator, DMACE_ACE_COMMUNICATOR_STATE_OFFSET) &
               DMACE_ACE_COMMUNICATOR_STATE_STATE_MASK;
    }

    // -- Configuration, and recovery by software.

    void power_up() {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            auto& bytes = cluster_[rank].memory.bytes;
            bytes.map(kBase, kSpan, kGuard);
            for (const uint64_t part : {kTenantSource, kAnchorSource})
                for (uint64_t at = 0; at < kArena; ++at)
                    *bytes.at(kBase + part + at) = static_cast<uint8_t>(at * 7 + (at >> 8) * 13 + rank * 101 + part / kArena);
            for (uint64_t at = 0; at < kArena; ++at) *bytes.at(kBase + kWords + at) = 0;
        }
        configure();
    }

    // All tables, with the next epoch.
    void configure() {
        for (unsigned rank = 0; rank < kRanks; ++rank)
            for (const SetUp& access : kSetUp[rank])
                cluster_[rank].post_write(access.offset, access.offset == DMACE_ACE_COMMUNICATOR_MODE_OFFSET
                                                             ? (access.value & ~15u) | (epoch_ & 15u) : access.value);
        settle();
    }

    // Ends everything, and configures both ranks and their links again.
    void bring_back() {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            for (unsigned port = 0; port < 2; ++port) {
                cluster_[rank].out[port]->faults.set({});
                cluster_[rank].out[port]->forge_nothing();
            }
            cluster_[rank].memory.fail_read(0);
            cluster_[rank].memory.fail_write(0);
        }
        if (cut_ > cluster_.cycle) ticks(cut_ - cluster_.cycle);
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            write(rank, DMACE_ACE_WATCHDOG_OFFSET, kWatchdog);
            restore_patience(rank);
            for (uint32_t communicator = 0; communicator < kCommunicators; ++communicator)
                write(rank, DMACE_ACE_COMMUNICATOR_REVOKE_OFFSET, communicator);
        }
        for (unsigned rank = 0; rank < kRanks; ++rank)
            for (uint32_t communicator = 0; communicator < kCommunicators; ++communicator)
                await_end(rank, communicator);
        for (unsigned rank = 0; rank < kRanks; ++rank)
            for (uint32_t queue = 0; queue < kQueues; ++queue) clear(rank, queue);
        for (unsigned rank = 0; rank < kRanks; ++rank) write(rank, DMACE_ACE_LINK_START_OFFSET, 3);
        for (const uint64_t end = cluster_.cycle + kLinkUp;; ticks(64)) {
            bool up = true;
            for (unsigned rank = 0; rank < kRanks; ++rank)
                for (uint32_t port = 0; port < 2; ++port)
                    up &= (selected(rank, DMACE_ACE_LINK_SELECT_OFFSET, port, DMACE_ACE_LINK_STATE_OFFSET) &
                           DMACE_ACE_LINK_STATE_STATE_MASK) == DMACE_ACE_LINK_STATE_STATE_UP;
            if (up) break;
            if (cluster_.cycle > end) found("a link does not come up again.");
        }
        ++epoch_;
        configure();
    }

    // A packet that was lost leaves again only with its time-out, and a communicator ends only after its packets have left.
    void restore_patience(unsigned rank) {
        for (const SetUp& access : kSetUp[rank])
            if (access.offset == DMACE_ACE_LINK_PATIENCE_OFFSET) write(rank, access.offset, access.value);
    }

    void await_end(unsigned rank, uint32_t communicator) {
        for (const uint64_t end = cluster_.cycle + kEnd;; ticks(64)) {
            const uint32_t state = communicator_state(rank, communicator);
            if (state == DMACE_ACE_COMMUNICATOR_STATE_STATE_CLOSED || state == DMACE_ACE_COMMUNICATOR_STATE_STATE_REVOKED) return;
            if (cluster_.cycle > end)
                found("communicator " + std::to_string(communicator) + " of rank " + std::to_string(rank) + " does not end after it was revoked.");
        }
    }

    // Clears a queue until it is idle and memory has its latest completion word.
    void clear(unsigned rank, uint32_t queue) {
        for (const uint64_t end = cluster_.cycle + kEnd;; ticks(64)) {
            const uint32_t state = selected(rank, DMACE_ACE_QUEUE_SELECT_OFFSET, queue, DMACE_ACE_QUEUE_STATE_OFFSET);
            const uint32_t count = read(rank, DMACE_ACE_QUEUE_COUNT_OFFSET);
            const uint64_t word = word_of(rank, queue);
            if (!state && static_cast<uint32_t>(word) == count && !(word >> 56)) {
                posted_[rank][queue] = count;
                failed_[rank][queue] = word >> 32;
                return;
            }
            if (state & DMACE_ACE_QUEUE_STATE_STATUS_MASK) write(rank, DMACE_ACE_QUEUE_CLEAR_OFFSET, queue);
            if (cluster_.cycle > end)
                found("queue " + std::to_string(queue) + " of rank " + std::to_string(rank) + (state
                    ? " does not become idle." : " has completed " + std::to_string(count) + " commands, and its completion word is " + number(word) + "."));
        }
    }

    uint64_t word_of(unsigned rank, uint32_t queue) {
        uint64_t word;
        std::memcpy(&word, cluster_[rank].memory.bytes.at(kBase + kWords + kWordPitch * queue), 8);
        return word;
    }

    uint64_t cut_ = 0;  // cycle in which the last cut of a link ends
    uint64_t posted_[kRanks][kQueues] = {}, failed_[kRanks][kQueues] = {};  // commands that the completion words count
    uint32_t epoch_ = 0;
    MemoryOptions options_;
    Cluster cluster_;
    Watcher watchers_[kRanks];
};
