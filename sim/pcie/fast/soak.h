// SPDX-License-Identifier: Apache-2.0
// The long random run: copies of all queues in rounds, between memories that split, reorder, delay and fail.
//
// Each round has other limits of the configuration space, latencies, faulty pages and stalls of the four streams. At
// its end all requests have completed, no read is in flight, the adapter's counters are those of the injected faults,
// and every tag is in use once again. A reset may cut a round off at any moment: then each byte of a destination is the
// source's or has not been written, and the work after it is correct.
#pragma once

#include "json.h"
#include "judge.h"

enum Plant : uint8_t { kNone, kWrongByte, kLostTag, kMissingCompletion, kMissingWord, kPlants };

struct SoakOptions {
    uint64_t requests = 100000, resets = 0;
    unsigned plant = kNone;  // an error that must be found
};

class Soak {
public:
    Soak(System& system, const SoakOptions& options, uint64_t seed)
        : system_(system), options_(options), random_(seed * 11 + 5), tenants_(system, random_),
          judge_(system, tenants_), first_kind_(seed % 2) {
        system_.step = [this] { step(); };
        for (auto& device : system_.devices)
            device->memory.dropped = [this](uint8_t tag) { drop(tag); };
        system_.tamper = [this](Tlp& tlp) { return tamper(tlp); };
    }

    void run() {
        vary();
        set_up();
        while (posted_ < options_.requests || resets_ < options_.resets) {
            if (rounds_) vary();
            const uint64_t target = posted_ + kRound;
            // Resets are spread over the rounds.
            const bool reset = resets_ < options_.resets &&
                               resets_ * options_.requests <= posted_ * options_.resets;
            const uint64_t moment = reset ? posted_ + 1 + random_.below(kRound / 2) : ~uint64_t{0};
            posting_ = true;
            while (posted_ < std::min(target, moment)) step();
            if (reset) {
                for (uint64_t left = random_.below(1000); left; --left) step();
                reset_card();
            }
            settle();
            check_counters();
            check_tags();
            ++rounds_;
        }
        need(tenants_.untouched(), "Memory", "bytes outside of all destinations have changed");
    }

    std::string result() const {
        std::string text;
        append(text, "\"requests\": %" PRIu64 ", \"ended\": %" PRIu64 ", \"cut_off\": %" PRIu64 ", \"bytes\": %" PRIu64
                     ", \"rounds\": %" PRIu64 ", \"function_resets\": %" PRIu64 ", \"link_failures\": %" PRIu64 ",\n",
               posted_, judge_.ended, cut_off_, judge_.bytes, rounds_, function_resets_, resets_ - function_resets_);
        append(text, "\"reads\": %" PRIu64 ", \"writes\": %" PRIu64 ", \"failures\": {", system_.card.read_requests,
               system_.card.write_requests);
        const char* comma = "";
        for (const auto& [status, count] : judge_.failures) {
            append(text, "%s\"%u\": %" PRIu64, comma, status, count);
            comma = ", ";
        }
        append(text, "}, \"faults\": {\"unsupported\": %" PRIu64 ", \"aborted\": %" PRIu64 ", \"poisoned\": %" PRIu64
                     ", \"dropped\": %" PRIu64 "}",
               faults(Fault::kUnsupported), faults(Fault::kAborted), faults(Fault::kPoisoned), faults(Fault::kDropped));
        return text;
    }

private:
    // More requests than all queues hold.
    static constexpr uint64_t kRound = std::max(2000u, 4 * DMACE_DMA_QUEUES * DMACE_DMA_QUEUE_DEPTH), kDropRounds = 16;
    static constexpr uint32_t kTimeout = 20000;                        // cycles of the adapter's time limit
    static constexpr uint64_t kExpiry = 6 * kTimeout, kHang = 12 * kTimeout;
    static constexpr unsigned kFew = 32, kMerged = 4;

    uint64_t faults(Fault fault) const {
        uint64_t sum = 0;
        for (const auto& device : system_.devices) sum += device->memory.faults[static_cast<unsigned>(fault)];
        return sum;
    }

    // Cycles, the settings of the round, and errors

    void step() {
        if (posting_)
            for (Queue& queue : tenants_.queues)
                if (random_.chance(activity_)) post(queue, 9000, invalid_);
        while (!judge_.held.empty()) {
            command(system_, judge_.held.front(), DMACE_DMA_COMMAND_CLEAR);
            judge_.held.pop_front();
        }
        while (!expiring_.empty() && expiring_.begin()->first <= system_.cycle()) {
            const auto [tag, read] = expiring_.begin()->second;
            if (system_.card.reads[tag].valid && system_.card.reads[tag].cycle == read) expire(tag);
            expiring_.erase(expiring_.begin());
        }
        system_.tick();
        if (system_.cycle() % 1024 == 0) watch();
    }

