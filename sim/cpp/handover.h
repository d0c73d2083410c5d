// SPDX-License-Identifier: Apache-2.0
// Memory changes owners: queues are reset while memory withholds responses, and their addresses are reused afterwards.
//
// A queue has several epochs, each with regions, completion words, ring, records and flags at new addresses. An epoch
// ends with a RESET that may have to abandon responses, with `rst`, or regularly. After its end no byte may be stored
// at its addresses: memory has already stored the transfers that it accepted before, and any later one is a finding.
// The next epoch starts immediately, while memory releases the withheld responses; all its copies must be correct.
#pragma once

#include <cinttypes>
#include <set>

#include "epoch.h"
#include "withholding.h"

using Memory = WithholdingMemory<kBytes>;

constexpr uint32_t kAnchor = 2;  // a queue that stays open; not an extended queue

struct Statistics {
    uint64_t runs = 0, epochs = 0, requests = 0, abandoned = 0, resets = 0, ended_regularly = 0, late_ends = 0, unexpected = 0;
};

class Handover {
public:
    Statistics statistics;
    std::vector<std::string> findings;

    Handover() : engine_(uint64_t{1}) {
        engine_.memory.landed = [this](uint64_t address) { land(address); };
        engine_.memory.keeps_read = [this](uint64_t address) { return keeps(address, read_kept_); };
        engine_.memory.keeps_write = [this](uint64_t address) { return keeps(address, write_kept_); };
    }

    void run(uint64_t seed) {
        random_ = Random(seed);
        seed_ = seed;
        engine_.memory.clear(seed);
        engine_.reset(4);
        expected_unexpected_ = 0;
        open_.clear();
        epoch_count_ = 0;
        for (Epoch& epoch : epochs_) epoch = {};
        victim_ = random_.below(3);
        const uint64_t epochs = 1 + random_.below(4);
        begin(kAnchor == victim_ ? 3 : kAnchor);
        for (uint64_t number = 0; number < epochs && findings.empty(); ++number) run_epoch();
        finish();
        ++statistics.runs;
    }

private:
    static constexpr unsigned kQueues = 4;

    bool chance(double probability) { return random_.chance(probability); }

    void finding(const std::string& sentence) {
        if (findings.size() < 20)
            findings.push_back("Seed " + std::to_string(seed_) + ", cycle " + std::to_string(engine_.cycle) + ": " + sentence);
    }

    // A store is legal only at the addresses of an open queue's epoch.
    void land(uint64_t address) {
        if (open_.count(address / kEpochSpan * kEpochSpan)) return;
        char text[96];
        std::snprintf(text, sizeof text, "A byte was stored at %#" PRIx64 ", which belongs to no open queue.", address);
        finding(text);
    }

    double keeps(uint64_t address, double probability) const {
        return all_kept_ || address / kEpochSpan * kEpochSpan == epochs_[victim_].base ? probability : 0;
    }

    // -- Registers.

    uint32_t state(uint32_t queue, uint32_t offset) {
        engine_.write(DMACE_DMA_QUEUE_SELECT_OFFSET, queue);
        for (int count = 0; count < 8; ++count) engine_.tick();
        return engine_.read(offset);
    }

    bool resetting(uint32_t queue) {
        return state(queue, DMACE_DMA_QUEUE_STATE_OFFSET) & DMACE_DMA_QUEUE_STATE_RESETTING_MASK;
    }

    uint32_t count(uint32_t queue) { return state(queue, DMACE_DMA_QUEUE_COUNT_OFFSET); }

    // -- Epochs.

    void begin(uint32_t queue) {
        Epoch& epoch = epochs_[queue];
        epoch = {};
        epoch.base = kBase + kEpochSpan * ++epoch_count_;
        epoch.mode = queue < DMACE_DMA_EXTENDED_QUEUES ? random_.below(3) : DMACE_DMA_MODE_NATIVE;
        if (epoch.mode == DMACE_DMA_MODE_RING) {
            const Epoch& beside = epochs_[queue ^ 1];  // its settings hold beyond its end
            const bool alone = beside.mode != DMACE_DMA_MODE_RING;
            if (!alone && beside.pair) epoch.mode = DMACE_DMA_MODE_NATIVE;
            epoch.pair = alone && chance(0.5);
        }
        open_.insert(epoch.base);
        auto& bytes = engine_.memory.bytes;
        bytes.map(epoch.base + kSource, kArena, 0);
        bytes.map(epoch.base + kDestination, kArena, kGuard);
        bytes.map(epoch.base + kWords, kArena, 0);
        for (uint64_t at = 0; at < kArena; ++at) *bytes.at(epoch.base + kSource + at) = random_.next() >> 32;
        configure_queue(engine_, queue, epoch);
        ++statistics.epochs;
    }

