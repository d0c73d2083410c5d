// SPDX-License-Identifier: Apache-2.0
// Drives a Verilated requester transport and records its events, as a library of C functions for Python's ctypes.
//
// Stimulus and events are rows of 64-bit numbers; a row of stimulus takes effect in its cycle or later.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

// Kind, cycle, queue pair, then: posted: index, read, length, cost. Received: opcode, PSN, syndrome, MSN, length, tag.
// Connection: open, PSN, timeout, retries, RNR retries, max_reads, selective, congestion.
enum Stimulus { kPosted, kReceived, kConnection, kStop, kNotified, kStimuli };
using Row = std::array<uint64_t, 11>;

// Kind, cycle, then: send: index, PSN, ackreq. Retire: index, failed. Returned: index, data, first, last. Fault: queue
// pair, code. Taken: index.
enum Event { kSend, kRetire, kReturned, kFault, kTaken };
using EventRow = std::array<uint64_t, 6>;

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
    bool chance(double probability) {
        if (probability >= 1) return true;
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return double(state_ >> 40) < probability * double(1 << 24);
    }

private:
    uint64_t state_;
};

class Bench {
public:
    Bench(uint64_t seed) : random_(seed), top_(std::make_unique<Vtop>(&context_)) {
        top_->rst = 1;
        for (int cycle = 0; cycle < 2; ++cycle) clock();
        top_->rst = 0;
    }

    double send_ready = 1, retire_ready = 1, returned_ready = 1;
    uint64_t interval = 1;  // cycles between packets on the line
    uint64_t cycle = 0;
    std::array<uint64_t, 7> counts{};

    void feed(const Row& row) { pending_[row[0]].emplace(row[1], row); }

    void reset() {
        top_->rst = 1;
        clock();
        top_->rst = 0;
        for (auto& queue : pending_) queue.clear();
        beat_ = 0;
    }

    const std::vector<EventRow>& run(uint64_t cycles) {
        for (uint64_t end = cycle + cycles; cycle < end; ++cycle) step();
        shown_.swap(events_);
        events_.clear();
        return shown_;
    }

    void status(uint32_t qp, uint64_t* found) {
        top_->status_qp = qp;
        step();
        ++cycle;
        top_->eval();
        found[0] = top_->outstanding;
        found[1] = top_->oldest;
        found[2] = top_->next_psn;
        found[3] = top_->rate;
    }

private:
    void clock() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    const Row* due(Stimulus kind) {
        auto& queue = pending_[kind];
        return queue.empty() || queue.begin()->first > cycle ? nullptr : &queue.begin()->second;
    }

    void drop(Stimulus kind) { pending_[kind].erase(pending_[kind].begin()); }

    void step() {
        Vtop& top = *top_;
        const Row* posted = due(kPosted);
        top.posted_valid = posted != nullptr;
        if (posted) {
            top.posted_qp = (*posted)[2];
            top.posted_index = (*posted)[3];
            top.posted_read = (*posted)[4];
            top.posted_length = (*posted)[5];
            top.posted_cost = (*posted)[6];
        }
        const Row* received = due(kReceived);
        if (beat_) received = &current_;
        top.received_valid = received != nullptr;
        uint64_t beats = 1;
        if (received) {
            const Row& row = *received;
            top.received_qp = row[2];
            top.received_opcode = row[3];
            top.received_psn = row[4];
            top.received_syndrome = row[5];
            top.received_msn = row[6];
            top.received_length = row[7];
            beats = row[7] ? (row[7] + 7) / 8 : 1;
            top.received_data = row[8] << 16 | beat_;
            top.received_first = beat_ == 0;
            top.received_last = beat_ + 1 == beats;
        }
        const Row* connection = due(kConnection);
        top.connection_valid = connection != nullptr;
        if (connection) {
            const Row& row = *connection;
            top.connection_qp = row[2];
            top.connection_open = row[3];
            top.connection_psn = row[4];
            top.connection_timeout = row[5];
            top.connection_retries = row[6];
            top.connection_rnr_retries = row[7];
            top.connection_max_reads = row[8];
            top.connection_selective = row[9];
            top.connection_congestion = row[10];
            drop(kConnection);
        }
        const Row* stop = due(kStop);
        top.stop_valid = stop != nullptr;
        if (stop) {
            top.stop_qp = (*stop)[2];
            drop(kStop);
        }
        const Row* notified = due(kNotified);
        top.notified_valid = notified != nullptr;
        if (notified) {
            top.notified_qp = (*notified)[2];
            drop(kNotified);
        }
        top.send_ready = cycle >= line_ && random_.chance(send_ready);
        top.retire_ready = random_.chance(retire_ready);
        top.returned_ready = random_.chance(returned_ready);
        top.clk = 0;
        top.eval();
        if (top.posted_valid && top.posted_ready) {
            events_.push_back({kTaken, cycle, top.posted_index});
            drop(kPosted);
        }
        if (top.received_valid && top.received_ready) {
            if (beat_ == 0) {
                current_ = *received;
                drop(kReceived);
            }
            beat_ = beat_ + 1 == beats ? 0 : beat_ + 1;
        }
        if (top.send_valid && top.send_ready) {
            events_.push_back({kSend, cycle, top.send_index, top.send_psn, top.send_ackreq});
            line_ = cycle + interval;
        }
        if (top.retire_valid && top.retire_ready) events_.push_back({kRetire, cycle, top.retire_index, top.retire_failed});
        if (top.returned_valid && top.returned_ready)
            events_.push_back({kReturned, cycle, top.returned_index, top.returned_data, top.returned_first,
                              top.returned_last});
        if (top.fault_valid) events_.push_back({kFault, cycle, top.fault_qp, top.fault_code});
        for (size_t number = 0; number < counts.size(); ++number) counts[number] += top.counts >> number & 1;
        top.clk = 1;
        top.eval();
    }

    Random random_;
    VerilatedContext context_;
    std::unique_ptr<Vtop> top_;
    std::array<std::multimap<uint64_t, Row>, kStimuli> pending_;
    std::vector<EventRow> events_, shown_;
    Row current_{};
    uint64_t beat_ = 0, line_ = 0;
};

}  // namespace

API void* bench_create(uint64_t seed) { return new Bench(seed); }
API void bench_destroy(void* bench) { delete static_cast<Bench*>(bench); }
API void bench_reset(void* bench) { static_cast<Bench*>(bench)->reset(); }
API void bench_rates(void* bench, double send, double retire, double returned, uint64_t interval) {
    Bench& one = *static_cast<Bench*>(bench);
    one.send_ready = send;
    one.retire_ready = retire;
    one.returned_ready = returned;
    one.interval = interval;
}
API void bench_feed(void* bench, const uint64_t* rows, uint64_t count) {
    for (uint64_t number = 0; number < count; ++number) {
        Row row;
        for (size_t at = 0; at < row.size(); ++at) row[at] = rows[number * row.size() + at];
        static_cast<Bench*>(bench)->feed(row);
    }
}
API uint64_t bench_run(void* bench, uint64_t cycles, const uint64_t** rows) {
    const std::vector<EventRow>& events = static_cast<Bench*>(bench)->run(cycles);
    *rows = events.empty() ? nullptr : events.data()->data();
    return events.size();
}
API void bench_status(void* bench, uint32_t qp, uint64_t* found) { static_cast<Bench*>(bench)->status(qp, found); }
API uint64_t bench_count(void* bench, uint32_t number) { return static_cast<Bench*>(bench)->counts[number]; }
