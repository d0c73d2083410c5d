// SPDX-License-Identifier: Apache-2.0
// The rules of a request on RQ (PCI Express Base 2.2.2, 2.2.5, 2.2.6.2, 2.2.7), and its decoding. They are those of
// sim/pcie/requests.py.
#pragma once

#include "card.h"
#include "streams.h"
#include "tlp.h"

// Limits of the configuration space.
struct Limits {
    unsigned max_payload = 512, max_read = 512, tags = 256;
    bool bus_master = true;
};

inline Tlp decode_request(const Packet& packet) {
    const uint32_t* words = packet.words.data();
    const uint64_t kind = get(words, request::request_type);
    need(kind <= 1, "RQ", "the adapter sends memory reads and writes only");
    Tlp tlp;
    tlp.kind = kind ? Kind::kWrite : Kind::kRead;
    tlp.address = get(words, request::address) << 2;
    tlp.dwords = static_cast<unsigned>(get(words, request::dwords));
    tlp.tag = static_cast<uint8_t>(get(words, request::tag));
    tlp.attributes = static_cast<uint8_t>(get(words, request::attributes));
    tlp.first_be = packet.first_be;
    tlp.last_be = packet.last_be;
    tlp.data.assign(packet.words.begin() + kRequestDwords, packet.words.end());
    return tlp;
}

inline void check_byte_enables(const Tlp& tlp, const std::string& title) {
    const unsigned first = tlp.first_be, last = tlp.last_be;
    if (tlp.dwords == 1) {
        need(!last, title, "the last byte enables must be 0 with a length of 1 DW (2.2.5)");
        return;
    }
    need(first && last, title, "the first and last byte enables must not be 0 with a length above 1 DW (2.2.5)");
    if (tlp.dwords == 2 && tlp.address % 8 == 0) return;
    const bool leading = first == 0xF || first == 0xE || first == 0xC || first == 0x8;
    const bool trailing = last == 0xF || last == 0x7 || last == 0x3 || last == 0x1;
    need(leading && trailing, title,
         "byte enables must be contiguous with 3 DW or more, and with 2 DW across a QW boundary (2.2.5)");
}

inline void check_reserved(const Packet& packet, const std::string& title) {
    for (const Field field : kRequestZeros)
        need(!get(packet.words.data(), field), title,
             "the fields for other functions, poisoning, traffic class and ECRC must be 0 in the adapter's requests");
}

// All rules that a request on RQ obeys by itself.
inline void check_request(const Packet& packet, const Tlp& tlp, const Limits& limits) {
    const std::string title = "RQ, " + tlp.title();
    const bool write = tlp.kind == Kind::kWrite;
    need(tlp.dwords >= 1 && tlp.dwords <= 1024, title, "the length must be from 1 to 1024 DW");
    need(tlp.data.size() == (write ? tlp.dwords : 0), title, "the payload must be as long as the header says");
    need(!write || 4 * tlp.dwords <= limits.max_payload, title,
         "a payload must not exceed the maximum payload size (2.2.2)");
    need(write || 4 * tlp.dwords <= limits.max_read, title,
         "a read must not exceed the maximum read request size (2.2.7)");
    need(tlp.address % 4096 + 4 * tlp.dwords <= 4096, title, "a request must not cross a 4 KiB boundary (2.2.7)");
    need(limits.bus_master, title, "no request may be sent while bus mastering is disabled (7.5.1.1.3)");
    need(write || tlp.tag < limits.tags, title, "the tag must be below the number of tags in use (2.2.6.2)");
    check_byte_enables(tlp, title);
    check_reserved(packet, title);
}
