// SPDX-License-Identifier: Apache-2.0
// Ethernet: stations at the ports of one switch, which stores each frame and forwards it.
//
// A station sends whole frames, or the beats of an AXI4-Stream, and receives either. Times are cycles of one clock; a
// frame's time on a segment may be fractional. All of a cycle's `advance` comes before its beats.
#pragma once

#include <deque>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture.h"
#include "segment.h"

struct SwitchOptions {
    uint64_t queue_bytes = 1 << 18;       // limit of each output queue; a frame beyond it is dropped
    uint64_t mark_bytes = ~uint64_t{0};   // a frame that finds more than this in its queue is marked
    uint64_t receive_bytes = 1 << 16;     // limit of a station's receive FIFO, if it takes beats
    uint32_t forward_cycles = 1;          // from the last byte at one port to the queue of another
    bool learning = true;
};

struct PortCounts {
    uint64_t received = 0, received_bytes = 0, received_payload = 0;  // taken by the station
    uint64_t tail_drops = 0, marks = 0, largest_queue = 0;            // of the output queue towards the station
    uint64_t fcs_drops = 0, filtered = 0, flooded = 0;                // of frames that the station has sent
    uint64_t overruns = 0;                                            // frames beyond its receive FIFO
    uint64_t gaps = 0;  // cycles inside a sent frame in which the station had no beat, though the segment was free
    uint64_t latency_sum = 0, latency_most = 0;                       // cycles from the sender's start to the last byte
};

class Network {
public:
    static constexpr unsigned kMostPorts = 8, kFlood = ~0u;

    // A beat offered to a station.
    struct Beat {
        const uint8_t* data;
        unsigned count;
        bool last, bad;
    };

    Network(const std::vector<SegmentOptions>& segments, const SwitchOptions& options, uint64_t seed) : options_(options) {
        if (segments.size() < 2 || segments.size() > kMostPorts)
            throw std::runtime_error("A network has 2 to 8 ports, not " + std::to_string(segments.size()) + ".");
        for (const SegmentOptions& segment : segments) {
            if (!(segment.bytes_per_cycle > 0))
                throw std::runtime_error("The rate of a segment must be more than 0 bytes per cycle.");
            const uint64_t own = (seed * kMostPorts + ports_.size()) * 2;
            ports_.emplace_back(segment, own);
        }
    }

    size_t size() const { return ports_.size(); }
    void require(unsigned port) const {
        if (port >= ports_.size()) throw std::runtime_error("There is no port " + std::to_string(port) + ".");
    }
    Segment& up(unsigned port) { return ports_[port].up; }
    Segment& down(unsigned port) { return ports_[port].down; }
    const PortCounts& counts(unsigned port) const { return ports_[port].counts; }

    // Frames to this address leave at `port`; learning does not change that.
    void assign(uint64_t address, unsigned port) {
        require(port);
        table_[address] = {port, true};
    }

    // Record frames that the station at `port` sends and receives, or those of all stations if it is kFlood.
    void capture(const std::string& path, unsigned port, double ns_per_cycle) {
        capture_ = std::make_unique<Capture>(path, ns_per_cycle);
        captured_ = port;
    }
    void flush() {
        if (capture_) capture_->flush();
    }

    // Forwards what has arrived at the switch up to this cycle.
    void advance(uint64_t cycle) {
        while (!arriving_.empty() && arriving_.top().time <= static_cast<double>(cycle)) {
            const Arrival arrival = arriving_.top();
            arriving_.pop();
            forward(arrival.frame, arrival.port, arrival.time);
        }
    }

    // Sending. `beat` may be called only in a cycle in which `ready` is true.
    bool ready(unsigned port, uint64_t cycle) const { return ports_[port].up.ready(cycle); }

