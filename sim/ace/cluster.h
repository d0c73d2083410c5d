// SPDX-License-Identifier: Apache-2.0
// N endpoints on a torus.
//
// A packet arrives after the latency of its link at the earliest. Each endpoint therefore simulates that number of
// cycles in sequence, during which its state stays in the cache.
#pragma once

#include <numeric>
#include <stdexcept>
#include <string>

#include "endpoint.h"
#include "workers.h"

constexpr unsigned kDimensions = 3;  // a dimension without ports has one rank

struct Shape {
    std::array<unsigned, kDimensions> sizes;

    unsigned ranks() const { return sizes[0] * sizes[1] * sizes[2]; }

    // The last dimension's coordinate varies fastest.
    unsigned stride(unsigned dimension) const {
        unsigned product = 1;
        for (unsigned later = dimension + 1; later < kDimensions; ++later) product *= sizes[later];
        return product;
    }

    // The neighbour at a port: 2 * d leads to the next higher coordinate, 2 * d + 1 to the next lower.
    unsigned neighbour(unsigned rank, unsigned port) const {
        const unsigned dimension = port / 2, size = sizes[dimension], step = stride(dimension);
        const unsigned here = rank / step % size, there = (here + (port % 2 ? size - 1 : 1)) % size;
        return rank + there * step - here * step;
    }
};

class Cluster {
public:
    static constexpr uint64_t kLongest = 64;  // maximum of consecutive cycles of an endpoint

    uint64_t cycle = 0;

    // `links` by dimension, `memories` and `options` by endpoint.
    Cluster(const Shape& shape, const std::array<LinkOptions, kDimensions>& links, const std::vector<Target>& memories,
            std::vector<MemoryOptions> options, uint64_t seed, unsigned threads)
        : shape_(shape), threads_(threads), workers_(threads, [this, threads](unsigned part) { work(part, threads); }) {
        const unsigned ranks = shape.ranks();
        context_.fatalOnError(false);
        Verilated::threadContextp(&context_);
        context_.randReset(2);  // without effect where the design has its initial values
        for (unsigned rank = 0; rank < ranks; ++rank) {
            context_.randSeed(static_cast<int>((seed * ranks + rank) % INT32_MAX) + 1);
            options[rank].seed = seed * ranks + rank;
            endpoints_.push_back(std::make_unique<Endpoint>(&context_, memories[rank], options[rank]));
        }
        for (unsigned rank = 0; rank < ranks; ++rank)
            for (unsigned port = 0; port < kPorts; ++port) {
                const LinkOptions& link = links[port / 2];
                if (shape.sizes[port / 2] < 2) continue;
                made_.push_back({rank, port, std::make_unique<EndpointLink>(
                    link, kFormat, (seed * ranks + rank) * kPorts + port)});
                EndpointLink* made = made_.back().link.get();
                endpoints_[rank]->out[port] = made;
                endpoints_[shape.neighbour(rank, port)]->in[port ^ 1] = made;
                quantum_ = std::min<uint64_t>(quantum_, link.latency);
            }
    }

#ifdef ACE_ETHERNET_BYTES
    // Connects the endpoints to the first ports of a network, once. Cycles are simulated in sequence up to the latency of
    // its segments; one thread does so.
    void connect(std::unique_ptr<Network> network) {
        if (network_ || threads_ != 1 || network->size() < size())
            throw std::runtime_error("A cluster is connected to one network, with a port for each endpoint, and has 1 thread.");
        network_ = std::move(network);
        for (unsigned rank = 0; rank < size(); ++rank) {
            endpoints_[rank]->mac = std::make_unique<MacPort<ACE_ETHERNET_BYTES>>(*network_, rank);
            for (Segment* segment : {&network_->up(rank), &network_->down(rank)})
                quantum_ = std::min<uint64_t>(quantum_, segment->options().latency);
        }
    }
    Network* network() { return network_.get(); }
#endif

    size_t size() const { return endpoints_.size(); }
    Endpoint& operator[](size_t rank) { return *endpoints_.at(rank); }

    // Runs for `cycles`, or until `done()`, which is polled between steps.
    template <class Done>
    bool run(uint64_t cycles, Done done) {
        const uint64_t end = cycle + cycles;
        while (!done()) {
            if (cycle == end) return false;
            until_ = std::min(end, cycle + quantum_);
#ifdef ACE_ETHERNET_BYTES
            if (network_) network_->advance(cycle);
#endif
            workers_.run();
            for (const Made& made : made_) made.link->carry();
#ifdef ACE_ETHERNET_BYTES
            for (const auto& endpoint : endpoints_)
                if (endpoint->mac && endpoint->mac->illegal_beats)
                    throw std::runtime_error("An endpoint sent a frame with an illegal tkeep.");
#endif
            if (context_.gotError())
                throw std::runtime_error("An assertion of the hardware failed; its message is on standard output.");
            cycle = until_;
        }
        return true;
    }

