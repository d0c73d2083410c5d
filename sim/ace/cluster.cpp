// SPDX-License-Identifier: Apache-2.0
// A cluster as a library of C functions, for Python's ctypes.
//
// Functions return a number of at least 0, or -1 on an error, which cluster_error() returns as a sentence.

#include "cluster.h"

#include <cstdio>

#include "library.h"
#ifdef ACE_ETHERNET_BYTES
#include "network_api.h"
#endif

namespace {

struct LinkParameters {
    uint32_t latency;
    double bytes_per_cycle, stall;
};

struct MemoryParameters {
    uint32_t read_latency, write_latency, jitter, out_of_order;
    double read_rate, write_rate, stall;
};

struct Parameters {
    uint32_t shape[kDimensions];
    LinkParameters links[kDimensions];
    uint64_t seed;
    uint32_t threads;
};

std::string statistics;
std::vector<uint64_t> rows;

enum Reason { kLimit, kDone, kInterrupt };

}  // namespace

API const char* cluster_error() { return error.c_str(); }

API Cluster* cluster_create(const Parameters* parameters, const MemoryParameters* memories) {
    try {
        const Shape shape{{parameters->shape[0], parameters->shape[1], parameters->shape[2]}};
        std::array<LinkOptions, kDimensions> links;
        for (unsigned dimension = 0; dimension < kDimensions; ++dimension) {
            const LinkParameters& link = parameters->links[dimension];
            links[dimension] = {link.latency, link.bytes_per_cycle, link.stall};
        }
        std::vector<Target> targets(shape.ranks());
        std::vector<MemoryOptions> options(shape.ranks());
        for (unsigned rank = 0; rank < shape.ranks(); ++rank) {
            const MemoryParameters& memory = memories[rank];
            targets[rank].size = ~uint64_t{0};
            targets[rank].read_latency = memory.read_latency;
            targets[rank].write_latency = memory.write_latency;
            targets[rank].read_beats_per_cycle = memory.read_rate;
            targets[rank].write_beats_per_cycle = memory.write_rate;
            options[rank].jitter = memory.jitter;
            options[rank].out_of_order = memory.out_of_order != 0;
            options[rank].stall = memory.stall;
        }
        return new Cluster(shape, links, targets, options, parameters->seed, parameters->threads);
    } catch (const std::exception& wrong) {
        error = wrong.what();
        return nullptr;
    }
}

API void cluster_destroy(Cluster* cluster) { delete cluster; }

#ifdef ACE_ETHERNET_BYTES
API int cluster_connect(Cluster* cluster, const SwitchParameters* parameters, const SegmentParameters* segments) {
    return guarded([&] {
        cluster->connect(make_network(*parameters, segments));
        return 0;
    });
}

API Network* cluster_network(Cluster* cluster) { return cluster->network(); }
#endif

API uint64_t cluster_cycle(const Cluster* cluster) { return cluster->cycle; }

// Memory. Storing or mapping creates pages of 64 KiB; the remaining bytes of a new page are `fill`.

API int cluster_map(Cluster* cluster, uint32_t rank, uint64_t address, uint64_t count, uint32_t fill) {
    return guarded([&] {
        (*cluster)[rank].memory.bytes.map(address, count, static_cast<uint8_t>(fill));
        return 0;
    });
}

// The range becomes `bytes`, memory of the caller that must exist as long as the cluster.
API int cluster_share(Cluster* cluster, uint32_t rank, uint64_t address, uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        (*cluster)[rank].memory.bytes.share(address, count, bytes);
        return 0;
    });
}

API int cluster_store(Cluster* cluster, uint32_t rank, uint64_t address, const uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        auto& memory = (*cluster)[rank].memory.bytes;
        memory.map(address, count, 0);
        memory.each_run(address, count, [&](uint8_t* at, uint64_t run, uint64_t) {
            std::memcpy(at, bytes, run);
            bytes += run;
        });
        return 0;
    });
}

API int cluster_load(Cluster* cluster, uint32_t rank, uint64_t address, uint8_t* bytes, uint64_t count) {
    return guarded([&] {
        (*cluster)[rank].memory.bytes.each_run(address, count, [&](const uint8_t* at, uint64_t run, uint64_t) {
            if (!at) throw std::runtime_error("There is no memory at one of the addresses.");
            std::memcpy(bytes, at, run);
            bytes += run;
        });
        return 0;
    });
}

