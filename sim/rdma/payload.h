// SPDX-License-Identifier: Apache-2.0
// The packed payload of a stream, and its fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

struct Field {
    unsigned lsb, width;
};

template <size_t kBits>
class Payload {
public:
    void clear() { std::memset(bytes_, 0, sizeof bytes_); }

    // From and to a port, which is an integer, or an array of 32-bit words; both are little endian.
    template <class Port>
    void load(const Port& port) {
        static_assert(sizeof port <= kSize);
        std::memcpy(bytes_, &port, sizeof port);
    }
    template <class Port>
    void store(Port& port) const {
        static_assert(sizeof port <= kSize);
        std::memcpy(&port, bytes_, sizeof port);
    }

    // A field of up to 64 bits.
    uint64_t get(Field field) const {
        const uint64_t value = word(field.lsb / 8, field.lsb % 8);
        return field.width < 64 ? value & ((uint64_t{1} << field.width) - 1) : value;
    }

    // Fields that are set must have been 0.
    void put(Field field, uint64_t value) {
        if (field.width < 64) value &= (uint64_t{1} << field.width) - 1;
        add(field.lsb / 8, field.lsb % 8, value);
    }

    // A field of whole bytes.
    void get_bytes(Field field, uint8_t* to) const {
        const unsigned base = field.lsb / 8, shift = field.lsb % 8, count = field.width / 8;
        unsigned at = 0;
        for (; at + 8 <= count; at += 8) {
            const uint64_t value = word(base + at, shift);
            std::memcpy(to + at, &value, 8);
        }
        if (at < count) {
            const uint64_t value = word(base + at, shift);
            std::memcpy(to + at, &value, count - at);
        }
    }

    void put_bytes(Field field, const uint8_t* from) {
        const unsigned base = field.lsb / 8, shift = field.lsb % 8, count = field.width / 8;
        unsigned at = 0;
        for (; at + 8 <= count; at += 8) {
            uint64_t value;
            std::memcpy(&value, from + at, 8);
            add(base + at, shift, value);
        }
        if (at < count) {
            uint64_t value = 0;
            std::memcpy(&value, from + at, count - at);
            add(base + at, shift, value);
        }
    }

private:
    static constexpr size_t kSize = (kBits + 31) / 32 * 4 + 4;

    uint64_t word(unsigned byte, unsigned shift) const {
        uint64_t low;
        std::memcpy(&low, bytes_ + byte, 8);
        return shift ? low >> shift | uint64_t{bytes_[byte + 8]} << (64 - shift) : low;
    }

    void add(unsigned byte, unsigned shift, uint64_t value) {
        uint64_t low;
        std::memcpy(&low, bytes_ + byte, 8);
        low |= value << shift;
        std::memcpy(bytes_ + byte, &low, 8);
        if (shift) bytes_[byte + 8] |= static_cast<uint8_t>(value >> (64 - shift));
    }

    uint8_t bytes_[kSize + 16] = {};
};
