// SPDX-License-Identifier: Apache-2.0
// One Verilated RoCEv2 unit with its memory, its DMA traffic, its registers, and its port of the network.
#pragma once

#include <memory>

#include "Vtop.h"
#include "dma_traffic.h"
#include "memory_streams.h"
#include "network.h"
#include "register_bus.h"
#include "verilated.h"

class Unit {
public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    MemoryStreams streams;
    DmaTraffic traffic;
    RegisterBus bus;
    uint64_t interrupted = kNever;  // cycle in which irq, still high, has risen
    uint64_t illegal_beats = 0;     // frames with a gap in tkeep, or a partial beat before the last
    std::deque<std::vector<uint8_t>> other_out, other_in;  // frames to other_tx, and from other_rx

    Unit(VerilatedContext* context, Network& network, unsigned port, const Target& target, const MemoryOptions& options)
        : streams(target, options), traffic(options.seed * 3 + 1), network_(network), port_(port), random_(options.seed * 3 + 2),
          stall_(options.stall), top_(std::make_unique<Vtop>(context)) {
        top_->rst = 1;
        for (int count = 0; count < 4; ++count) clock();
        top_->rst = 0;
        clock();
    }
    ~Unit() { top_->final(); }
    Unit(const Unit&) = delete;
    Unit& operator=(const Unit&) = delete;

    // The edge at which the unit's inputs are registered (ClockedInputs) begins the cycle.
    void tick(uint64_t cycle) {
        Vtop& top = *top_;
        streams.drive(top, cycle);
        traffic.drive(top, streams.memory.bytes, cycle);
        bus.drive(top);
        top.mac_tx___05Ftready = network_.ready(port_, cycle);
        offer_received(top, cycle);
        offer_other(top);
        top.other_rx___05Ftready = !random_.chance(stall_);
        clock();
        streams.sample(top, cycle);
        traffic.sample(top, streams.memory.bytes, cycle);
        bus.sample(top);
        take_sent(top, cycle);
        if (receiving_ && top.mac_rx___05Ftready) {
            network_.taken(port_, cycle);
            receiving_ = false;
        }
        if (top.other_tx___05Ftvalid && top.other_tx___05Ftready) {
            other_at_ += kDataBytes;
            if (top.other_tx___05Ftlast) {
                other_out.pop_front();
                other_at_ = 0;
            }
            top.other_tx___05Ftvalid = 0;
        }
        take_other(top);
        if (!top.irq) interrupted = kNever;
        else if (interrupted == kNever) interrupted = cycle;
    }

private:
    static constexpr unsigned kKeepBytes = (kDataBytes + 7) / 8;

    void clock() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    template <class Port>
    static void put_keep(Port& port, unsigned count) {
        uint8_t keep[kKeepBytes] = {};
        std::memset(keep, 0xFF, count / 8);
        if (count % 8) keep[count / 8] = static_cast<uint8_t>((1u << count % 8) - 1);
        std::memcpy(&port, keep, kKeepBytes);
    }

    // Bytes that are kept; ones beyond them, or a partial beat before the last, are illegal.
    template <class Port>
    unsigned get_keep(const Port& port, bool last) {
        uint8_t keep[kKeepBytes];
        std::memcpy(keep, &port, kKeepBytes);
        unsigned count = 0, ones = 0;
        for (const uint8_t group : keep) ones += static_cast<unsigned>(__builtin_popcount(group));
        while (count < kDataBytes && keep[count / 8] >> count % 8 & 1) ++count;
        illegal_beats += count != ones || (!last && count != kDataBytes);
        return count;
    }

    void offer_received(Vtop& top, uint64_t cycle) {
        if (!receiving_) {
            Network::Beat beat;
            receiving_ = network_.offer(port_, cycle, kDataBytes, beat);
            if (receiving_) {
                std::memcpy(&top.mac_rx___05Ftdata, beat.data, beat.count);
                put_keep(top.mac_rx___05Ftkeep, beat.count);
                top.mac_rx___05Ftlast = beat.last;
                top.mac_rx___05Ftuser = beat.bad;
            }
        }
        top.mac_rx___05Ftvalid = receiving_;
    }

    void take_sent(Vtop& top, uint64_t cycle) {
        if (!top.mac_tx___05Ftready) return;
        if (!top.mac_tx___05Ftvalid) {
            network_.idle(port_);
            return;
        }
        const bool last = top.mac_tx___05Ftlast;
        network_.beat(port_, cycle, reinterpret_cast<const uint8_t*>(&top.mac_tx___05Ftdata),
                      get_keep(top.mac_tx___05Ftkeep, last), last, last && top.mac_tx___05Ftuser);
    }

    void offer_other(Vtop& top) {
        if (top.other_tx___05Ftvalid || other_out.empty() || random_.chance(stall_)) return;
        const auto& frame = other_out.front();
        const auto count = static_cast<unsigned>(std::min<size_t>(kDataBytes, frame.size() - other_at_));
        std::memcpy(&top.other_tx___05Ftdata, frame.data() + other_at_, count);
        put_keep(top.other_tx___05Ftkeep, count);
        top.other_tx___05Ftlast = other_at_ + count == frame.size();
        top.other_tx___05Ftvalid = 1;
    }

    void take_other(Vtop& top) {
        if (!top.other_rx___05Ftvalid || !top.other_rx___05Ftready) return;
        const bool last = top.other_rx___05Ftlast;
        const auto* data = reinterpret_cast<const uint8_t*>(&top.other_rx___05Ftdata);
        partial_.insert(partial_.end(), data, data + get_keep(top.other_rx___05Ftkeep, last));
        if (!last) return;
        if (!top.other_rx___05Ftuser) other_in.push_back(partial_);
        partial_.clear();
    }

    Network& network_;
    unsigned port_;
    Random random_;
    double stall_;
    std::unique_ptr<Vtop> top_;
    bool receiving_ = false;
    size_t other_at_ = 0;
    std::vector<uint8_t> partial_;
};