    void expire(uint8_t tag) {
        system_.card.expire(tag);
        ++expired_;
    }

    void post(Queue& queue, uint32_t longest, double invalid) {
        if (queue.open.size() >= DMACE_DMA_QUEUE_DEPTH) return;
        const uint64_t most = std::min<uint64_t>(kMerged, DMACE_DMA_QUEUE_DEPTH - queue.open.size());
        std::vector<dmace_word> words;
        for (uint64_t left = 1 + random_.below(most); left; --left) {
            dmace_word word;
            if (!tenants_.make(queue, invalid, longest, word)) break;
            words.push_back(word);
        }
        if (words.empty()) return;
        posted_ += words.size();
        posted_at_ = system_.cycle();
        ring(system_, queue.thread, queue.number, static_cast<uint32_t>(random_.below(256 - words.size())), words);
    }

    void vary() {
        static const unsigned sizes[] = {128, 256, 512};
        static const std::pair<unsigned, unsigned> latencies[] = {{1, 1}, {25, 75}, {1, 400}, {125, 125}};
        Limits& limits = system_.card.limits;
        limits.max_payload = sizes[random_.below(3)];
        limits.max_read = sizes[random_.below(3)];
        extended_ = random_.chance(0.7);
        for (unsigned number = 0; number < system_.devices.size(); ++number) {
            Completer& memory = system_.memory(number);
            const auto [from, upto] = latencies[random_.below(4)];
            memory.options = {from, upto, random_.chance(0.6), static_cast<Split>(random_.below(3)),
                              number == 0 && random_.chance(0.5) ? 64u : 128u};
            memory.max_payload = limits.max_payload;
        }
        static const double shares[] = {0, 0, 0.05, 0.3, 0.6};
        const auto share = [&] { return shares[random_.below(5)]; };
        system_.card.stalls = {share(), share(), share(), share()};
        static const double activities[] = {1, 1, 0.1, 0.01};
        activity_ = activities[random_.below(4)];
        invalid_ = rounds_ % 3 == 2 ? 0 : 0.03;
        fail_pages(rounds_ % 4 == 1 ? 0 : 0.015);
        apply();
    }

    void apply() {
        Limits& limits = system_.card.limits;
        limits.tags = extended_ ? kTags : std::min(kTags, kFew);
        limits.bus_master = true;
        system_.card.memory_enable = true;
        system_.card.extended_tags(extended_);
        await_settings(system_, extended_);
    }

    void fail_pages(double share) {
        for (auto& device : system_.devices) device->memory.faulty.clear();
        for (const Queue& queue : tenants_.queues)
            for (unsigned kind = 0; kind < kDestination; ++kind)
                for (uint64_t page = 0; page < kSourceBytes; page += kPage)
                    if (random_.chance(share))
                        fault_at(queue.regions[kind].base + page, static_cast<Fault>(random_.below(3)));
        if (rounds_ % kDropRounds != 3) return;
        const Queue& queue = tenants_.queues[random_.below(tenants_.queues.size())];
        for (unsigned count = 0; count < 2; ++count)
            fault_at(queue.regions[0].base + kPage * random_.below(kSourceBytes / kPage), Fault::kDropped);
    }

    void fault_at(uint64_t page, Fault fault) {
        system_.memory(system_.device_of(page)).faulty[page] = fault;
    }

    // A read whose completion was dropped: the hard block times out at some moment, before its tag is used again.
    void drop(uint8_t tag) {
        if (options_.plant == kLostTag) return;
        expiring_.emplace(system_.cycle() + 1 + random_.below(3 * kTimeout),
                          std::make_pair(tag, system_.card.reads[tag].cycle));
    }

