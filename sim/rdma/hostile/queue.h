// SPDX-License-Identifier: Apache-2.0
// The attacker's end of a queue pair of the attacked unit.
#pragma once

#include "memory.h"
#include "packet.h"

// Peer of a queue pair: another unit; the attacker, which keeps all rules; the attacker, which keeps none.
enum Role : uint32_t { kGood, kHonest, kHostile };

// A queue pair as software has opened it. The layout is that of `_Queue` in attacker.py.
struct QueueSettings {
    uint32_t index, role, qpn, peer_qpn, request_psn, response_psn, mtu, selective, ipv6, remote_write, remote_read,
        max_reads, rnr_us;
    int32_t vlan;
    uint64_t ring, records;  // address, and number; 0 for none
};

// One of two regions of its domain, as software has defined it. The layout is that of `_Region` in attacker.py.
struct RegionSettings {
    uint32_t index, which, rkey, readable, writable, valid;
    uint64_t va, length, address;
};

// Byte at `va` of the attacker's memory.
inline uint8_t pattern(uint32_t qp, uint64_t va) {
    return static_cast<uint8_t>(qp << 4 | (va * 2654435761u >> 13 & 15));
}

struct Queue {
    QueueSettings settings{};
    RegionSettings regions[2]{};
    bool open = false, probing = false, was_open = false;
    bool failed = false;            // a NAK of it has failed the unit's queue pair
    bool gapped = false;            // a later PSN was sent, or is missed: `next` may be behind the expected PSN
    bool forbidden = false;         // a request was sent that must not be executed, with this PSN
    uint32_t forbidden_psn = 0, forbidden_kind = 0;
    uint64_t opened = 0, probed = 0, asked = 0;  // cycles
    uint32_t next = 0;              // PSN of the next request
    // The message in progress.
    bool inside = false;
    uint64_t va = 0;
    uint32_t remaining = 0;
    Bytes probe;

    // A packet of this connection to the unit.
    void address(Packet& packet, const Station& from, const Station& to) const {
        packet.from = from;
        packet.to = to;
        packet.ipv6 = settings.ipv6 != 0;
        packet.vlan = settings.vlan;
        packet.qpn = settings.qpn;
    }

    void fill(Bytes& payload, size_t count, Random& random) const {
        payload.resize(count);
        uint64_t bits = 0;
        for (size_t at = 0; at < count; ++at) {
            if (at % 16 == 0) bits = random.next();
            payload[at] = static_cast<uint8_t>(settings.index << 4 | (bits & 15));
            bits >>= 4;
        }
    }
};
