// SPDX-License-Identifier: Apache-2.0
// Requests of a hostile queue pair: valid ones, ones with another PSN, and ones for which the queue pair must fail.
#pragma once

#include "kinds.h"
#include "port.h"
#include "queue.h"

class Requests {
public:
    Requests(Port& port, KindCounts& kinds, const std::vector<Queue>& queues, const Station& from, const Station& to,
             uint32_t most, uint32_t regions)
        : port_(port), kinds_(kinds), queues_(queues), from_(from), to_(to), most_(most), table_(regions) {}

    // A WRITE Only of some bytes that would be executed now.
    void base(const Queue& queue, Packet& packet) {
        queue.address(packet, from_, to_);
        packet.opcode = kWriteOnly;
        packet.psn = queue.next;
        packet.ackreq = port_.random.chance(0.2);
        aim(queue, packet, 1 + static_cast<uint32_t>(port_.random.below(port_.random.chance(0.9) ? 64 : queue.settings.mtu)), false);
        queue.fill(packet.payload, packet.length, port_.random);
    }

    // The first request after an opening, which must be executed.
    void probe(Queue& queue) {
        Packet packet;
        base(queue, packet);
        packet.psn = queue.settings.request_psn;
        packet.ackreq = true;
        if (!queue.settings.remote_write) {
            packet.payload.clear();
            packet.length = 0;
        } else {
            packet.va = queue.regions[0].va;
            packet.rkey = queue.regions[0].rkey;
            if (queue.probe.empty()) queue.fill(queue.probe, 1 + port_.random.below(64), port_.random);
            packet.payload = queue.probe;
            packet.length = static_cast<uint32_t>(queue.probe.size());
        }
        send(kProbe, packet);
    }

    void valid(Queue& queue) {
        Random& random = port_.random;
        Packet packet;
        base(queue, packet);
        Kind kind = kValid;
        if (queue.inside) {
            const uint32_t mtu = queue.settings.mtu, count = std::min(mtu, queue.remaining);
            const bool last = count == queue.remaining;
            packet.opcode = last ? (queue.settings.records && random.chance(0.2) ? kWriteLastImm : kWriteLast) : kWriteMiddle;
            queue.fill(packet.payload, count, random);
            queue.remaining -= count;
            queue.inside = !last;
        } else if (random.chance(0.08)) {
            packet.opcode = kWriteFirst;
            const uint32_t mtu = queue.settings.mtu;
            aim(queue, packet, mtu + 1 + static_cast<uint32_t>(random.below(3 * mtu)), false);
            if (packet.length > mtu) {
                queue.fill(packet.payload, mtu, random);
                queue.inside = true;
                queue.remaining = packet.length - mtu;
            } else {
                packet.opcode = kWriteOnly;
                queue.fill(packet.payload, packet.length, random);
            }
        } else if (random.chance(0.15)) {
            kind = kValidRead;
            packet.opcode = kReadRequest;
            aim(queue, packet, static_cast<uint32_t>(random.below(queue.settings.selective || random.chance(0.7) ? queue.settings.mtu + 1 : 4 * queue.settings.mtu)), true);
            packet.payload.clear();
        } else if (random.chance(0.05)) {
            kind = kValidEmpty;
            packet.payload.clear();
            packet.length = 0;
        } else if (random.chance(0.05)) {
            kind = kTail;
        } else if (queue.settings.records && random.chance(0.2)) {
            kind = kValidImmediate;
            packet.opcode = kWriteOnlyImm;
            packet.imm = static_cast<uint32_t>(random.next());
        }
        packet.udp_checksum = static_cast<uint16_t>(random.chance(0.1) ? random.next() : 0);
        packet.hop_limit = static_cast<uint8_t>(random.next());
        packet.traffic_class = static_cast<uint8_t>(random.chance(0.02) ? 3 : 2);
        const uint32_t mtu = queue.settings.mtu;
        const uint32_t steps = packet.opcode == kReadRequest ? std::max(1u, (packet.length + mtu - 1) / mtu) : 1;
        queue.next = (queue.next + steps) & kMask24;
        send(kind, packet);
    }

