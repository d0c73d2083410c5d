// SPDX-License-Identifier: Apache-2.0
// The card behind a switch with the host and GPUs, one cycle at a time; registers from the host, stores of GPUs.
//
// Each device has a link of the card's rate to the switch. The host's memory is at address 0, and its CPU accesses
// BAR 0.
#pragma once

#include <map>
#include <memory>

#include "completer.h"
#include "hard_block.h"

struct SystemOptions {
    unsigned gpus = 2;
    double link_bytes = 64;  // per cycle in each direction
    double link_delay = 2.5;  // cycles
    uint64_t seed = 1;
};

class System {
public:
    static constexpr uint64_t kBar0 = 0xE0000000, kBar2 = uint64_t{1} << 46, kGpus = uint64_t{1} << 45;
    static constexpr uint64_t kGpuSpan = uint64_t{1} << 36, kHostSpan = uint64_t{1} << 31;
    // Cycles from the arrival of a request at the hard block until it may be on CQ, as in cocotbext-pcie.
    static constexpr double kRequestDelay = 1;

    struct Device {
        Completer memory;
        Wire to, from;
        TimedPackets arrivals;
    };

    HardBlock card;
    std::vector<std::unique_ptr<Device>> devices;  // the host, and the GPUs
    // What a blocking access does for each cycle.
    std::function<void()> step = [this] { tick(); };
    // May change a TLP between card and switch; false loses it.
    std::function<bool(Tlp&)> tamper;

    explicit System(const SystemOptions& options)
        : card(options.seed * 3 + 1), up_(options.link_bytes, options.link_delay),
          down_(options.link_bytes, options.link_delay) {
        for (unsigned number = 0; number <= options.gpus; ++number) {
            const uint64_t base = number ? kGpus + (number - 1) * kGpuSpan : 0;
            const auto identity = static_cast<uint16_t>(number ? 0x0300 + 0x0100 * number : 0);
            devices.push_back(std::make_unique<Device>(Device{
                Completer(base, number ? kGpuSpan : kHostSpan, identity, options.seed * 7 + number),
                Wire(options.link_bytes, options.link_delay), Wire(options.link_bytes, options.link_delay, true), {}}));
        }
        card.completed = [this](const Packet& packet) { completed(packet); };
    }

    uint64_t cycle() const { return card.cycle; }
    Completer& memory(unsigned device) { return devices[device]->memory; }
    // Pointer to a byte of any memory.
    uint8_t* at(uint64_t address) { return devices[device_of(address)]->memory.bytes.at(address); }

    unsigned device_of(uint64_t address) const {
        for (unsigned number = 0; number < devices.size(); ++number)
            if (devices[number]->memory.has(address)) return number;
        throw Violation("RQ: there is no memory at " + hex(address) + ".");
    }

    // A device stores to the card.
    void store(unsigned device, Tlp tlp) {
        tlp.requester = devices[device]->memory.identity();
        devices[device]->from.send(std::move(tlp), static_cast<double>(cycle()));
    }

    void tick() {
        card.tick();
        const auto now = static_cast<double>(cycle());
        const auto always = [](const Tlp&) { return true; };
        while (!card.transmit.empty() && up_.ready(now)) {
            up_.send(std::move(card.transmit.front()), now);
            card.transmit.pop_front();
            up_.tick(now, always, [&](Tlp tlp, double time) { route(std::move(tlp), time); });
        }
        for (auto& device : devices) {
            const auto respond = [&](Tlp tlp, double time) { device->from.send(std::move(tlp), time); };
            device->to.tick(now, always, [&](Tlp tlp, double time) { device->arrivals.add(std::move(tlp), time); });
            while (!device->arrivals.empty() && device->arrivals.time() < now + 1) {
                const double time = device->arrivals.time();
                receive(*device, device->arrivals.take(), time);
            }
            device->memory.tick(now, respond);
            device->from.tick(now, always, [&](Tlp tlp, double time) { down_.send(std::move(tlp), time); });
        }
        down_.tick(now, [&](const Tlp& tlp) { return arriving_.size() < kArriving && card.accepts(tlp); },
                   [&](Tlp tlp, double time) {
                       arriving_.add(std::move(tlp), time + (tlp.kind == Kind::kCompletion ? 0 : kRequestDelay));
                   });
        while (!arriving_.empty() && arriving_.time() <= now) arrive(arriving_.take());
    }

    // Nothing is in flight, neither in the links nor in the hard block.
    bool idle() const {
        if (!card.idle() || up_.waiting() || down_.waiting() || !arriving_.empty()) return false;
        for (const auto& device : devices)
            if (!device->memory.idle() || device->to.waiting() || device->from.waiting() || !device->arrivals.empty())
                return false;
        return true;
    }

