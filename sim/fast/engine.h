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

// What a GPU sees of a doorbell page.
struct alignas(DMACE_DMA_DOORBELL_PAGE) DoorbellPage {
    uint64_t halves[DMACE_DMA_DOORBELL_PAGE / 8] = {};
};

class Engine : public Ports<kBytes> {
public:
    uint64_t cycle = 0;

    Engine(std::vector<Target> targets, const MemoryOptions& options) : Ports(std::move(targets), options, kIdBits) {
        prepare(top_);
        top_.rst = 1;
        for (int count = 0; count < 4; ++count) tick();
        top_.rst = 0;
        tick();
    }
    ~Engine() { top_.final(); }

    volatile void* doorbell(uint32_t queue) { return &pages_[queue]; }

    // Takes what was stored to `count` places of a doorbell page, from `slot` on, as a bridge that merges them does.
    void merge(uint32_t queue, uint32_t slot, uint32_t count) {
        Store store{queue, queue * DMACE_DMA_DOORBELL_PAGE + slot * 16, {}};
        for (uint32_t place = slot; place < slot + count; ++place) {
            uint64_t* halves = &pages_[queue].halves[2 * place];
            store.words.push_back({halves[0], halves[1]});
            halves[0] = halves[1] = 0;
        }
        post(std::move(store));
    }

    // The edge that brings the inputs to the engine (ClockedInputs) begins the cycle.
    void tick() {
        drive(top_, cycle);
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
        sample(top_, cycle);
        ++cycle;
    }

    void write(uint32_t offset, uint32_t value) {
        post_write(offset, value);
        await("a register write");
    }

    uint32_t read(uint32_t offset) {
        post_read(offset);
        await("a register read");
        const uint32_t value = values.front();
        values.pop_front();
        return value;
    }

private:
    void await(const char* what) {
        for (int left = 100000; accesses_waiting(); --left) {
            if (left == 0) throw std::runtime_error(std::string("The engine did not answer ") + what);
            tick();
        }
    }

    Vtop top_;
    std::array<DoorbellPage, DMACE_DMA_QUEUES> pages_;
};
