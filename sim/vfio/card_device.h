// SPDX-License-Identifier: Apache-2.0
// The Verilated card as a function of a host: TLPs on a link of the card's rate, memory reads after a latency.
//
// Each TLP of the card is checked by hard_block.h; a Violation is thrown if one breaks a rule of PCI Express or PG213.
#pragma once

#include <bitset>
#include <functional>
#include <optional>

#include "completion.h"
#include "device.h"
#include "hard_block.h"
#include "link.h"

class CardDevice : public Device {
public:
    static constexpr unsigned kVectors = kMsixVectors;

    // Lets a cycle pass for all cards whose clocks advance together, with `step` of each; if empty, for this one alone.
    std::function<void()> advance;

    CardDevice(Host& host, const DeviceOptions& options)
        : host_(host), options_(options), card_(options.seed), up_(kLinkRate, kLinkDelay),
          down_(kLinkRate, kLinkDelay) {
        card_.without_master = HardBlock::WithoutMaster::kUnsupported;
        card_.completed = [this](const Packet& packet) { completed(packet); };
        configure({});
        restart();
    }

    uint64_t read(unsigned bar, uint64_t offset, unsigned size) override {
        Tlp tlp = access(bar, offset, size);
        tlp.kind = Kind::kRead;
        tlp.tag = kHostTag;
        response_.reset();
        down_.send(std::move(tlp), now());
        const uint64_t began = card_.cycle;
        while (!response_) {
            if (card_.cycle - began > kReadLimit)
                throw Violation("The card has not completed a read of BAR " + std::to_string(bar) + " at " +
                                hex(offset) + " within " + std::to_string(kReadLimit) + " cycles; " + card_.streams() + ".");
            tick();
        }
        uint64_t value = 0;
        const auto* bytes = reinterpret_cast<const uint8_t*>(response_->data()) + offset % 4;
        std::memcpy(&value, bytes, std::min<size_t>(size, sizeof value));
        return value;
    }

    void write(unsigned bar, uint64_t offset, const uint8_t* data, unsigned size) override {
        while (down_.waiting() >= kWaiting) tick();
        Tlp tlp = memory_write(base_of(bar) + offset, data, size);
        tlp.requester = kHostId;
        down_.send(std::move(tlp), now());
        last_active_ = card_.cycle;
    }

    void configure(const Settings& settings) override {
        card_.memory_enable = settings.memory;
        card_.limits.bus_master = settings.master;
        card_.limits.max_payload = settings.max_payload;
        card_.limits.max_read = settings.max_read;
        card_.extended_tags(settings.extended_tags);
    }

    void enable_vector(unsigned vector, bool enable) override {
        vectors_[vector] = enable;
        card_.msix_enable = vectors_.any();
        write_vector(vector);
    }

    void reset() override {
        // Requests of the host that have been sent arrive before the reset.
        while (down_.waiting() || !arriving_.empty() || card_.requests_wait()) tick();
        card_.function_reset(true);
        due_.clear();
        const uint64_t began = card_.cycle;
        while (!card_.function_reset_done()) {
            if (card_.cycle - began > kResetLimit)
                throw Violation("The card has not finished a function-level reset within " +
                                std::to_string(kResetLimit) + " cycles; " + card_.streams() + ".");
            tick();
        }
        card_.function_reset(false);
        restart();
    }

    bool run(unsigned cycles) override {
        for (; cycles && working(); --cycles) tick();
        return working();
    }

    uint64_t cycles() const override { return active_; }

    // Whether anything is in progress, or was some cycles ago.
    bool working() const { return card_.cycle - last_active_ < options_.settle; }

    Vtop& top() { return card_.top(); }
    // Something has moved at pins that are not the hard block's, which counts as activity of the next cycle.
    void touch() { touched_ = true; }

    // One cycle of this card.
    void step() {
        const uint64_t beats = moved();
        card_.tick();
        const auto always = [](const Tlp&) { return true; };
        while (!card_.transmit.empty() && up_.ready(now())) {
            up_.send(std::move(card_.transmit.front()), now());
            card_.transmit.pop_front();
            up_.tick(now(), always, [&](Tlp tlp, double time) { at_host_.add(std::move(tlp), time); });
        }
        while (!at_host_.empty() && at_host_.time() <= now()) receive(at_host_.take());
        while (!due_.empty() && due_.time() <= now()) complete(due_.take());
        down_.tick(now(), [&](const Tlp& tlp) { return arriving_.size() < kArriving && card_.accepts(tlp); },
                   [&](Tlp tlp, double time) { arriving_.add(std::move(tlp), time); });
        while (!arriving_.empty() && arriving_.time() <= now()) arrive(arriving_.take());
        if (moved() != beats || !idle() || touched_) {
            const uint64_t gap = card_.cycle - last_active_;
            active_ += gap <= kPipeline ? gap : 1;
            last_active_ = card_.cycle;
            touched_ = false;
        }
    }

private:
    static constexpr double kLinkRate = kDataWidth / 8, kLinkDelay = 2.5;  // bytes per cycle; cycles
    static constexpr uint64_t kBar0 = 0xE0000000, kBar2 = uint64_t{1} << 46, kMessages = 0xFEE00000;
    static constexpr uint64_t kReadLimit = 100'000, kResetLimit = 8'000'000;
    static constexpr unsigned kWaiting = 64, kArriving = 64;
    static constexpr unsigned kRestart = 64;  // cycles after a reset
    // Longest time between two events on the pins within one request: the pipelines of the card.
    static constexpr uint64_t kPipeline = 100;
    static constexpr uint16_t kHostId = 0x0000;
    static constexpr uint8_t kHostTag = 7;

