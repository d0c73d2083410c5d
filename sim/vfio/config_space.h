// SPDX-License-Identifier: Apache-2.0
// Configuration space of the card: 4 KiB, and which bits the host may write (PCI Express Base 7.5).
//
// Capabilities are where the hard block of UltraScale+ has them: power management 0x40, MSI-X 0x60, PCI Express 0x70.
// The extended capability at 0x100 is vendor-specific and exists in simulation only: cycles of the card's clock.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "device.h"

struct FunctionSizes {
    unsigned bar0_bits, bar2_bits, vectors;
    uint32_t msix_table, msix_pending;  // offsets in BAR 0
    unsigned link_lanes;
};

class ConfigSpace {
public:
    static constexpr unsigned kBytes = 4096;
    static constexpr uint16_t kVendor = 0x1234, kDevice = 0xD3AC;
    static constexpr unsigned kPower = 0x40, kMsix = 0x60, kExpress = 0x70, kCycles = 0x100;
    static constexpr uint16_t kCyclesId = 0xDACE;
    static constexpr uint16_t kFunctionReset = 1 << 15;  // in Device Control

    explicit ConfigSpace(const FunctionSizes& sizes) : sizes_(sizes) { reset(); }

    void reset() {
        bytes_.fill(0);
        mask_.fill(0);
        set16(0x00, kVendor);
        set16(0x02, kDevice);
        set16(0x04, 0, 0x0406);   // memory, bus master, INTx disable
        set16(0x06, 0x10);        // a list of capabilities
        set32(0x08, 0x12000001);  // processing accelerator, revision 1
        set32(0x10, 0, ~0u << sizes_.bar0_bits);
        set32(0x18, 0x0C, ~0u << sizes_.bar2_bits);  // 64 bits, prefetchable
        set32(0x1C, 0, ~0u);
        set16(0x2C, kVendor);
        set16(0x2E, 1);
        bytes_[0x34] = kPower;
        set16(0x3C, 0, 0xFF);
        set16(kPower, kMsix << 8 | 0x01);
        set16(kPower + 2, 3);                // version
        set16(kPower + 4, 0x0008, 0x0003);   // no reset from D3 to D0
        set16(kMsix, kExpress << 8 | 0x11);
        set16(kMsix + 2, static_cast<uint16_t>(sizes_.vectors - 1), 0xC000);
        set32(kMsix + 4, sizes_.msix_table);
        set32(kMsix + 8, sizes_.msix_pending);
        set16(kExpress, 0x10);
        set16(kExpress + 2, 2);              // endpoint, version 2
        // 512 bytes of payload, extended tags, role-based errors, function-level reset.
        set32(kExpress + 0x04, 2 | 1 << 5 | 1 << 15 | 1 << 28);
        set16(kExpress + 0x08, 0x2810, 0x7FFF);  // relaxed ordering, 512 bytes per read, no snoop
        set32(kExpress + 0x0C, 3 | sizes_.link_lanes << 4);
        set16(kExpress + 0x10, 0, 0x00C3);
        set16(kExpress + 0x12, static_cast<uint16_t>(3 | sizes_.link_lanes << 4));
        set32(kExpress + 0x2C, 0x0E);        // 2.5 to 8 GT/s
        set16(kExpress + 0x30, 3, 0x000F);
        set32(kCycles, 0x0001000B);          // vendor-specific, version 1, the last one
        set32(kCycles + 4, 0x10u << 20 | 1u << 16 | kCyclesId);
    }

    void read(unsigned offset, unsigned size, uint8_t* data) const { std::memcpy(data, &bytes_[offset], size); }

    // Returns whether the host has requested a function-level reset.
    bool write(unsigned offset, unsigned size, const uint8_t* data) {
        bool requested = false;
        for (unsigned index = 0; index < size; ++index) {
            const unsigned at = offset + index;
            if (at == kExpress + 9 && data[index] & kFunctionReset >> 8) requested = true;
            bytes_[at] = static_cast<uint8_t>((bytes_[at] & ~mask_[at]) | (data[index] & mask_[at]));
        }
        return requested;
    }

    // Value of the vendor-specific capability.
    void set_cycles(uint64_t cycles) {
        set32(kCycles + 8, static_cast<uint32_t>(cycles));
        set32(kCycles + 12, static_cast<uint32_t>(cycles >> 32));
    }

    Settings settings() const {
        const uint16_t command = get16(0x04), control = get16(kExpress + 8);
        Settings settings;
        settings.memory = command & 2;
        settings.master = command & 4;
        settings.extended_tags = control >> 8 & 1;
        settings.max_payload = 128u << std::min(control >> 5 & 7, 2);
        settings.max_read = 128u << std::min(control >> 12 & 7, 5);
        return settings;
    }

private:
    uint16_t get16(unsigned at) const { return static_cast<uint16_t>(bytes_[at] | bytes_[at + 1] << 8); }
    void set16(unsigned at, uint16_t value, uint16_t mask = 0) {
        for (unsigned index = 0; index < 2; ++index) {
            bytes_[at + index] = static_cast<uint8_t>(value >> 8 * index);
            mask_[at + index] = static_cast<uint8_t>(mask >> 8 * index);
        }
    }
    void set32(unsigned at, uint32_t value, uint32_t mask = 0) {
        set16(at, static_cast<uint16_t>(value), static_cast<uint16_t>(mask));
        set16(at + 2, static_cast<uint16_t>(value >> 16), static_cast<uint16_t>(mask >> 16));
    }

    FunctionSizes sizes_;
    std::array<uint8_t, kBytes> bytes_{}, mask_{};
};
