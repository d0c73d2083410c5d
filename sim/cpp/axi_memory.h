// SPDX-License-Identifier: Apache-2.0
// The memory behind m_axi: several targets by address range, each with its own latencies and bandwidth.
//
// A burst's first R beat can arrive `read_latency` cycles after its AR, its B `write_latency` cycles after the
// later of AW and its last W beat. A target of limited bandwidth serves its bursts in order and buffers each one,
// so that it never stalls R or W for other targets; its buffers hold all bursts in flight.
// Written bytes become visible when their B is accepted.
#pragma once

#include <deque>
#include <queue>
#include <string>
#include <vector>

#include "memory.h"

struct Target {
    uint64_t base = 0, size = 0;
    unsigned read_latency = 100, write_latency = 100;
    double read_beats_per_cycle = 0, write_beats_per_cycle = 0;  // 0: unlimited
    double read_free = 0, write_free = 0;                        // time at which its server becomes idle
    unsigned limit = 0;                                          // TARGET_LIMIT, in beats
    bool slow = false;
};

struct MemoryOptions {
    bool out_of_order = false;  // between IDs
    unsigned jitter = 0;        // maximum of random additional cycles of a burst
    double stall = 0;           // probability of a stall, per channel and cycle
    uint64_t seed = 1;
    uint64_t plant = 0;         // number of the R beat, from 1, that gets a bit error
};

// Counts since reset.
struct MemoryCounts {
    uint64_t read_bursts = 0, read_beats = 0, write_bursts = 0, write_beats = 0, write_bytes = 0;
};

// One write burst: its address, data and strobes.
struct WriteBurst {
    uint32_t id = 0;
    uint64_t address = 0;
    unsigned beats = 0;
    unsigned response = 0;
    uint64_t bytes_enabled = 0;
    std::vector<uint8_t> data, enabled;
};

template <unsigned kBytes>
class AxiMemory {
public:
    static constexpr unsigned kOkay = 0, kSlaveError = 2, kDecodeError = 3;
    static constexpr unsigned kStrobeBytes = kBytes / 8;

    SparseMemory bytes;

    // Values of the pins in this cycle.
    struct Outputs {
        bool arready, awready, wready, rvalid, rlast, bvalid;
        uint32_t rid, bid;
        unsigned rresp, bresp;
        uint8_t rdata[kBytes];
    } out{};

    AxiMemory(std::vector<Target> targets, const MemoryOptions& options, unsigned id_bits)
        : targets_(std::move(targets)), options_(options), random_(options.seed), reads_(size_t{1} << id_bits),
          read_last_(reads_.size()), write_last_(reads_.size()), read_waiting_(targets_.size()),
          read_ready_(targets_.size()) {}

    // Restarts with nothing in flight, the same contents and other random numbers, as a manager after its reset expects.
    void clear(const MemoryOptions& options) {
        options_ = options;
        random_ = Random(options.seed);
        out = {};
        for (auto& waiting : reads_) waiting.clear();
        std::fill(read_last_.begin(), read_last_.end(), 0);
        std::fill(write_last_.begin(), write_last_.end(), 0);
        for (auto& waiting : read_waiting_) waiting = {};
        for (auto& ready : read_ready_) ready.clear();
        streaming_ = false;
        addresses_.clear();
        contents_.clear();
        filling_.clear();
        filling_enabled_.clear();
        written_.clear();
        free_entries_.clear();
        responses_ = {};
        illegal_accesses_ = failing_read_ = failing_write_ = 0;
    }

    // Whether no response is outstanding.
    bool idle() const {
        return responses_.empty() && addresses_.empty() && contents_.empty() && filling_.empty() &&
               std::all_of(reads_.begin(), reads_.end(), [](const auto& waiting) { return waiting.empty(); });
    }

    uint64_t illegal_accesses() const { return illegal_accesses_; }
    const MemoryCounts& counts() const { return counts_; }
    const std::vector<Target>& targets() const { return targets_; }

    // The burst of this number, counted from 1 for the next, gets an error response; a failed write stores nothing.
    void fail_read(uint64_t number) { failing_read_ = counts_.read_bursts + number; }
    void fail_write(uint64_t number) { failing_write_ = counts_.write_bursts + number; }

    // Accesses of others than the manager at m_axi, from this cycle on: the cycle in which the last byte has been read, or
    // in which the bytes written are visible; the caller stores them. They use the target's latency and bandwidth.
    uint64_t served_read(uint64_t cycle, uint64_t address, uint64_t count) {
        Target* target = target_of(address);
        if (!target) return cycle + 1;
        return serve(cycle + target->read_latency, target->read_free, beats_of(count), target->read_beats_per_cycle);
    }

