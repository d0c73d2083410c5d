// SPDX-License-Identifier: Apache-2.0
// The Verilated card as a transport of libdmace: a card alone, or those of a cluster, each a device of its own.

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>

#include "card_cluster.h"
#include "dmace_transport.h"
#include "options.h"

namespace {

thread_local std::string sentence;

// A card that is open: a rank of a cluster, which ends with its last user.
class Simulator {
public:
    Simulator(std::shared_ptr<CardCluster> cluster, unsigned rank) : cluster_(std::move(cluster)), rank_(rank) {}
    ~Simulator() { cluster_->detach(rank_); }

    // Runs `body` between two cycles.
    template <class Body>
    int call(Body body) {
        return cluster_->call(rank_, std::move(body), sentence);
    }

    const Settings& settings() const { return cluster_->settings(); }

private:
    std::shared_ptr<CardCluster> cluster_;
    unsigned rank_;
};

Simulator& of(void* context) { return *static_cast<Simulator*>(context); }

int refuse(int error, const std::string& text) {
    sentence = text;
    return -error;
}

int read_register(void* context, uint32_t offset, uint32_t* value) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        if (offset % 4 || offset >= 1u << kBar0Bits)
            return refuse(EINVAL, "There is no register at " + hex(offset) + ".");
        *value = static_cast<uint32_t>(card.read(0, offset, 4));
        return 0;
    });
}

int write_register(void* context, uint32_t offset, uint32_t value) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        if (offset % 4 || offset >= 1u << kBar0Bits)
            return refuse(EINVAL, "There is no register at " + hex(offset) + ".");
        card.write(0, offset, reinterpret_cast<const uint8_t*>(&value), 4);
        return 0;
    });
}

int store(void* context, uint64_t offset, const void* data, size_t size) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        if ((size != 4 && size != 8 && size != 16) || offset % size || offset >= uint64_t{1} << kDoorbellBits)
            return refuse(EINVAL, "A store must have 4, 8 or 16 bytes at a multiple of its size, not " +
                                      std::to_string(size) + " at " + hex(offset) + ".");
        card.write(2, offset, static_cast<const uint8_t*>(data), static_cast<unsigned>(size));
        return 0;
    });
}

int map(void* context, void* address, size_t length, uint32_t rights, uint64_t* io_address) {
    return of(context).call([&](SimulatedDevice&, ProcessHost& host) {
        if (reinterpret_cast<uintptr_t>(address) % ProcessHost::kPage || length % ProcessHost::kPage || !length)
            return refuse(EINVAL, "Memory must be mapped in pages of 4096 bytes.");
        *io_address =
            host.map(static_cast<uint8_t*>(address), length, rights & DMACE_MAP_READ, rights & DMACE_MAP_WRITE);
        return 0;
    });
}

int unmap(void* context, uint64_t io_address, size_t length) {
    return of(context).call([&](SimulatedDevice&, ProcessHost& host) {
        return host.unmap(io_address, length) ? 0 : refuse(ENOENT, "There is no mapping at " + hex(io_address) + ".");
    });
}

int interrupt(void* context, uint32_t vector, int eventfd) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost& host) {
        if (vector >= SimulatedDevice::kVectors)
            return refuse(EINVAL, "The card has " + std::to_string(SimulatedDevice::kVectors) +
                                      " vectors, none numbered " + std::to_string(vector) + ".");
        host.connect(vector, eventfd);
        card.enable_vector(vector, eventfd >= 0);
        return 0;
    });
}

int reset(void* context) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        card.reset();
        card.configure(of(context).settings());
        return 0;
    });
}

int cycles(void* context, uint64_t* count) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        *count = card.cycles();
        return 0;
    });
}

const char* error(void*) { return sentence.c_str(); }

void close_simulator(void* context) { delete static_cast<Simulator*>(context); }

dmace_transport table() {
    dmace_transport table{};
    table.version = DMACE_TRANSPORT_VERSION;
    table.name = "sim";
    table.read = read_register;
    table.write = write_register;
    table.store = store;
    table.map = map;
    table.unmap = unmap;
    table.vectors = SimulatedDevice::kVectors;
    table.interrupt = interrupt;
    table.reset = reset;
    table.cycles = cycles;
    table.error = error;
    table.close = close_simulator;
    return table;
}

// Clusters by name, while any of their cards is open.
std::unique_ptr<Simulator> open_rank(const TransportOptions& options) {
    if (options.cluster.empty()) {
        auto alone = std::make_shared<CardCluster>(options.made);
        alone->attach(0);
        return std::make_unique<Simulator>(std::move(alone), 0);
    }
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<CardCluster>> clusters;
    std::lock_guard<std::mutex> lock(mutex);
    for (auto entry = clusters.begin(); entry != clusters.end();)
        entry = entry->second.expired() ? clusters.erase(entry) : std::next(entry);
    std::shared_ptr<CardCluster> cluster = clusters[options.cluster].lock();
    if (!cluster) clusters[options.cluster] = cluster = std::make_shared<CardCluster>(options.made);
    if (!(cluster->options().shape == options.made.shape))
        throw WrongOption("The cluster " + options.cluster + " has another shape.");
    if (!cluster->attach(options.rank))
        throw WrongOption("Rank " + std::to_string(options.rank) + " of the cluster " + options.cluster +
                          " is open already.");
    return std::make_unique<Simulator>(std::move(cluster), options.rank);
}

}  // namespace

// The argument: "", the latency of memory, or options with commas between them, see sim/vfio/options.h.
extern "C" __attribute__((visibility("default"))) int dmace_transport_open(const char* argument,
                                                                           const dmace_transport** transport,
                                                                           void** context, char* text, size_t size) {
    static const dmace_transport functions = table();
    try {
        *context = open_rank(parse_options(argument)).release();
        *transport = &functions;
        return 0;
    } catch (const WrongOption& wrong) {
        std::snprintf(text, size, "%s", wrong.what());
        return -EINVAL;
    } catch (const std::exception& wrong) {
        std::snprintf(text, size, "%s", wrong.what());
        return -EIO;
    }
}
