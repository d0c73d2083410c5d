// SPDX-License-Identifier: Apache-2.0
// RoCEv2 frames of the attacker: fields to bytes, independent of the RTL, and the positions that deliberate faults change.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kMask24 = 0xFFFFFF, kHalf24 = 0x800000;

enum Opcode : uint8_t {
    kSendFirst = 0x00, kSendOnlyImm = 0x05, kWriteFirst = 0x06, kWriteMiddle, kWriteLast, kWriteLastImm, kWriteOnly,
    kWriteOnlyImm, kReadRequest, kReadFirst, kReadMiddle, kReadLast, kReadOnly, kAcknowledge, kCnp = 0x81
};

constexpr uint8_t kAck = 0x1F, kRnr = 0x20, kNakSequence = 0x60;  // syndromes

inline bool has_reth(uint8_t opcode) {
    return opcode == kWriteFirst || opcode == kWriteOnly || opcode == kWriteOnlyImm || opcode == kReadRequest;
}
inline bool has_aeth(uint8_t opcode) {
    return opcode == kReadFirst || opcode == kReadLast || opcode == kReadOnly || opcode == kAcknowledge;
}
inline bool has_imm(uint8_t opcode) { return opcode == 3 || opcode == 5 || opcode == kWriteLastImm || opcode == kWriteOnlyImm; }
inline bool is_write(uint8_t opcode) { return opcode >= kWriteFirst && opcode <= kWriteOnlyImm; }
inline bool is_known(uint8_t opcode) { return opcode <= kAcknowledge || opcode == kCnp; }
inline bool is_response(uint8_t opcode) { return opcode >= kReadFirst && opcode <= kAcknowledge; }

// Distance from PSN `from` to `to`, with a sign.
inline int32_t distance(uint32_t from, uint32_t to) {
    const uint32_t forward = (to - from) & kMask24;
    return forward & kHalf24 ? static_cast<int32_t>(forward) - (1 << 24) : static_cast<int32_t>(forward);
}

struct Station {
    uint64_t mac = 0;  // byte 0 is the highest
    std::array<uint8_t, 4> ipv4{};
    std::array<uint8_t, 16> ipv6{};
};

struct Packet {
    Station from, to;
    bool ipv6 = false;
    int vlan = -1;  // IEEE 802.1Q tag
    uint8_t traffic_class = 0, hop_limit = 64;
    uint16_t udp_port = 0xC123, udp_checksum = 0, pkey = 0xFFFF;
    uint8_t opcode = 0, version = 0;
    bool ackreq = false, solicited = false;
    uint32_t qpn = 0, psn = 0;
    uint64_t va = 0;
    uint32_t rkey = 0, length = 0;  // of the RETH
    uint8_t syndrome = 0;
    uint32_t msn = 0, imm = 0;
    Bytes payload;
};

// A frame, and where its headers begin. `icrc` is behind the padding.
struct Encoded {
    Bytes bytes;
    size_t ip = 0, udp = 0, bth = 0, payload = 0, icrc = 0;
    bool ipv6 = false;
};

namespace bytes {

inline uint16_t get16(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }
inline uint32_t get24(const uint8_t* at) { return uint32_t{at[0]} << 16 | uint32_t{at[1]} << 8 | at[2]; }
inline uint32_t get32(const uint8_t* at) { return uint32_t{get16(at)} << 16 | get16(at + 2); }
inline uint64_t get64(const uint8_t* at) { return uint64_t{get32(at)} << 32 | get32(at + 4); }

inline void put(uint8_t* at, uint64_t value, unsigned count) {
    while (count--) *at++ = static_cast<uint8_t>(value >> 8 * count);
}
inline void add(Bytes& to, uint64_t value, unsigned count) {
    to.resize(to.size() + count);
    put(to.data() + to.size() - count, value, count);
}

}  // namespace bytes