    void beat(unsigned port, uint64_t cycle, const uint8_t* data, unsigned count, bool last, bool bad) {
        Port& station = ports_[port];
        Frame* frame = station.sending;
        unsigned cost = count + (last ? kFcs + kGap : 0);
        if (!frame) {
            frame = station.sending = pool_.take();
            frame->born = cycle;
            station.began = std::max(station.up.free(), static_cast<double>(cycle));
            cost += kPreamble;
        }
        station.up.occupy(static_cast<double>(cycle), cost);
        frame->bytes.insert(frame->bytes.end(), data, data + count);
        if (last) {
            station.sending = nullptr;
            frame->bad = bad;
            leave(port, frame, station.began, station.up.free());
        }
    }

    // No beat in this cycle, though the segment is ready.
    void idle(unsigned port) { ports_[port].counts.gaps += ports_[port].sending != nullptr; }

    // A whole frame, behind those that were sent before.
    void send(unsigned port, uint64_t cycle, const uint8_t* data, size_t count) {
        if (count < 14 || count > 16384)
            throw std::runtime_error("A frame has 14 to 16384 bytes, not " + std::to_string(count) + ".");
        Port& station = ports_[port];
        Frame* frame = pool_.take();
        frame->bytes.assign(data, data + count);
        frame->born = cycle;
        const double began = station.up.occupy(static_cast<double>(cycle), static_cast<unsigned>(count) + kPreamble + kFcs + kGap);
        leave(port, frame, began, station.up.free());
    }

    // Receiving as a stream: the beat of up to `width` bytes that is offered in this cycle, if there is one; `taken`
    // accepts it.
    bool offer(unsigned port, uint64_t cycle, unsigned width, Beat& beat) {
        Port& station = ports_[port];
        if (!station.coming.empty()) admit(station, cycle, options_.receive_bytes);
        if (station.fifo.empty()) return false;
        const Arrival& front = station.fifo.front();
        const auto size = static_cast<unsigned>(front.frame->bytes.size());
        const unsigned end = std::min(station.at + width, size);
        const bool last = end == size;
        const double due = front.time + (kPreamble + end + (last ? kFcs : 0)) / station.down.options().bytes_per_cycle;
        if (due > static_cast<double>(cycle)) return false;
        beat = {front.frame->bytes.data() + station.at, end - station.at, last, last && front.frame->bad};
        station.offered = end;
        return true;
    }

    void taken(unsigned port, uint64_t cycle) {
        Port& station = ports_[port];
        station.at = station.offered;
        if (station.at == station.fifo.front().frame->bytes.size()) finish(port, cycle);
    }

    // Receiving whole frames: the next that has arrived completely, or null; `release` ends its use.
    const Frame* receive(unsigned port, uint64_t cycle) {
        Port& station = ports_[port];
        admit(station, cycle, ~uint64_t{0});
        if (station.fifo.empty()) return nullptr;
        const Arrival& front = station.fifo.front();
        const double end = front.time + static_cast<double>(kPreamble + front.frame->bytes.size() + kFcs) /
                                            station.down.options().bytes_per_cycle;
        return end <= static_cast<double>(cycle) ? front.frame : nullptr;
    }

    void release(unsigned port, uint64_t cycle) { finish(port, cycle); }

private:
    // A frame, and the time of its last byte at the switch, or of its preamble at a station.
    struct Arrival {
        double time;
        uint64_t sequence;
        Frame* frame;
        unsigned port;
        bool operator<(const Arrival& other) const {  // for a queue whose top is the earliest
            return time != other.time ? time > other.time : sequence > other.sequence;
        }
    };

    struct Port {
        Segment up, down;
        PortCounts counts{};
        Frame* sending = nullptr;
        double began = 0;
        std::deque<std::pair<double, uint32_t>> queue;  // start of transmission, bytes
        uint64_t queued = 0;
        std::priority_queue<Arrival> coming;
        std::deque<Arrival> fifo;
        uint64_t fifo_bytes = 0;
        unsigned at = 0, offered = 0;  // of the first frame: next byte, and end of the offered beat

        Port(const SegmentOptions& options, uint64_t seed) : up(options, seed), down(options, seed + 1) {}
    };

    struct Entry {
        unsigned port;
        bool fixed;
    };

    void record(unsigned port, double time, const Frame& frame) {
        if (capture_ && (captured_ == kFlood || captured_ == port)) capture_->add(time, frame.bytes);
    }

