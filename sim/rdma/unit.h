// SPDX-License-Identifier: Apache-2.0
// One Verilated RoCEv2 unit with its memory, its DMA traffic, its registers, and its port of the network.
#pragma once

#include <memory>

#include "Vtop.h"
#include "dma_traffic.h"
#include "mac_port.h"
#include "memory_streams.h"
#include "register_bus.h"
#include "verilated.h"

class Unit {
public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    MemoryStreams streams;
    DmaTraffic traffic;
    RegisterBus bus;
    uint64_t interrupted = kNever;  // cycle in which irq, still high, has risen
    MacPort<kDataBytes> mac;
    uint64_t illegal_others = 0;    // beats of other_rx with a gap in tkeep, or partial ones before the last
    std::deque<std::vector<uint8_t>> other_out, other_in;  // frames to other_tx, and from other_rx

    Unit(VerilatedContext* context, Network& network, unsigned port, const Target& target, const MemoryOptions& options)
        : streams(target, options), traffic(options.seed * 3 + 1), mac(network, port), random_(options.seed * 3 + 2),
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
        top.mac_tx___05Ftready = mac.ready(cycle);
        mac.offer(cycle, top.mac_rx___05Ftvalid, top.mac_rx___05Ftdata, top.mac_rx___05Ftkeep, top.mac_rx___05Ftlast,
                  top.mac_rx___05Ftuser);
        offer_other(top);
        top.other_rx___05Ftready = !random_.chance(stall_);
        clock();
        streams.sample(top, cycle);
        traffic.sample(top, streams.memory.bytes, cycle);
        bus.sample(top);
        mac.take(cycle, top.mac_tx___05Ftready, top.mac_tx___05Ftvalid, top.mac_tx___05Ftdata, top.mac_tx___05Ftkeep,
                 top.mac_tx___05Ftlast, top.mac_tx___05Ftuser);
        mac.taken(cycle, top.mac_rx___05Ftready);
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
    void clock() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    void offer_other(Vtop& top) {
        if (top.other_tx___05Ftvalid || other_out.empty() || random_.chance(stall_)) return;
        const auto& frame = other_out.front();
        const auto count = static_cast<unsigned>(std::min<size_t>(kDataBytes, frame.size() - other_at_));
        std::memcpy(&top.other_tx___05Ftdata, frame.data() + other_at_, count);
        FrameStream<kDataBytes>::put_keep(top.other_tx___05Ftkeep, count);
        top.other_tx___05Ftlast = other_at_ + count == frame.size();
        top.other_tx___05Ftvalid = 1;
    }

    void take_other(Vtop& top) {
        if (!top.other_rx___05Ftvalid || !top.other_rx___05Ftready) return;
        const bool last = top.other_rx___05Ftlast;
        const auto* data = reinterpret_cast<const uint8_t*>(&top.other_rx___05Ftdata);
        partial_.insert(partial_.end(), data,
                        data + FrameStream<kDataBytes>::get_keep(top.other_rx___05Ftkeep, last, illegal_others));
        if (!last) return;
        if (!top.other_rx___05Ftuser) other_in.push_back(partial_);
        partial_.clear();
    }

    Random random_;
    double stall_;
    std::unique_ptr<Vtop> top_;
    size_t other_at_ = 0;
    std::vector<uint8_t> partial_;
};