    // The link of the card fails: TLPs in it are lost, and completions for requests from before.
    void lose() {
        up_.clear();
        down_.clear();
        arriving_.clear();
        for (auto& device : devices) {
            device->memory.clear();
            device->from.clear();
        }
        pending_.clear();
    }

    // Registers of BAR 0

    void write(uint32_t offset, uint32_t value) {
        Tlp tlp = memory_write(kBar0 + offset, reinterpret_cast<const uint8_t*>(&value), 4);
        store(0, std::move(tlp));
    }

    uint32_t read(uint32_t offset) {
        Tlp tlp;
        tlp.address = kBar0 + offset;
        tlp.dwords = 1;
        tlp.first_be = 0xF;
        const uint8_t tag = next_tag_++;
        tlp.tag = tag;
        pending_[tag] = {false, 0};
        store(0, std::move(tlp));
        const uint64_t began = cycle();
        while (!pending_[tag].done) {
            if (cycle() - began > kReadLimit)
                throw Violation("The card has not completed a read of the register at " + hex(offset) + " within " +
                                std::to_string(kReadLimit) + " cycles; " + card.streams() + ".");
            step();
        }
        const uint32_t value = pending_[tag].value;
        pending_.erase(tag);
        return value;
    }

    void write_pair(uint32_t low, uint64_t value) {
        write(low, static_cast<uint32_t>(value));
        write(low + 4, static_cast<uint32_t>(value >> 32));
    }

private:
    static constexpr unsigned kArriving = 64;
    static constexpr uint64_t kReadLimit = 100000;

    struct Pending {
        bool done;
        uint32_t value;
    };

    // At the switch, from the card.
    void route(Tlp tlp, double time) {
        if (tamper && !tamper(tlp)) return;
        unsigned target = 0;
        if (tlp.kind == Kind::kCompletion) {
            while (devices[target]->memory.identity() != tlp.requester) ++target;
        } else {
            target = device_of(tlp.address);
        }
        devices[target]->to.send(std::move(tlp), time);
    }

    void receive(Device& device, Tlp tlp, double time) {
        if (tlp.kind != Kind::kCompletion) {
            device.memory.receive(std::move(tlp), time);
            return;
        }
        const auto found = pending_.find(tlp.tag);
        need(found != pending_.end(), "CC, " + tlp.title(), "no request with this tag is in flight (2.3.2)");
        found->second = {true, tlp.status == kSuccessful && tlp.dwords ? tlp.data[0] : ~0u};
    }

    // At the card.
    void arrive(Tlp tlp) {
        if (tamper && !tamper(tlp)) return;
        if (tlp.kind == Kind::kCompletion) {
            card.completion(tlp);
        } else if (tlp.address >= kBar2) {
            card.request(tlp, 2, kDoorbellBits);
        } else {
            card.request(tlp, 0, kBar0Bits);
        }
    }

    // A completion of a register read on CC.
    void completed(const Packet& packet) {
        const uint32_t* words = packet.words.data();
        Tlp tlp;
        tlp.kind = Kind::kCompletion;
        tlp.status = static_cast<uint8_t>(get(words, completer_completion::status));
        tlp.dwords = static_cast<unsigned>(get(words, completer_completion::dwords));
        tlp.byte_count = static_cast<unsigned>(get(words, completer_completion::byte_count));
        tlp.lower_address = static_cast<unsigned>(get(words, completer_completion::lower_address));
        tlp.requester = static_cast<uint16_t>(get(words, completer_completion::requester_id));
        tlp.tag = static_cast<uint8_t>(get(words, completer_completion::tag));
        tlp.data.assign(packet.words.begin() + kCompletionDwords, packet.words.end());
        const std::string title = "CC, " + tlp.title();
        need(!tlp.requester && pending_.count(tlp.tag) && !pending_[tlp.tag].done, title,
             "no request with this requester and tag is in flight (2.3.2)");
        if (tlp.status == kSuccessful) {
            need(tlp.dwords == 1 && tlp.data.size() == 1, title, "a read of one DW must complete with one DW (2.2.9)");
            need(tlp.byte_count == 4, title, "the byte count must be that of the read (2.2.9)");
        } else {
            need(tlp.status == kUnsupportedRequest || tlp.status == kCompleterAbort, title,
                 "the status must be 0, 1 or 4 for a memory request (2.2.9)");
            tlp.data.clear();
        }
        for (const Field field : kCompletionZeros)
            need(!get(words, field), title, "the fields that the adapter does not use must be 0");
        card.transmit.push_back(std::move(tlp));
    }

    Wire up_, down_;
    TimedPackets arriving_;
    std::map<uint8_t, Pending> pending_;
    uint8_t next_tag_ = 0;
};