    // Starts or stops the log of packets and bursts; a start clears it.
    void log(bool on) {
        for (const Made& made : made_)
            for (PacketLog* log : {&made.link->left, &made.link->come}) {
                if (on) log->packets.clear();
                log->on = on;
            }
        for (const auto& endpoint : endpoints_) {
            if (on) endpoint->bursts.clear();
            endpoint->logged_from = on ? cycle : Endpoint::kNever;
        }
    }

    // Rows of rank, port, direction (1: received, 0: sent), first and last cycle, header.
    std::vector<uint64_t> packets() const {
        std::vector<uint64_t> rows;
        const auto add = [&rows](uint64_t rank, uint64_t port, bool came, const PacketLog& log) {
            for (const PacketLog::Packet& packet : log.packets)
                rows.insert(rows.end(), {rank, port, came, packet.begin, packet.end, packet.header});
        };
        for (const Made& made : made_) {
            add(made.rank, made.port, false, made.link->left);
            add(shape_.neighbour(made.rank, made.port), made.port ^ 1, true, made.link->come);
        }
        return rows;
    }

    // Rows of rank, kind (1: write, 0: read), first and last cycle, address, beats.
    std::vector<uint64_t> bursts() const {
        std::vector<uint64_t> rows;
        for (uint64_t rank = 0; rank < endpoints_.size(); ++rank)
            for (const Burst& burst : endpoints_[rank]->bursts)
                rows.insert(rows.end(), {rank, burst.write, burst.begin, burst.end, burst.address, burst.beats});
        return rows;
    }

    // Sets the faults of all links.
    void faults(const FaultRates& rates) {
        for (const Made& made : made_) made.link->faults.set(rates);
    }

    // Cuts both directions of the link at a port from cycle `from` until before `to`.
    void cut(unsigned rank, unsigned port, uint64_t from, uint64_t to) {
        const unsigned other = shape_.neighbour(rank, port);
        for (const Made& made : made_)
            if ((made.rank == rank && made.port == port) || (made.rank == other && made.port == (port ^ 1)))
                made.link->faults.cut(from, to);
    }

    std::string statistics() const {
        std::string text = "{\"cycle\": " + std::to_string(cycle) + ", \"memories\": [";
        const char* comma = "";
        for (const auto& endpoint : endpoints_) {
            const MemoryCounts& counts = endpoint->memory.counts();
            text += comma + object({{"read_bursts", counts.read_bursts}, {"read_beats", counts.read_beats},
                                    {"write_bursts", counts.write_bursts}, {"write_beats", counts.write_beats},
                                    {"write_bytes", counts.write_bytes}, {"read_stalls", endpoint->read_stalls},
                                    {"write_stalls", endpoint->write_stalls}}) + "}";
            comma = ", ";
        }
        text += "], \"links\": [";
        comma = "";
        for (const Made& made : made_) {
            const LinkCounts& counts = made.link->counts;
            const FaultCounts& faults = made.link->faults.counts;
            text += comma + object({{"rank", made.rank}, {"port", made.port},
                                    {"to", shape_.neighbour(made.rank, made.port)}, {"credits", counts.packets[0]},
                                    {"data", counts.packets[1]}, {"grants", counts.packets[2]},
                                    {"others", std::accumulate(counts.packets.begin() + 3, counts.packets.end(), uint64_t{0})}, {"header_bytes", counts.header_bytes},
                                    {"payload_bytes", counts.payload_bytes}, {"waited", counts.waited},
                                    {"held", counts.held}, {"lost", faults.lost}, {"corrupted", faults.corrupted},
                                    {"duplicated", faults.duplicated}, {"delayed", faults.delayed},
                                    {"late", faults.late}, {"reordered", faults.reordered}, {"cut", faults.cut}}) + ", \"busy\": " + std::to_string(counts.busy) + "}";
            comma = ", ";
        }
        return text + "]}";
    }

private:
    struct Made {
        unsigned rank, port;
        std::unique_ptr<EndpointLink> link;
    };

    static std::string object(const std::vector<std::pair<const char*, uint64_t>>& members) {
        std::string text = "{";
        for (const auto& [name, value] : members)
            text += (text.size() > 1 ? ", \"" : "\"") + std::string(name) + "\": " + std::to_string(value);
        return text;
    }

    void work(unsigned part, unsigned parts) {
        Verilated::threadContextp(&context_);
        for (size_t rank = part; rank < endpoints_.size(); rank += parts) endpoints_[rank]->run(cycle, until_);
    }

    Shape shape_;
    unsigned threads_;
    VerilatedContext context_;
#ifdef ACE_ETHERNET_BYTES
    std::unique_ptr<Network> network_;
#endif
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
    std::vector<Made> made_;
    uint64_t quantum_ = kLongest, until_ = 0;
    Workers workers_;
};