    // An error of the plant, once, in a TLP between card and switch; false to lose the TLP.
    bool tamper(Tlp& tlp) {
        if (planted_ || judge_.uncertain || posted_ < kRound / 4) return true;
        const bool completion = tlp.kind == Kind::kCompletion && tlp.dwords > 1 && !tlp.poisoned;
        unsigned arena = 0;
        const Queue* owner = tlp.kind == Kind::kWrite && tlp.address < System::kBar2 && tlp.dwords == 2 &&
                                     (tlp.address < System::kBar0 || tlp.address >= System::kGpus)
                                 ? tenants_.owner(tlp.address, arena)
                                 : nullptr;
        const bool word = owner && owner->sc.address == tlp.address && owner->open.size() == 1;
        // Bytes beyond the request have no meaning: all completions are wrong until that is found.
        if (options_.plant == kWrongByte && completion && tlp.status == kSuccessful) tlp.data[1] ^= 0x100;
        if (options_.plant == kMissingCompletion && completion) {
            planted_ = true;
            return false;
        }
        // Words of a queue with later requests would be replaced.
        if (options_.plant == kMissingWord && word && !posting_) return false;
        return true;
    }

    // Set-up and resets

    void set_up() {
        system_.write(kPcieRegisters + DMACE_PCIE_COMPLETION_TIMEOUT_OFFSET, kTimeout);
        tenants_.set_up();
        counted_ = counters();
        expired_ = 0;
    }

    void reset_card() {
        posting_ = false;
        judge_.uncertain = true;
        judge_.held.clear();
        expiring_.clear();
        // Function-level resets and failures of the link alternate.
        if (resets_++ % 2 == first_kind_) {
            ++function_resets_;
            system_.card.function_reset(true);
            run_until("The card has not finished its function-level reset",
                      [&] { return system_.card.function_reset_done(); });
            system_.card.function_reset(false);
        } else {
            system_.lose();
            system_.card.hold(true);
            for (uint64_t left = 50 + random_.below(450); left; --left) system_.tick();
            system_.card.hold(false);
        }
        run_until("The links are not idle after a reset", [&] { return system_.idle(); });
        for (uint64_t left = 200; left; --left) system_.tick();
        need(system_.idle(), "RQ", "no request may be sent after a reset before the queues are started");
        for (Queue& queue : tenants_.queues) {
            for (const Request& request : queue.open) {
                need(!tenants_.wrong_bytes(request, false), "Queue " + std::to_string(queue.number),
                     "bytes of a request that a reset has cut off are wrong");
                tenants_.clear(request);
                ++cut_off_;
            }
            queue.open.clear();
        }
        need(tenants_.untouched(), "Memory", "bytes outside of all destinations have changed");
        judge_.uncertain = false;
        posted_at_ = system_.cycle();
        apply();
        set_up();
    }

    template <class Done>
    void run_until(const char* what, Done done) {
        const uint64_t began = system_.cycle();
        while (!done()) {
            if (system_.cycle() - began > kHang)
                throw Violation(std::string(what) + " within " + std::to_string(kHang) + " cycles; " +
                                system_.card.streams() + ".");
            system_.tick();
        }
    }

    // The end of a round

    bool settled() const {
        for (const Queue& queue : tenants_.queues)
            if (!queue.open.empty() || queue.sc.count != queue.made || queue.rc.count != queue.made ||
                (queue.sc.status && !queue.skip_errors))
                return false;
        return system_.idle();
    }

    void settle() {
        posting_ = false;
        const uint64_t dropped = faults(Fault::kDropped);
        while (!settled()) step();
        if (options_.plant == kLostTag) return lose_tag();
        if (dropped != dropped_)
            for (uint64_t left = kExpiry; left; --left) step();
        dropped_ = dropped;
        for (unsigned tag = 0; tag < kTags; ++tag)
            if (system_.card.reads[tag].valid)
                throw Violation("The " + system_.card.reads[tag].tlp.title() +
                                " has not completed at the end of a round.");
    }

    // A read whose completion is dropped, and no time until its tag is used again.
    void lose_tag() {
        Queue& queue = tenants_.queues[0];
        for (unsigned kind = 0; kind < kDestination; ++kind)
            for (uint64_t page = 0; page < kSourceBytes; page += kPage)
                fault_at(queue.regions[kind].base + page, Fault::kDropped);
        post(queue, 100, 0);
        while (!settled()) step();
    }

