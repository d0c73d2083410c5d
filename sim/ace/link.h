// SPDX-License-Identifier: Apache-2.0
// One direction of a link between two endpoints: latency, bandwidth, faults, and counts of the traffic.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "faults.h"
#include "memory.h"

// Value of a field of a beat, which is an array of 32-bit words, little endian.
inline uint64_t field(const uint8_t* beat, unsigned lsb, unsigned width) {
    uint64_t value = 0;
    for (unsigned bit = 0; bit < width; ++bit)
        value |= uint64_t{beat[(lsb + bit) / 8] >> (lsb + bit) % 8 & 1u} << bit;
    return value;
}

// CRC-32 of IEEE 802.3 after another byte.
inline uint32_t crc32_after(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
    return crc;
}

struct LinkOptions {
    unsigned latency = 1;        // cycles from the departure of a beat's last byte to its arrival
    double bytes_per_cycle = 0;  // 0: one beat per cycle, independent of its contents
    double stall = 0;            // probability of a stall, at each end and in each cycle
};

// Log of the packets at one end of a link that start while the log is on.
class PacketLog {
public:
    struct Packet {
        uint64_t begin, end, header;  // cycles of the first and the last beat; bits of the header
    };

    bool on = false;
    std::vector<Packet> packets;

    void beat(const BeatFormat& format, const uint8_t* bytes, uint64_t cycle) {
        if (!on) return;
        if (field(bytes, format.first, 1))
            packets.push_back({cycle, cycle, field(bytes, format.header, format.header_width)});
        else if (!packets.empty())
            packets.back().end = cycle;
    }
};

struct LinkCounts {
    std::array<uint64_t, 8> packets{};  // by kind
    uint64_t header_bytes = 0, payload_bytes = 0;
    double busy = 0;      // cycles
    uint64_t waited = 0;  // cycles in which the link stalled the sender
    uint64_t held = 0;    // cycles in which the receiver stalled the link
};

// Between two calls of `carry`, the sender's and the receiver's side may be used by different threads.
template <size_t kSize>
class Link {
public:
    LinkCounts counts;
    PacketLog left, come;  // at the sender, at the receiver
    Faults faults;

    Link(const LinkOptions& options, const BeatFormat& format, uint64_t seed)
        : faults(~seed), options_(options), format_(format), sending_(2 * seed), receiving_(2 * seed + 1) {}

    unsigned latency() const { return options_.latency; }

    // Sender: `ready` if the link accepts a beat in this cycle; `take` accepts one. The first beat has the header.
    bool ready(uint64_t cycle) { return free_ < static_cast<double>(cycle + 1) && !sending_.chance(options_.stall); }

    void take(const void* beat, uint64_t cycle) {
        Beat& taken = sent_.emplace_back();
        std::memcpy(taken.bytes, beat, kSize);
        left.beat(format_, taken.bytes, cycle);
        unsigned cost = 0;
        if (field(taken.bytes, format_.first, 1)) {
            kind_ = field(taken.bytes, format_.kind, format_.kind_width);
            ++counts.packets[kind_];
            cost = format_.header_bytes;
            counts.header_bytes += cost;
        }
        const bool payload = format_.payload_kinds >> kind_ & 1;
        forge(taken, payload);
        if (payload) {
            cost += format_.beat_bytes;
            counts.payload_bytes += format_.beat_bytes;
        }
        const double cycles = options_.bytes_per_cycle > 0 ? cost / options_.bytes_per_cycle : 1;
        free_ = std::max(free_, static_cast<double>(cycle)) + cycles;
        counts.busy += cycles;
        const auto gone = static_cast<uint64_t>(std::ceil(free_ - 1e-6));
        taken.due = std::max(gone, cycle + 1) - 1 + options_.latency;
        if (faults.on()) pass(taken, payload, cycle);
    }

    // A beat that no sender has made arrives behind those sent so far, at a cycle or later.
    void insert(const void* beat, uint64_t due) {
        std::memcpy(sent_.emplace_back().bytes, beat, kSize);
        sent_.back().due = due;
    }

    // The bits of the `number`-th next packet's header, from 1, are inverted where those of `mask` are set; its CRC then
    // matches.
    void forge(uint64_t number, std::array<uint8_t, 12> mask) {
        for (unsigned bit = format_.link_header_width; bit < 8 * mask.size(); ++bit)
            mask[bit / 8] &= static_cast<uint8_t>(~(1u << bit % 8));
        forgeries_.push_back({number, mask, 0});
    }

    void forge_nothing() { forgeries_.clear(); }

