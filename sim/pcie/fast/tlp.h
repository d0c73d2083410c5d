// SPDX-License-Identifier: Apache-2.0
// Transaction-layer packets as they cross links: memory requests and completions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bits.h"

enum class Kind : uint8_t { kRead, kWrite, kCompletion };

enum Status : uint8_t { kSuccessful = 0, kUnsupportedRequest = 1, kCompleterAbort = 4 };

struct Tlp {
    Kind kind = Kind::kRead;
    uint64_t address = 0;  // of the first double word
    unsigned dwords = 0;   // length
    uint8_t first_be = 0, last_be = 0, tag = 0, attributes = 0;
    uint16_t requester = 0, completer = 0;
    // Fields of a completion: bytes that remain, this one included; lower 7 bits of its first byte's address.
    unsigned byte_count = 0, lower_address = 0;
    uint8_t status = kSuccessful;
    bool poisoned = false;
    uint64_t serial = 0;  // of a read of the card, and of its completions; the card does not see it
    std::vector<uint32_t> data;

    bool has_data() const { return kind == Kind::kWrite || (kind == Kind::kCompletion && dwords); }

    // Bytes on a link: header, payload, and 8 bytes for framing, sequence number and LCRC.
    unsigned wire_bytes() const {
        const unsigned header = kind != Kind::kCompletion && address >> 32 ? 16 : 12;
        return header + 8 + (has_data() ? 4 * dwords : 0);
    }

    std::string title() const {
        if (kind == Kind::kCompletion)
            return "completion with tag " + std::to_string(tag) + ", status " + std::to_string(status) + ", " +
                   std::to_string(dwords) + " DW, byte count " + std::to_string(byte_count);
        std::string text = kind == Kind::kRead ? "memory read of " : "memory write of ";
        text += std::to_string(dwords) + " DW at " + hex(address) + ", byte enables " + hex(first_be) + " and " +
                hex(last_be);
        return kind == Kind::kRead ? text + ", tag " + std::to_string(tag) : text;
    }
};

// Offset of the first enabled byte of a request, and bytes up to the last one; 0 and 1 if none is enabled.
inline std::pair<unsigned, unsigned> enabled_bytes(const Tlp& request) {
    if (!request.first_be) return {0, 1};
    const unsigned first = static_cast<unsigned>(__builtin_ctz(request.first_be));
    const uint8_t last_be = request.dwords > 1 ? request.last_be : request.first_be;
    const unsigned top = 31u - static_cast<unsigned>(__builtin_clz(last_be | 0u));
    return {first, 4 * (request.dwords - 1) + top + 1 - first};
}

inline uint8_t enables_of(const Tlp& request, unsigned dword) {
    return dword == 0 ? request.first_be : dword + 1 == request.dwords ? request.last_be : 0xF;
}

// A memory write of `length` bytes, of which the first is at `data`.
inline Tlp memory_write(uint64_t address, const uint8_t* data, unsigned length) {
    Tlp tlp;
    tlp.kind = Kind::kWrite;
    tlp.address = address & ~uint64_t{3};
    const unsigned offset = address & 3;
    tlp.dwords = (offset + length + 3) / 4;
    tlp.data.resize(tlp.dwords);
    std::memcpy(reinterpret_cast<uint8_t*>(tlp.data.data()) + offset, data, length);
    const unsigned beyond = (4 - (offset + length)) & 3;
    tlp.first_be = 0xF << offset & 0xF;
    tlp.last_be = 0xF >> beyond;
    if (tlp.dwords == 1) {
        tlp.first_be &= tlp.last_be;
        tlp.last_be = 0;
    }
    return tlp;
}
