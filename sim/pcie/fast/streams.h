// SPDX-License-Identifier: Apache-2.0
// The packet interfaces of the hard block at the pins: packets of double words into beats, and back, with the rules
// of the interface (PG213, DW-aligned mode).
//
// With straddling, a TLP starts at DW 0, or at DW 8 behind one that ends in the lower half; `tuser` has the starts and
// ends. Without it, `tlast` and `tkeep` end a TLP.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "bits.h"

// A TLP on an interface: its descriptor, and its payload.
struct Packet {
    std::vector<uint32_t> words;
    uint8_t first_be = 0, last_be = 0;        // on RQ and CQ
    unsigned descriptor = 0;                  // double words in front of the payload
    uint8_t first_enables = 0, last_enables = 0;  // byte enables of the payload; both for one double word
    bool discontinue = false;                     // withdrawn with its last beat
    bool harmed = false;                          // a packet in one of its beats was withdrawn
    bool foreign = false;                         // a completion that is not of the request with its tag

    uint8_t enables(size_t word) const {
        if (word < descriptor) return 0;
        uint8_t mask = 0xF;
        if (word == descriptor) mask &= first_enables;
        if (word + 1 == words.size()) mask &= last_enables;
        return mask;
    }
};

template <unsigned kLanes, unsigned kUserWords>
struct Beat {
    uint32_t data[kLanes] = {};
    uint32_t keep = 0, last = 0;
    uint32_t user[kUserWords] = {};

    bool operator==(const Beat& other) const { return !std::memcmp(this, &other, sizeof(Beat)); }
};

// Fields of `tuser`; those that an interface lacks have no bit.
struct UserFields {
    Field first_be[2], last_be[2], byte_en, starts, start[2], ends, end[2], discontinue;
    // With 128 and 256 bits: a bit for the first beat.
    Field first;
};

// Packets to the card, on RC and CQ.
template <unsigned kLanes, unsigned kUserWords>
class PacketSource {
public:
    static constexpr unsigned kHalf = kLanes / 2;

    Beat<kLanes, kUserWords> beat;
    bool valid = false;
    // Called with each packet as its last beat is offered.
    std::function<void(const Packet&)> leaving;

    PacketSource(const UserFields& fields, bool straddle) : fields_(fields), straddle_(straddle) {}

    void send(Packet packet) {
        waiting_words_ += packet.words.size();
        packets_.push_back(std::move(packet));
    }
    size_t waiting() const { return packets_.size(); }
    size_t waiting_words() const { return waiting_words_; }
    bool idle() const { return packets_.empty() && !valid; }

    // Chooses the beat of a cycle; one that waits for tready stays.
    void drive(bool stalled) {
        if (valid || stalled || packets_.empty()) return;
        std::memset(static_cast<void*>(&beat), 0, sizeof beat);
        valid = true;
        withdrawn_ = false;
        if (straddle_) {
            straddled();
        } else {
            alone();
        }
        if (withdrawn_) {
            put(beat.user, fields_.discontinue, 1);
            if (position_) packets_.front().harmed = true;
        }
        for (Packet& packet : left_) {
            packet.harmed |= withdrawn_;
            leaving(packet);
        }
        left_.clear();
    }

    // The beat was accepted if the card is ready; returns whether it was.
    bool sample(bool ready) {
        const bool moved = valid && ready;
        if (moved) valid = false;
        return moved;
    }

    void clear() {
        packets_.clear();
        waiting_words_ = position_ = 0;
        valid = false;
    }

private:
    // Copies what fits behind `lane`; whether the packet ends.
    bool fill(unsigned lane, unsigned& count) {
        const Packet& packet = packets_.front();
        count = static_cast<unsigned>(std::min<size_t>(kLanes - lane, packet.words.size() - position_));
        std::memcpy(beat.data + lane, &packet.words[position_], 4 * count);
        for (unsigned index = 0; index < count; ++index)
            if (fields_.byte_en.width)
                put(beat.user, {fields_.byte_en.offset + 4 * (lane + index), 4}, packet.enables(position_ + index));
        position_ += count;
        if (position_ < packet.words.size()) return false;
        withdrawn_ |= packet.discontinue;
        waiting_words_ -= packet.words.size();
        if (leaving) left_.push_back(std::move(packets_.front()));
        packets_.pop_front();
        position_ = 0;
        return true;
    }

    void straddled() {
        unsigned lane = 0, starts = 0, ends = 0;
        while (lane < kLanes && !packets_.empty()) {
            if (position_ == 0) put(beat.user, fields_.start[starts++], lane / 4);
            unsigned count;
            if (!fill(lane, count)) break;
            put(beat.user, fields_.end[ends++], lane + count - 1);
            lane = lane + count <= kHalf ? kHalf : kLanes;
        }
        put(beat.user, fields_.starts, mask_of(starts));
        put(beat.user, fields_.ends, mask_of(ends));
        beat.keep = static_cast<uint32_t>(mask_of(kLanes));
    }