    // Receiver: the offered beat, or null; it remains until it is taken.
    const uint8_t* offer(uint64_t cycle) {
        if (offered_) return offered_->front().bytes;
        // A delayed packet is inserted between two others.
        const bool between = !inside_ || (!coming_.empty() && first(coming_.front()));
        if (late_copy_.empty() && between && !late_copies_.empty() && late_copies_.begin()->first <= cycle) {
            late_copy_ = std::move(late_copies_.begin()->second);
            late_copies_.erase(late_copies_.begin());
        }
        const bool there = !late_copy_.empty() || (!coming_.empty() && coming_.front().due <= cycle);
        if (there && !receiving_.chance(options_.stall)) offered_ = late_copy_.empty() ? &coming_ : &late_copy_;
        return offered_ ? offered_->front().bytes : nullptr;
    }

    void taken(uint64_t cycle) {
        const Beat& beat = offered_->front();
        come.beat(format_, beat.bytes, cycle);
        if (offered_ == &coming_) inside_ = !last(beat);
        offered_->pop_front();
        offered_ = nullptr;
    }

    // Makes sent beats visible to the receiver. Must be called at least every `latency` cycles.
    void carry() {
        coming_.insert(coming_.end(), sent_.begin(), sent_.end());
        sent_.clear();
        late_copies_.insert(held_.begin(), held_.end());
        held_.clear();
    }

private:
    struct Beat {
        uint64_t due;
        uint8_t bytes[kSize];
    };

    bool first(const Beat& beat) const { return field(beat.bytes, format_.first, 1); }
    bool last(const Beat& beat) const { return field(beat.bytes, format_.last, 1); }

    struct Forgery {
        uint64_t number;
        std::array<uint8_t, 12> mask;
        uint32_t crc;  // the CRC of a sum is the sum of the CRCs, without constants
    };

    // Applies forgeries to `taken`, the last beat of `sent_`.
    void forge(Beat& taken, bool payload) {
        for (Forgery& forgery : forgeries_) {
            if (first(taken)) {
                --forgery.number;
                forgery.crc = 0;
            }
            if (forgery.number) continue;
            if (first(taken)) {
                for (unsigned bit = 0; bit < format_.link_header_width; ++bit)
                    if (forgery.mask[bit / 8] >> bit % 8 & 1)
                        taken.bytes[(format_.link_header + bit) / 8] ^= static_cast<uint8_t>(1u << (format_.link_header + bit) % 8);
                for (const uint8_t byte : forgery.mask) forgery.crc = crc32_after(forgery.crc, byte);
            }
            for (unsigned left = payload ? format_.beat_bytes : 0; left; --left) forgery.crc = crc32_after(forgery.crc, 0);
            if (!last(taken)) continue;
            for (unsigned bit = 0; bit < format_.crc_width; ++bit)
                taken.bytes[(format_.crc + bit) / 8] ^= static_cast<uint8_t>((forgery.crc >> bit & 1) << (format_.crc + bit) % 8);
        }
        if (last(taken))
            forgeries_.erase(std::remove_if(forgeries_.begin(), forgeries_.end(), [](const Forgery& one) { return !one.number; }),
                             forgeries_.end());
    }

    // Applies faults to `taken`, the last beat of `sent_`.
    void pass(Beat& taken, bool payload, uint64_t cycle) {
        const bool begins = first(taken), ends = last(taken);
        if (begins) {
            copy_.clear();
            whole_ = true;
        }
        const bool passes = faults.pass(taken.bytes, format_, begins, ends, payload, cycle, taken.due);
        const uint64_t late = faults.late(), overtaken = faults.overtaken();
        whole_ &= passes;
        if (faults.doubled() || late || overtaken) copy_.push_back(taken);
        if (!passes || overtaken) sent_.pop_back();
        if (!ends || !whole_) return;
        const uint64_t due = copy_.empty() ? 0 : copy_.back().due;
        if (overtaken) held_.emplace_back(due + overtaken, copy_);
        if (faults.doubled() && !overtaken) sent_.insert(sent_.end(), copy_.begin(), copy_.end());
        if (late) held_.emplace_back(due + late, copy_);
    }

    LinkOptions options_;
    BeatFormat format_;
    Random sending_, receiving_;
    std::vector<Forgery> forgeries_;
    double free_ = 0;
    unsigned kind_ = 0;
    bool whole_ = false;   // no beat of the packet being sent was dropped so far
    bool inside_ = false;  // the last beat taken from `coming_` did not end its packet
    std::vector<Beat> sent_;
    std::deque<Beat> copy_;                                    // copy of the packet being sent
    std::vector<std::pair<uint64_t, std::deque<Beat>>> held_;  // delayed packets, with the cycle of their arrival
    std::multimap<uint64_t, std::deque<Beat>> late_copies_;    // the same at the receiver, by cycle of arrival
    std::deque<Beat> coming_, late_copy_;                      // beats in order; the delayed packet being delivered
    std::deque<Beat>* offered_ = nullptr;
};
