// The Verilated engine with its memory: one cycle at a time, and registers.
#pragma once

#include <array>
#include <cstdio>
#include <stdexcept>

#include "Vtop.h"
#include "axi_memory.h"
#include "dmace.h"
#include "verilated.h"

// A port of a bus of `top_`; Verilator writes "__" like this.
#define PORT(bus, signal) top_.bus##___05F##signal

constexpr unsigned kBytes = DMACE_DATA_BYTES;
constexpr unsigned kIdBits = DMACE_ID_BITS;
using Memory = AxiMemory<kBytes>;

// Ports of up to 64 bits are integers, wider ones arrays of 32-bit words, both little endian here.
template <class Port>
void put(Port& port, const uint8_t* bytes, size_t count) {
    std::memcpy(&port, bytes, count);
}
template <class Port>
void get(const Port& port, uint8_t* bytes, size_t count) {
    std::memcpy(bytes, &port, count);
}

// What a GPU sees of a doorbell page.
struct alignas(DMACE_DMA_DOORBELL_PAGE) DoorbellPage {
    uint64_t halves[DMACE_DMA_DOORBELL_PAGE / 8] = {};
};

// A doorbell store on its way: `words` beats of one burst.
struct Store {
    uint32_t queue, offset;
    std::vector<dmace_word> words;
};

// Told what passes the pins.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void posted(uint64_t cycle, uint32_t queue) = 0;
    virtual void read_issued(uint64_t cycle, uint64_t address) = 0;
    virtual void read_beat() = 0;
    virtual void write_issued(uint64_t cycle, uint32_t id, uint64_t address) = 0;
    virtual void write_beat(unsigned bytes) = 0;
    virtual void written(uint64_t cycle, const WriteBurst& burst) = 0;
};

class Engine {
public:
    Memory memory;
    uint64_t cycle = 0;
    Observer* observer = nullptr;
    uint64_t read_stalls = 0, write_stalls = 0;

    Engine(std::vector<Target> targets, const MemoryOptions& options)
        : memory(std::move(targets), options, kIdBits) {
        memory.on_written = [this](const WriteBurst& burst) {
            if (observer) observer->written(cycle, burst);
        };
        PORT(s_axi_db, bready) = PORT(s_axi_db, rready) = PORT(s_axil, bready) = PORT(s_axil, rready) = 1;
        PORT(s_axil, wstrb) = 0xF;
        PORT(s_axi_db, wstrb) = 0xFFFF;
        PORT(s_axi_db, awburst) = 1;
        PORT(s_axi_db, awsize) = 4;
        top_.rst = 1;
        for (int count = 0; count < 4; ++count) tick();
        top_.rst = 0;
        tick();
    }
    ~Engine() { top_.final(); }

    volatile void* doorbell(uint32_t queue) { return &pages_[queue]; }

    // Takes what was stored to `count` places of a doorbell page, from `slot` on, as a bridge that merges them does.
    // Stores wait; at most one beat per cycle leaves.
    void merge(uint32_t queue, uint32_t slot, uint32_t count) {
        Store store{queue, slot * 16, {}};
        for (uint32_t place = slot; place < slot + count; ++place) {
            uint64_t* halves = &pages_[queue].halves[2 * place];
            store.words.push_back({halves[0], halves[1]});
            halves[0] = halves[1] = 0;
        }
        stores_.push_back(std::move(store));
    }
    size_t stores_waiting() const { return stores_.size(); }

    // The edge that brings the inputs to the engine (ClockedInputs) begins the cycle.
    void tick() {
        drive();
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
        sample();
        ++cycle;
    }

    void write(uint32_t offset, uint32_t value) {
        PORT(s_axil, awaddr) = offset;
        PORT(s_axil, wdata) = value;
        register_aw_ = register_w_ = true;
        await("a register write");
    }

    uint32_t read(uint32_t offset) {
        PORT(s_axil, araddr) = offset;
        register_ar_ = true;
        await("a register read");
        return register_value_;
    }

private:
    void await(const char* what) {
        register_answered_ = false;
        for (int left = 100000; !register_answered_; --left) {
            if (left == 0) throw std::runtime_error(std::string("The engine did not answer ") + what);
            tick();
        }
    }

