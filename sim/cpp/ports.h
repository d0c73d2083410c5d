// SPDX-License-Identifier: Apache-2.0
// Bus models of a Verilated engine: memory at m_axi, register accesses at s_axil, stores at s_axi_db.
#pragma once

#include <array>
#include <type_traits>

#include "axi_memory.h"

// A port of a bus of `top`; Verilator encodes "__" like this.
#define PORT(bus, signal) top.bus##___05F##signal

// Ports of up to 64 bits are integers, wider ones arrays of 32-bit words, both little endian here.
template <class Port>
void put(Port& port, const uint8_t* bytes, size_t count) {
    std::memcpy(&port, bytes, count);
}
template <class Port>
void get(const Port& port, uint8_t* bytes, size_t count) {
    std::memcpy(bytes, &port, count);
}

// A doorbell store in flight to `address`: `words` beats of one burst.
struct Store {
    uint32_t queue, address;
    std::vector<std::array<uint64_t, 2>> words;
    uint16_t strobes = 0xFFFF;  // of each word
};

// Whether a kind of memory takes AxCACHE, too.
template <class Memory, class = void>
constexpr bool kTakesCache = false;
template <class Memory>
constexpr bool kTakesCache<Memory, std::enable_if_t<Memory::kTakesCache>> = true;

// Notified of each transfer at the pins.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void posted(uint64_t /*cycle*/, uint32_t /*queue*/) {}
    virtual void read_issued(uint64_t /*cycle*/, uint64_t /*address*/) {}
    virtual void read_beat() {}
    virtual void write_issued(uint64_t /*cycle*/, uint32_t /*id*/, uint64_t /*address*/) {}
    virtual void write_beat(unsigned /*bytes*/) {}
    virtual void written(uint64_t /*cycle*/, const WriteBurst&) {}
};

template <unsigned kBytes, class MemoryKind = AxiMemory<kBytes>>
class Ports {
public:
    using Memory = MemoryKind;

    Memory memory;
    Observer* observer = nullptr;
    uint64_t read_stalls = 0, write_stalls = 0;  // cycles in which AR or W stalled
    uint64_t refused_accesses = 0;               // register accesses with an error response

    template <class... Arguments>
    explicit Ports(Arguments&&... arguments) : memory(std::forward<Arguments>(arguments)...) {}

    // Stores are queued; at most one beat is sent per cycle.
    void post(Store store) { stores_.push_back(std::move(store)); }
    size_t stores_waiting() const { return stores_.size(); }

    // Register accesses are queued and made one at a time.
    void post_write(uint32_t offset, uint32_t value) { accesses_.push_back({offset, value, true}); }
    void post_read(uint32_t offset) { accesses_.push_back({offset, 0, false}); }
    size_t accesses_waiting() const { return accesses_.size(); }

    // Words read, oldest first.
    std::deque<uint32_t> values;

protected:
    // Constant pins.
    template <class Top>
    static void prepare(Top& top) {
        PORT(s_axi_db, bready) = PORT(s_axi_db, rready) = PORT(s_axil, bready) = PORT(s_axil, rready) = 1;
        PORT(s_axil, wstrb) = 0xF;
        PORT(s_axi_db, awburst) = 1;
        PORT(s_axi_db, awsize) = 4;
    }

    template <class Top>
    void drive(Top& top, uint64_t cycle) {
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
        const bool access = !accesses_.empty();
        const bool write = access && accesses_.front().write;
        PORT(s_axil, awvalid) = write && !access_addressed_;
        PORT(s_axil, wvalid) = write && !access_filled_;
        PORT(s_axil, arvalid) = access && !write && !access_addressed_;
        if (access) {
            PORT(s_axil, awaddr) = PORT(s_axil, araddr) = accesses_.front().offset;
            PORT(s_axil, wdata) = accesses_.front().value;
        }
        // Address and data of a store are offered together; the next address follows the last data.
        const bool any = !stores_.empty();
        PORT(s_axi_db, awvalid) = any && !address_sent_;
        PORT(s_axi_db, wvalid) = any && beat_ < stores_.front().words.size();
        if (any) {
            const Store& store = stores_.front();
            PORT(s_axi_db, awaddr) = store.address;
            PORT(s_axi_db, wstrb) = store.strobes;
            PORT(s_axi_db, awlen) = static_cast<uint8_t>(store.words.size() - 1);
            if (beat_ < store.words.size()) {
                put(PORT(s_axi_db, wdata), reinterpret_cast<const uint8_t*>(&store.words[beat_]), 16);
                PORT(s_axi_db, wlast) = beat_ + 1 == store.words.size();
            }
        }
    }

    template <class Top>
    void sample(Top& top, uint64_t cycle) {
        if (PORT(m_axi, arvalid)) {
            if (memory.out.arready) {
                if constexpr (kTakesCache<Memory>)
                    memory.read_accepted(cycle, PORT(m_axi, arid), PORT(m_axi, araddr), PORT(m_axi, arlen) + 1u,
                                         PORT(m_axi, arcache));
                else
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
            if constexpr (kTakesCache<Memory>)
                memory.address_written(cycle, PORT(m_axi, awid), PORT(m_axi, awaddr), PORT(m_axi, awlen) + 1u,
                                       PORT(m_axi, awcache));
            else
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
        if (memory.out.bvalid && PORT(m_axi, bready)) {
            memory.response_taken([&](const WriteBurst& burst) {
                if (observer) observer->written(cycle, burst);
            });
        }

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
        if (!accesses_.empty()) sample_access(top);
    }

private:
    struct Access {
        uint32_t offset, value;
        bool write;
    };

    template <class Top>
    void sample_access(Top& top) {
        const bool write = accesses_.front().write;
        if (write ? PORT(s_axil, awready) : PORT(s_axil, arready)) access_addressed_ = true;
        if (PORT(s_axil, wready)) access_filled_ = true;
        if (write ? !PORT(s_axil, bvalid) : !PORT(s_axil, rvalid)) return;
        if (!write) values.push_back(PORT(s_axil, rdata));
        refused_accesses += (write ? PORT(s_axil, bresp) : PORT(s_axil, rresp)) != 0;
        accesses_.pop_front();
        access_addressed_ = access_filled_ = false;
    }

    std::deque<Store> stores_;
    bool address_sent_ = false;
    size_t beat_ = 0;
    std::deque<Access> accesses_;
    bool access_addressed_ = false, access_filled_ = false;
};
