// SPDX-License-Identifier: Apache-2.0
// One fault in a frame that is right otherwise, for which the parser must refuse it or pass it on as other traffic.
#pragma once

#include "kinds.h"
#include "port.h"

class Faults {
public:
    Faults(Port& port, KindCounts& kinds, uint32_t most) : port_(port), kinds_(kinds), most_(most) {}

    // A frame of this kind, made of `packet`. What it contains would be executed without the fault.
    void send(Kind kind, Packet packet) {
        using bytes::get16, bytes::put;
        Random& random = port_.random;
        Fate fate = kRefused;
        switch (kind) {
            case kIpOptions: case kFragment: case kIpChecksum: packet.ipv6 = false; break;
            case kExtensionHeader: packet.ipv6 = true; break;
            case kVersion: packet.version = static_cast<uint8_t>(1 + random.below(15)); break;
            case kPkey: packet.pkey = static_cast<uint16_t>(random.chance(0.5) ? 0x7FFF ^ 1u << random.below(15) : 0xFFFF ^ 1u << random.below(15)); break;
            case kTooLong: packet.payload.resize(most_ + 1 + random.below(300), packet.payload.empty() ? 0 : packet.payload[0]); break;
            case kJumbo: packet.payload.resize(9000 - 86, packet.payload.empty() ? 0 : packet.payload[0]); break;
            case kPadOnly: packet.payload.clear(); break;
            default: break;
        }
        if (kind == kBareWithPayload) {
            packet.opcode = random.chance(0.5) ? kReadRequest : kAcknowledge;
            packet.payload.resize(4 * (1 + random.below(8)), 0);
        }
        encode(packet, frame_);
        Bytes& out = frame_.bytes;
        uint8_t *ip = out.data() + frame_.ip, *udp = out.data() + frame_.udp, *bth = out.data() + frame_.bth;
        bool tight = true;  // checksum and ICRC are made right again
        switch (kind) {
            case kBadIcrc:
                out[frame_.icrc + random.below(4)] ^= static_cast<uint8_t>(1 + random.below(255));
                tight = false;
                break;
            case kFlippedBit: {
                // The ICRC covers all of these bytes but one.
                const size_t at = random.chance(0.5) ? 5 + random.below(frame_.payload - frame_.bth - 5) : random.below(out.size() - frame_.bth);
                if (at == 4) bth[5] ^= 1;
                else bth[at] ^= static_cast<uint8_t>(1u << random.below(8));
                tight = false;
                break;
            }
            case kTruncated: {
                const size_t count = 14 + random.below(out.size() - 14);
                out.resize(count);
                fate = count >= frame_.udp + 8 ? kRefused : kOther;
                tight = false;
                break;
            }
            case kIpOptions: {
                const size_t words = 1 + random.below(10);
                ip[0] = static_cast<uint8_t>(0x45 + words);
                put(ip + 2, get16(ip + 2) + 4 * words, 2);
                out.insert(out.begin() + static_cast<std::ptrdiff_t>(frame_.udp), 4 * words, 1);
                frame_.udp += 4 * words;
                frame_.icrc += 4 * words;
                fate = kOther;
                break;
            }
            case kFragment:
                put(ip + 6, random.chance(0.5) ? 0x2000 : 1 + random.below(0x1FFF), 2);
                fate = kOther;
                break;
            case kIpChecksum:
                ip[10 + random.below(2)] ^= static_cast<uint8_t>(1 + random.below(254));
                tight = false;
                break;
            case kIpLength: {
                uint8_t* length = frame_.ipv6 ? ip + 4 : ip + 2;
                const int change = random.chance(0.5) ? -4 : 4;
                put(length, get16(length) + change * static_cast<int>(1 + random.below(3)), 2);
                break;
            }
            case kUdpLength:
                put(udp + 4, get16(udp + 4) ^ 1u << random.below(16), 2);
                break;
            case kBothLengths: {
                // The packet ends earlier: its ICRC is not there, and its payload is short.
                uint8_t* length = frame_.ipv6 ? ip + 4 : ip + 2;
                const unsigned less = 4 * (1 + static_cast<unsigned>(random.below(3)));
                put(length, get16(length) - less, 2);
                put(udp + 4, get16(udp + 4) - less, 2);
                if (!frame_.ipv6) {
                    put(ip + 10, 0, 2);
                    put(ip + 10, checksum(ip, 20), 2);
                }
                tight = false;
                break;
            }
            case kUdpPort:
                put(udp + 2, 4791 ^ 1u << random.below(16), 2);
                fate = kOther;
                break;
            case kIpDestination:
                (frame_.ipv6 ? ip[24 + random.below(16)] : ip[16 + random.below(4)]) ^= static_cast<uint8_t>(1u << random.below(8));
                fate = kOther;
                break;
            case kMacDestination:
                // An address that the switch does not know, or a group address: it floods both.
                if (random.chance(0.3)) put(out.data(), 0xFFFFFFFFFFFF, 6);
                else out[3] = static_cast<uint8_t>(1 + random.below(255));
                fate = kOther;
                break;
            case kExtensionHeader: {
                ip[6] = static_cast<uint8_t>(random.chance(0.5) ? 0 : 60);
                uint8_t options[8] = {17, 0, 1, 4, 0, 0, 0, 0};
                out.insert(out.begin() + static_cast<std::ptrdiff_t>(frame_.udp), options, options + 8);
                put(out.data() + frame_.ip + 4, get16(out.data() + frame_.ip + 4) + 8u, 2);
                fate = kOther;
                tight = false;
                break;
            }
            case kTwoTags: {
                const uint8_t tags[8] = {0x81, 0x00, 0, 5, 0x81, 0x00, 0, 6};
                const size_t more = packet.vlan >= 0 ? 4 : 8;
                out.insert(out.begin() + 12, tags, tags + more);
                frame_.ip += more;
                frame_.udp += more;
                frame_.icrc += more;
                fate = kOther;
                break;
            }
            case kReservedOpcode:
                do bth[0] = static_cast<uint8_t>(random.next());
                while (is_known(bth[0]));
                break;
            case kPadOnly:
                bth[1] = static_cast<uint8_t>((bth[1] & 0xCF) | (1 + random.below(3)) << 4);
                break;
            case kRandomBytes:
                for (size_t at = 6; at < out.size(); ++at) out[at] = static_cast<uint8_t>(random.next() >> 24);
                put(out.data() + 6, 0x020000000003, 6);  // the switch learns sources
                out[12] |= 0x40;
                out[13] |= 1;  // neither IP nor a tag
                fate = kOther;
                tight = false;
                break;
            case kOtherTraffic: {
                static const uint16_t kTypes[] = {0x0806, 0x88B5, 0x0800, 0x86DD};
                put(out.data() + 12, kTypes[random.below(4)], 2);
                out.resize(std::max<size_t>(14 + random.below(1500), 24));
                if (out.size() > 23) out[23] = 6;  // TCP
                if (out.size() > 20) out[20] = 6;
                fate = kOther;
                tight = false;
                break;
            }
            default: break;
        }
        if (tight) seal(frame_);
        ++kinds_[kind];
        port_.send(frame_, fate, kind != kRandomBytes && kind != kOtherTraffic);
    }

private:
    Port& port_;
    KindCounts& kinds_;
    uint32_t most_;
    Encoded frame_;
};
