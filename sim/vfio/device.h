// SPDX-License-Identifier: Apache-2.0
// A PCI function and the host that it is in, as the vfio-user server and the in-process library see them.
#pragma once

#include <cstddef>
#include <cstdint>

// Memory and interrupts of the host, as the function reaches them. Addresses are I/O addresses.
class Host {
public:
    virtual ~Host() = default;
    // False, and nothing has been copied, if any byte may not be accessed. A read of no byte, as PCI Express has it, is
    // `may_read` of its address.
    virtual bool read(uint64_t address, size_t length, uint8_t* data) = 0;
    virtual bool write(uint64_t address, size_t length, const uint8_t* data) = 0;
    virtual bool may_read_nothing(uint64_t address) = 0;
    virtual void interrupt(unsigned vector) = 0;
};

// Settings of a function in its configuration space.
struct Settings {
    bool memory = false, master = false, extended_tags = false;
    unsigned max_payload = 128, max_read = 512;  // bytes
};

// Time of a simulated device. It is in cycles of its clock.
struct DeviceOptions {
    unsigned latency = 125;    // until memory responds
    unsigned settle = 70'000;  // cycles that pass after the last activity on the pins
    uint64_t seed = 1;
};

class Device {
public:
    virtual ~Device() = default;

    // Accesses to a BAR: up to 16 bytes, naturally aligned, within its size. A write is one request of the link; it may
    // arrive later, but before any later read.
    virtual uint64_t read(unsigned bar, uint64_t offset, unsigned size) = 0;
    virtual void write(unsigned bar, uint64_t offset, const uint8_t* data, unsigned size) = 0;

    virtual void configure(const Settings& settings) = 0;
    // Lets a vector send messages, or none of them.
    virtual void enable_vector(unsigned vector, bool enable) = 0;
    // Function-level reset, complete when it returns. Vectors stay enabled.
    virtual void reset() = 0;

    // Lets time pass while anything is in progress, and some cycles afterwards. False: nothing is.
    virtual bool run(unsigned cycles) = 0;
    // Cycles in which anything was in progress.
    virtual uint64_t cycles() const = 0;
};
