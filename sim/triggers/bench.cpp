// SPDX-License-Identifier: Apache-2.0
// Drives a Verilated trigger unit and records its events, as a library of C functions for Python's ctypes.
//
// Items of stimulus and events are rows of four 64-bit numbers: kind, detail, and 128 bits of data, low half first.

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "memory.h"
#include "verilated.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

using Row = std::array<uint64_t, 4>;

// Stimulus. Detail of an address: ID, length - 1 from bit 16, address from bit 32; of a beat: strobes, last from bit
// 16; of a tick: port, its word is data; of a setting: block or counter, idle cycles before it from bit 32.
enum Stimulus { kAddress, kBeat, kTick, kPages, kReset, kSelect };

// Detail of a verdict: source, code from bit 8, counter from bit 16; its data is the row that was read. Of words: page,
// refused from bit 8, posted to the wrong engine from bit 9. Of responses and of ports: ID or port, code from bit 8. Of
// refusals: block, counter from bit 8, code from bit 16; their data is the number in this cycle.
enum Event { kVerdict, kLeft, kBusy, kNewPages, kSelected, kPosted, kResponse, kPort, kRefusal, kRow, kOverflow };

// Probabilities of a transfer or of an event per cycle, but for `delay`: cycles until a word changes `free`.
struct Rates {
    double address, beat, response, local, remote, post, refuse, drain;
    uint32_t delay;
};

constexpr unsigned kPorts = 2, kPages_ = 128, kEnough = 4;
constexpr uint32_t kSources = 6;

class Bench {
public:
    Bench(uint64_t seed, uint32_t dma_pages, int read_latency, uint32_t capacity)
        : random_(seed), dma_pages_(dma_pages), capacity_(capacity), read_latency_(read_latency),
          context_(std::make_unique<VerilatedContext>()), top_(std::make_unique<Vtop>(context_.get())) {
        top_->rst = 1;
        for (int cycle = 0; cycle < 2; ++cycle) {
            top_->clk = 0;
            top_->eval();
            top_->clk = 1;
            top_->eval();
        }
        top_->rst = 0;
    }

    Rates rates{};

    void feed(const Row& row) {
        switch (row[0]) {
            case kAddress: addresses_.push_back(row); break;
            case kBeat: beats_.push_back(row); break;
            case kTick: ticks_[row[1]].push_back(row[2]); break;
            default: settings_.push_back(row);
        }
    }

    size_t backlog() const { return addresses_.size() + beats_.size() + ticks_[0].size() + ticks_[1].size(); }

    // Runs while at least `least` items of stimulus remain, for `cycles` at most; returns the cycles.
    uint64_t run(uint64_t cycles, size_t least) {
        events.clear();
        uint64_t cycle = 0;
        for (; cycle < cycles && backlog() >= least; ++cycle) step();
        return cycle;
    }

    std::vector<Row> events;
    uint64_t ticked = 0, fired = 0;

private:
    void step() {
        Vtop& top = *top_;
        drive(top);
        top.clk = 0;
        top.eval();
        sample(top);
        top.clk = 1;
        top.eval();
    }

    // An offer stays until it is accepted.
    bool offer(bool& offered, bool any, double probability) {
        return offered = any && (offered || random_.chance(probability));
    }

    void drive(Vtop& top) {
        top.awvalid = offer(offers_.address, !addresses_.empty(), rates.address);
        if (top.awvalid) {
            const uint64_t detail = addresses_.front()[1];
            top.awid = detail & 0xFFFF;
            top.awlen = detail >> 16 & 0xFF;
            top.awaddr = static_cast<uint32_t>(detail >> 32);
        }
        top.wvalid = offer(offers_.beat, !beats_.empty(), rates.beat);
        if (top.wvalid) {
            const Row& beat = beats_.front();
            top.wstrb = beat[1] & 0xFFFF;
            top.wlast = beat[1] >> 16 & 1;
            std::memcpy(&top.wdata, &beat[2], 16);
        }
        top.local_valid = offer(offers_.local, !ticks_[0].empty(), rates.local);
        if (top.local_valid) top.local_payload = ticks_[0].front();
        top.remote_valid = offer(offers_.remote, !ticks_[1].empty(), rates.remote);
        if (top.remote_valid) top.remote_payload = ticks_[1].front();
        top.bready = random_.chance(rates.response);
        top.post_ready = random_.chance(rates.post) | random_.chance(rates.post) << 1;
        top.post_refused = random_.chance(rates.refuse) ? 3 : 0;
        drive_settings(top);
        drive_free(top);
    }

    void drive_settings(Vtop& top) {
        top.pages_valid = top.reset_valid = top.select_valid = 0;
        if (settings_.empty()) return;
        const Row& setting = settings_.front();
        if (waited_++ < setting[1] >> 32) return;
        waited_ = 0;
        top.pages_valid = setting[0] == kPages;
        top.reset_valid = setting[0] == kReset;
        top.select_valid = setting[0] == kSelect;
        top.setting_block = top.setting_counter = setting[1] & 0xFFFFFFFF;
        std::memcpy(&top.setting_pages, &setting[2], 16);
        const uint64_t subject = setting[1] & 0xFFFFFFFF;
        if (setting[0] == kPages) delayed_.push_back({read_latency_ + 2, {kNewPages, subject, setting[2], setting[3]}});
        if (setting[0] == kSelect) delayed_.push_back({read_latency_ + 1, {kSelected, subject, 0, 0}});
        settings_.pop_front();
    }

