// SPDX-License-Identifier: Apache-2.0
// Runs a job of the fuzzer of TLPs on a card. The card must send legal requests only, and where queues have a right to,
// and never hang. Undisturbed copies of the anchor must be right, and after a reset all must work.
//
// Queues 0 to 2 belong to tenants, who store any words. Queue 3, the anchor, has valid copies only. hard_block.h checks
// each request of the card, fuzz_replies.h each completion, fuzz_tenants.h where requests go.
#pragma once

#include <set>

#include "fuzz_faults.h"

class PcieFuzz {
public:
    std::string finding;                // empty if there is none
    std::set<uint64_t> covered;         // features
    uint64_t checked = 0, stores = 0;   // copies of the anchor and of the checks after resets that were exact

    explicit PcieFuzz(const Job& job)
        : system_(options(job)), tenants_(system_), faults_(system_, tenants_, job.seed), seed_(job.seed) {
        system_.step = [this] { step(); };
        system_.card.without_master = HardBlock::WithoutMaster::kUnsupported;
        const double share = static_cast<double>(job.stall) / 100;
        system_.card.stalls = {share, share, share, share};
        extended_ = job.seed >> 3 & 1;
        system_.card.extended_tags(extended_);
        system_.card.limits = {256, 256, tags()};
        memory(job.seed, static_cast<unsigned>(job.jitter));
    }

    // Runs a job, once.
    void run(const Job& job) {
        try {
            for (unsigned queue = 0; queue < kQueues; ++queue) tenants_.fill(queue);
            configure();
            for (const Step& step : job.steps) {
                take(step);
                note(step.kind);
            }
            finish();
        } catch (const std::runtime_error& error) {
            finding = "Cycle " + std::to_string(system_.cycle()) + ": " + error.what();
        }
    }

private:
    static constexpr unsigned kFew = 32;
    static constexpr uint64_t kTimeout = FuzzFaults::kTimeout, kPatience = 20000;

    static SystemOptions options(const Job& job) {
        SystemOptions made;
        made.gpus = 1;
        made.seed = job.seed;
        return made;
    }

    unsigned tags() const { return extended_ ? kTags : std::min(kTags, kFew); }

    // -- Time.

    void step() {
        faults_.step();
        system_.tick();
    }

    void ticks(uint64_t cycles) {
        while (cycles--) step();
    }

    template <class Done>
    void await(const std::string& what, uint64_t cycles, Done done) {
        for (uint64_t left = cycles; !done(); --left) {
            if (!left)
                throw Violation(what + " within " + std::to_string(cycles) + " cycles; " + system_.card.streams() + ".");
            step();
        }
    }

    // -- Steps.

    void take(const Step& step) {
        const uint64_t* n = step.numbers;
        switch (step.kind) {
        case kRequest: return faults_.request(n);
        case kStore: return store(static_cast<unsigned>(n[0] % 3), static_cast<unsigned>(n[0] >> 8 & 0xFF), {n[1], n[2]}, n[3]);
        case kAccess: return faults_.access(n[0] & 1, n[1] & 0xFFFC, 1 + (n[2] - 1) % 200, static_cast<uint32_t>(n[3]));
        case kForge: return faults_.forge(n[0], n[1], n[2]);
        case kRaw: return faults_.raw(n[0], n[1], n[2], n[3], n[4]);
        case kTamper: return faults_.tamper(1 + n[0] % 64, n[1], n[2]);
        case kExpire: return faults_.expire(n[0]);
        case kCopy: return static_cast<void>(tenants_.copy(static_cast<unsigned>(n[0] % 3), n[0] >> 8));
        case kAnchor:
            for (uint64_t left = 1 + n[0] % 6; left; --left) tenants_.copy(kAnchorQueue, n[0] + left);
            return;
        case kSettings: return settings(n[0]);
        case kStalls: {
            const auto share = [&](unsigned which) { return static_cast<double>((n[0] >> 8 * which & 0xFF) % 70) / 100; };
            system_.card.stalls = {share(0), share(1), share(2), share(3)};
            return;
        }
        case kMemory: return memory(n[0], static_cast<unsigned>(n[0] >> 8 & 0xFF));
        case kFlr: return function_reset(n[0] % 256, n[1]);
        case kLinkDown: return fail_link(n[0] % 300);
        case kWait: return ticks(n[0] % 3000);
        default: return;
        }
    }

