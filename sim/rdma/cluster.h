// SPDX-License-Identifier: Apache-2.0
// RoCEv2 units at the first ports of a network, and software stations at the others.
#pragma once

#include "unit.h"

class Cluster {
public:
    uint64_t cycle = 0;

    // One unit for each memory.
    Cluster(std::unique_ptr<Network> network, const std::vector<Target>& memories, std::vector<MemoryOptions> options,
            uint64_t seed)
        : network_(std::move(network)) {
        context_.fatalOnError(false);
        if (memories.size() > network_->size())
            throw std::runtime_error("There are " + std::to_string(memories.size()) + " units for " +
                                     std::to_string(network_->size()) + " ports.");
        for (unsigned port = 0; port < memories.size(); ++port) {
            options[port].seed = seed * Network::kMostPorts + port;
            units_.push_back(std::make_unique<Unit>(&context_, *network_, port, memories[port], options[port]));
            units_.back()->traffic.stall = options[port].stall;
        }
    }

    // Call the functions of `observer`, which remains valid, from the next cycle on.
    void observe(const Observer* observer) {
        observer_ = observer;
        for (size_t number = 0; number < units_.size(); ++number) {
            units_[number]->streams.observer = observer;
            units_[number]->streams.unit = static_cast<uint32_t>(number);
        }
    }

    size_t size() const { return units_.size(); }
    Network& network() { return *network_; }
    Unit& operator[](size_t number) {
        if (number >= units_.size()) throw std::runtime_error("There is no unit " + std::to_string(number) + ".");
        return *units_[number];
    }

    // Runs for a number of cycles, or until `stop()`.
    template <class Stop>
    bool run(uint64_t cycles, Stop stop) {
        for (const uint64_t end = cycle + cycles; cycle < end;) {
            if (stop()) return true;
            network_->advance(cycle);
            if (observer_) observer_->step(observer_->context, cycle);
            for (const auto& unit : units_) unit->tick(cycle);
            ++cycle;
        }
        return stop();
    }

private:
    VerilatedContext context_;
    std::unique_ptr<Network> network_;
    const Observer* observer_ = nullptr;
    std::vector<std::unique_ptr<Unit>> units_;
};
