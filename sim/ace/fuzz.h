// SPDX-License-Identifier: Apache-2.0
// Runs a job of the fuzzer on two accelerators, which have two links to each other, and checks that they are contained,
// that nothing hangs, that valid collectives have the right results, and that software can recover.
//
// Queue 0 of each rank is the tenant's, with communicator 0; the steps of the job drive it. Queue 1, the anchor's, has
// communicator 1 and posts valid collectives only. Each has regions of its own. Regions and addresses are privileged: no
// step changes them.
#pragma once

#include <map>
#include <set>

#include "axi_rules.h"
#include "cluster.h"
#include "fuzz_job.h"

constexpr uint32_t kTenant = 0, kAnchorQueue = 1;
constexpr uint8_t kGuard = 0xA5;

class AceFuzz {
public:
    std::string finding;         // empty if there is none
    std::set<uint64_t> covered;  // features
    uint64_t checked = 0, stores = 0;

    explicit AceFuzz(const Job& job)
        : options_(memory_of(job)), cluster_({{kRanks, 1, 1}}, links_of(job), std::vector<Target>(kRanks, target()),
                                             std::vector<MemoryOptions>(kRanks, options_), job.seed, 1) {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            watchers_[rank].fuzz = this;
            cluster_[rank].listener = &watchers_[rank];
        }
    }

    // Runs a job, once.
    void run(const Job& job) {
        try {
            power_up();
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
    static constexpr uint64_t kAccess = 20000, kStoreLimit = 100000, kEnd = 200000, kLinkUp = 20000, kCollectiveLimit = 300000;

    class Found : public std::runtime_error {
        using runtime_error::runtime_error;
    };
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
        AceFuzz* fuzz = nullptr;
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
        begin();
    }

    // All tables, with the next epoch.
    void configure() {
        for (unsigned rank = 0; rank < kRanks; ++rank)
            for (const SetUp& access : kSetUp[rank])
                cluster_[rank].post_write(access.offset, access.offset == DMACE_ACE_COMMUNICATOR_MODE_OFFSET
                                                             ? (access.value & ~15u) | (epoch_ & 15u) : access.value);
        settle();
    }

    // No anchor is in progress, and none was disturbed.
    void begin() {
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            auto& bytes = cluster_[rank].memory.bytes;
            for (uint64_t at = 0; at < kArena; ++at) *bytes.at(kBase + kAnchorTarget + at) = kGuard;
        }
        operations_.clear();
        used_ = 0;
        disturbed_ = hostile_ = false;
    }

    void recover() {
        check_anchors();
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            for (unsigned port = 0; port < 2; ++port) cluster_[rank].out[port]->faults.set({});
            cluster_[rank].memory.fail_read(0);
            cluster_[rank].memory.fail_write(0);
        }
        if (cut_ > cluster_.cycle) ticks(cut_ - cluster_.cycle);
        for (unsigned rank = 0; rank < kRanks; ++rank) {
            write(rank, DMACE_ACE_WATCHDOG_OFFSET, kWatchdog);
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
        begin();
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

    // -- Steps.

    void take(const Step& step) {
        const uint64_t* n = step.numbers;
        const unsigned rank = n[0] % kRanks, port = n[1] % 2;
        switch (step.kind) {
        case kStore: return store(rank, kTenant, {n[1], n[2]}, n[3]);
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

    void store(unsigned rank, uint32_t queue, dmace_word word, uint64_t strobes) {
        Store made{queue, queue * 4096, {{word.lo, word.hi}}};
        made.strobes = static_cast<uint16_t>(strobes);
        cluster_[rank].post(std::move(made));
        if (!within(kStoreLimit, [&] { return !cluster_[rank].stores_waiting(); })) found("the doorbell port accepts no store.");
        ++stores;
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
        disturbed_ = true;
        cluster_[rank].out[port]->faults.set({rate(0), rate(1), rate(2), rate(3), cycles, rate(4), rate(5), cycles, cycles});
    }

    void insert(unsigned rank, unsigned port, const std::array<uint64_t, 3>& bits) {
        static_assert(kLinkBytes <= 24, "a beat must fit into three words");
        cluster_[rank].out[port]->insert(bits.data(), cluster_.cycle);
        // A packet that is cut may time out.
        disturbed_ = true;
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
        operations_.clear();
        begin();
        disturbed_ = hostile_ = true;
        // Completion words need a queue's configuration.
        for (const SetUp& access : kSetUp[rank])
            if (access.offset != DMACE_ACE_COMMUNICATOR_COMMIT_OFFSET) cluster_[rank].post_write(access.offset, access.value);
        settle();
        recover();
    }

    // -- Valid collectives.

    struct Operation {
        uint32_t collective;
        uint64_t count, source, target;
        uint32_t number[kRanks];
    };

    static bool whole_source(uint32_t collective) {
        return collective == DMACE_ACE_COLLECTIVE_REDUCE_SCATTER || collective == DMACE_ACE_COLLECTIVE_ALL_TO_ALL;
    }
    static bool whole_target(uint32_t collective) {
        return collective == DMACE_ACE_COLLECTIVE_ALL_GATHER || collective == DMACE_ACE_COLLECTIVE_ALL_TO_ALL;
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
            guarded(4 * operation.target);
            const uint64_t received = operation.count * (whole_target(operation.collective) ? kRanks : 1);
            at += 4 * received;
            // With an error, all later ones have failed.
            if (!good || static_cast<int32_t>(static_cast<uint32_t>(word) - operation.number[rank]) < 0) continue;
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

    MemoryOptions options_;
    Cluster cluster_;
    Watcher watchers_[kRanks];
    std::vector<Operation> operations_;
    uint64_t posted_[kRanks][kQueues] = {}, failed_[kRanks][kQueues] = {};
    uint64_t used_ = 0, cut_ = 0, stage_ = 0;
    uint32_t epoch_ = 0;
    bool disturbed_ = false, hostile_ = false;
};
