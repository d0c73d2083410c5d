// SPDX-License-Identifier: Apache-2.0
// Random faults of a link: packets are dropped, corrupted, duplicated (immediately or much later), delayed or
// reordered, or the link is cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory.h"

// Fields of a beat, and their sizes on the link.
struct BeatFormat {
    unsigned first, last, kind, kind_width, payload_kinds, header, header_width, link_header, link_header_width, crc,
        crc_width, data, header_bytes, beat_bytes;
};

// Probabilities per packet, and cycles.
struct FaultRates {
    double loss = 0, corrupt = 0, duplicate = 0, delay = 0;
    uint64_t delay_cycles = 0;  // maximum delay; later packets are delayed, too
    double late = 0, reorder = 0;  // a copy, or the packet itself, arrives later; other packets may pass it
    uint64_t late_cycles = 0, reorder_cycles = 0;  // maximum delays
};

struct FaultCounts {
    uint64_t lost = 0, corrupted = 0, duplicated = 0, delayed = 0, late = 0, reordered = 0, cut = 0;
};

class Faults {
public:
    FaultCounts counts;

    explicit Faults(uint64_t seed) : random_(seed) {}

    void set(const FaultRates& rates) {
        rates_ = rates;
        on_ = true;
    }

    // From cycle `from` until before `to`, the link drops everything.
    void cut(uint64_t from, uint64_t to) {
        cuts_.emplace_back(from, to);
        on_ = true;
    }

    bool on() const { return on_; }

    // Whether the beat arrives; corrupts or delays it if its packet is affected by such a fault.
    bool pass(uint8_t* beat, const BeatFormat& format, bool first, bool last, bool payload, uint64_t cycle,
              uint64_t& due) {
        if (first) {
            lost_ = draw(rates_.loss, counts.lost);
            corrupted_ = draw(rates_.corrupt, counts.corrupted);
            doubled_ = draw(rates_.duplicate, counts.duplicated);
            delay_ = draw(rates_.delay, counts.delayed) ? 1 + random_.below(rates_.delay_cycles) : 0;
            late_ = draw(rates_.late, counts.late) ? 1 + random_.below(rates_.late_cycles) : 0;
            overtaken_ = draw(rates_.reorder, counts.reordered) ? 1 + random_.below(rates_.reorder_cycles) : 0;
            cut_ = false;
        }
        due += delay_;
        if (corrupted_ && (last || random_.chance(0.5))) {
            corrupt(beat, format, first, last, payload);
            corrupted_ = false;
        }
        const bool down = std::any_of(cuts_.begin(), cuts_.end(), [cycle](const auto& one) {
            return one.first <= cycle && cycle < one.second;
        });
        if (down && !cut_) {
            cut_ = true;
            ++counts.cut;
        }
        return !lost_ && !down;
    }

    bool doubled() const { return doubled_ && !lost_; }

    // Delay of an additional copy, and of the packet itself, in cycles; 0 for none.
    uint64_t late() const { return late_; }
    uint64_t overtaken() const { return overtaken_; }

private:
    bool draw(double rate, uint64_t& count) {
        const bool happens = random_.chance(rate);
        count += happens;
        return happens;
    }

    // Inverts one to three bits of the beat.
    void corrupt(uint8_t* beat, const BeatFormat& format, bool first, bool last, bool payload) {
        std::vector<std::pair<unsigned, unsigned>> fields;
        if (first) fields.emplace_back(format.link_header, format.link_header_width);
        if (payload) fields.emplace_back(format.data, 8 * format.beat_bytes);
        if (last) fields.emplace_back(format.crc, format.crc_width);
        unsigned total = 0;
        for (const auto& field : fields) total += field.second;
        for (uint64_t left = 1 + random_.below(3), bit = random_.below(total); left; --left, bit = (bit + 7) % total) {
            uint64_t at = bit;
            for (const auto& [lsb, width] : fields) {
                if (at < width) {
                    beat[(lsb + at) / 8] ^= static_cast<uint8_t>(1u << (lsb + at) % 8);
                    break;
                }
                at -= width;
            }
        }
    }

    Random random_;
    FaultRates rates_;
    std::vector<std::pair<uint64_t, uint64_t>> cuts_;
    bool on_ = false, lost_ = false, corrupted_ = false, doubled_ = false, cut_ = false;
    uint64_t delay_ = 0, late_ = 0, overtaken_ = 0;
};
