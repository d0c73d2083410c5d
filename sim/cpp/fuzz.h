// SPDX-License-Identifier: Apache-2.0
// Runs a job of the fuzzer on the engine and checks that it is contained, that it does not hang, and that it counts
// all completions.
//
// Queue 0 has a descriptor ring, queue 1 takes ARK words, queue 2 native ones; the steps of the job drive these. Queue 3,
// the anchor, is driven with valid copies only, and no step but `rst` concerns it. Addresses are privileged: no step
// changes them, but `revoke` takes a region away. After each job all queues are reset, configured again and checked.
#pragma once

#include <map>
#include <set>

#include "fuzz_job.h"

constexpr uint32_t kAnchorQueue = 3, kForeignDomain = 7;
constexpr uint64_t kForeign = kBase + 32 * kEpochSpan;

class Fuzz : public Observer {
public:
    std::string finding;                // empty if there is none
    std::set<uint64_t> covered;         // features
    uint64_t checked = 0, stores = 0;   // copies of anchors and of checks after resets

    explicit Fuzz(const Job&) : engine_({all_memory()}, MemoryOptions{}) { engine_.observer = this; }

    // Runs a job, once.
    void run(const Job& job) {
        options_.seed = job.seed;
        options_.jitter = static_cast<unsigned>(job.jitter);
        options_.out_of_order = true;
        options_.stall = static_cast<double>(job.stall) / 100;
        try {
            power_up();
            for (const Step& step : job.steps) {
                if (!finding.empty()) break;
                take(step);
                note(step.kind);
            }
            if (finding.empty()) finish();
        } catch (const std::runtime_error& error) {
            if (finding.empty()) finding = error.what();
        }
    }

private:
    static Target all_memory() {
        Target target;
        target.base = kBase;
        target.size = 64 * kEpochSpan;
        target.read_latency = target.write_latency = 20;
        return target;
    }

    void found(const std::string& sentence) {
        if (finding.empty()) finding = "Cycle " + std::to_string(engine_.cycle - start_) + ": " + sentence;
    }

    // -- Rights.

    void written(uint64_t, const WriteBurst& burst) override {
        const uint64_t start = burst.address / kBytes * kBytes;
        for (size_t index = 0; index < burst.data.size(); ++index)
            if (burst.enabled[index / 8] >> index % 8 & 1 && !inside(start + index, writable_)) {
                char text[96];
                std::snprintf(text, sizeof text, "a byte was written at %#" PRIx64 ", where no queue may write.", start + index);
                return found(text);
            }
    }

    void read_issued(uint64_t, uint64_t address) override {
        if (inside(address, readable_)) return;
        char text[96];
        std::snprintf(text, sizeof text, "a read was issued at %#" PRIx64 ", where no queue may read.", address);
        found(text);
    }

    void posted(uint64_t, uint32_t) override { ++stores; }

    static bool inside(uint64_t address, const std::map<uint64_t, uint64_t>& spans) {
        auto after = spans.upper_bound(address);
        return after != spans.begin() && address - std::prev(after)->first < std::prev(after)->second;
    }

    // -- Configuration.

    void power_up() {
        engine_.memory.bytes = {};
        restart();
        for (uint32_t queue = 0; queue < 4; ++queue) fill(queue);
        engine_.memory.bytes.map(kForeign, kArena, kGuard);
        configure();
    }

    // Resets engine and memory; what memory contains remains.
    void restart() {
        // In its first cycles the engine may still make transfers.
        engine_.hold(true);
        ticks(4);
        engine_.memory.clear(options_);
        engine_.hold(false);
        engine_.tick();
        start_ = engine_.cycle;
    }

    void fill(uint32_t queue) {
        epochs_[queue] = {};
        Epoch& epoch = epochs_[queue];
        epoch.base = kBase + kEpochSpan * (queue + 1);
        epoch.mode = queue == 0 ? DMACE_DMA_MODE_RING : queue == 1 ? DMACE_DMA_MODE_ARK : DMACE_DMA_MODE_NATIVE;
        auto& bytes = engine_.memory.bytes;
        for (uint64_t part : {kSource, kDestination, kWords}) bytes.map(epoch.base + part, kArena, 0);
        for (uint64_t at = 0; at < kArena; ++at) {
            *bytes.at(epoch.base + kSource + at) = static_cast<uint8_t>(at * 7 + (at >> 8) * 13 + queue);
            *bytes.at(epoch.base + kDestination + at) = kGuard;
            *bytes.at(epoch.base + kWords + at) = 0;
        }
        stage_ = posted_[queue] = 0;
    }

