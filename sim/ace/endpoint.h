// SPDX-License-Identifier: Apache-2.0
// One endpoint of a cluster: the Verilated accelerator, its memory, its registers and its ends of links.
#pragma once

#include <memory>
#include <unordered_map>

#include "Vtop.h"
#include "beat.h"
#include "ethernet.h"
#include "link.h"
#include "ports.h"
#include "verilated.h"
#include "workgroups.h"
#ifdef ACE_ETHERNET_BYTES
#include "mac_port.h"
#endif

constexpr unsigned kPorts = ACE_PORTS, kIdBits = ACE_ID_BITS;
constexpr unsigned kLinkBytes = sizeof(std::declval<Vtop>().tx___05F0___05Fpayload);
using EndpointLink = Link<kLinkBytes>;

constexpr BeatFormat kFormat{ACE_BEAT_FIRST,       ACE_BEAT_LAST,         ACE_BEAT_KIND,
                             ACE_BEAT_KIND_WIDTH,  ACE_BEAT_PAYLOAD_KINDS, ACE_BEAT_HEADER,
                             ACE_BEAT_HEADER_WIDTH, ACE_BEAT_LINK_HEADER, ACE_BEAT_LINK_HEADER_WIDTH,
                             ACE_BEAT_CRC,         ACE_BEAT_CRC_WIDTH,    ACE_BEAT_DATA,
                             ACE_BEAT_HEADER_BYTES, ACE_DATA_BYTES};

// A watched word of memory: met at a lower half of at least `count`, modulo 2^32, or when a bit of `failed` is set.
struct Watch {
    uint64_t address, failed;
    uint32_t count;
    uint64_t met;  // cycle, or kNever
    uint64_t begin = 0, length = 0;  // memory to copy when it is met
    std::vector<uint8_t> kept;
};

// A burst at the memory, from AR or AW to the last R or to B.
struct Burst {
    uint64_t begin, end, address;
    unsigned beats;
    bool write;
};

// Notified of each access to an endpoint's memory, and of its pins after each cycle.
class Listener {
public:
    virtual ~Listener() = default;
    virtual void read(uint64_t /*address*/, unsigned /*beats*/) {}
    virtual void wrote(const WriteBurst&) {}
    virtual void pins(const Vtop&) {}
};

class Endpoint : public Ports<ACE_DATA_BYTES>, private Observer {
public:
    Listener* listener = nullptr;
    static constexpr uint64_t kNever = ~uint64_t{0};

    // Links by port; null for a port without a link.
    std::array<EndpointLink*, kPorts> out{}, in{};
    uint64_t lost_beats = 0;  // beats sent at a port without a link, except CREDIT packets
    uint64_t interrupted = kNever;  // cycle in which irq has risen
    std::vector<Watch> watches;
    uint64_t logged_from = kNever;  // bursts that begin from this cycle on
    std::vector<Burst> bursts;
    std::unique_ptr<Workgroups<Memory>> workgroups;  // null where there is no kernel
#ifdef ACE_ETHERNET_BYTES
    std::unique_ptr<MacPort<ACE_ETHERNET_BYTES>> mac;  // null without a network
#endif

    Endpoint(VerilatedContext* context, const Target& target, const MemoryOptions& options)
        : Ports(std::vector<Target>{target}, options, kIdBits), top_(std::make_unique<Vtop>(context)) {
        observer = this;
        connect();
        prepare(*top_);
        // Pins may begin with random values, and are driven only after the reset.
        auto& top = *top_;
        for (CData* valid : {&PORT(m_axi, rvalid), &PORT(m_axi, bvalid), &PORT(s_axil, awvalid), &PORT(s_axil, wvalid),
                             &PORT(s_axil, arvalid), &PORT(s_axi_db, awvalid), &PORT(s_axi_db, wvalid), &PORT(s_axi_db, arvalid)})
            *valid = 0;
        for (const LinkPins& pins : pins_) *pins.rx_valid = 0;
        top_->rst = 1;
        for (int count = 0; count < 4; ++count) clock();
        top_->rst = 0;
        clock();
    }
    ~Endpoint() { top_->final(); }

    // `rst` for 4 cycles, in which the links stall. No access and no store may be in progress. Nothing is in flight
    // afterwards; what memory contains remains.
    void restart(const MemoryOptions& options) {
        memory.clear(options);
        drive(*top_, cycle_);
        for (const LinkPins& pins : pins_) *pins.tx_ready = *pins.rx_valid = 0;
        top_->rst = 1;
        for (int count = 0; count < 4; ++count) clock();
        top_->rst = 0;
        clock();
        reading_.clear();
        writing_.clear();
    }

    // Stores at the given cycle or later, in the order of these calls.
    void post_at(uint64_t cycle, Store store) { later_.emplace_back(cycle, std::move(store)); }

    void run(uint64_t from, uint64_t to) {
        for (uint64_t cycle = from; cycle < to; ++cycle) tick(cycle);
    }

    void watch(uint64_t cycle, const Watch& wanted) {
        watches.push_back(wanted);
        check(watches.back(), cycle);
    }

private:
    struct LinkPins {
        const CData *tx_valid, *rx_ready;
        CData *tx_ready, *rx_valid;
        const void* tx_payload;
        void* rx_payload;
    };