// CRC-32 of IEEE 802.3, four bytes at a time.
class Crc {
public:
    static uint32_t of(uint32_t crc, const uint8_t* data, size_t count) {
        static const Crc tables;
        const auto& t = tables.rows_;
        for (; count >= 4; count -= 4, data += 4) {
            crc ^= uint32_t{data[0]} | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
            crc = t[3][crc & 255] ^ t[2][crc >> 8 & 255] ^ t[1][crc >> 16 & 255] ^ t[0][crc >> 24];
        }
        for (; count; --count) crc = crc >> 8 ^ t[0][(crc ^ *data++) & 255];
        return crc;
    }

private:
    Crc() {
        for (uint32_t byte = 0; byte < 256; ++byte) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
            rows_[0][byte] = value;
        }
        for (int row = 1; row < 4; ++row)
            for (int byte = 0; byte < 256; ++byte)
                rows_[row][byte] = rows_[row - 1][byte] >> 8 ^ rows_[0][rows_[row - 1][byte] & 255];
    }
    uint32_t rows_[4][256];
};

// ICRC of the bytes from the IP header to `end` (A17.3.3): fields that routers may change count as ones.
inline uint32_t icrc_of(const uint8_t* ip, size_t udp, size_t end, bool ipv6) {
    uint8_t head[80];
    const size_t covered = std::min(end, udp + 20);  // up to the BTH's end
    std::memcpy(head, ip, covered);
    if (ipv6) {
        head[0] |= 0x0F;
        head[1] = head[2] = head[3] = head[7] = 0xFF;
    } else {
        head[1] = head[8] = head[10] = head[11] = 0xFF;
    }
    head[udp + 6] = head[udp + 7] = head[udp + 12] = 0xFF;
    static const uint8_t kOnes[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    uint32_t crc = Crc::of(~0u, kOnes, 8);
    crc = Crc::of(crc, head, covered);
    return ~Crc::of(crc, ip + covered, end - covered);
}

inline uint16_t checksum(const uint8_t* header, size_t count) {
    uint32_t sum = 0;
    for (size_t at = 0; at < count; at += 2) sum += bytes::get16(header + at);
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

// Makes the checksum of IPv4 and the ICRC right for the bytes as they are.
inline void seal(Encoded& frame) {
    uint8_t* ip = frame.bytes.data() + frame.ip;
    if (!frame.ipv6) {
        bytes::put(ip + 10, 0, 2);
        bytes::put(ip + 10, checksum(ip, frame.udp - frame.ip), 2);
    }
    const uint32_t crc = icrc_of(ip, frame.udp - frame.ip, frame.icrc - frame.ip, frame.ipv6);
    for (unsigned at = 0; at < 4; ++at) frame.bytes[frame.icrc + at] = static_cast<uint8_t>(crc >> 8 * at);
}

inline void encode(const Packet& packet, Encoded& frame) {
    using bytes::add;
    Bytes& out = frame.bytes;
    out.clear();
    frame.ipv6 = packet.ipv6;
    add(out, packet.to.mac, 6);
    add(out, packet.from.mac, 6);
    if (packet.vlan >= 0) add(out, uint64_t{0x8100} << 16 | static_cast<uint16_t>(packet.vlan), 4);
    add(out, packet.ipv6 ? 0x86DD : 0x0800, 2);
    frame.ip = out.size();
    const size_t pad = -packet.payload.size() & 3;
    const size_t extension = packet.opcode == kCnp ? 16 : 16 * has_reth(packet.opcode) + 4 * has_aeth(packet.opcode) +
                                                              4 * has_imm(packet.opcode);
    const size_t udp_length = 8 + 12 + extension + packet.payload.size() + pad + 4;
    if (packet.ipv6) {
        add(out, uint64_t{6} << 28 | uint64_t{packet.traffic_class} << 20, 4);
        add(out, udp_length, 2);
        add(out, 17, 1);
        add(out, packet.hop_limit, 1);
        out.insert(out.end(), packet.from.ipv6.begin(), packet.from.ipv6.end());
        out.insert(out.end(), packet.to.ipv6.begin(), packet.to.ipv6.end());
    } else {
        add(out, 0x45, 1);
        add(out, packet.traffic_class, 1);
        add(out, 20 + udp_length, 2);
        add(out, 0, 2);       // identification
        add(out, 0x4000, 2);  // "do not fragment"
        add(out, packet.hop_limit, 1);
        add(out, 17, 1);
        add(out, 0, 2);
        out.insert(out.end(), packet.from.ipv4.begin(), packet.from.ipv4.end());
        out.insert(out.end(), packet.to.ipv4.begin(), packet.to.ipv4.end());
    }
    frame.udp = out.size();
    add(out, packet.udp_port, 2);
    add(out, 4791, 2);
    add(out, udp_length, 2);
    add(out, packet.udp_checksum, 2);
    frame.bth = out.size();
    add(out, packet.opcode, 1);
    add(out, uint64_t{packet.solicited} << 7 | 0x40 | pad << 4 | packet.version, 1);
    add(out, packet.pkey, 2);
    add(out, packet.qpn, 4);
    add(out, uint64_t{packet.ackreq} << 31 | packet.psn, 4);
    if (has_reth(packet.opcode)) {
        add(out, packet.va, 8);
        add(out, packet.rkey, 4);
        add(out, packet.length, 4);
    }
    if (has_aeth(packet.opcode)) add(out, uint64_t{packet.syndrome} << 24 | packet.msn, 4);
    if (has_imm(packet.opcode)) add(out, packet.imm, 4);
    if (packet.opcode == kCnp) out.resize(out.size() + 16);
    frame.payload = out.size();
    out.insert(out.end(), packet.payload.begin(), packet.payload.end());
    out.resize(out.size() + pad);
    frame.icrc = out.size();
    out.resize(out.size() + 4);
    seal(frame);
}

// A frame that the unit has sent: its fields, or the rule that it breaks.
inline const char* decode(const Bytes& frame, Packet& packet) {
    using namespace bytes;
    const uint8_t* at = frame.data();
    if (frame.size() < 58) return "a frame of the unit is too short";
    packet.to.mac = get64(at) >> 16;
    size_t ip = 14;
    unsigned type = get16(at + 12);
    packet.vlan = -1;
    if (type == 0x8100) {
        packet.vlan = get16(at + 14);
        type = get16(at + 16);
        ip = 18;
    }
    packet.ipv6 = type == 0x86DD;
    if (!packet.ipv6 && type != 0x0800) return "a frame of the unit is neither IPv4 nor IPv6";
    const size_t udp = ip + (packet.ipv6 ? 40 : 20);
    if (frame.size() < udp + 24) return "a frame of the unit ends in its headers";
    if (packet.ipv6) std::memcpy(packet.to.ipv6.data(), at + ip + 24, 16);
    else std::memcpy(packet.to.ipv4.data(), at + ip + 16, 4);
    const size_t length = packet.ipv6 ? get16(at + ip + 4) : get16(at + ip + 2) - 20u;
    if (!packet.ipv6 && (at[ip] != 0x45 || checksum(at + ip, 20))) return "the IPv4 header of a frame of the unit is wrong";
    if (get16(at + udp + 2) != 4791 || get16(at + udp + 4) != length) return "the UDP header of a frame of the unit is wrong";
    if (frame.size() != udp + length) return "the length of a frame of the unit is wrong";
    const size_t end = frame.size() - 4;
    const uint32_t crc = icrc_of(at + ip, udp - ip, end - ip, packet.ipv6);
    const uint32_t found = uint32_t{at[end]} | uint32_t{at[end + 1]} << 8 | uint32_t{at[end + 2]} << 16 | uint32_t{at[end + 3]} << 24;
    if (crc != found) return "the ICRC of a frame of the unit is wrong";
    const uint8_t* bth = at + udp + 8;
    packet.opcode = bth[0];
    if (!is_known(packet.opcode) || (bth[1] & 15) || get16(bth + 2) != 0xFFFF) return "the BTH of a frame of the unit is wrong";
    const unsigned pad = bth[1] >> 4 & 3;
    packet.qpn = get24(bth + 5);
    packet.ackreq = bth[8] >> 7;
    packet.psn = get24(bth + 9);
    const uint8_t* next = bth + 12;
    const uint8_t* last = at + end;
    if (last - next < (packet.opcode == kCnp ? 16 : 16 * has_reth(packet.opcode) + 4 * has_aeth(packet.opcode)) + int(pad))
        return "a frame of the unit ends in its extension headers";
    if (has_reth(packet.opcode)) {
        packet.va = get64(next);
        packet.rkey = get32(next + 8);
        packet.length = get32(next + 12);
        next += 16;
    }
    if (has_aeth(packet.opcode)) {
        packet.syndrome = next[0];
        packet.msn = get24(next + 1);
        next += 4;
    }
    if (has_imm(packet.opcode)) return "the unit sent immediate data";
    if (packet.opcode == kCnp) next += 16;
    packet.payload.assign(next, last - pad);
    return nullptr;
}
