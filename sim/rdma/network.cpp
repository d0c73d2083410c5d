// SPDX-License-Identifier: Apache-2.0
// A network without RTL, as a library of C functions: software stations, and a generator and sink of traffic.

#include "network_api.h"

namespace {

// Sends copies of one frame from `start` on, `interval` cycles apart at least, as fast as the segment accepts them.
struct Flow {
    unsigned port;
    std::vector<uint8_t> frame;
    uint64_t start, interval, remaining;
};

struct Bench {
    std::unique_ptr<Network> network;
    std::vector<Flow> flows;
    std::array<bool, Network::kMostPorts> sinks{};
    uint64_t cycle = 0;

    void step() {
        network->advance(cycle);
        for (Flow& flow : flows) {
            while (flow.remaining && flow.start <= cycle && network->ready(flow.port, cycle)) {
                network->send(flow.port, cycle, flow.frame.data(), flow.frame.size());
                --flow.remaining;
                flow.start = std::max(flow.start + flow.interval, flow.interval ? uint64_t{0} : cycle);
            }
        }
        for (unsigned port = 0; port < network->size(); ++port)
            while (sinks[port] && network->receive(port, cycle)) network->release(port, cycle);
        ++cycle;
    }
};

}  // namespace

API Bench* bench_create(const SwitchParameters* parameters, const SegmentParameters* segments) {
    try {
        auto bench = std::make_unique<Bench>();
        bench->network = make_network(*parameters, segments);
        return bench.release();
    } catch (const std::exception& wrong) {
        error = wrong.what();
        return nullptr;
    }
}

API void bench_destroy(Bench* bench) { delete bench; }

API Network* bench_network(Bench* bench) { return bench->network.get(); }

API uint64_t bench_cycle(const Bench* bench) { return bench->cycle; }

API int bench_flow(Bench* bench, uint32_t port, const uint8_t* bytes, uint64_t count, uint64_t interval, uint64_t frames) {
    return guarded([&] {
        bench->network->require(port);
        bench->flows.push_back({port, {bytes, bytes + count}, bench->cycle, interval, frames});
        return 0;
    });
}

// The station takes, counts and drops each frame.
API int bench_sink(Bench* bench, uint32_t port) {
    return guarded([&] {
        bench->network->require(port);
        bench->sinks[port] = true;
        return 0;
    });
}

API int bench_run(Bench* bench, uint64_t cycles) {
    return guarded([&] {
        for (uint64_t step = 0; step < cycles; ++step) bench->step();
        return 0;
    });
}
