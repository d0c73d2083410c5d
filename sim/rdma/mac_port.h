// SPDX-License-Identifier: Apache-2.0
// A Verilated station's port of the network: the AXI4-Streams of a MAC without back-pressure of received frames.
#pragma once

#include <cstring>

#include "network.h"

// Pins of an AXI4-Stream of `Bytes` bytes per beat.
template <unsigned Bytes>
struct FrameStream {
    static constexpr unsigned kKeepBytes = (Bytes + 7) / 8;

    // `count` bytes are kept.
    template <class Keep>
    static void put_keep(Keep& pins, unsigned count) {
        uint8_t keep[kKeepBytes] = {};
        std::memset(keep, 0xFF, count / 8);
        if (count % 8) keep[count / 8] = static_cast<uint8_t>((1u << count % 8) - 1);
        std::memcpy(&pins, keep, kKeepBytes);
    }

    // Bytes that are kept; adds 1 to `illegal` if there are ones beyond them, or for a partial beat before the last.
    template <class Keep>
    static unsigned get_keep(const Keep& pins, bool last, uint64_t& illegal) {
        uint8_t keep[kKeepBytes];
        std::memcpy(keep, &pins, kKeepBytes);
        unsigned count = 0, ones = 0;
        for (const uint8_t group : keep) ones += static_cast<unsigned>(__builtin_popcount(group));
        while (count < Bytes && keep[count / 8] >> count % 8 & 1) ++count;
        illegal += count != ones || (!last && count != Bytes);
        return count;
    }
};

template <unsigned Bytes>
class MacPort {
public:
    uint64_t illegal_beats = 0;  // of sent frames: a gap in tkeep, or a partial beat before the last

    MacPort(Network& network, unsigned port) : network_(network), port_(port) {}

    bool ready(uint64_t cycle) const { return network_.ready(port_, cycle); }

    // Before the clock edge: offers the next beat of a received frame.
    template <class Data, class Keep, class Bit>
    void offer(uint64_t cycle, Bit& valid, Data& data, Keep& keep, Bit& last, Bit& user) {
        if (!receiving_) {
            Network::Beat beat;
            receiving_ = network_.offer(port_, cycle, Bytes, beat);
            if (receiving_) {
                std::memcpy(&data, beat.data, beat.count);
                FrameStream<Bytes>::put_keep(keep, beat.count);
                last = beat.last;
                user = beat.bad;
            }
        }
        valid = receiving_;
    }

    // Behind it: what was received is taken.
    void taken(uint64_t cycle, bool ready) {
        if (!receiving_ || !ready) return;
        network_.taken(port_, cycle);
        receiving_ = false;
    }

    // Behind it: a beat that leaves, if `ready` was set.
    template <class Data, class Keep>
    void take(uint64_t cycle, bool ready, bool valid, const Data& data, const Keep& keep, bool last, bool user) {
        if (!ready) return;
        if (!valid) {
            network_.idle(port_);
            return;
        }
        network_.beat(port_, cycle, reinterpret_cast<const uint8_t*>(&data),
                      FrameStream<Bytes>::get_keep(keep, last, illegal_beats), last, last && user);
    }

private:
    Network& network_;
    unsigned port_;
    bool receiving_ = false;
};