    uint64_t served_write(uint64_t cycle, uint64_t address, uint64_t count) {
        Target* target = target_of(address);
        if (!target) return cycle + 1;
        return serve(cycle + target->write_latency, target->write_free, beats_of(count), target->write_beats_per_cycle);
    }

    // Chooses the outputs of this cycle.
    void drive(uint64_t cycle) {
        out.arready = !random_.chance(options_.stall);
        out.awready = !random_.chance(options_.stall);
        out.wready = !random_.chance(options_.stall);
        for (size_t number = 0; number < targets_.size(); ++number) {
            auto& waiting = read_waiting_[number];
            while (!waiting.empty() && waiting.top().time <= cycle) {
                read_ready_[number].push_back(waiting.top().what);
                waiting.pop();
            }
        }
        if (!out.rvalid && !random_.chance(options_.stall)) next_beat();
        if (!out.bvalid && !responses_.empty() && responses_.top().time <= cycle && !random_.chance(options_.stall)) {
            const auto& burst = written_[responses_.top().what];
            out.bvalid = true;
            out.bid = burst.id;
            out.bresp = burst.response;
        }
    }

    void read_accepted(uint64_t cycle, uint32_t id, uint64_t address, unsigned beats) {
        Target* target = target_of(address);
        uint64_t ready = cycle + (target ? target->read_latency : 1);
        if (target) ready = serve(ready, target->read_free, beats, target->read_beats_per_cycle);
        ready = std::max(ready + jitter(), read_last_[id]);
        read_last_[id] = ready;
        reads_[id].push_back({address, beats, ++counts_.read_bursts == failing_read_});
        counts_.read_beats += beats;
        read_waiting_[target ? target - targets_.data() : 0].push({ready, sequence_++, id});
    }

    void beat_taken() {
        out.rvalid = false;
        Read& read = reads_[out.rid].front();
        read.address = read.address / kBytes * kBytes + kBytes;
        if (--read.beats == 0) {
            reads_[out.rid].pop_front();
            streaming_ = false;
        }
    }

    void address_written(uint64_t cycle, uint32_t id, uint64_t address, unsigned beats) {
        addresses_.push_back({id, address, beats});
        pair(cycle);
    }

    void beat_written(uint64_t cycle, const uint8_t* data, const uint8_t* strobe, bool last) {
        filling_.insert(filling_.end(), data, data + kBytes);
        filling_enabled_.insert(filling_enabled_.end(), strobe, strobe + kStrobeBytes);
        if (last) {
            contents_.emplace_back(std::move(filling_), std::move(filling_enabled_));
            filling_ = take_spare();
            filling_enabled_.clear();
            pair(cycle);
        }
    }

    // Calls `written(burst)` when its bytes are visible.
    template <class Written>
    void response_taken(Written written) {
        out.bvalid = false;
        const uint32_t entry = responses_.top().what;
        responses_.pop();
        WriteBurst& burst = written_[entry];
        if (burst.response != kSlaveError) store(burst);
        written(burst);
        spare_.push_back(std::move(burst.data));
        free_entries_.push_back(entry);
    }

private:
    struct Read {
        uint64_t address;
        unsigned beats;
        bool error;
    };
    struct Address {
        uint32_t id;
        uint64_t address;
        unsigned beats;
    };
    struct Due {
        uint64_t time, sequence;
        uint32_t what;
        bool operator<(const Due& other) const {  // for a queue whose top is the earliest
            return time != other.time ? time > other.time : sequence > other.sequence;
        }
    };

    Target* target_of(uint64_t address) {
        for (Target& target : targets_)
            if (address - target.base < target.size) return &target;
        return nullptr;
    }

    static unsigned beats_of(uint64_t count) { return static_cast<unsigned>((count + kBytes - 1) / kBytes); }

    uint64_t jitter() { return options_.jitter ? random_.below(options_.jitter + 1) : 0; }

    // Cycle of the last beat of a server with this rate in beats per cycle.
    static uint64_t serve(uint64_t earliest, double& free, unsigned beats, double rate) {
        if (rate <= 0) return earliest;
        free = std::max(free, static_cast<double>(earliest)) + beats / rate;
        return static_cast<uint64_t>(free);
    }