    void wrong_psn(Queue& queue, Kind kind) {
        Random& random = port_.random;
        Packet packet;
        base(queue, packet);
        if (random.chance(0.3)) {
            packet.opcode = kReadRequest;
            packet.payload.clear();
        }
        const auto any = static_cast<uint32_t>(random.next());
        const uint32_t shift = kind == kPsnBehind ? -(1 + any % 40) : kind == kPsnNear ? 1 + any % 40
                               : kind == kPsnFar ? 40 + any % 0x700000 : kHalf24 - 4 + any % 8;
        packet.psn = (queue.next + shift) & kMask24;
        queue.gapped |= kind != kPsnBehind;
        send(kind, packet);
    }

    // It reaches dispatch, which must drop it.
    void dropped(const Queue& queue, Kind kind, Packet packet) {
        Random& random = port_.random;
        if (kind == kForeign) {
            packet.from.ipv4[random.below(4)] ^= static_cast<uint8_t>(1u << random.below(8));
            packet.from.ipv6[random.below(16)] ^= static_cast<uint8_t>(1u << random.below(8));
        } else if (kind == kOtherVersion) {
            packet.ipv6 = !packet.ipv6;
        } else {
            packet.qpn = queue.settings.qpn ^ 1u << (22 + random.below(2));  // not that of a later connection
        }
        send(kind, packet);
    }

