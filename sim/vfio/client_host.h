// SPDX-License-Identifier: Apache-2.0
// The host as a vfio-user client has described it: memory by file descriptors, interrupts by eventfds.
#pragma once

#include <map>
#include <unistd.h>

#include "device.h"
#include "memory_map.h"

class ClientHost : public Host {
public:
    MemoryMap memory;
    uint64_t interrupts = 0, refused_reads = 0, refused_writes = 0;

    ~ClientHost() override { clear(); }

    bool read(uint64_t address, size_t length, uint8_t* data) override {
        const bool done = memory.read(address, length, data);
        refused_reads += !done;
        return done;
    }
    bool write(uint64_t address, size_t length, const uint8_t* data) override {
        const bool done = memory.write(address, length, data);
        refused_writes += !done;
        return done;
    }
    bool may_read_nothing(uint64_t address) override { return memory.mapped(address); }

    void interrupt(unsigned vector) override {
        const auto found = events_.find(vector);
        if (found == events_.end()) return;
        ++interrupts;
        // A full counter of an eventfd must not block: it is readable already.
        const uint64_t one = 1;
        if (::write(found->second, &one, sizeof one) < 0) return;
    }

    // Takes a descriptor, or none with -1.
    void connect(unsigned vector, int event) {
        const auto found = events_.find(vector);
        if (found != events_.end()) {
            close(found->second);
            events_.erase(found);
        }
        if (event >= 0) events_[vector] = event;
    }

    void clear() {
        memory.clear();
        for (const auto& entry : events_) close(entry.second);
        events_.clear();
        interrupts = refused_reads = refused_writes = 0;
    }

private:
    std::map<unsigned, int> events_;
};