    static uint64_t base_of(unsigned bar) { return bar == 0 ? kBar0 : kBar2; }
    double now() const { return static_cast<double>(card_.cycle); }

    static Tlp access(unsigned bar, uint64_t offset, unsigned size) {
        const uint8_t none[16] = {};
        Tlp tlp = memory_write(base_of(bar) + offset, none, size);
        tlp.data.clear();
        tlp.requester = kHostId;
        return tlp;
    }

    void restart() {
        for (unsigned count = 0; count < kRestart; ++count) tick();
        for (unsigned vector = 0; vector < kVectors; ++vector) write_vector(vector);
    }

    // The card's MSI-X table sends the number of a vector as data; the host's own table is in front of it.
    void write_vector(unsigned vector) {
        const uint32_t entry[4] = {static_cast<uint32_t>(kMessages), 0, vector, vectors_[vector] ? 0u : 1u};
        for (unsigned word = 0; word < 4; ++word)
            write(0, kMsixTable + 16 * vector + 4 * word, reinterpret_cast<const uint8_t*>(&entry[word]), 4);
    }

    void tick() {
        if (advance) {
            advance();
        } else {
            step();
        }
    }

    uint64_t moved() const { return card_.rq_beats + card_.rc_beats + card_.cq_beats + card_.cc_beats; }
    bool idle() const {
        return card_.idle() && !up_.waiting() && !down_.waiting() && at_host_.empty() && due_.empty() &&
               arriving_.empty();
    }

    void arrive(Tlp tlp) {
        if (tlp.kind == Kind::kCompletion) {
            card_.completion(tlp);
        } else if (tlp.address >= kBar2) {
            card_.request(tlp, 2, kDoorbellBits);
        } else {
            card_.request(tlp, 0, kBar0Bits);
        }
    }

    // At the host, from the card.
    void receive(Tlp tlp) {
        if (tlp.kind == Kind::kRead) {
            due_.add(std::move(tlp), now() + options_.latency);
        } else if (tlp.address == kMessages && tlp.dwords == 1) {
            if (tlp.data[0] >= kVectors)
                throw Violation("The card has sent the message of vector " + std::to_string(tlp.data[0]) +
                                ", which it does not have.");
            host_.interrupt(tlp.data[0]);
        } else {
            store(tlp);
        }
    }

    // Enabled bytes, a run at a time: all of a request but those of one or two double words.
    void store(const Tlp& tlp) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(tlp.data.data());
        const auto enabled = [&](unsigned index) { return enables_of(tlp, index / 4) >> index % 4 & 1; };
        for (unsigned index = 0; index < 4 * tlp.dwords;) {
            unsigned end = index;
            while (end < 4 * tlp.dwords && enabled(end)) ++end;
            // PCI Express does not report what becomes of a posted write.
            if (end > index) host_.write(tlp.address + index, end - index, bytes + index);
            index = end + 1;
        }
    }

    void complete(const Tlp& request) {
        const auto [offset, length] = enabled_bytes(request);
        const uint64_t start = request.address + offset, end = start + length;
        uint8_t data[4096] = {};
        const bool mapped = request.first_be ? host_.read(start, length, data) : host_.may_read_nothing(start);
        for (uint64_t from = start; from < end;) {
            const uint64_t limit = (from & ~uint64_t{3}) + card_.limits.max_payload;
            const uint64_t upto = limit >= end ? end : limit / kBoundary * kBoundary;
            Tlp completion = completion_header(request, from, upto, end, kHostId);
            if (mapped) {
                std::memcpy(reinterpret_cast<uint8_t*>(completion.data.data()) + from % 4, data + (from - start),
                            upto - from);
            } else {
                completion.status = kUnsupportedRequest;
                completion.dwords = completion.lower_address = 0;
                completion.data.clear();
            }
            down_.send(std::move(completion), now());
            if (!mapped) return;
            from = upto;
        }
    }

    // A completion of the card for the host's read.
    void completed(const Packet& packet) {
        response_.emplace(packet.words.begin() + kCompletionDwords, packet.words.end());
        if (get(packet.words.data(), completer_completion::status) != kSuccessful) response_->clear();
        response_->resize(4, ~0u);
    }

    static constexpr unsigned kBoundary = 128;  // read completion boundary

    Host& host_;
    DeviceOptions options_;
    HardBlock card_;
    Wire up_, down_;
    TimedPackets at_host_, arriving_, due_;
    std::optional<std::vector<uint32_t>> response_;
    std::bitset<kVectors> vectors_;
    uint64_t last_active_ = 0, active_ = 0;
    bool touched_ = false;
};