    void next_beat() {
        if (!streaming_) {
            for (size_t step = 0; step < targets_.size() && !streaming_; ++step) {
                turn_ = (turn_ + 1) % targets_.size();
                auto& ready = read_ready_[turn_];
                if (ready.empty()) continue;
                const size_t pick = options_.out_of_order ? random_.below(ready.size()) : 0;
                out.rid = ready[pick];
                ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
                streaming_ = true;
            }
            if (!streaming_) return;
        }
        const Read& read = reads_[out.rid].front();
        const uint64_t address = read.address / kBytes * kBytes;
        const uint8_t* from = target_of(address) ? bytes.at(address) : nullptr;
        if (from) {
            std::memcpy(out.rdata, from, kBytes);
        } else {
            std::memset(out.rdata, 0, kBytes);
            ++illegal_accesses_;
        }
        if (++beats_read_ == options_.plant) out.rdata[read.address % kBytes] ^= 1;
        out.rresp = !from ? kDecodeError : read.error ? kSlaveError : kOkay;
        out.rlast = read.beats == 1;
        out.rvalid = true;
    }

    // Pairs addresses with contents, which arrive in the same order.
    void pair(uint64_t cycle) {
        while (!addresses_.empty() && !contents_.empty()) {
            uint32_t entry;
            if (free_entries_.empty()) {
                entry = static_cast<uint32_t>(written_.size());
                written_.emplace_back();
            } else {
                entry = free_entries_.back();
                free_entries_.pop_back();
            }
            WriteBurst& burst = written_[entry];
            burst.id = addresses_.front().id;
            burst.address = addresses_.front().address;
            burst.beats = addresses_.front().beats;
            std::tie(burst.data, burst.enabled) = std::move(contents_.front());
            addresses_.pop_front();
            contents_.pop_front();
            burst.bytes_enabled = 0;
            for (const uint8_t strobe : burst.enabled) burst.bytes_enabled += __builtin_popcount(strobe);
            if (burst.data.size() != size_t{burst.beats} * kBytes) ++illegal_accesses_;
            Target* target = target_of(burst.address);
            const bool fails = ++counts_.write_bursts == failing_write_;
            burst.response = !target ? kDecodeError : fails ? kSlaveError : kOkay;
            counts_.write_beats += burst.beats;
            counts_.write_bytes += burst.bytes_enabled;
            uint64_t time = cycle + (target ? target->write_latency : 1);
            if (target) time = serve(time, target->write_free, burst.beats, target->write_beats_per_cycle);
            time = std::max(time + jitter(), write_last_[burst.id]);
            write_last_[burst.id] = time;
            responses_.push({time, sequence_++, entry});
        }
    }

    void store(const WriteBurst& burst) {
        const uint64_t start = burst.address / kBytes * kBytes;
        for (size_t beat = 0; beat * kBytes < burst.data.size(); ++beat) {
            uint8_t* to = bytes.at(start + beat * kBytes);
            const uint8_t* data = &burst.data[beat * kBytes];
            const uint8_t* enabled = &burst.enabled[beat * kStrobeBytes];
            if (!to) {
                ++illegal_accesses_;
                continue;
            }
            for (unsigned group = 0; group < kStrobeBytes; ++group) {
                if (enabled[group] == 0xFF) {
                    std::memcpy(to + group * 8, data + group * 8, 8);
                } else {
                    for (unsigned lane = 0; lane < 8; ++lane)
                        if (enabled[group] >> lane & 1) to[group * 8 + lane] = data[group * 8 + lane];
                }
            }
        }
    }

    std::vector<uint8_t> take_spare() {
        if (spare_.empty()) return {};
        std::vector<uint8_t> taken = std::move(spare_.back());
        spare_.pop_back();
        taken.clear();
        return taken;
    }

    std::vector<Target> targets_;
    MemoryOptions options_;
    Random random_;
    uint64_t sequence_ = 0, beats_read_ = 0, illegal_accesses_ = 0;
    MemoryCounts counts_;
    uint64_t failing_read_ = 0, failing_write_ = 0;  // 0 for none

    std::vector<std::deque<Read>> reads_;  // by ID
    std::vector<uint64_t> read_last_, write_last_;
    std::vector<std::priority_queue<Due>> read_waiting_;  // by target
    std::vector<std::deque<uint32_t>> read_ready_;        // IDs, one entry per burst
    size_t turn_ = 0;
    bool streaming_ = false;

    std::deque<Address> addresses_;
    std::deque<std::pair<std::vector<uint8_t>, std::vector<uint8_t>>> contents_;
    std::vector<uint8_t> filling_, filling_enabled_;
    std::vector<std::vector<uint8_t>> spare_;
    std::vector<WriteBurst> written_;
    std::vector<uint32_t> free_entries_;
    std::priority_queue<Due> responses_;
};