API int cluster_fail_burst(Cluster* cluster, uint32_t rank, uint32_t write, uint64_t number) {
    return guarded([&] {
        auto& memory = (*cluster)[rank].memory;
        if (write) memory.fail_write(number);
        else memory.fail_read(number);
        return 0;
    });
}

// Faults of links, and links that are cut for a time.

API int cluster_faults(Cluster* cluster, double loss, double corrupt, double duplicate, double delay, uint64_t cycles,
                       double late, double reorder, uint64_t late_cycles, uint64_t reorder_cycles) {
    cluster->faults({loss, corrupt, duplicate, delay, cycles, late, reorder, late_cycles, reorder_cycles});
    return 0;
}

API int cluster_cut(Cluster* cluster, uint32_t rank, uint32_t port, uint64_t from, uint64_t to) {
    cluster->cut(rank, port, from, to);
    return 0;
}

// Registers and doorbells. Accesses are queued in order and made by cluster_settle or cluster_run.

API int cluster_write_register(Cluster* cluster, uint32_t rank, uint32_t offset, uint32_t value) {
    return guarded([&] {
        (*cluster)[rank].post_write(offset, value);
        return 0;
    });
}

API int cluster_read_register(Cluster* cluster, uint32_t rank, uint32_t offset) {
    return guarded([&] {
        (*cluster)[rank].post_read(offset);
        return 0;
    });
}

API int64_t cluster_take_value(Cluster* cluster, uint32_t rank) {
    return guarded([&]() -> int64_t {
        auto& values = (*cluster)[rank].values;
        if (values.empty()) throw std::runtime_error("No register was read.");
        const uint32_t value = values.front();
        values.pop_front();
        return value;
    });
}

// A store of `count` bytes within 16 is made `delay` cycles from now at the earliest, and after all earlier ones of the
// endpoint.
API int cluster_doorbell(Cluster* cluster, uint32_t rank, uint64_t delay, uint32_t address, const uint8_t* bytes,
                         uint32_t count) {
    return guarded([&] {
        const uint32_t lane = address % 16;
        if (!count || count > 16 - lane)
            throw std::runtime_error("A store to a doorbell must be within 16 bytes, not " + std::to_string(count)
                                     + " bytes at " + std::to_string(address) + ".");
        Store store{0, address, {{}}, static_cast<uint16_t>(((1u << count) - 1u) << lane)};
        std::memcpy(reinterpret_cast<uint8_t*>(store.words.data()) + lane, bytes, count);
        (*cluster)[rank].post_at(cluster->cycle + delay, std::move(store));
        return 0;
    });
}

// Run until all register accesses have a response: returns 1, or 0 if that takes more than `cycles`.
API int cluster_settle(Cluster* cluster, uint64_t cycles) {
    return guarded([&]() -> int {
        const bool done = cluster->run(cycles, [cluster] {
            for (size_t rank = 0; rank < cluster->size(); ++rank)
                if ((*cluster)[rank].accesses_waiting()) return false;
            return true;
        });
        for (size_t rank = 0; rank < cluster->size(); ++rank)
            if ((*cluster)[rank].refused_accesses)
                throw std::runtime_error("Endpoint " + std::to_string(rank) + " responded to a register access with an error.");
        return done;
    });
}

// Running. A watch is met when the lower half of its word is at least `count`, modulo 2^32, or when one of the bits
// `failed` is set. Returns the number of the endpoint's watch.

API int cluster_watch(Cluster* cluster, uint32_t rank, uint64_t address, uint32_t count, uint64_t failed) {
    return guarded([&] {
        Endpoint& endpoint = (*cluster)[rank];
        endpoint.watch(cluster->cycle, {address, failed, count, Endpoint::kNever, 0, 0, {}});
        return static_cast<int>(endpoint.watches.size()) - 1;
    });
}

// Copy `count` bytes of memory in the cycle in which a watch is met; must be called before that.
API int cluster_watch_bytes(Cluster* cluster, uint32_t rank, uint32_t number, uint64_t address, uint64_t count) {
    return guarded([&] {
        Watch& watch = (*cluster)[rank].watches.at(number);
        watch.begin = address;
        watch.length = count;
        return 0;
    });
}

