// SPDX-License-Identifier: Apache-2.0
// The DMA engine's side of a RoCEv2 unit: operations on remote memory, as bursts with data from and to local memory.
//
// Each flow repeats a WRITE or READ of one size. Its bursts do not cross a multiple of 4 KiB of the remote address, begin
// at its first byte, and use the flow's own IDs in turn.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "memory.h"
#include "pins.h"

struct FlowOptions {
    uint32_t write, first_id, ids, depth;  // depth: operations in flight
    uint64_t local, remote, size, stride, slots, count, interval, start;
};

struct FlowResult {
    uint64_t begun = 0, done = 0, failed = 0;  // operations; `done` includes failed ones
    uint64_t first = 0, last = 0;              // cycles: first burst of the first, end of the latest operation
    uint64_t latency_sum = 0, latency_least = ~uint64_t{0}, latency_most = 0;
};

class DmaTraffic {
public:
    uint64_t unexpected = 0;  // responses or beats under an ID without a burst, or with a wrong end
    double stall = 0;         // probability of a stall, per channel and cycle

    explicit DmaTraffic(uint64_t seed) : random_(seed), writes_(size_t{1} << kIdBits), reads_(size_t{1} << kIdBits) {}

    size_t add(const FlowOptions& options, bool keep_latencies) {
        flows_.push_back({options, {}, keep_latencies, {}, {}, 0, 0, 0, options.start});
        return flows_.size() - 1;
    }

    void extend(size_t number, uint64_t count) {
        Flow& flow = flows_.at(number);
        flow.options.count = flow.result.begun + count;
    }

    const FlowResult& result(size_t number) const { return flows_.at(number).result; }
    const std::vector<uint32_t>& latencies(size_t number) const { return flows_.at(number).latencies; }

    bool done() const {
        for (const Flow& flow : flows_)
            if (flow.result.done < flow.options.count) return false;
        return true;
    }

    template <class Top>
    void drive(Top& top, SparseMemory& memory, uint64_t cycle) {
        if (!top.writes___05Fvalid && (writing_.left || start(writing_, true, cycle)) && !random_.chance(stall)) {
            fill_write(top, memory);
            top.writes___05Fvalid = 1;
        }
        if (!top.reads___05Fvalid && start(reading_, false, cycle) && !random_.chance(stall)) {
            fill_read(top);
            top.reads___05Fvalid = 1;
        }
        top.responses___05Fready = !random_.chance(stall);
        top.beats___05Fready = !random_.chance(stall);
    }

    template <class Top>
    void sample(Top& top, SparseMemory& memory, uint64_t cycle) {
        if (top.writes___05Fvalid && top.writes___05Fready) {
            top.writes___05Fvalid = 0;
            begun(writing_, cycle);
            writing_.at += writing_.step;
            writing_.left -= writing_.step;
        }
        if (top.reads___05Fvalid && top.reads___05Fready) {
            top.reads___05Fvalid = 0;
            begun(reading_, cycle);
            reading_.left = 0;
        }
        if (top.responses___05Fvalid && top.responses___05Fready) {
            response_.load(top.responses___05Fpayload);
            auto& queue = writes_[response_.get(pins::responses::k_id)];
            if (queue.empty()) {
                ++unexpected;
            } else {
                finish(queue.front(), response_.get(pins::responses::k_resp) != 0, cycle);
                queue.pop_front();
            }
        }
        if (top.beats___05Fvalid && top.beats___05Fready) take_beat(top, memory, cycle);
    }

private:
    struct Operation {
        uint64_t begun;
        uint32_t left;  // bursts without a response
        bool cut, failed;  // all bursts are issued; one has failed
    };
    struct Flow {
        FlowOptions options;
        FlowResult result;
        bool keeps;
        std::vector<uint32_t> latencies;
        std::deque<Operation> open;  // from number `oldest` on
        uint64_t oldest, at;         // at: next byte of the latest operation; 0 between two
        uint32_t id;
        uint64_t next;               // cycle of the next operation
    };
    // A burst that waits for its response.
    struct Burst {
        size_t flow;
        uint64_t operation, local, remote;
        uint32_t left;
        bool failed;
    };
    // The burst that is being issued.
    struct Issue {
        uint32_t left = 0, step = 0, id = 0, size = 0, at = 0;
        Burst burst{};
        bool counted = false;
    };

    static constexpr uint64_t kSpan = std::min<uint64_t>(4096, 256 * kDataBytes);  // a burst stays in a multiple of it

    // Chooses the next burst of the flows of one kind, in turn.
    bool start(Issue& issue, bool write, uint64_t cycle) {
        if (issue.left) return true;
        for (size_t tried = 0; tried < flows_.size(); ++tried) {
            size_t& turn = turns_[write];
            turn = turn + 1 < flows_.size() ? turn + 1 : 0;
            Flow& flow = flows_[turn];
            const FlowOptions& options = flow.options;
            if ((options.write != 0) != write) continue;
            if (flow.at == 0) {
                if (flow.result.begun == options.count || flow.open.size() >= options.depth || cycle < flow.next) continue;
                flow.next = std::max(cycle, flow.next) + options.interval;
                flow.open.push_back({0, 0, false, false});
                ++flow.result.begun;
            }
            const uint64_t number = flow.result.begun - 1, shift = number % options.slots * options.stride + flow.at;
            const uint64_t remote = options.remote + shift;
            const auto size = static_cast<uint32_t>(std::min(options.size - flow.at, kSpan - remote % kSpan));
            issue.size = issue.left = size;
            issue.at = 0;
            issue.counted = false;
            issue.id = options.first_id + flow.id;
            flow.id = flow.id + 1 < options.ids ? flow.id + 1 : 0;
            issue.burst = {turn, number, options.local + shift, remote, size, false};
            flow.at += size;
            Operation& operation = flow.open.back();
            ++operation.left;
            operation.cut = flow.at == options.size;
            if (operation.cut) flow.at = 0;
            return true;
        }
        return false;
    }

