// SPDX-License-Identifier: Apache-2.0
// A cluster as a library of C functions, for Python's ctypes; those of its network are in network_api.h.
//
// Functions return a number of at least 0, or -1 on an error, which network_error() returns as a sentence.

#include "cluster.h"

#include "network_api.h"

namespace {

struct MemoryParameters {
    uint32_t read_latency, write_latency, jitter, out_of_order;
    double read_rate, write_rate, stall;
};

struct FlowParameters {
    uint32_t write, first_id, ids, depth, keep_latencies;
    uint64_t local, remote, size, stride, slots, count, interval, start;
};

enum Reason { kLimit, kDone, kInterrupt };

}  // namespace

API Cluster* cluster_create(const SwitchParameters* parameters, const SegmentParameters* segments, uint32_t units,
                            const MemoryParameters* memories) {
    try {
        std::vector<Target> targets(units);
        std::vector<MemoryOptions> options(units);
        for (uint32_t unit = 0; unit < units; ++unit) {
            const MemoryParameters& memory = memories[unit];
            targets[unit].size = ~uint64_t{0};
            targets[unit].read_latency = memory.read_latency;
            targets[unit].write_latency = memory.write_latency;
            targets[unit].read_beats_per_cycle = memory.read_rate;
            targets[unit].write_beats_per_cycle = memory.write_rate;
            options[unit].jitter = memory.jitter;
            options[unit].out_of_order = memory.out_of_order != 0;
            options[unit].stall = memory.stall;
        }
        return new Cluster(make_network(*parameters, segments), targets, options, parameters->seed);
    } catch (const std::exception& wrong) {
        error = wrong.what();
        return nullptr;
    }
}

API void cluster_destroy(Cluster* cluster) { delete cluster; }
API Network* cluster_network(Cluster* cluster) { return &cluster->network(); }
API uint64_t cluster_cycle(const Cluster* cluster) { return cluster->cycle; }

// `observer` is of another library, which ends after the cluster.
API int cluster_observe(Cluster* cluster, const Observer* observer) {
    return guarded([&] {
        cluster->observe(observer);
        return 0;
    });
}

// Memory. Storing or mapping creates pages of 64 KiB; the remaining bytes of a new page are `fill`.

API int cluster_map(Cluster* cluster, uint32_t unit, uint64_t address, uint64_t count, uint32_t fill) {
    return guarded([&] {
        (*cluster)[unit].streams.memory.bytes.map(address, count, static_cast<uint8_t>(fill));
        return 0;
    });
}

API int cluster_store(Cluster* cluster, uint32_t unit, uint64_t address, const uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        SparseMemory& memory = (*cluster)[unit].streams.memory.bytes;
        memory.map(address, count, 0);
        memory.each_run(address, count, [&](uint8_t* at, uint64_t run, uint64_t) {
            std::memcpy(at, bytes, run);
            bytes += run;
        });
        return 0;
    });
}

API int cluster_load(Cluster* cluster, uint32_t unit, uint64_t address, uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        (*cluster)[unit].streams.memory.bytes.each_run(address, count, [&](const uint8_t* at, uint64_t run, uint64_t) {
            if (!at) throw std::runtime_error("There is no memory at one of the addresses.");
            std::memcpy(bytes, at, run);
            bytes += run;
        });
        return 0;
    });
}

API int cluster_fail_burst(Cluster* cluster, uint32_t unit, uint32_t write, uint64_t number) {
    return guarded([&] {
        auto& memory = (*cluster)[unit].streams.memory;
        if (write) memory.fail_write(number);
        else memory.fail_read(number);
        return 0;
    });
}

// Registers: accesses are queued in order, and made by cluster_settle or cluster_run.

API int cluster_access(Cluster* cluster, uint32_t unit, uint32_t offset, uint32_t value, uint32_t write) {
    return guarded([&] {
        (*cluster)[unit].bus.post(offset, value, write != 0);
        return 0;
    });
}

API int64_t cluster_take_value(Cluster* cluster, uint32_t unit) {
    return guarded([&]() -> int64_t {
        auto& values = (*cluster)[unit].bus.values;
        if (values.empty()) throw std::runtime_error("No register was read.");
        const uint32_t value = values.front();
        values.pop_front();
        return value;
    });
}

// Run until all register accesses have a response: returns 1, or 0 if that takes more than `cycles`.
API int cluster_settle(Cluster* cluster, uint64_t cycles) {
    return guarded([&]() -> int {
        const bool done = cluster->run(cycles, [cluster] {
            for (size_t unit = 0; unit < cluster->size(); ++unit)
                if ((*cluster)[unit].bus.waiting()) return false;
            return true;
        });
        for (size_t unit = 0; unit < cluster->size(); ++unit) {
            uint64_t& refused = (*cluster)[unit].bus.refused;
            if (!refused) continue;
            refused = 0;
            throw std::runtime_error("Unit " + std::to_string(unit) + " responded to a register access with an error.");
        }
        return done;
    });
}