    void configure() {
        writable_.clear();
        readable_.clear();
        for (uint32_t queue = 0; queue < 4; ++queue) {
            configure_queue(engine_, queue, epochs_[queue]);
            const uint64_t base = epochs_[queue].base;
            readable_[base + kSource] = writable_[base + kDestination] = kArena;
            writable_[base + kWords] = 16;
            // Flags of ARK, and records of the ring.
            if (queue == 0) writable_[base + kRecords] = uint64_t{8} << kRingBits, readable_[base + kRing] = uint64_t{64} << kRingBits;
            if (queue == 1) writable_[base + kFlags] = 8 * DMACE_DMA_REGIONS;
        }
        // Valid, and of a domain in which no queue is.
        engine_.define_region(8, kForeign, kArena, kForeignDomain, false);
        engine_.define_region(9, kForeign, kArena, kForeignDomain, true);
        failed_ = false;
    }

    // -- Steps.

    void take(const Step& step) {
        const uint64_t* n = step.numbers;
        switch (step.kind) {
        case kStore: return store(n[0] % 3, {n[1], n[2]}, n[3]);
        case kWrite: return write(n[0] & 0xFFC, n[1]);
        case kPoke: {
            const uint64_t value = n[1];
            std::memcpy(engine_.memory.bytes.at(epochs_[0].base + kRing + n[0] % (8 << kRingBits) * 8), &value, 8);
            return;
        }
        case kFailRead: failed_ = true; return engine_.memory.fail_read(1 + n[0] % 64);
        case kFailWrite: failed_ = true; return engine_.memory.fail_write(1 + n[0] % 64);
        case kRevoke: return revoke(n[0] % 3);
        case kReset:
            restart();
            fill(kAnchorQueue);
            return configure();
        case kWait: return ticks(n[0] % 2000);
        case kAnchor: return copy(kAnchorQueue);
        default: return;
        }
    }

    void store(uint32_t queue, dmace_word word, uint64_t strobes) {
        Store made{queue, queue * uint32_t{DMACE_DMA_DOORBELL_PAGE}, {{word.lo, word.hi}}};
        made.strobes = static_cast<uint16_t>(strobes);
        engine_.post(std::move(made));
        for (int left = 100000; engine_.stores_waiting(); --left) {
            if (!left) return found("the doorbell port accepts no store.");
            engine_.tick();
        }
    }

    // Any register but those with addresses, which are privileged, and what would end the anchor's requests.
    void write(uint64_t offset, uint64_t value) {
        const bool address = (offset >= DMACE_DMA_REGION_BASE_LO_OFFSET && offset <= DMACE_DMA_PAGE_COMMIT_OFFSET) ||
                             (offset >= DMACE_DMA_CONNECTION_RC_LO_OFFSET && offset <= DMACE_DMA_QUEUE_RC_HI_OFFSET) ||
                             (offset >= DMACE_DMA_RING_BASE_LO_OFFSET && offset <= DMACE_DMA_QUEUE_COMMIT_OFFSET) ||
                             offset == DMACE_DMA_QUEUE_CONFIG_OFFSET || offset == DMACE_DMA_WATCHDOG_OFFSET;
        if (address) return;
        if (offset == DMACE_DMA_QUEUE_COMMAND_OFFSET && value % 64 == kAnchorQueue) return;
        engine_.write(static_cast<uint32_t>(offset), static_cast<uint32_t>(value));
    }

    // Takes a queue's destination away; after QUIESCE no byte may be written there.
    void revoke(uint32_t queue) {
        engine_.write(DMACE_DMA_REGION_ACCESS_OFFSET, kDomain);
        engine_.write(DMACE_DMA_REGION_COMMIT_OFFSET, 2 * queue + 1);
        engine_.write(DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_START_MASK);
        for (int left = 20000; engine_.read(DMACE_DMA_QUIESCE_OFFSET) & DMACE_DMA_QUIESCE_BUSY_MASK; --left)
            if (!left) return found("QUIESCE stays busy.");
        writable_.erase(epochs_[queue].base + kDestination);
    }

    // -- Valid copies.

    uint64_t word_of(uint32_t queue, uint64_t which) {
        uint64_t value;
        std::memcpy(&value, engine_.memory.bytes.at(epochs_[queue].base + which), 8);
        return value;
    }

    // Posts one copy to a queue in native mode, unless its words might not fit.
    void copy(uint32_t queue) {
        Epoch& epoch = epochs_[queue];
        const uint64_t length = 1 + (posted_[queue] * 389 + 17) % 700, from = posted_[queue] * 211 % 8192;
        if (posted_[queue] - dmace_count(word_of(queue, kWords)) >= 4 || epoch.used + length > kArena) return;
        epoch.requests.push_back({from, epoch.used, length, false});
        store(queue, dmace_copy_word(2 * queue, from, 2 * queue + 1, epoch.used, static_cast<uint32_t>(length),
                                     DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC), 0xFFFF);
        epoch.used += length + 3;
        ++posted_[queue];
        ++checked;
    }