    // A valid request with a new destination; the last one of an epoch publishes both words.
    dmace_word request(uint32_t queue, bool publish) {
        Epoch& epoch = epochs_[queue];
        Request made{random_.below(kArena / 2), (epoch.used + random_.below(64)), 1 + random_.below(chance(0.2) ? 5000 : 600),
                     chance(0.1)};
        uint64_t flags = publish ? DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC : random_.below(4);
        if (chance(0.1)) flags |= DMACE_DMA_FLAG_FENCE;
        uint64_t region = 2 * queue;
        if (made.signal) {
            made.destination = (made.destination + 7) / 8 * 8;
            made.length = 8;
            made.source = random_.next() & ((uint64_t{1} << 36) - 1);
            region = random_.below(256);
        }
        epoch.used = made.destination + made.length;
        epoch.requests.push_back(made);
        if (made.signal) epoch.requests.back().source |= region << 36;
        ++epoch.posted;
        ++statistics.requests;
        return {uint64_t(made.signal ? 2 : 1) | flags << 4 | region << 12 | uint64_t(2 * queue + 1) << 20 | made.source << 28,
                made.length | made.destination << 28};
    }

    void post(uint32_t queue, bool publish) {
        Epoch& epoch = epochs_[queue];
        if (epoch.used + 20000 > kArena) return;
        uint64_t low, high = ~uint64_t{0};
        if (epoch.mode == DMACE_DMA_MODE_ARK) {
            const Request made{0, 0, 1 + random_.below(3000), false};
            epoch.requests.push_back(made);
            ++epoch.posted;
            ++statistics.requests;
            low = uint64_t{queue} << 18 | made.length << 25;
        } else if (epoch.mode == DMACE_DMA_MODE_RING) {
            if (epoch.posted_descriptors >> kRingBits) return;  // one pass over the ring is enough
            const uint64_t words = 1 + random_.below(3), tag = epoch.posted_descriptors;
            const uint64_t at = epoch.base + kRing + 64 * epoch.posted_descriptors++;
            put64(at, 1 | uint64_t{1} << 8 | words << 12 | tag << 16);
            put64(at + 8, 0);
            for (uint64_t index = 0; index < 3; ++index) {
                const dmace_word word = index < words ? request(queue, publish) : dmace_word{0, 0};
                put64(at + 16 + 16 * index, word.lo);
                put64(at + 24 + 16 * index, word.hi);
            }
            low = epoch.posted_descriptors;
        } else {
            const dmace_word word = request(queue, publish);
            low = word.lo;
            high = word.hi;
        }
        engine_.post({queue, queue * uint32_t{DMACE_DMA_DOORBELL_PAGE}, {{low, high}}});
    }

    void put64(uint64_t address, uint64_t value) { std::memcpy(engine_.memory.bytes.at(address), &value, 8); }
    uint64_t get64(uint64_t address) {
        uint64_t value;
        std::memcpy(&value, engine_.memory.bytes.at(address), 8);
        return value;
    }

    void ticks(uint64_t cycles) {
        while (cycles--) engine_.tick();
    }

    // Posts at random intervals; memory occasionally releases some withheld responses.
    void work(uint32_t queue, unsigned requests) {
        for (unsigned number = 0; number < requests; ++number) {
            while (epochs_[queue].posted >= count(queue) + kCredits) {
                if (timeout_-- == 0) return;
                ticks(20);
            }
            post(queue, true);
            ticks(random_.below(60));
            if (chance(0.05)) engine_.memory.release(0.3);
        }
    }

    void run_epoch() {
        begin(victim_);
        timeout_ = 20;
        all_kept_ = chance(0.2);
        read_kept_ = chance(0.6) ? 0.05 + 0.5 * random_.below(2) : 0;
        write_kept_ = chance(0.6) ? 0.05 + 0.5 * random_.below(2) : 0;
        if (chance(0.4)) engine_.memory.stick(static_cast<Memory::Channel>(random_.below(3)), random_.below(60));
        if (chance(0.1)) engine_.memory.stick(static_cast<Memory::Channel>(random_.below(3)), random_.below(60));
        work(victim_, 1 + random_.below(12));
        if (chance(0.3)) post(kAnchor == victim_ ? 3 : kAnchor, true);
        ticks(random_.below(400));
        while (engine_.stores_waiting()) engine_.tick();
        switch (random_.below(8)) {
            case 0: return reset_all();
            case 1: return end_regularly();
            default: return reset_queue();
        }
    }