    void watch() {
        const uint64_t now = system_.cycle(), since = std::max(judge_.ended_at, posted_at_);
        if (now < since + kHang) return;
        for (const Queue& queue : tenants_.queues) {
            if (queue.sc.count == queue.made && queue.rc.count == queue.made && queue.open.empty()) continue;
            std::string text = "No request has completed for " + std::to_string(now - since) + " cycles. Queue " +
                               std::to_string(queue.number) + " has completed " + std::to_string(queue.ended) + " of " +
                               std::to_string(queue.made) + " requests, SC counts " + std::to_string(queue.sc.count);
            if (!queue.open.empty())
                text += "; the next one has " + std::to_string(queue.open.front().length) + " bytes from " +
                        hex(queue.open.front().source) + " and was posted " +
                        std::to_string(now - queue.open.front().posted) + " cycles ago";
            text += "; " + system_.card.streams();
            for (const HardBlock::Read& read : system_.card.reads)
                if (read.valid)
                    text += "; a " + read.tlp.title() + " is in flight for " + std::to_string(now - read.cycle) +
                            " cycles";
            throw Violation(text + ".");
        }
        // While requests are withheld by the test, nothing needs to complete.
        if (!posting_ && !settled()) throw Violation("The links are not idle after the last request; " +
                                                     system_.card.streams() + ".");
    }

    std::vector<uint64_t> counters() {
        static const uint32_t offsets[] = {
            DMACE_PCIE_COUNT_UNSUPPORTED_OFFSET, DMACE_PCIE_COUNT_ABORTED_OFFSET, DMACE_PCIE_COUNT_POISONED_OFFSET,
            DMACE_PCIE_COUNT_TIMED_OUT_OFFSET, DMACE_PCIE_COUNT_MALFORMED_OFFSET, DMACE_PCIE_COUNT_UNEXPECTED_OFFSET,
            DMACE_PCIE_COUNT_WRITES_REFUSED_OFFSET, DMACE_PCIE_COUNT_REQUESTS_REFUSED_OFFSET};
        std::vector<uint64_t> values;
        for (const uint32_t offset : offsets) values.push_back(system_.read(kPcieRegisters + offset));
        uint64_t behind = 0;
        for (const auto& device : system_.devices) behind += device->memory.behind_fault;
        const uint64_t expected[] = {faults(Fault::kUnsupported), faults(Fault::kAborted), faults(Fault::kPoisoned),
                                     faults(Fault::kDropped), 0, behind, 0, 0};
        for (unsigned index = 0; index < values.size(); ++index) values[index] -= expected[index];
        return values;
    }

    // Counters have grown as injected faults since the last reset.
    void check_counters() {
        static const char* const names[] = {"UNSUPPORTED", "ABORTED", "POISONED", "TIMED_OUT", "MALFORMED",
                                            "UNEXPECTED", "WRITES_REFUSED", "REQUESTS_REFUSED"};
        const std::vector<uint64_t> values = counters();
        for (unsigned index = 0; index < values.size(); ++index)
            // The hard block's time-out is unexpected, if the adapter's was first.
            if (static_cast<uint32_t>(values[index] - counted_[index]) > (index == 5 ? expired_ : 0))
                throw Violation(std::string("The register COUNT_") + names[index] + " is " +
                                std::to_string(static_cast<int32_t>(values[index] - counted_[index])) +
                                " beyond the number of faults.");
    }

    // More reads than tags, which are used in turn.
    void check_tags() {
        for (auto& device : system_.devices) device->memory.faulty.clear();
        system_.card.limits.max_read = 128;
        await_settings(system_, extended_);
        system_.card.tag_uses.fill(0);
        const uint64_t before = system_.card.read_requests;
        Queue& queue = tenants_.queues[random_.below(tenants_.queues.size())];
        while (system_.card.read_requests - before < 4 * kTags) {
            post(queue, 9000, 0);
            step();
        }
        while (!settled()) step();
        const unsigned first = extended_ && kTags > kFew ? kFew : 0, last = extended_ ? kTags : std::min(kTags, kFew);
        std::string lost;
        for (unsigned tag = first; tag < last; ++tag)
            if (!system_.card.tag_uses[tag]) lost += (lost.empty() ? "" : ", ") + std::to_string(tag);
        if (!lost.empty()) throw Violation("The card does not use these tags any more: " + lost + ".");
    }

    System& system_;
    SoakOptions options_;
    Random random_;
    Tenants tenants_;
    Judge judge_;
    const uint64_t first_kind_;
    uint64_t posted_ = 0, posted_at_ = 0, rounds_ = 0, resets_ = 0, function_resets_ = 0;
    uint64_t cut_off_ = 0, dropped_ = 0, expired_ = 0;
    double activity_ = 1, invalid_ = 0;
    bool posting_ = false, extended_ = true, planted_ = false;
    std::multimap<uint64_t, std::pair<uint8_t, uint64_t>> expiring_;  // by cycle: tag, and cycle of its read
    std::vector<uint64_t> counted_;
};