    // All posted copies complete, with the right bytes unless a response was an error.
    void check(uint32_t queue, bool exact) {
        for (uint64_t which : {kWords, kWords + 8})
            for (int left = 100000;; --left) {
                const uint32_t count = dmace_count(word_of(queue, which));
                if (count == posted_[queue]) break;
                if (count > posted_[queue]) return found("a completion word counts requests that were not posted.");
                // Where an error holds the queue, software clears it.
                if (!exact && left % 1000 == 0) engine_.command(queue, DMACE_DMA_COMMAND_CLEAR);
                if (!left)
                    return found("queue " + std::to_string(queue) + " has completed " + std::to_string(count) + " of " +
                                 std::to_string(posted_[queue]) + " requests.");
                engine_.tick();
            }
        if (!exact) return;
        auto& bytes = engine_.memory.bytes;
        const Epoch& epoch = epochs_[queue];
        std::vector<uint8_t> expected(kArena, kGuard);
        for (const Request& request : epoch.requests)
            for (uint64_t index = 0; index < request.length; ++index)
                expected[request.destination + index] = *bytes.at(epoch.base + kSource + request.source + index);
        for (uint64_t at = 0; at < epoch.used + 64 && at < kArena; ++at)
            if (*bytes.at(epoch.base + kDestination + at) != expected[at])
                return found("byte " + std::to_string(at) + " of queue " + std::to_string(queue) + " is wrong.");
    }

    // The anchor's copies complete; then every queue can be reset, and works.
    void finish() {
        check(kAnchorQueue, !failed_);
        if (engine_.memory.illegal_accesses()) found("the engine accessed addresses without memory.");
        for (uint32_t queue = 0; queue < 4 && finding.empty(); ++queue) reset(queue);
        if (!finding.empty()) return;
        for (int left = 100000; !engine_.memory.idle(); --left) {
            if (!left) return found("a transaction stays in flight after all queues were reset.");
            engine_.tick();
        }
        for (uint32_t queue = 0; queue < 4; ++queue) {
            fill(queue);
            epochs_[queue].mode = DMACE_DMA_MODE_NATIVE;
        }
        engine_.memory.fail_read(0), engine_.memory.fail_write(0);
        configure();
        for (uint32_t round = 0; round < 3; ++round)
            for (uint32_t queue = 0; queue < 4; ++queue) copy(queue);
        for (uint32_t queue = 0; queue < 4 && finding.empty(); ++queue) check(queue, true);
        if (!finding.empty()) finding += " (after a reset of all queues)";
    }

    void reset(uint32_t queue) {
        engine_.command(queue, DMACE_DMA_COMMAND_RESET);
        for (int left = 5000; state(queue, DMACE_DMA_QUEUE_STATE_OFFSET) & DMACE_DMA_QUEUE_STATE_RESETTING_MASK; --left)
            if (!left) return found("RESET of queue " + std::to_string(queue) + " does not end.");
    }

    uint32_t state(uint32_t queue, uint32_t offset) {
        engine_.write(DMACE_DMA_QUEUE_SELECT_OFFSET, queue);
        ticks(8);
        return engine_.read(offset);
    }

    void ticks(uint64_t cycles) {
        while (cycles--) engine_.tick();
    }

    // -- Coverage: states and results of queues after each kind of step, and counters by their number of bits.

    void note(unsigned kind) {
        if (++stage_ % 4) return;
        for (uint32_t queue = 0; queue < 3; ++queue) {
            const uint32_t flags = state(queue, DMACE_DMA_QUEUE_STATE_OFFSET), result = engine_.read(DMACE_DMA_QUEUE_RESULT_OFFSET);
            covered.insert(uint64_t{1} << 48 | uint64_t(kind) << 40 | queue << 16 | (flags & 0x3F) << 8 |
                           ((flags & DMACE_DMA_QUEUE_STATE_IN_FLIGHT_MASK) != 0));
            covered.insert(uint64_t{2} << 48 | queue << 16 | (result & 0xFF));
        }
        for (uint32_t offset = DMACE_DMA_COUNT_WORDS_OFFSET; offset <= DMACE_DMA_COUNT_UNEXPECTED_OFFSET; offset += 4) {
            const uint32_t count = engine_.read(offset);
            covered.insert(uint64_t{3} << 48 | offset << 8 | (count ? 32u - static_cast<unsigned>(__builtin_clz(count)) : 0u));
        }
    }

    Engine engine_;
    MemoryOptions options_;
    std::map<uint64_t, uint64_t> writable_, readable_;  // address -> length
    Epoch epochs_[4];
    uint64_t posted_[4] = {}, start_ = 0, stage_ = 0;
    bool failed_ = false;  // some response of this job was an error
};