    void close(uint32_t queue) {
        open_.erase(epochs_[queue].base);
        epochs_[queue].base = 0;
    }

    // Ends the epoch with RESET. Memory releases withheld responses only if the RESET does not end without them.
    void reset_queue() {
        ++statistics.resets;
        const uint64_t watchdog = 16 * DMACE_DMA_QUEUES + random_.below(300);
        engine_.write(DMACE_DMA_WATCHDOG_OFFSET, watchdog);
        engine_.command(victim_, DMACE_DMA_COMMAND_RESET);
        const bool partly = chance(0.3);
        const uint64_t first = engine_.cycle, most = 4 * watchdog + 2000;
        bool in_time = true;
        while (resetting(victim_)) {
            ticks(random_.below(20));
            if (partly && chance(0.02)) engine_.memory.release(0.2);
            if (engine_.cycle - first < most) continue;
            if (in_time) {
                // RESET must have ended by now, unless a channel is blocked or W waits for data of a partial read.
                if (!engine_.memory.stuck(Memory::kWriteAddress) && !engine_.memory.stuck(Memory::kWriteData) &&
                    !engine_.memory.stuck(Memory::kReadAddress) && !engine_.memory.begun() && epochs_abandoned_ < 3)
                    finding("RESET does not end, though memory accepts all transfers.");
                in_time = false;
                ++statistics.late_ends;
                engine_.memory.unstick();
            } else if (engine_.cycle - first < 2 * most) {
                continue;
            } else if (engine_.cycle - first < 3 * most) {
                engine_.memory.release(1);
            } else {
                return finding("RESET does not end, though memory has sent all responses.");
            }
        }
        if (engine_.memory.idle()) epochs_abandoned_ = 0;
        else ++epochs_abandoned_, ++statistics.abandoned;
        const uint64_t old = epochs_[victim_].base;
        close(victim_);
        engine_.write(DMACE_DMA_WATCHDOG_OFFSET, 0);
        if (chance(0.3)) quiesce(old);
        if (chance(0.5)) engine_.memory.unstick();
        if (chance(0.3)) engine_.memory.release(0.5);
        ticks(chance(0.5) ? 0 : random_.below(200));
        engine_.memory.unstick();
    }

    // QUIESCE must stay busy until memory has no outstanding response for the old addresses.
    void quiesce(uint64_t old) {
        engine_.write(DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_START_MASK);
        for (int left = 500; engine_.read(DMACE_DMA_QUIESCE_OFFSET) & DMACE_DMA_QUIESCE_BUSY_MASK; --left) {
            if (left < 300) engine_.memory.unstick();
            if (left < 300) engine_.memory.release(0.1);
            if (!left) return finding("QUIESCE stays busy, though memory has sent all responses.");
        }
        if (engine_.memory.has_outstanding([&](uint64_t address) { return address / kEpochSpan * kEpochSpan == old; }))
            finding("QUIESCE is not busy, though responses to a closed queue are outstanding.");
    }

    // Ends all epochs with `rst`; then memory sends all responses to earlier requests.
    void reset_all() {
        engine_.hold(true);
        engine_.tick();  // memory may still accept transfers in this cycle
        for (uint32_t queue = 0; queue < kQueues; ++queue) close(queue);
        ticks(random_.below(4));
        engine_.hold(false);
        engine_.tick();
        Memory& memory = engine_.memory;
        memory.stop_between();
        memory.unstick();
        const uint64_t before = memory.responses, reads = memory.taken[Memory::kReadAddress],
                       writes = memory.taken[Memory::kWriteAddress], beats = memory.taken[Memory::kWriteData];
        memory.release(1);
        for (int left = 20000; left && !memory.idle(); --left) engine_.tick();
        ticks(100);
        if (!memory.idle()) finding("The engine does not accept all responses after rst.");
        if (memory.taken[Memory::kReadAddress] != reads || memory.taken[Memory::kWriteAddress] != writes ||
            memory.taken[Memory::kWriteData] != beats)
            finding("The engine accesses memory after rst.");
        expected_unexpected_ = memory.responses - before;
        statistics.unexpected += expected_unexpected_;
        epochs_abandoned_ = 0;
        check_unexpected();
        begin(kAnchor == victim_ ? 3 : kAnchor);
    }

