// SPDX-License-Identifier: Apache-2.0
// Fields of descriptors and sidebands in arrays of 32-bit words, the lowest bits first; and the ports of Verilator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

// A field of up to 64 bits; its positions are in the generated card.h.
struct Field {
    unsigned offset, width;
};

constexpr uint64_t mask_of(unsigned width) { return width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1; }

inline uint64_t get(const uint32_t* words, Field field) {
    uint64_t value = 0;
    unsigned taken = 0;
    while (taken < field.width) {
        const unsigned bit = field.offset + taken;
        value |= static_cast<uint64_t>(words[bit / 32] >> bit % 32) << taken;
        taken += 32 - bit % 32;
    }
    return value & mask_of(field.width);
}

// The words must be 0 there.
inline void put(uint32_t* words, Field field, uint64_t value) {
    value &= mask_of(field.width);
    unsigned given = 0;
    while (given < field.width) {
        const unsigned bit = field.offset + given;
        words[bit / 32] |= static_cast<uint32_t>(value >> given << bit % 32);
        given += 32 - bit % 32;
    }
}

// Ports of up to 64 bits are integers, wider ones arrays of 32-bit words, both little endian here.
template <class Port>
void set_port(Port& port, const uint32_t* words) {
    std::memcpy(&port, words, sizeof(Port));
}

template <class Port>
void get_port(const Port& port, uint32_t* words) {
    std::memcpy(words, &port, sizeof(Port));
}

inline std::string hex(uint64_t value) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    do {
        text.insert(text.begin(), digits[value & 15]);
        value >>= 4;
    } while (value);
    return "0x" + text;
}

// A rule of PCI Express or of PG213 was broken, or a result is wrong; the sentence names which.
class Violation : public std::runtime_error {
    using runtime_error::runtime_error;
};

inline void need(bool condition, const std::string& title, const char* rule) {
    if (!condition) throw Violation(title + ": " + rule + ".");
}
