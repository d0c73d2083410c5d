// SPDX-License-Identifier: Apache-2.0
// One direction of a link: rate and delay. Times are in cycles of the card's clock, as fractions.
//
// Packets are sent whole and in order of their time, one after the other, and arrive `delay` after their last byte: a
// switch stores and forwards. A request waits while the receiver has no credit for it, and what is behind it waits,
// too; a completion that waits is passed by requests (PCI Express Base, 2.4.1).
#pragma once

#include <algorithm>
#include <queue>
#include <vector>

#include "tlp.h"

// Packets ordered by a time, and among equal ones in the order in which they were added.
class TimedPackets {
public:
    void add(Tlp tlp, double time) {
        entries_.push_back({time, sequence_++, std::move(tlp)});
        std::push_heap(entries_.begin(), entries_.end());
    }
    bool empty() const { return entries_.empty(); }
    size_t size() const { return entries_.size(); }
    double time() const { return entries_.front().time; }
    const Tlp& front() const { return entries_.front().tlp; }
    Tlp take() {
        std::pop_heap(entries_.begin(), entries_.end());
        Tlp tlp = std::move(entries_.back().tlp);
        entries_.pop_back();
        return tlp;
    }
    void clear() { entries_.clear(); }

private:
    struct Entry {
        double time;
        uint64_t sequence;
        Tlp tlp;
        bool operator<(const Entry& other) const {  // for a heap with the earliest in front
            return time != other.time ? time > other.time : sequence > other.sequence;
        }
    };
    std::vector<Entry> entries_;
    uint64_t sequence_ = 0;
};

class Wire {
public:
    // `requests_first`: requests do not wait behind completions. A device has its stores and its read data in
    // different queues.
    Wire(double rate, double delay, bool requests_first = false)
        : rate_(rate), delay_(delay), requests_first_(requests_first) {}

    // The packet is complete at its sender at this time.
    void send(Tlp tlp, double time) {
        (tlp.kind == Kind::kCompletion ? completions_ : requests_).add(std::move(tlp), time);
    }

    size_t waiting() const { return requests_.size() + completions_.size(); }
    // Whether a packet that is sent now starts before the next cycle.
    bool ready(double now) const { return !waiting() && free_ < now + 1; }

    // Sends what starts before the next cycle: calls `arrive(tlp, time)`, after `credit(tlp)` has allowed it.
    template <class Credit, class Arrive>
    void tick(double now, Credit credit, Arrive arrive) {
        while (free_ < now + 1) {
            const bool request = !requests_.empty() && requests_.time() < now + 1;
            const bool completion = !completions_.empty() && completions_.time() < now + 1;
            const bool request_goes = request && credit(requests_.front());
            const bool behind = request && !request_goes && completion && requests_.time() <= completions_.time();
            const bool completion_goes = completion && !behind && credit(completions_.front());
            if (!request_goes && !completion_goes) return;
            const bool earlier = !requests_first_ && request && completion && completions_.time() < requests_.time();
            TimedPackets& from = completion_goes && (!request_goes || earlier) ? completions_ : requests_;
            const double start = std::max(free_, from.time());
            Tlp tlp = from.take();
            free_ = start + tlp.wire_bytes() / rate_;
            arrive(std::move(tlp), free_ + delay_);
        }
    }

    void clear() {
        requests_.clear();
        completions_.clear();
    }

private:
    TimedPackets requests_, completions_;
    double rate_, delay_, free_ = 0;
    bool requests_first_;
};