    void check_unexpected() {
        const uint32_t found = engine_.read(DMACE_DMA_COUNT_UNEXPECTED_OFFSET);
        if (found != expected_unexpected_)
            finding("COUNT_UNEXPECTED is " + std::to_string(found) + ", but " + std::to_string(expected_unexpected_) +
                    " responses were unexpected.");
    }

    // Memory releases all responses; all posted requests must complete correctly.
    void end_regularly() {
        engine_.memory.unstick();
        engine_.memory.release(1);
        read_kept_ = write_kept_ = 0;
        check_epoch(victim_);
        ++statistics.ended_regularly;
        engine_.command(victim_, DMACE_DMA_COMMAND_RESET);
        for (int left = 2000; resetting(victim_); --left)
            if (!left) return finding("RESET of an idle queue does not end.");
        close(victim_);
    }

    void check_epoch(uint32_t queue) {
        const Epoch& epoch = epochs_[queue];
        auto& bytes = engine_.memory.bytes;
        // The watchdog may have held another queue than the one that was reset.
        const bool stopped = queue != victim_ && state(queue, DMACE_DMA_QUEUE_STATE_OFFSET) & DMACE_DMA_QUEUE_STATE_HELD_MASK;
        if (stopped) engine_.command(queue, DMACE_DMA_COMMAND_CLEAR);
        for (int left = 3000; count(queue) != epoch.posted || engine_.stores_waiting(); --left) {
            ticks(10);
            if (!left)
                return finding("Queue " + std::to_string(queue) + " has completed " + std::to_string(count(queue)) +
                               " of " + std::to_string(epoch.posted) + " requests.");
        }
        if (!stopped && state(queue, DMACE_DMA_QUEUE_RESULT_OFFSET)) return finding("A request failed.");
        std::vector<uint8_t> expected(kArena, kGuard);
        for (const Request& request : epoch.requests)
            for (uint64_t index = 0; index < request.length; ++index)
                expected[request.destination + index] = request.signal ? request.source >> 8 * index
                                                                      : *bytes.at(epoch.base + kSource + request.source + index);
        for (uint64_t at = 0; at < kArena; ++at)
            if (*bytes.at(epoch.base + kDestination + at) != expected[at])
                return finding("Byte " + std::to_string(at) + " of queue " + std::to_string(queue) + " is wrong.");
        if (epoch.mode == DMACE_DMA_MODE_ARK || epoch.posted == 0) return;
        for (uint64_t word : {kWords, kWords + 8})
            for (int left = 3000; static_cast<uint32_t>(get64(epoch.base + word)) != epoch.posted; --left) {
                if (!left) return finding("A completion word does not count all posted requests.");
                engine_.tick();
            }
        if (epoch.mode != DMACE_DMA_MODE_RING) return;
        for (uint64_t number = 0; number < epoch.posted_descriptors; ++number)
            for (int left = 3000; (get64(epoch.base + kRecords + 8 * number) & 0xFFFFFF) != (number | 1 << 23); --left) {
                if (!left) return finding("A record does not match its descriptor.");
                engine_.tick();
            }
    }

    // Memory releases all responses; afterwards nothing may be in flight, and every tag and slot must be usable.
    void finish() {
        if (!findings.empty()) return;
        engine_.memory.unstick();
        engine_.memory.release(1);
        read_kept_ = write_kept_ = 0;
        begin(victim_);
        timeout_ = 4000;
        work(victim_, 20);
        check_epoch(victim_);
        check_epoch(kAnchor == victim_ ? 3 : kAnchor);
        engine_.write(DMACE_DMA_QUIESCE_OFFSET, DMACE_DMA_QUIESCE_START_MASK);
        for (int left = 3000; engine_.read(DMACE_DMA_QUIESCE_OFFSET) & DMACE_DMA_QUIESCE_BUSY_MASK; --left)
            if (!left) return finding("QUIESCE stays busy after the last request.");
        for (int left = 3000; !engine_.memory.idle(); --left) {
            if (!left) return finding("A transaction stays in flight.");
            engine_.tick();
        }
        check_unexpected();
        epochs_abandoned_ = 0;
    }

    static constexpr uint32_t kCredits = 4;  // words that fit every queue
    EngineWith<Memory> engine_;
    Random random_{1};
    uint64_t seed_ = 0, epoch_count_ = 0, expected_unexpected_ = 0;
    Epoch epochs_[kQueues];
    std::set<uint64_t> open_;
    uint32_t victim_ = 0;
    unsigned epochs_abandoned_ = 0, timeout_ = 0;
    bool all_kept_ = false;
    double read_kept_ = 0, write_kept_ = 0;
};