    void store(unsigned queue, unsigned slot, dmace_word word, uint64_t strobes) {
        Tlp tlp = memory_write(System::kBar2 + uint64_t{queue} * DMACE_DMA_DOORBELL_PAGE + 16 * slot,
                               reinterpret_cast<const uint8_t*>(&word), 16);
        if (strobes & 15) tlp.first_be = strobes & 15;
        if (strobes >> 12 & 15) tlp.last_be = strobes >> 12 & 15;
        system_.store(queue % 2, std::move(tlp));
        ++stores;
    }

    // Limits of the configuration space. Requests may have the earlier ones for a while.
    void settings(uint64_t bits) {
        HardBlock& card = system_.card;
        card.earlier.max_payload = std::max(card.earlier.max_payload, card.limits.max_payload);
        card.earlier.max_read = std::max(card.earlier.max_read, card.limits.max_read);
        card.earlier.tags = std::max(card.earlier.tags, card.limits.tags);
        extended_ = bits >> 4 & 1;
        card.extended_tags(extended_);
        card.limits = {128u << bits % 3, 128u << (bits >> 2 & 3), tags(), (bits >> 5 & 3) != 3};
        card.msix_enable = bits >> 7 & 1;
        for (auto& device : system_.devices) device->memory.max_payload = card.limits.max_payload;
        excused_ |= !card.limits.bus_master;
    }

    void memory(uint64_t bits, unsigned jitter) {
        for (unsigned device = 0; device < system_.devices.size(); ++device) {
            Completer& memory = system_.memory(device);
            memory.options = {20, 20 + jitter, (bits >> device & 1) != 0, static_cast<Split>((bits >> 4) % 3),
                              bits >> 6 & 1 ? 64u : 128u};
            memory.max_payload = system_.card.limits.max_payload;
        }
    }

    // -- Resets.

    // A function-level reset, while the host sends some requests.
    void function_reset(uint64_t wait, uint64_t requests) {
        system_.card.function_reset(true);
        uint64_t cycle = 0;
        await("The card has not finished its function-level reset", 5 * kTimeout + kPatience, [&] {
            if (++cycle % 100 == 0 && requests % 8) {
                --requests;
                faults_.access(requests & 1, 0x4000, 1, 0);
                store(0, 0, {1, 1}, 0xFFFF);
            }
            return system_.card.function_reset_done() && cycle > wait;
        });
        system_.card.function_reset(false);
        ticks(64);
        restart();
    }

    void fail_link(uint64_t cycles) {
        system_.lose();
        faults_.replies.clear();
        system_.card.hold(true);
        ticks(8 + cycles);
        system_.card.hold(false);
        restart();
    }

    // After a reset of the card: what it had written is right, and it is configured again.
    void restart() {
        faults_.clear();
        await("The links are not idle after a reset", kPatience, [&] { return system_.idle(); });
        uint64_t where;
        if (tenants_.wrong_byte(kAnchorQueue, false, where))
            throw Violation("Byte " + std::to_string(where) + " of the anchor is wrong after a reset.");
        for (unsigned queue = 0; queue < kQueues; ++queue) tenants_.fill(queue);
        configure();
    }

    void configure() {
        system_.card.limits.bus_master = true;
        excused_ = false;
        system_.write(kPcieRegisters + DMACE_PCIE_COMPLETION_TIMEOUT_OFFSET, kTimeout);
        tenants_.configure();
    }

    // -- The end of a job.

    // All copies of a queue complete; the undisturbed ones with the right bytes, and none of them as failed.
    void check(unsigned queue, const std::string& when) {
        const uint64_t posted = tenants_.copies[queue].size();
        const std::string title = "Queue " + std::to_string(queue) + when;
        for (unsigned which = 0; which < 2; ++which) {
            await(title + " has not completed its " + std::to_string(posted) + " copies", 20 * kTimeout + kPatience, [&] {
                need(tenants_.count(queue, which) <= posted, title, "no more copies may be counted than were posted");
                return tenants_.count(queue, which) == posted;
            });
            need(dmace_failed(tenants_.word(queue, which)) <= tenants_.disturbed(queue), title,
                 "no undisturbed copy may fail");
        }
        uint64_t where;
        if (tenants_.wrong_byte(queue, true, where)) throw Violation(title + ": byte " + std::to_string(where) + " is wrong.");
        checked += posted - tenants_.disturbed(queue);
    }