    // The station has sent a frame that occupies its segment from `began` to `ended`.
    void leave(unsigned port, Frame* frame, double began, double ended) {
        frame->describe();
        record(port, began, *frame);
        const double duration = ended - began - kGap / ports_[port].up.options().bytes_per_cycle;
        ports_[port].up.pass(pool_, frame, began, [&](Frame* passed, double begin) {
            arriving_.push({begin + duration + options_.forward_cycles, sequence_++, passed, port});
        });
    }

    void forward(Frame* frame, unsigned from, double time) {
        PortCounts& counts = ports_[from].counts;
        if (frame->bad || frame->bytes.size() < 14) {
            ++counts.fcs_drops;
            pool_.release(frame);
            return;
        }
        const uint64_t source = frame->address(6), destination = frame->address(0);
        constexpr uint64_t kGroup = uint64_t{1} << 40;
        if (options_.learning && !(source & kGroup)) {
            Entry& entry = table_.try_emplace(source, Entry{from, false}).first->second;
            if (!entry.fixed) entry.port = from;
        }
        const auto found = destination & kGroup ? table_.end() : table_.find(destination);
        if (found != table_.end()) {
            if (found->second.port != from) return enqueue(found->second.port, frame, time);
            ++counts.filtered;
            pool_.release(frame);
            return;
        }
        ++counts.flooded;
        for (unsigned port = 0; port < ports_.size(); ++port)
            if (port != from) enqueue(port, pool_.copy(*frame), time);
        pool_.release(frame);
    }

    // A frame is in the output queue until its transmission begins.
    void enqueue(unsigned number, Frame* frame, double time) {
        Port& port = ports_[number];
        while (!port.queue.empty() && port.queue.front().first <= time) {
            port.queued -= port.queue.front().second;
            port.queue.pop_front();
        }
        const auto size = static_cast<uint32_t>(frame->bytes.size());
        if (port.queued + size > options_.queue_bytes) {
            ++port.counts.tail_drops;
            pool_.release(frame);
            return;
        }
        if (port.queued > options_.mark_bytes) port.counts.marks += frame->mark();
        const double begin = port.down.occupy(time, size + kPreamble + kFcs + kGap);
        port.queue.emplace_back(begin, size);
        port.queued += size;
        port.counts.largest_queue = std::max(port.counts.largest_queue, port.queued);
        port.down.pass(pool_, frame, begin, [&](Frame* passed, double arrival) {
            port.coming.push({arrival, sequence_++, passed, number});
        });
    }

    // Moves frames that have begun to arrive into the receive FIFO.
    void admit(Port& station, uint64_t cycle, uint64_t limit) {
        while (!station.coming.empty() && station.coming.top().time <= static_cast<double>(cycle)) {
            const Arrival arrival = station.coming.top();
            station.coming.pop();
            const size_t size = arrival.frame->bytes.size();
            if (station.fifo_bytes + size > limit) {
                ++station.counts.overruns;
                pool_.release(arrival.frame);
                continue;
            }
            station.fifo_bytes += size;
            station.fifo.push_back(arrival);
        }
    }

    void finish(unsigned port, uint64_t cycle) {
        Port& station = ports_[port];
        const Arrival front = station.fifo.front();
        Frame* frame = front.frame;
        record(port, front.time, *frame);
        ++station.counts.received;
        station.counts.received_bytes += frame->bytes.size();
        station.counts.received_payload += frame->payload;
        const uint64_t latency = cycle - frame->born;
        station.counts.latency_sum += latency;
        station.counts.latency_most = std::max(station.counts.latency_most, latency);
        station.fifo_bytes -= frame->bytes.size();
        station.fifo.pop_front();
        station.at = station.offered = 0;
        pool_.release(frame);
    }

    SwitchOptions options_;
    FramePool pool_;
    std::deque<Port> ports_;
    std::priority_queue<Arrival> arriving_;
    std::unordered_map<uint64_t, Entry> table_;
    uint64_t sequence_ = 0;
    std::unique_ptr<Capture> capture_;
    unsigned captured_ = kFlood;
};
