// SPDX-License-Identifier: Apache-2.0
// C functions of a network for Python's ctypes, used by the libraries with and without RTL.
//
// Functions return a number of at least 0, or -1 on an error, which network_error() returns as a sentence.
#pragma once

#include <array>
#include <cstring>

#include "library.h"
#include "network.h"

namespace {

struct SegmentParameters {
    double bytes_per_cycle;
    uint32_t latency;
};

struct SwitchParameters {
    uint64_t queue_bytes, mark_bytes, receive_bytes, seed;
    uint32_t forward_cycles, learning, ports;
};

struct FaultParameters {
    double loss, corrupt, bad_fcs, duplicate, reorder;
    uint64_t reorder_cycles;
};

struct DirectedParameters {
    int32_t opcode;
    uint32_t skip, count, action;
    uint64_t cycles;
};

inline std::unique_ptr<Network> make_network(const SwitchParameters& given, const SegmentParameters* segments) {
    std::vector<SegmentOptions> options;
    for (uint32_t port = 0; port < given.ports; ++port)
        options.push_back({segments[port].bytes_per_cycle, segments[port].latency});
    const SwitchOptions made{given.queue_bytes, given.mark_bytes, given.receive_bytes, given.forward_cycles,
                             given.learning != 0};
    return std::make_unique<Network>(options, made, given.seed);
}

inline Segment& segment_of(Network& network, uint32_t port, uint32_t down) {
    network.require(port);
    return down ? network.down(port) : network.up(port);
}

}  // namespace

API const char* network_error() { return error.c_str(); }

// `down`: the direction to the station.
API int network_faults(Network* network, uint32_t port, uint32_t down, const FaultParameters* given) {
    return guarded([&] {
        segment_of(*network, port, down).set({given->loss, given->corrupt, given->bad_fcs, given->duplicate, given->reorder,
                                              given->reorder_cycles});
        return 0;
    });
}

API int network_direct(Network* network, uint32_t port, uint32_t down, const DirectedParameters* given) {
    return guarded([&] {
        if (given->action >= kFaultActions) throw std::runtime_error("There is no such fault.");
        if (!given->count) throw std::runtime_error("A directed fault has at least 1 frame, not 0.");
        segment_of(*network, port, down).direct({given->opcode, given->skip, given->count, given->action, given->cycles});
        return 0;
    });
}

API int network_assign(Network* network, uint64_t address, uint32_t port) {
    return guarded([&] {
        network->assign(address, port);
        return 0;
    });
}

API int network_capture(Network* network, const char* path, uint32_t port, double ns_per_cycle) {
    return guarded([&] {
        network->capture(path, port, ns_per_cycle);
        return 0;
    });
}

API int network_flush(Network* network) {
    network->flush();
    return 0;
}

API int network_send(Network* network, uint64_t cycle, uint32_t port, const uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        network->require(port);
        network->send(port, cycle, bytes, count);
        return 0;
    });
}

// The next frame that has arrived at a station: stores its bytes, whether its FCS was wrong, and returns its length; 0 if
// there is none.
API int64_t network_receive(Network* network, uint64_t cycle, uint32_t port, uint8_t* bytes, uint64_t limit, uint32_t* bad) {
    return guarded([&]() -> int64_t {
        network->require(port);
        const Frame* frame = network->receive(port, cycle);
        if (!frame) return 0;
        const size_t size = frame->bytes.size();
        if (size > limit) throw std::runtime_error("A frame of " + std::to_string(size) + " bytes is too long.");
        std::memcpy(bytes, frame->bytes.data(), size);
        *bad = frame->bad;
        network->release(port, cycle);
        return static_cast<int64_t>(size);
    });
}

// Numbers in the order of the fields of `PortCounts` in network.py; returns their count.
API int network_counts(Network* network, uint32_t port, uint64_t* numbers) {
    return guarded([&] {
        const SegmentCounts &up = segment_of(*network, port, 0).counts, &down = segment_of(*network, port, 1).counts;
        const PortCounts& counts = network->counts(port);
        const std::array<uint64_t, 29> all{
            up.frames, up.bytes, up.payload, counts.received, counts.received_bytes, counts.received_payload,
            counts.tail_drops, counts.marks, counts.largest_queue, counts.fcs_drops, counts.filtered, counts.flooded,
            counts.overruns, counts.gaps, counts.latency_sum, counts.latency_most,
            up.dropped, up.corrupted, up.bad_fcs, up.duplicated, up.reordered, up.directed,
            down.frames, down.dropped, down.corrupted, down.bad_fcs, down.duplicated, down.reordered, down.directed};
        std::memcpy(numbers, all.data(), sizeof all);
        return static_cast<int>(all.size());
    });
}