    void alone() {
        const bool first = position_ == 0;
        const uint8_t first_be = packets_.front().first_be, last_be = packets_.front().last_be;
        unsigned count;
        beat.last = fill(0, count);
        beat.keep = static_cast<uint32_t>(mask_of(count));
        put(beat.user, fields_.first_be[0], first ? first_be : 0);
        put(beat.user, fields_.last_be[0], first ? last_be : 0);
        put(beat.user, fields_.first, first);
        put(beat.user, fields_.starts, first);
        put(beat.user, fields_.ends, beat.last);
        put(beat.user, fields_.end[0], beat.last ? count - 1 : 0);
    }

    UserFields fields_;
    bool straddle_;
    std::deque<Packet> packets_;
    size_t position_ = 0, waiting_words_ = 0;
    bool withdrawn_ = false;     // a packet ends in this beat that is withdrawn
    std::vector<Packet> left_;   // packets that end in this beat
};

// Packets from the card, on RQ and CC.
template <unsigned kLanes, unsigned kUserWords>
class PacketSink {
public:
    PacketSink(const char* name, const UserFields& fields, bool straddle, unsigned descriptor)
        : name_(name), fields_(fields), straddle_(straddle), descriptor_(descriptor) {}

    bool idle() const { return !open_ && !waits_; }

    // Takes the pins of a cycle, and calls `ended(packet)` for each packet that ends.
    template <class Ended>
    void sample(bool valid, bool ready, const Beat<kLanes, kUserWords>& beat, Ended ended) {
        if (!valid) {
            require(!waits_, "tvalid must stay asserted until tready");
            require(!open_, "tvalid must stay asserted for the duration of a packet");
            return;
        }
        require(!waits_ || beat == waiting_, "the beat must be stable while tvalid waits for tready");
        waits_ = !ready;
        if (waits_) {
            waiting_ = beat;
        } else if (straddle_) {
            straddled(beat, ended);
        } else {
            alone(beat, ended);
        }
    }

    void clear() { open_ = waits_ = false; }

private:
    void require(bool condition, const char* rule) const { need(condition, name_, rule); }

    void begin(const Beat<kLanes, kUserWords>& beat, unsigned number) {
        packet_.words.clear();
        packet_.first_be = static_cast<uint8_t>(get(beat.user, fields_.first_be[number]));
        packet_.last_be = static_cast<uint8_t>(get(beat.user, fields_.last_be[number]));
        open_ = true;
    }

    void take(const Beat<kLanes, kUserWords>& beat, unsigned from, unsigned upto) {
        packet_.words.insert(packet_.words.end(), beat.data + from, beat.data + upto);
        require(!get(beat.user, fields_.discontinue), "the card never discontinues a packet");
    }

    template <class Ended>
    void end(Ended ended) {
        require(packet_.words.size() >= descriptor_, "a packet must hold its descriptor");
        open_ = false;
        ended(packet_);
    }

    template <class Ended>
    void straddled(const Beat<kLanes, kUserWords>& beat, Ended ended) {
        const uint64_t starts = get(beat.user, fields_.starts), ends = get(beat.user, fields_.ends);
        require(starts != 2 && ends != 2, "starts and ends of a beat must be ones from bit 0 on");
        unsigned lane = 0, started = 0, ended_here = 0;
        if (!open_) {
            require(starts, "a beat outside of a packet must start one");
            require(!get(beat.user, fields_.start[0]), "the first packet of a beat must start at DW 0");
        }
        for (;;) {
            if (!open_) {
                if (!(starts >> started & 1)) break;
                const unsigned at = 4 * static_cast<unsigned>(get(beat.user, fields_.start[started]));
                require(at == 0 || at == kLanes / 2, "a packet must start at DW 0 or 8");
                require(at >= lane, "a packet must end before the next one starts");
                lane = at;
                begin(beat, started++);
            }
            if (!(ends >> ended_here & 1)) {
                require(!(starts >> started & 1), "a packet must end before the next one starts");
                take(beat, lane, kLanes);
                break;
            }
            const unsigned last = static_cast<unsigned>(get(beat.user, fields_.end[ended_here++]));
            require(last >= lane, "a packet must not end before it starts");
            take(beat, lane, last + 1);
            end(ended);
            lane = last + 1;
        }
        require(!(ends >> ended_here & 1), "a packet ends that did not start");
    }

    template <class Ended>
    void alone(const Beat<kLanes, kUserWords>& beat, Ended ended) {
        const unsigned count = static_cast<unsigned>(__builtin_popcount(beat.keep));
        require(count && beat.keep == mask_of(count), "tkeep must be ones from bit 0 on");
        require(beat.last || count == kLanes, "tkeep must be all ones before the last beat");
        if (!open_) begin(beat, 0);
        take(beat, 0, count);
        if (beat.last) end(ended);
    }

    std::string name_;
    UserFields fields_;
    bool straddle_;
    unsigned descriptor_;
    bool open_ = false, waits_ = false;
    Packet packet_;
    Beat<kLanes, kUserWords> waiting_;
};
