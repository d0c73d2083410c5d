// SPDX-License-Identifier: Apache-2.0
// The server with a device without hardware, for fuzzing: registers are memory, a store of 16 bytes to BAR 2 moves 64
// bytes from the address in its lower half to the one in its upper half. The latest store is in the registers from
// kStored on.

#include "program.h"

class StubDevice : public Device {
public:
    static constexpr unsigned kBar0Bits = 16, kBar2Bits = 14, kVectors = 8, kStored = 0x7FE0;

    explicit StubDevice(Host& host) : host_(host) {}

    uint64_t read(unsigned bar, uint64_t offset, unsigned size) override {
        uint64_t value = 0;
        if (bar == 0) std::memcpy(&value, &bytes_.at(offset), size);
        return value;
    }
    void write(unsigned bar, uint64_t offset, const uint8_t* data, unsigned size) override {
        if (bar == 0) {
            std::memcpy(&bytes_.at(offset + size - 1) - (size - 1), data, size);
            return;
        }
        std::memset(&bytes_[kStored], 0, 16);
        std::memcpy(&bytes_[kStored], data, size);
        if (size == 16) {
            uint64_t addresses[2];
            uint8_t moved[64];
            std::memcpy(addresses, data, 16);
            if (master_ && host_.read(addresses[0], sizeof moved, moved))
                host_.write(addresses[1], sizeof moved, moved);
            host_.interrupt(data[0] % kVectors);
        }
    }
    void configure(const Settings& settings) override { master_ = settings.master; }
    void enable_vector(unsigned vector, bool enable) override { enabled_.at(vector) = enable; }
    void reset() override { bytes_.fill(0); }
    bool run(unsigned) override { return false; }
    uint64_t cycles() const override { return 0; }

private:
    Host& host_;
    std::array<uint8_t, 1 << kBar0Bits> bytes_{};
    std::array<bool, kVectors> enabled_{};
    bool master_ = false;
};

int main(int count, char** words) {
    return run_program(count, words, {}, [](const ProgramOptions& options) {
        ClientHost host;
        StubDevice device(host);
        return serve(options, host, device,
                     {StubDevice::kBar0Bits, StubDevice::kBar2Bits, StubDevice::kVectors, 0x8000, 0x9000, 4});
    });
}
