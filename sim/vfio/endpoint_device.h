// SPDX-License-Identifier: Apache-2.0
// The Verilated endpoint as a function of a host, without PCIe: its AXI ports, and the adapter's part for software.
//
// It differs from the card where PCIe does: a write to an address that the host refuses fails its request, with or
// without a flush; there is no link; registers of the adapter have their reset values, and writes to them are dropped.
#pragma once

#include <bitset>
#include <functional>

#include "Vtop.h"
#include "card.h"
#include "device.h"
#include "host_memory.h"
#include "ports.h"
#include "verilated.h"

class EndpointDevice : public Device, private Ports<kDataWidth / 8, HostMemory<kDataWidth / 8>> {
public:
    static constexpr unsigned kVectors = kMsixVectors;

    // Lets a cycle pass for all devices whose clocks advance together, with `step` of each; if empty, for this one alone.
    std::function<void()> advance;

    EndpointDevice(Host& host, const DeviceOptions& options)
        : Ports(host, options.latency), host_(host), options_(options) {
        prepare(top_);
        restart();
    }
    ~EndpointDevice() override { top_.final(); }

    uint64_t read(unsigned bar, uint64_t offset, unsigned size) override {
        if (bar != 0) return 0;
        uint64_t value = word(offset & ~uint64_t{3}) >> 8 * (offset % 4);
        if (size == 8) value |= uint64_t{word(offset + 4)} << 32;
        return value;
    }

    // Registers take whole words: other writes are dropped.
    void write(unsigned bar, uint64_t offset, const uint8_t* data, unsigned size) override {
        while (stores_waiting() >= kWaiting || accesses_waiting() >= kWaiting) tick();
        if (bar == 2) {
            Store store{static_cast<uint32_t>(offset >> 12), static_cast<uint32_t>(offset & ~uint64_t{15}), {{{0, 0}}}};
            std::memcpy(reinterpret_cast<uint8_t*>(store.words[0].data()) + offset % 16, data, size);
            store.strobes = static_cast<uint16_t>(((1u << size) - 1) << offset % 16);
            post(std::move(store));
        } else if (offset < kEndpointBytes && size % 4 == 0) {
            for (unsigned at = 0; at < size; at += 4) {
                uint32_t value;
                std::memcpy(&value, data + at, 4);
                post_write(static_cast<uint32_t>(offset + at), value);
            }
        }
        last_active_ = cycle_;
    }

    void configure(const Settings& settings) override { memory.master = settings.master; }
    void enable_vector(unsigned vector, bool enable) override { vectors_[vector] = enable; }
    void reset() override {
        while (stores_waiting() || accesses_waiting()) tick();
        restart();
    }

    bool run(unsigned cycles) override {
        for (; cycles && working(); --cycles) tick();
        return working();
    }
    uint64_t cycles() const override { return active_; }

    // As those of CardDevice.
    bool working() const { return cycle_ - last_active_ < options_.settle; }
    Vtop& top() { return top_; }
    void touch() { touched_ = true; }
    void step() {
        const auto& top = top_;
        drive(top_, cycle_);
        clock();
        const bool moved = PORT(m_axi, arvalid) || PORT(m_axi, awvalid) || PORT(m_axi, wvalid);
        sample(top_, cycle_);
        interrupts();
        if (moved || touched_ || !memory.idle() || stores_waiting() || accesses_waiting()) {
            const uint64_t gap = cycle_ - last_active_;
            active_ += gap <= kPipeline ? gap : 1;
            last_active_ = cycle_;
        }
        touched_ = false;
    }

private:
    static constexpr uint64_t kEndpointBytes = kPcieRegisters;
    static constexpr unsigned kWaiting = 64, kReset = 16;
    static constexpr uint64_t kReadLimit = 100'000, kPipeline = 100;

    uint32_t word(uint64_t offset) {
        if (offset >= kEndpointBytes) return adapter_word(static_cast<uint32_t>(offset - kEndpointBytes));
        post_read(static_cast<uint32_t>(offset));
        const uint64_t began = cycle_;
        while (values.empty()) {
            if (cycle_ - began > kReadLimit)
                throw Violation("The endpoint has not completed a read of the register at " + hex(offset) + " within " +
                                std::to_string(kReadLimit) + " cycles.");
            tick();
        }
        const uint32_t value = values.front();
        values.pop_front();
        return value;
    }

    static uint32_t adapter_word(uint32_t offset) {
        switch (offset) {
            case DMACE_PCIE_ID_OFFSET: return DMACE_PCIE_ID_RESET;
            case DMACE_PCIE_VERSION_OFFSET: return DMACE_PCIE_VERSION_RESET;
            case DMACE_PCIE_SIZES_OFFSET: return DMACE_PCIE_SIZES_RESET;
            default: return 0;
        }
    }

    void restart() {
        memory.clear();
        top_.rst = 1;
        for (unsigned count = 0; count < kReset; ++count) clock();
        top_.rst = 0;
        clock();
        irq_ = false;
    }

    void clock() {
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
        ++cycle_;
    }

    void tick() {
        if (advance) {
            advance();
        } else {
            step();
        }
    }

    void interrupts() {
        const auto& top = top_;
        if (top.irq && !irq_) interrupt(0);
        irq_ = top.irq;
        if (PORT(interrupts, written___05Fvalid)) interrupt_queue(PORT(interrupts, written___05Fqueue));
        if (PORT(interrupts, completed___05Fvalid)) interrupt_queue(PORT(interrupts, completed___05Fqueue));
    }
    void interrupt_queue(unsigned queue) { interrupt(1 + queue % (kVectors - 1)); }
    void interrupt(unsigned vector) {
        if (vectors_[vector]) host_.interrupt(vector);
    }

    Host& host_;
    DeviceOptions options_;
    Vtop top_;
    std::bitset<kVectors> vectors_;
    bool irq_ = false, touched_ = false;
    uint64_t cycle_ = 0, last_active_ = 0, active_ = 0;
};