// Store these bytes; returns their number.
API int64_t cluster_watched_bytes(Cluster* cluster, uint32_t rank, uint32_t number, uint8_t* bytes) {
    return guarded([&] {
        const Watch& watch = (*cluster)[rank].watches.at(number);
        std::memcpy(bytes, watch.kept.data(), watch.kept.size());
        return static_cast<int64_t>(watch.kept.size());
    });
}

API int cluster_clear_watches(Cluster* cluster) {
    for (size_t rank = 0; rank < cluster->size(); ++rank) (*cluster)[rank].watches.clear();
    return 0;
}

// Cycle in which the endpoint's watch was met, or all bits set.
API uint64_t cluster_watch_met(Cluster* cluster, uint32_t rank, uint32_t number) {
    return guarded([&] { return (*cluster)[rank].watches.at(number).met; });
}

// Cycle in which irq, still high, has risen; all bits set if irq is low.
API uint64_t cluster_interrupted(Cluster* cluster, uint32_t rank) {
    return guarded([&] { return (*cluster)[rank].interrupted; });
}

// The kernel of an endpoint, which replaces an earlier one; null ends it. See workgroups.h.
API int cluster_kernel(Cluster* cluster, uint32_t rank, const KernelParameters* kernel) {
    return guarded([&] {
        auto& workgroups = (*cluster)[rank].workgroups;
        if (workgroups && workgroups->storing())
            throw std::runtime_error("The kernel of endpoint " + std::to_string(rank) + " has stores in flight.");
        workgroups.reset(kernel ? new Workgroups<Endpoint::Memory>(cluster->cycle, *kernel) : nullptr);
        return 0;
    });
}

// Times of the kernel's tasks, slices, posts or waits, valid until it ends, and their count.
API int64_t cluster_kernel_times(Cluster* cluster, uint32_t rank, uint32_t which, const uint64_t** times) {
    return guarded([&] {
        const auto& kernel = (*cluster)[rank].workgroups;
        if (!kernel) throw std::runtime_error("Endpoint " + std::to_string(rank) + " has no kernel.");
        const std::vector<uint64_t>& found = kernel->times(static_cast<Times>(which));
        *times = found.data();
        return static_cast<int64_t>(found.size());
    });
}

// Run until all watches are met and all kernels are done, with `until_interrupt` until an irq is high, or for
// `cycles`: a Reason.
API int cluster_run(Cluster* cluster, uint64_t cycles, uint32_t until_interrupt) {
    return guarded([&]() -> int {
        int reason = kLimit;
        cluster->run(cycles, [&] {
            bool some = false, all = true;
            for (size_t rank = 0; rank < cluster->size(); ++rank) {
                const Endpoint& endpoint = (*cluster)[rank];
                if (until_interrupt && endpoint.interrupted != Endpoint::kNever) reason = kInterrupt;
                for (const Watch& watch : endpoint.watches) {
                    some = true;
                    all &= watch.met != Endpoint::kNever;
                }
                if (endpoint.workgroups) {
                    some = true;
                    all &= endpoint.workgroups->done();
                }
            }
            if (some && all) reason = kDone;
            return reason != kLimit;
        });
        for (size_t rank = 0; rank < cluster->size(); ++rank) {
            const Endpoint& endpoint = (*cluster)[rank];
            const std::string name = "Endpoint " + std::to_string(rank);
            if (endpoint.memory.illegal_accesses()) throw std::runtime_error(name + " used memory that it may not.");
            if (endpoint.lost_beats) throw std::runtime_error(name + " sent at a port without a neighbour.");
        }
        return reason;
    });
}

// Start an empty log of packets and bursts, or stop it.
API int cluster_log(Cluster* cluster, uint32_t on) {
    cluster->log(on);
    return 0;
}

// All rows as consecutive numbers, valid until the next call of either function, and their count; see Cluster.
API int64_t cluster_packets(const Cluster* cluster, const uint64_t** numbers) {
    rows = cluster->packets();
    *numbers = rows.data();
    return static_cast<int64_t>(rows.size());
}

API int64_t cluster_bursts(const Cluster* cluster, const uint64_t** numbers) {
    rows = cluster->bursts();
    *numbers = rows.data();
    return static_cast<int64_t>(rows.size());
}

// JSON, valid until the next call.
API const char* cluster_statistics(const Cluster* cluster) {
    statistics = cluster->statistics();
    return statistics.c_str();
}