    // The expected PSN, with a fault for which the queue pair fails.
    void wrong(Queue& queue, Kind kind) {
        Random& random = port_.random;
        Packet packet;
        base(queue, packet);
        const RegionSettings& region = queue.regions[0];
        const uint32_t mtu = queue.settings.mtu;
        const bool read = random.chance(0.3);
        switch (kind) {
            case kSend: packet.opcode = static_cast<uint8_t>(kSendFirst + random.below(6)); break;
            case kSequence:
                packet.opcode = static_cast<uint8_t>(queue.inside ? (random.chance(0.5) ? kWriteOnly : kWriteFirst)
                                                                  : (random.chance(0.5) ? kWriteMiddle : kWriteLast));
                break;
            case kKey: packet.rkey ^= 1u << random.below(8); break;
            case kKeyIndex: packet.rkey = (packet.rkey & 255) | (table_ << random.below(12)) << 8 | (region.rkey & ~255u); break;
            case kKeyDomain: {
                // A region of another queue pair.
                const Queue& owner = queues_[(queue.settings.index + 1 + random.below(queues_.size() - 1)) % queues_.size()];
                const RegionSettings& other = owner.regions[random.below(2)];
                packet.rkey = other.rkey;
                packet.va = other.va + random.below(64);
                break;
            }
            case kBelow:
                packet.rkey = region.rkey;
                packet.va = region.va - 1 - random.below(random.chance(0.5) ? 64 : uint64_t{1} << 60); break;
            case kBeyond:
                packet.rkey = region.rkey;
                if (random.chance(0.3)) {
                    // Its lower 48 bits are in the region.
                    packet.va = region.va + random.below(64) + ((1 + random.below(0xFFFF)) << 48);
                    break;
                }
                packet.va = region.va + region.length - packet.length + 1 + random.below(random.chance(0.5) ? 64 : uint64_t{1} << 50); break;
            case kWrap:
                packet.rkey = region.rkey;
                packet.length = 2 + static_cast<uint32_t>(random.below(63));
                queue.fill(packet.payload, packet.length, random);
                packet.va = -(1 + random.below(packet.length - 1));
                break;
            case kNoRight: {
                const RegionSettings& other = queue.regions[1];
                packet.rkey = other.rkey;
                packet.va = other.va;
                break;
            }
            case kHuge: packet.length = random.chance(0.5) ? 0x80000001u : ~0u; break;
            case kLength: packet.length ^= 1u << random.below(12); break;
            case kShort:
                packet.opcode = kWriteFirst;
                aim(queue, packet, 3 * mtu, false);
                queue.fill(packet.payload, random.below(mtu), random);
                break;
            case kOverMtu:
                aim(queue, packet, mtu + 1 + static_cast<uint32_t>(random.below(mtu)), false);
                queue.fill(packet.payload, packet.length, random);
                break;
            case kLastEmpty:
                packet.opcode = kWriteLast;
                packet.payload.clear();
                break;
            default: break;
        }
        if (read && (kind == kKey || kind == kKeyIndex || kind == kKeyDomain || kind == kBelow || kind == kBeyond || kind == kWrap ||
                     kind == kNoRight || kind == kHuge)) {
            packet.opcode = kReadRequest;
            packet.payload.clear();
            if (kind == kWrap) packet.length = static_cast<uint32_t>(-packet.va) + 1 + static_cast<uint32_t>(random.below(64));
        } else if (random.chance(0.2) && (kind == kBeyond || kind == kBelow)) {
            // Its first packet would be in the region, or a later one.
            packet.opcode = kWriteFirst;
            queue.fill(packet.payload, mtu, random);
            packet.length = static_cast<uint32_t>(region.length + 1 + random.below(region.length));
            if (packet.length <= mtu) packet.length = mtu + 1;
            if (kind == kBeyond) packet.va = region.va;
        }
        if (kind == kReadFlood) {
            for (uint32_t number = 0; number < queue.settings.max_reads + 3; ++number) {
                packet.opcode = kReadRequest;
                packet.payload.clear();
                aim(queue, packet, mtu, true);
                packet.psn = queue.next;
                queue.next = (queue.next + 1) & kMask24;
                send(kind, packet);
            }
            return;
        }
        encode(packet, frame_);
        if (kind == kPadding) {
            uint8_t& flags = frame_.bytes[frame_.bth + 1];
            flags ^= static_cast<uint8_t>((1 + random.below(3)) << 4);
            seal(frame_);
        }
        ++kinds_[kind];
        port_.send(frame_, packet.payload.size() > most_ ? kRefused : kPacket);
        queue.inside = false;
        // The region may have the right, and the unit may be in another state than is known here.
        if (kind == kNoRight || kind == kSequence) {
            queue.gapped = true;
            if (random.chance(0.5)) queue.next = (queue.next + 1) & kMask24;
            return;
        }
        if (!queue.forbidden && !queue.settings.selective) {
            queue.forbidden = true;
            queue.forbidden_psn = packet.psn;
            queue.forbidden_kind = kind;
        }
        queue.next = (queue.next + 1) & kMask24;
    }

    void congestion(const Queue& queue) {
        Packet packet;
        queue.address(packet, from_, to_);
        packet.opcode = kCnp;
        send(kCongestion, packet);
    }

    void send(Kind kind, const Packet& packet) {
        encode(packet, frame_);
        if (kind == kTail) frame_.bytes.resize(frame_.bytes.size() + 1 + port_.random.below(60), 0xA5);
        ++kinds_[kind];
        port_.send(frame_, kPacket, kind != kProbe);
    }

private:
    // A range in one of the queue pair's regions.
    void aim(const Queue& queue, Packet& packet, uint32_t length, bool read) {
        const RegionSettings& second = queue.regions[1];
        const bool other = second.valid && (read ? second.readable : second.writable) && port_.random.chance(0.4);
        const RegionSettings& region = queue.regions[other];
        length = static_cast<uint32_t>(std::min<uint64_t>(length, region.length));
        packet.rkey = region.rkey;
        packet.length = length;
        const uint64_t free = region.length - length;
        packet.va = region.va + (port_.random.chance(0.1) ? free : port_.random.chance(0.1) ? 0 : port_.random.below(free + 1));
    }

    Port& port_;
    KindCounts& kinds_;
    const std::vector<Queue>& queues_;
    const Station &from_, &to_;
    uint32_t most_, table_;
    Encoded frame_;
};