    // A queue is free if it can accept four words more than those that it has seen until `delay` cycles ago.
    void drive_free(Vtop& top) {
        std::array<uint64_t, 2> free{};
        for (unsigned page = 0; page < kPages_; ++page) {
            Queue& queue = queues_[page];
            if (queue.used && random_.chance(rates.drain)) {
                --queue.used;
                for (uint8_t& seen : queue.seen) seen -= seen > 0;
            }
            for (unsigned age = queue.seen.size() - 1; age; --age) queue.seen[age] = queue.seen[age - 1];
            queue.seen[0] = queue.used;
            free[page / 64] |= static_cast<uint64_t>(queue.seen[rates.delay] + kEnough <= capacity_) << page % 64;
        }
        std::memcpy(&top.free, free.data(), 16);
    }

    void sample(Vtop& top) {
        if (seen_busy_ != busy_) events.push_back({kBusy, 0, seen_busy_ = busy_, 0});
        busy_ = top.busy;
        while (!delayed_.empty() && !delayed_.front().first) {
            events.push_back(delayed_.front().second);
            delayed_.pop_front();
        }
        for (auto& setting : delayed_) --setting.first;
        for (uint32_t source = 0; source < kSources; ++source) {
            if (top.done >> source & 1) {
                events.push_back({kVerdict, source | top.done_code << 8 | top.done_counter << 16, top.done_row, 0});
            }
        }
        if (top.left) events.push_back({kLeft, top.left_counter, 0, 0});
        sample_posts(top);
        if (top.bvalid && top.bready) events.push_back({kResponse, top.bid | static_cast<uint64_t>(top.bresp) << 8, 0, 0});
        if (top.local_verdict) events.push_back({kPort, static_cast<uint64_t>(top.local_code) << 8, 0, 0});
        if (top.remote_verdict) events.push_back({kPort, 1 | static_cast<uint64_t>(top.remote_code) << 8, 0, 0});
        if (top.refusal || top.refused) {
            events.push_back({kRefusal, top.refusal_block | top.refusal_index << 8 | top.refusal_code << 16, top.refused, 0});
        }
        if (top.row_valid && !row_valid_) events.push_back({kRow, 0, top.row, 0});
        row_valid_ = top.row_valid;
        ticked += top.ticked;
        fired += top.fired;
        if (top.awvalid && top.awready) accept(offers_.address, addresses_);
        if (top.wvalid && top.wready) accept(offers_.beat, beats_);
        if (top.local_valid && top.local_ready) accept(offers_.local, ticks_[0]);
        if (top.remote_valid && top.remote_ready) accept(offers_.remote, ticks_[1]);
    }

    void sample_posts(Vtop& top) {
        if (!(top.post_valid & top.post_ready)) return;
        Row row{kPosted, top.post_page | static_cast<uint64_t>(top.post_refused & 1) << 8, 0, 0};
        std::memcpy(&row[2], &top.post_data, 16);
        // 512: the word went to the other engine.
        row[1] |= static_cast<uint64_t>(top.post_valid != (top.post_page < dma_pages_ ? 1 : 2)) << 9;
        events.push_back(row);
        if (top.post_refused & 1) return;
        Queue& queue = queues_[top.post_page % kPages_];
        if (++queue.used > capacity_) events.push_back({kOverflow, top.post_page, 0, 0});
    }

    template <class Items>
    static void accept(bool& offered, Items& items) {
        items.pop_front();
        offered = false;
    }

    struct Offers {
        bool address = false, beat = false, local = false, remote = false;
    };

    struct Queue {
        uint32_t used = 0;
        std::array<uint8_t, 4> seen{};
    };

    Random random_;
    uint32_t dma_pages_, capacity_;
    int read_latency_;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vtop> top_;
    std::deque<Row> addresses_, beats_, settings_;
    std::array<std::deque<uint64_t>, kPorts> ticks_;
    std::array<Queue, kPages_> queues_{};
    std::deque<std::pair<int, Row>> delayed_;  // settings, and the cycles until the table is subject to them
    Offers offers_;
    uint64_t waited_ = 0, busy_ = 0, seen_busy_ = 0;
    bool row_valid_ = false;
};

}  // namespace

API Bench* bench_create(uint64_t seed, uint32_t dma_pages, int read_latency, uint32_t capacity) {
    return new Bench(seed, dma_pages, read_latency, capacity);
}
API void bench_destroy(Bench* bench) { delete bench; }
API void bench_rates(Bench* bench, const Rates* rates) { bench->rates = *rates; }
API void bench_feed(Bench* bench, const uint64_t* rows, uint64_t count) {
    for (uint64_t row = 0; row < count; ++row) {
        bench->feed({rows[4 * row], rows[4 * row + 1], rows[4 * row + 2], rows[4 * row + 3]});
    }
}
API uint64_t bench_run(Bench* bench, uint64_t cycles, uint64_t least) { return bench->run(cycles, least); }
API uint64_t bench_events(Bench* bench, const uint64_t** rows) {
    *rows = bench->events.empty() ? nullptr : bench->events.front().data();
    return bench->events.size();
}
API uint64_t bench_ticked(Bench* bench) { return bench->ticked; }
API uint64_t bench_fired(Bench* bench) { return bench->fired; }