    static unsigned beats_of(const Issue& issue) {
        const auto lane = static_cast<unsigned>(issue.burst.remote % kDataBytes);
        return (lane + issue.size + kDataBytes - 1) / kDataBytes;
    }

    template <class Top>
    void fill_write(Top& top, SparseMemory& memory) {
        const uint64_t address = issue_address(writing_);
        const auto lane = static_cast<unsigned>(address % kDataBytes);
        writing_.step = std::min(writing_.left, kDataBytes - lane);
        uint8_t data[kDataBytes] = {}, strobes[(kDataBytes + 7) / 8] = {};
        uint8_t* to = data + lane;
        memory.each_run(writing_.burst.local + writing_.at, writing_.step, [&](const uint8_t* from, uint64_t run, uint64_t) {
            if (from) std::memcpy(to, from, run);
            else ++unexpected;
            to += run;
        });
        for (unsigned byte = lane; byte < lane + writing_.step; ++byte) strobes[byte / 8] |= static_cast<uint8_t>(1u << byte % 8);
        write_.clear();
        write_.put(pins::writes::k_id, writing_.id);
        write_.put(pins::writes::k_addr, writing_.burst.remote);
        write_.put(pins::writes::k_len, beats_of(writing_) - 1);
        write_.put_bytes(pins::writes::k_data, data);
        write_.put_bytes(pins::writes::k_strb, strobes);
        write_.put(pins::writes::k_first, writing_.at == 0);
        write_.put(pins::writes::k_last, writing_.step == writing_.left);
        write_.store(top.writes___05Fpayload);
    }

    template <class Top>
    void fill_read(Top& top) {
        read_.clear();
        read_.put(pins::reads::k_id, reading_.id);
        read_.put(pins::reads::k_addr, reading_.burst.remote);
        read_.put(pins::reads::k_len, beats_of(reading_) - 1);
        read_.store(top.reads___05Fpayload);
    }

    static uint64_t issue_address(const Issue& issue) { return issue.burst.remote + issue.at; }

    // A beat of the burst was accepted: with the first, the burst waits for its response.
    void begun(Issue& issue, uint64_t cycle) {
        if (issue.counted) return;
        issue.counted = true;
        Flow& flow = flows_[issue.burst.flow];
        Operation& operation = flow.open[issue.burst.operation - flow.oldest];
        if (issue.burst.local == flow.options.local + issue.burst.operation % flow.options.slots * flow.options.stride) {
            operation.begun = cycle;
            if (issue.burst.operation == 0) flow.result.first = cycle;
        }
        (&issue == &writing_ ? writes_ : reads_)[issue.id].push_back(issue.burst);
    }

    template <class Top>
    void take_beat(Top& top, SparseMemory& memory, uint64_t cycle) {
        beat_.load(top.beats___05Fpayload);
        auto& queue = reads_[beat_.get(pins::beats::k_id)];
        if (queue.empty()) {
            ++unexpected;
            return;
        }
        Burst& burst = queue.front();
        uint8_t data[kDataBytes];
        beat_.get_bytes(pins::beats::k_data, data);
        const auto lane = static_cast<unsigned>(burst.remote % kDataBytes);
        const uint32_t step = std::min(burst.left, kDataBytes - lane);
        burst.failed |= beat_.get(pins::beats::k_resp) != 0;
        if (!burst.failed) {
            const uint8_t* from = data + lane;
            memory.map(burst.local, step, 0);
            memory.each_run(burst.local, step, [&](uint8_t* to, uint64_t run, uint64_t) {
                std::memcpy(to, from, run);
                from += run;
            });
        }
        burst.local += step;
        burst.remote += step;
        burst.left -= step;
        const bool last = beat_.get(pins::beats::k_last);
        unexpected += last != (burst.left == 0);
        if (last || !burst.left) {
            finish(burst, burst.failed, cycle);
            queue.pop_front();
        }
    }

    void finish(const Burst& burst, bool failed, uint64_t cycle) {
        Flow& flow = flows_[burst.flow];
        Operation& operation = flow.open[burst.operation - flow.oldest];
        operation.failed |= failed;
        if (--operation.left || !operation.cut) return;
        FlowResult& result = flow.result;
        const uint64_t latency = cycle - operation.begun;
        ++result.done;
        result.failed += operation.failed;
        result.last = cycle;
        result.latency_sum += latency;
        result.latency_least = std::min(result.latency_least, latency);
        result.latency_most = std::max(result.latency_most, latency);
        if (flow.keeps) flow.latencies.push_back(static_cast<uint32_t>(latency));
        // Operations may end in any order.
        while (!flow.open.empty() && flow.open.front().cut && !flow.open.front().left) {
            flow.open.pop_front();
            ++flow.oldest;
        }
    }

    Random random_;
    std::deque<Flow> flows_;
    size_t turns_[2] = {0, 0};
    Issue writing_, reading_;
    std::vector<std::deque<Burst>> writes_, reads_;  // by ID, in the order of their issue
    Payload<pins::writes::kBits> write_;
    Payload<pins::reads::kBits> read_;
    Payload<pins::responses::kBits> response_;
    Payload<pins::beats::kBits> beat_;
};
