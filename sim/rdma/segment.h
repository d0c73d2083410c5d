// SPDX-License-Identifier: Apache-2.0
// One direction of an Ethernet segment: rate, latency, and faults at random or of chosen frames.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "frame.h"
#include "memory.h"

constexpr unsigned kPreamble = 8, kFcs = 4, kGap = 12;  // bytes; a frame occupies the segment for all of them

struct SegmentOptions {
    double bytes_per_cycle = 0;
    uint32_t latency = 1;  // cycles
};

// Probabilities per frame. A corrupt frame has one flipped bit and a right FCS; `bad_fcs`: its FCS is wrong, too.
struct FrameFaults {
    double loss = 0, corrupt = 0, bad_fcs = 0, duplicate = 0, reorder = 0;
    uint64_t reorder_cycles = 0;  // maximum delay of a reordered frame, which later ones may pass
};

enum FaultAction : uint32_t { kDrop, kCorrupt, kBadFcs, kDuplicate, kDelay, kFaultActions };

// The next `count` frames that match, after the first `skip` of them.
struct DirectedFault {
    static constexpr int32_t kAnyRoce = -1, kAnyFrame = -2;

    int32_t opcode = kAnyRoce;
    uint32_t skip = 0, count = 1;
    uint32_t action = kDrop;
    uint64_t cycles = 0;  // of a delay

    bool matches(const Frame& frame) const {
        return opcode == kAnyFrame || (frame.opcode >= 0 && (opcode == kAnyRoce || opcode == frame.opcode));
    }
};

struct SegmentCounts {
    uint64_t frames = 0, bytes = 0, payload = 0, dropped = 0, corrupted = 0, bad_fcs = 0, duplicated = 0, reordered = 0,
             directed = 0;
};

class Segment {
public:
    SegmentCounts counts;

    Segment(const SegmentOptions& options, uint64_t seed) : options_(options), random_(seed) {}

    const SegmentOptions& options() const { return options_; }
    void set(const FrameFaults& faults) { faults_ = faults; }
    void direct(const DirectedFault& fault) { directed_.push_back(fault); }

    // Whether the sender can begin a frame, or continue one, in this cycle.
    bool ready(uint64_t cycle) const { return free_ < static_cast<double>(cycle + 1); }
    double free() const { return free_; }

    // Occupies the segment from `earliest` on for this number of bytes; returns when it begins.
    double occupy(double earliest, unsigned bytes) {
        const double begin = std::max(free_, earliest);
        free_ = begin + bytes / options_.bytes_per_cycle;
        return begin;
    }

    // Applies faults to a frame that has begun at `begin`, and calls `deliver(frame, begin)` for each that arrives, with
    // the time at which its preamble begins to arrive.
    template <class Deliver>
    void pass(FramePool& pool, Frame* frame, double begin, Deliver deliver) {
        ++counts.frames;
        counts.bytes += frame->bytes.size();
        counts.payload += frame->payload;
        bool drop = hit(faults_.loss), twice = hit(faults_.duplicate);
        if (hit(faults_.corrupt)) corrupt(*frame);
        if (hit(faults_.bad_fcs)) spoil(*frame);
        uint64_t delay = hit(faults_.reorder) ? 1 + random_.below(std::max<uint64_t>(1, faults_.reorder_cycles)) : 0;
        for (size_t index = 0; index < directed_.size(); ++index) {
            DirectedFault& fault = directed_[index];
            if (!fault.matches(*frame)) continue;
            if (fault.skip) {
                --fault.skip;
                continue;
            }
            ++counts.directed;
            switch (fault.action) {
                case kDrop: drop = true; break;
                case kCorrupt: corrupt(*frame); break;
                case kBadFcs: spoil(*frame); break;
                case kDuplicate: twice = true; break;
                default: delay = std::max(delay, fault.cycles);
            }
            if (--fault.count == 0) directed_.erase(directed_.begin() + static_cast<std::ptrdiff_t>(index--));
        }
        if (drop) {
            ++counts.dropped;
            pool.release(frame);
            return;
        }
        const double arrival = begin + options_.latency;
        counts.reordered += delay != 0;
        Frame* copy = twice ? pool.copy(*frame) : nullptr;
        deliver(frame, arrival + static_cast<double>(delay));
        if (copy) {
            ++counts.duplicated;
            deliver(copy, arrival + static_cast<double>(delay) + time_of(copy->bytes.size()));
        }
    }

    // Cycles that a frame of this number of bytes occupies.
    double time_of(size_t bytes) const {
        return static_cast<double>(bytes + kPreamble + kFcs + kGap) / options_.bytes_per_cycle;
    }

private:
    bool hit(double probability) { return random_.chance(probability); }

    void corrupt(Frame& frame) {
        ++counts.corrupted;
        // Behind the Ethernet addresses, so that the switch forwards it to the same port.
        const size_t from = std::min<size_t>(12, frame.bytes.size() - 1), bit = random_.below((frame.bytes.size() - from) * 8);
        frame.bytes[from + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        frame.describe();
    }

    void spoil(Frame& frame) {
        ++counts.bad_fcs;
        const size_t bit = random_.below(frame.bytes.size() * 8);
        frame.bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        frame.bad = true;
    }

    SegmentOptions options_;
    FrameFaults faults_;
    std::vector<DirectedFault> directed_;
    Random random_;
    double free_ = 0;
};
