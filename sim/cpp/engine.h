// SPDX-License-Identifier: Apache-2.0
// The Verilated engine with its memory: one cycle at a time, and registers.
#pragma once

#include <cstdio>
#include <stdexcept>

#include "Vtop.h"
#include "dmace.h"
#include "ports.h"
#include "verilated.h"

constexpr unsigned kBytes = DMACE_DATA_BYTES;
constexpr unsigned kIdBits = DMACE_ID_BITS;

// A GPU's view of a doorbell page.
struct alignas(DMACE_DMA_DOORBELL_PAGE) DoorbellPage {
    uint64_t halves[DMACE_DMA_DOORBELL_PAGE / 8] = {};
};

template <class Memory>
class EngineWith : public Ports<kBytes, Memory> {
public:
    using Ports<kBytes, Memory>::post;
    uint64_t cycle = 0;

    template <class... Arguments>
    explicit EngineWith(Arguments&&... arguments) : Ports<kBytes, Memory>(std::forward<Arguments>(arguments)...) {
        this->prepare(top_);
        // The memory is connected when the reset has reached all registers of the engine, two edges later.
        hold(true);
        for (int edges = 2; edges--;) {
            top_.clk = 0;
            top_.eval();
            top_.clk = 1;
            top_.eval();
        }
        reset(4);
    }
    ~EngineWith() { top_.final(); }

    void reset(int cycles) {
        hold(true);
        while (cycles--) tick();
        hold(false);
        tick();
    }

    // Level of `rst` from the next cycle on.
    void hold(bool reset) { top_.rst = reset; }

    volatile void* doorbell(uint32_t queue) { return &pages_[queue]; }

    // Merges the stores to `count` words of a doorbell page, from `slot` on, into one burst, like a bridge.
    void merge(uint32_t queue, uint32_t slot, uint32_t count) {
        Store store{queue, queue * DMACE_DMA_DOORBELL_PAGE + slot * 16, {}};
        for (uint32_t place = slot; place < slot + count; ++place) {
            uint64_t* halves = &pages_[queue].halves[2 * place];
            store.words.push_back({halves[0], halves[1]});
            halves[0] = halves[1] = 0;
        }
        post(std::move(store));
    }

    // The edge at which the engine's inputs are registered (ClockedInputs) begins the cycle.
    void tick() {
        this->drive(top_, cycle);
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
        this->sample(top_, cycle);
        ++cycle;
    }

    void write(uint32_t offset, uint32_t value) {
        this->post_write(offset, value);
        await("a register write");
    }

    uint32_t read(uint32_t offset) {
        this->post_read(offset);
        await("a register read");
        const uint32_t value = this->values.front();
        this->values.pop_front();
        return value;
    }

    // Writes a value of 64 bits to a register and the next one.
    void write_pair(uint32_t low, uint64_t value) {
        write(low, static_cast<uint32_t>(value));
        write(low + 4, static_cast<uint32_t>(value >> 32));
    }

    // Defines a region that may be read if it is a source, otherwise written.
    void define_region(uint32_t number, uint64_t base, uint64_t length, uint32_t domain, bool source) {
        write_pair(DMACE_DMA_REGION_BASE_LO_OFFSET, base);
        write_pair(DMACE_DMA_REGION_LENGTH_LO_OFFSET, length);
        write(DMACE_DMA_REGION_ACCESS_OFFSET,
              domain << DMACE_DMA_REGION_ACCESS_DOMAIN_SHIFT | DMACE_DMA_REGION_ACCESS_VALID_MASK |
                  (source ? DMACE_DMA_REGION_ACCESS_READABLE_MASK : DMACE_DMA_REGION_ACCESS_WRITABLE_MASK));
        write(DMACE_DMA_REGION_COMMIT_OFFSET, number);
    }

    void command(uint32_t queue, uint32_t what) {
        write(DMACE_DMA_QUEUE_COMMAND_OFFSET,
              queue << DMACE_DMA_QUEUE_COMMAND_QUEUE_SHIFT | what << DMACE_DMA_QUEUE_COMMAND_COMMAND_SHIFT);
    }

private:
    void await(const char* what) {
        for (int left = 100000; this->accesses_waiting(); --left) {
            if (left == 0) throw std::runtime_error(std::string("The engine did not respond to ") + what);
            tick();
        }
    }

    Vtop top_;
    std::array<DoorbellPage, DMACE_DMA_QUEUES> pages_;
};

class Engine : public EngineWith<AxiMemory<kBytes>> {
public:
    Engine(std::vector<Target> targets, const MemoryOptions& options)
        : EngineWith<AxiMemory<kBytes>>(std::move(targets), options, kIdBits) {}
};