    void connect() {
#define LINK_PINS(number)                                                                                        \
    pins_[number] = {&top_->tx___05F##number##___05Fvalid,   &top_->rx___05F##number##___05Fready,                \
                     &top_->tx___05F##number##___05Fready,   &top_->rx___05F##number##___05Fvalid,                \
                     &top_->tx___05F##number##___05Fpayload, &top_->rx___05F##number##___05Fpayload}
        LINK_PINS(0);
        LINK_PINS(1);
#if ACE_PORTS > 2
        LINK_PINS(2);
        LINK_PINS(3);
#endif
#if ACE_PORTS > 4
        LINK_PINS(4);
        LINK_PINS(5);
#endif
#undef LINK_PINS
    }

    void clock() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    // The edge at which the endpoint's inputs are registered (ClockedInputs) begins the cycle.
    void tick(uint64_t cycle) {
        while (!later_.empty() && later_.front().first <= cycle) {
            post(std::move(later_.front().second));
            later_.pop_front();
        }
        if (workgroups) workgroups->tick(cycle, memory, [this](Store store) { post(std::move(store)); });
        cycle_ = cycle;
        drive(*top_, cycle);
        for (unsigned port = 0; port < kPorts; ++port) {
            const LinkPins& pins = pins_[port];
            *pins.tx_ready = !out[port] || out[port]->ready(cycle);
            const uint8_t* beat = in[port] ? in[port]->offer(cycle) : nullptr;
            *pins.rx_valid = beat != nullptr;
            if (beat) std::memcpy(pins.rx_payload, beat, kLinkBytes);
        }
        offer_frames(cycle);
        clock();
        if (listener) listener->pins(*top_);
        sample(*top_, cycle);
        take_frames(cycle);
        for (unsigned port = 0; port < kPorts; ++port) {
            const LinkPins& pins = pins_[port];
            if (*pins.tx_valid) {
                if (!out[port]) lost_beats += field(static_cast<const uint8_t*>(pins.tx_payload), ACE_BEAT_KIND,
                                                    ACE_BEAT_KIND_WIDTH) != 0;
                else if (*pins.tx_ready) out[port]->take(pins.tx_payload, cycle);
                else ++out[port]->counts.waited;
            }
            if (*pins.rx_valid) {
                if (*pins.rx_ready) in[port]->taken(cycle);
                else ++in[port]->counts.held;
            }
        }
        if (!top_->irq) interrupted = kNever;
        else if (interrupted == kNever) interrupted = cycle;
    }

#ifdef ACE_ETHERNET_BYTES
    void offer_frames(uint64_t cycle) {
        top_->ethernet___05Fother_rx___05Ftready = 1;
        if (!mac) return;
        top_->ethernet___05Ftx___05Ftready = mac->ready(cycle);
        mac->offer(cycle, top_->ethernet___05Frx___05Ftvalid, top_->ethernet___05Frx___05Ftdata,
                   top_->ethernet___05Frx___05Ftkeep, top_->ethernet___05Frx___05Ftlast,
                   top_->ethernet___05Frx___05Ftuser);
    }

    void take_frames(uint64_t cycle) {
        if (!mac) return;
        mac->take(cycle, top_->ethernet___05Ftx___05Ftready, top_->ethernet___05Ftx___05Ftvalid,
                  top_->ethernet___05Ftx___05Ftdata, top_->ethernet___05Ftx___05Ftkeep,
                  top_->ethernet___05Ftx___05Ftlast, top_->ethernet___05Ftx___05Ftuser);
        mac->taken(cycle, top_->ethernet___05Frx___05Ftready);
    }
#else
    void offer_frames(uint64_t) {}
    void take_frames(uint64_t) {}
#endif

    void posted(uint64_t cycle, uint32_t tag) override {
        if (tag && workgroups) workgroups->stored(cycle, tag);
    }

    void read_issued(uint64_t cycle, uint64_t address) override {
        if (listener) listener->read(address, top_->m_axi___05Farlen + 1u);
        reading_[top_->m_axi___05Farid].push_back({cycle, cycle, address, top_->m_axi___05Farlen + 1u, false});
    }

    void read_beat() override {
        if (memory.out.rlast) ended(reading_[memory.out.rid], cycle_);
    }

    void write_issued(uint64_t cycle, uint32_t id, uint64_t address) override {
        writing_[id].push_back({cycle, cycle, address, top_->m_axi___05Fawlen + 1u, true});
    }

    // Bursts of one ID end in order.
    void ended(std::deque<Burst>& open, uint64_t cycle) {
        Burst burst = open.front();
        open.pop_front();
        burst.end = cycle;
        if (burst.begin >= logged_from) bursts.push_back(burst);
    }

    void written(uint64_t cycle, const WriteBurst& burst) override {
        ended(writing_[burst.id], cycle);
        if (listener) listener->wrote(burst);
        const uint64_t end = burst.address / ACE_DATA_BYTES * ACE_DATA_BYTES + uint64_t{burst.beats} * ACE_DATA_BYTES;
        for (Watch& watch : watches)
            if (watch.met == kNever && watch.address < end && watch.address + 8 > burst.address) check(watch, cycle);
    }

    void check(Watch& watch, uint64_t cycle) {
        uint64_t word = 0;
        if (const uint8_t* at = memory.bytes.at(watch.address)) std::memcpy(&word, at, 8);
        if (static_cast<int32_t>(static_cast<uint32_t>(word) - watch.count) < 0 && !(word & watch.failed)) return;
        watch.met = cycle;
        watch.kept.assign(watch.length, 0);
        uint8_t* to = watch.kept.data();
        memory.bytes.each_run(watch.begin, watch.length, [&to](const uint8_t* at, uint64_t run, uint64_t) {
            if (at) std::memcpy(to, at, run);
            to += run;
        });
    }

    std::unique_ptr<Vtop> top_;
    std::deque<std::pair<uint64_t, Store>> later_;
    std::array<LinkPins, kPorts> pins_;
    uint64_t cycle_ = 0;
    std::unordered_map<uint32_t, std::deque<Burst>> reading_, writing_;  // bursts in flight, by ID
};