// Frames of other traffic: to other_tx, and from other_rx.

API int cluster_send_other(Cluster* cluster, uint32_t unit, const uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        if (count < 14 || count > 16384)
            throw std::runtime_error("A frame has 14 to 16384 bytes, not " + std::to_string(count) + ".");
        (*cluster)[unit].other_out.emplace_back(bytes, bytes + count);
        return 0;
    });
}

API int64_t cluster_receive_other(Cluster* cluster, uint32_t unit, uint8_t* bytes, uint64_t limit) {
    return guarded([&]() -> int64_t {
        auto& frames = (*cluster)[unit].other_in;
        if (frames.empty()) return 0;
        const size_t size = frames.front().size();
        if (size > limit) throw std::runtime_error("A frame of " + std::to_string(size) + " bytes is too long.");
        std::memcpy(bytes, frames.front().data(), size);
        frames.pop_front();
        return static_cast<int64_t>(size);
    });
}

// Traffic of the DMA side. Returns the number of the unit's flow.
API int cluster_flow(Cluster* cluster, uint32_t unit, const FlowParameters* given) {
    return guarded([&] {
        const FlowOptions options{given->write, given->first_id, given->ids, given->depth, given->local, given->remote,
                                  given->size, given->stride, given->slots, given->count, given->interval,
                                  cluster->cycle + given->start};
        Unit& chosen = (*cluster)[unit];
        if (given->write)
            chosen.streams.memory.bytes.map(given->local, (given->slots - 1) * given->stride + given->size, 0);
        return static_cast<int>(chosen.traffic.add(options, given->keep_latencies != 0));
    });
}

// A flow begins `count` operations from now on.
API int cluster_extend(Cluster* cluster, uint32_t unit, uint32_t flow, uint64_t count) {
    return guarded([&] {
        (*cluster)[unit].traffic.extend(flow, count);
        return 0;
    });
}

API int cluster_flow_result(Cluster* cluster, uint32_t unit, uint32_t flow, FlowResult* result) {
    return guarded([&] {
        *result = (*cluster)[unit].traffic.result(flow);
        return 0;
    });
}

// Latencies of the operations in the order of their ends, valid until the next run, and their count.
API int64_t cluster_latencies(Cluster* cluster, uint32_t unit, uint32_t flow, const uint32_t** cycles) {
    return guarded([&] {
        const auto& found = (*cluster)[unit].traffic.latencies(flow);
        *cycles = found.data();
        return static_cast<int64_t>(found.size());
    });
}

// Cycle in which irq, still high, has risen; all bits set if it is low.
API uint64_t cluster_interrupted(Cluster* cluster, uint32_t unit) {
    return guarded([&] { return (*cluster)[unit].interrupted; });
}

// Run for `cycles`, with `until_done` until all flows have ended, with `until_interrupt` until an irq is high: a Reason.
API int cluster_run(Cluster* cluster, uint64_t cycles, uint32_t until_done, uint32_t until_interrupt) {
    return guarded([&]() -> int {
        int reason = kLimit;
        cluster->run(cycles, [&] {
            bool all = until_done != 0;
            for (size_t unit = 0; unit < cluster->size(); ++unit) {
                if (until_interrupt && (*cluster)[unit].interrupted != Unit::kNever) reason = kInterrupt;
                all = all && (*cluster)[unit].traffic.done();
            }
            if (all) reason = kDone;
            return reason != kLimit;
        });
        for (size_t number = 0; number < cluster->size(); ++number) {
            const Unit& unit = (*cluster)[number];
            const std::string name = "Unit " + std::to_string(number);
            if (unit.streams.memory.illegal_accesses()) throw std::runtime_error(name + " used memory that it may not.");
            if (unit.traffic.unexpected) throw std::runtime_error(name + " responded to a burst that was not issued.");
            if (unit.mac.illegal_beats + unit.illegal_others) throw std::runtime_error(name + " sent a frame with an illegal tkeep.");
        }
        return reason;
    });
}

// Bursts and beats of a unit's memory: read bursts, read beats, write bursts, write beats, written bytes.
API int cluster_memory_counts(Cluster* cluster, uint32_t unit, uint64_t* numbers) {
    return guarded([&] {
        const MemoryCounts& counts = (*cluster)[unit].streams.memory.counts();
        const std::array<uint64_t, 5> all{counts.read_bursts, counts.read_beats, counts.write_bursts, counts.write_beats,
                                          counts.write_bytes};
        std::memcpy(numbers, all.data(), sizeof all);
        return 0;
    });
}