    void finish() {
        system_.card.limits.bus_master = true;
        tenants_.copy(kAnchorQueue, 1);
        if (!excused_) check(kAnchorQueue, "");
        faults_.clear();
        await("A request of the host has no completion", kPatience, [&] { return !faults_.replies.waiting(); });
        for (unsigned queue = 0; queue < kQueues; ++queue) {
            command(system_, queue, DMACE_DMA_COMMAND_RESET);
            system_.write(DMACE_DMA_QUEUE_SELECT_OFFSET, queue);
            const uint64_t began = system_.cycle();
            while (system_.read(DMACE_DMA_QUEUE_STATE_OFFSET) & DMACE_DMA_QUEUE_STATE_RESETTING_MASK)
                if (system_.cycle() - began > 20 * kTimeout + kPatience)
                    throw Violation("RESET of queue " + std::to_string(queue) + " does not end.");
        }
        if (seed_ % 2) {
            function_reset(0, seed_ >> 4 & 7);
        } else {
            // The tags of requests that have failed.
            ticks(5 * kTimeout + 1000);
            restart();
        }
        verify();
    }

    // Every tag is used again, and all copies are right.
    void verify() {
        HardBlock& card = system_.card;
        card.stalls = {};
        card.limits.max_read = 128;
        memory(0, 0);
        use_tags();
        if (card.earlier.tags > kFew || extended_) {
            card.earlier.tags = card.limits.tags;
            extended_ = !extended_;
            card.extended_tags(extended_);
            card.limits.tags = tags();
            use_tags();
        }
        for (unsigned queue = 0; queue < kQueues; ++queue) check(queue, " after all resets");
        await("The card is not idle", kPatience, [&] { return system_.idle() && !faults_.replies.waiting(); });
    }

    // Reads until each tag is used, the one that is free for the longest time first. Without extended tags there are few, and
    // with them the others have precedence.
    void use_tags() {
        HardBlock& card = system_.card;
        await_settings(system_, extended_);
        await("The links are not idle", kPatience, [&] { return system_.idle(); });
        card.earlier = {0, 0, 0, false};
        card.tag_uses.fill(0);
        const uint64_t before = card.read_requests, began = system_.cycle();
        while (card.read_requests - before < 4 * kTags) {
            for (unsigned queue = 0; queue < kQueues; ++queue) tenants_.copy(queue, 2);
            ticks(5);
            if (system_.cycle() - began > kPatience) throw Violation("Copies after all resets make no progress.");
        }
        std::string lost;
        for (unsigned tag = extended_ ? kFew : 0; tag < tags(); ++tag)
            if (!card.tag_uses[tag]) lost += (lost.empty() ? "" : ", ") + std::to_string(tag);
        if (!lost.empty()) throw Violation("The card does not use these tags any more: " + lost + ".");
    }

    // -- Coverage: queues and counters after each kind of step.

    void note(unsigned kind) {
        unsigned flying = 0;
        for (const HardBlock::Read& read : system_.card.reads) flying += read.valid;
        covered.insert(uint64_t{1} << 48 | uint64_t{kind} << 40 | bits_of(flying) << 16 | bits_of(faults_.replies.waiting()));
        if (++stage_ % 4) return;
        for (unsigned queue = 0; queue < 3; ++queue) {
            system_.write(DMACE_DMA_QUEUE_SELECT_OFFSET, queue);
            const uint32_t flags = system_.read(DMACE_DMA_QUEUE_STATE_OFFSET), result = system_.read(DMACE_DMA_QUEUE_RESULT_OFFSET);
            covered.insert(uint64_t{2} << 48 | uint64_t{kind} << 40 | (flags & 0x3F));
            covered.insert(uint64_t{3} << 48 | (result & 0xFF));
        }
        for (uint32_t offset = DMACE_PCIE_COUNT_UNSUPPORTED_OFFSET; offset <= DMACE_PCIE_COUNT_REQUESTS_REFUSED_OFFSET; offset += 4)
            covered.insert(uint64_t{4} << 48 | offset << 8 | bits_of(system_.read(kPcieRegisters + offset)));
    }

    static uint64_t bits_of(uint64_t value) { return value ? 64u - static_cast<unsigned>(__builtin_clzll(value)) : 0u; }

    System system_;
    FuzzTenants tenants_;
    FuzzFaults faults_;
    const uint64_t seed_;
    uint64_t stage_ = 0;
    bool extended_ = false, excused_ = false;  // the anchor's completion words may be lost
};