    void drive() {
        memory.drive(cycle);
        const auto& out = memory.out;
        PORT(m_axi, arready) = out.arready;
        PORT(m_axi, awready) = out.awready;
        PORT(m_axi, wready) = out.wready;
        PORT(m_axi, rvalid) = out.rvalid;
        if (out.rvalid) {
            PORT(m_axi, rid) = out.rid;
            PORT(m_axi, rresp) = out.rresp;
            PORT(m_axi, rlast) = out.rlast;
            put(PORT(m_axi, rdata), out.rdata, kBytes);
        }
        PORT(m_axi, bvalid) = out.bvalid;
        if (out.bvalid) {
            PORT(m_axi, bid) = out.bid;
            PORT(m_axi, bresp) = out.bresp;
        }
        PORT(s_axil, awvalid) = register_aw_;
        PORT(s_axil, wvalid) = register_w_;
        PORT(s_axil, arvalid) = register_ar_;
        // Address and data of a store are offered together; the next address comes after the last data.
        const bool any = !stores_.empty();
        PORT(s_axi_db, awvalid) = any && !address_sent_;
        PORT(s_axi_db, wvalid) = any && beat_ < stores_.front().words.size();
        if (any) {
            const Store& store = stores_.front();
            PORT(s_axi_db, awaddr) = store.queue * DMACE_DMA_DOORBELL_PAGE + store.offset;
            PORT(s_axi_db, awlen) = static_cast<uint8_t>(store.words.size() - 1);
            if (beat_ < store.words.size()) {
                put(PORT(s_axi_db, wdata), reinterpret_cast<const uint8_t*>(&store.words[beat_]), 16);
                PORT(s_axi_db, wlast) = beat_ + 1 == store.words.size();
            }
        }
    }

    void sample() {
        if (PORT(m_axi, arvalid)) {
            if (memory.out.arready) {
                memory.read_accepted(cycle, PORT(m_axi, arid), PORT(m_axi, araddr), PORT(m_axi, arlen) + 1u);
                if (observer) observer->read_issued(cycle, PORT(m_axi, araddr));
            } else {
                ++read_stalls;
            }
        }
        if (memory.out.rvalid && PORT(m_axi, rready)) {
            memory.beat_taken();
            if (observer) observer->read_beat();
        }
        if (PORT(m_axi, awvalid) && memory.out.awready) {
            if (observer) observer->write_issued(cycle, PORT(m_axi, awid), PORT(m_axi, awaddr));
            memory.address_written(cycle, PORT(m_axi, awid), PORT(m_axi, awaddr), PORT(m_axi, awlen) + 1u);
        }
        if (PORT(m_axi, wvalid)) {
            if (memory.out.wready) {
                uint8_t data[kBytes], strobe[Memory::kStrobeBytes];
                get(PORT(m_axi, wdata), data, kBytes);
                get(PORT(m_axi, wstrb), strobe, Memory::kStrobeBytes);
                unsigned enabled = 0;
                for (const uint8_t group : strobe) enabled += __builtin_popcount(group);
                memory.beat_written(cycle, data, strobe, PORT(m_axi, wlast));
                if (observer) observer->write_beat(enabled);
            } else {
                ++write_stalls;
            }
        }
        if (memory.out.bvalid && PORT(m_axi, bready)) memory.answer_taken();

        if (!stores_.empty()) {
            const Store& store = stores_.front();
            if (PORT(s_axi_db, awvalid) && PORT(s_axi_db, awready)) address_sent_ = true;
            if (PORT(s_axi_db, wvalid) && PORT(s_axi_db, wready)) {
                ++beat_;
                if (observer) observer->posted(cycle, store.queue);
            }
            if (address_sent_ && beat_ == store.words.size()) {
                stores_.pop_front();
                address_sent_ = false;
                beat_ = 0;
            }
        }

        if (PORT(s_axil, awready)) register_aw_ = false;
        if (PORT(s_axil, wready)) register_w_ = false;
        if (PORT(s_axil, arready)) register_ar_ = false;
        if (PORT(s_axil, bvalid)) register_answered_ = true;
        if (PORT(s_axil, rvalid)) {
            register_answered_ = true;
            register_value_ = PORT(s_axil, rdata);
        }
    }

    Vtop top_;
    std::array<DoorbellPage, DMACE_DMA_QUEUES> pages_;
    std::deque<Store> stores_;
    bool address_sent_ = false;
    size_t beat_ = 0;
    bool register_aw_ = false, register_w_ = false, register_ar_ = false, register_answered_ = false;
    uint32_t register_value_ = 0;
};
