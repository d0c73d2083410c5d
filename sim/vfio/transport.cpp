// SPDX-License-Identifier: Apache-2.0
// The Verilated card as a transport of libdmace: time passes in a thread of its own, while the card has work.

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "dmace_transport.h"
#include "process_host.h"
#include "simulated.h"

namespace {

thread_local std::string sentence;

class Simulator {
public:
    explicit Simulator(const DeviceOptions& options) : card_(host_, options) {
        settings_.memory = settings_.master = settings_.extended_tags = true;
        settings_.max_payload = 512;
        card_.configure(settings_);
        clock_ = std::thread([this] { run(); });
    }

    ~Simulator() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            ended_ = true;
        }
        wake_.notify_all();
        clock_.join();
    }

    // Runs `body` between two cycles.
    template <class Body>
    int call(Body body) {
        ++callers_;
        std::unique_lock<std::mutex> lock(mutex_);
        --callers_;
        int result = -EIO;
        if (!broken_.empty()) {
            sentence = broken_;
            return result;
        }
        try {
            result = body(card_, host_);
        } catch (const std::exception& error) {
            sentence = broken_ = error.what();
        }
        asleep_ = false;
        lock.unlock();
        wake_.notify_all();
        return result;
    }

    const Settings& settings() const { return settings_; }

private:
    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!ended_) {
            if (broken_.empty() && !asleep_) {
                try {
                    asleep_ = !card_.run(kTurn);
                } catch (const std::exception& error) {
                    broken_ = error.what();
                }
            } else {
                wake_.wait(lock);
            }
            if (callers_) {
                lock.unlock();
                while (callers_) std::this_thread::yield();
                lock.lock();
            }
        }
    }

    static constexpr unsigned kTurn = 64;

    ProcessHost host_;
    SimulatedDevice card_;
    Settings settings_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<unsigned> callers_{0};
    std::thread clock_;
    std::string broken_;
    bool ended_ = false, asleep_ = false;
};

Simulator& of(void* context) { return *static_cast<Simulator*>(context); }

int refuse(int error, const std::string& text) {
    sentence = text;
    return -error;
}

int read_register(void* context, uint32_t offset, uint32_t* value) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        if (offset % 4 || offset >= 1u << kBar0Bits) return refuse(EINVAL, "There is no register at " + hex(offset) + ".");
        *value = static_cast<uint32_t>(card.read(0, offset, 4));
        return 0;
    });
}

int write_register(void* context, uint32_t offset, uint32_t value) {
    return of(context).call([&](SimulatedDevice& card, ProcessHost&) {
        if (offset % 4 || offset >= 1u << kBar0Bits) return refuse(EINVAL, "There is no register at " + hex(offset) + ".");
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
        *io_address = host.map(static_cast<uint8_t*>(address), length, rights & DMACE_MAP_READ, rights & DMACE_MAP_WRITE);
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
            return refuse(EINVAL, "The card has " + std::to_string(SimulatedDevice::kVectors) + " vectors, none numbered " +
                                      std::to_string(vector) + ".");
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

}  // namespace

// The argument: cycles until memory responds to a read, 125 if it is empty.
extern "C" __attribute__((visibility("default"))) int dmace_transport_open(const char* argument,
                                                                           const dmace_transport** transport,
                                                                           void** context, char* text, size_t size) {
    static const dmace_transport functions = table();
    try {
        DeviceOptions options;
        if (*argument) {
            char* end = nullptr;
            options.latency = static_cast<unsigned>(std::strtoul(argument, &end, 10));
            if (*end || options.latency > 100'000) {
                std::snprintf(text, size, "The latency of memory must be a number of cycles up to 100000, not '%s'.",
                              argument);
                return -EINVAL;
            }
        }
        *context = new Simulator(options);
        *transport = &functions;
        return 0;
    } catch (const std::exception& wrong) {
        std::snprintf(text, size, "%s", wrong.what());
        return -EIO;
    }
}
