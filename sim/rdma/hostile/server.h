// SPDX-License-Identifier: Apache-2.0
// The attacker's responses to requests of the attacked unit: right ones, or ones that break the rules.
//
// Each byte that the unit writes is compared with `pattern`, and READs return it.
#pragma once

#include "kinds.h"
#include "port.h"
#include "queue.h"

struct ServerCounts {
    uint64_t writes = 0, reads = 0, duplicates = 0, early = 0, bytes = 0;  // packets received
};

class Server {
public:
    ServerCounts counts;

    // `most`: bytes of payload that the unit's parser accepts.
    Server(Port& port, Queue& queue, const Station& from, const Station& to, KindCounts& kinds, uint32_t most)
        : port_(port), queue_(queue), from_(from), to_(to), kinds_(kinds), most_(most) {}

    void open() {
        expected_ = queue_.settings.response_psn;
        gap_ = false;
        silent_ = queue_.settings.role != kHonest && port_.random.chance(0.05);
        honesty_ = queue_.settings.role == kHonest || port_.random.chance(0.3) ? 1 : 0.3 + 0.1 * static_cast<double>(port_.random.below(7));
    }

    void request(const Packet& packet) {
        const int32_t at = distance(expected_, packet.psn);
        const bool read = packet.opcode == kReadRequest;
        if (!read && !is_write(packet.opcode)) {
            port_.findings.add("the unit sent a request with opcode %02x", packet.opcode);
            return;
        }
        ++(read ? counts.reads : counts.writes);
        if (has_reth(packet.opcode)) {
            va_ = packet.va;
            known_ = true;
        } else if (at != 0) {
            known_ = false;  // it may not follow the last one
        }
        if (!read && known_) compare(packet);
        va_ += packet.payload.size();
        counts.duplicates += at < 0;
        counts.early += at > 0;
        if (silent_) return count(kResponseLost);
        if (!port_.random.chance(honesty_)) return lie(packet);
        if (at > 0) {
            // The requester sends again from here on.
            if (!gap_) count(kHonestResponse), respond(kAcknowledge, expected_, kNakSequence, queue_.settings.selective ? expected_ ^ kHalf24 : messages_);
            gap_ = true;
            return;
        }
        if (at == 0) {
            gap_ = false;
            expected_ = (expected_ + 1) & kMask24;
            ++messages_;
        }
        if (read) return count(kHonestResponse), respond_read(packet, packet.length, kReadOnly);
        if (packet.ackreq || at < 0) count(kHonestResponse), respond(kAcknowledge, (expected_ - 1) & kMask24, kAck, messages_);
    }

    // A response that nothing has requested.
    void unsolicited(Kind kind) {
        Random& random = port_.random;
        const uint32_t near = (expected_ + static_cast<uint32_t>(random.below(24)) - 12) & kMask24;
        const uint32_t any = static_cast<uint32_t>(random.next()) & kMask24;
        // Behind all that the unit has sent, or far ahead.
        const uint32_t outside = (expected_ + (1u << 20) + static_cast<uint32_t>(random.below(14u << 20))) & kMask24;
        switch (kind) {
            case kAckNear: return count(kind), respond(kAcknowledge, near, kAck, any);
            case kAckAny: return count(kind), respond(kAcknowledge, any, static_cast<uint8_t>(random.below(32)), any);
            case kNakAny:
                return count(kind), respond(kAcknowledge, random.chance(0.5) ? near : any,
                                            static_cast<uint8_t>(kNakSequence | random.below(32)), any);
            case kRnrAny:
                return count(kind), respond(kAcknowledge, random.chance(0.5) ? near : any,
                                            static_cast<uint8_t>(kRnr | random.below(32)), any);
            case kSyndrome: return count(kind), respond(kAcknowledge, near, static_cast<uint8_t>(random.next()), any);
            case kReadAny: {
                Bytes payload;
                queue_.fill(payload, random.below(queue_.settings.mtu + 1), random);
                const auto opcode = static_cast<uint8_t>(kReadFirst + random.below(4));
                return count(kind), respond(opcode, random.chance(0.7) ? near : any, kAck, any, &payload);
            }
            default: return count(kAckOutside), respond(kAcknowledge, outside, static_cast<uint8_t>(random.next()), any);
        }
    }

private:
    void count(Kind kind) { ++kinds_[kind]; }

    void compare(const Packet& packet) {
        counts.bytes += packet.payload.size();
        for (size_t at = 0; at < packet.payload.size(); ++at) {
            if (packet.payload[at] == pattern(queue_.settings.index, va_ + at)) continue;
            port_.findings.add("the unit sent byte %02x for %llx of queue pair %u, not %02x", packet.payload[at],
                               Number{va_ + at}, queue_.settings.index, pattern(queue_.settings.index, va_ + at));
            return;
        }
    }

    void lie(const Packet& packet) {
        Random& random = port_.random;
        const uint32_t psn = random.chance(0.7) ? packet.psn : (packet.psn + static_cast<uint32_t>(random.below(9)) - 4) & kMask24;
        const auto any = static_cast<uint32_t>(random.next()) & kMask24;
        // From here on what the unit repeats is unknown.
        expected_ = (packet.psn + static_cast<uint32_t>(random.below(2))) & kMask24;
        if (packet.opcode == kReadRequest && random.chance(0.6)) {
            switch (random.below(6)) {
                case 0: return count(kReadLong), respond_read(packet, packet.length + 1 + static_cast<uint32_t>(random.below(64)), kReadOnly);
                case 1: return count(kReadShort), respond_read(packet, static_cast<uint32_t>(random.below(packet.length + 1)), kReadOnly);
                case 2: return count(kReadOpcode), respond_read(packet, packet.length, static_cast<uint8_t>(kReadFirst + random.below(3)));
                case 3: return count(kReadTwice), respond_read(packet, packet.length, kReadOnly), respond_read(packet, packet.length, kReadOnly);
                case 4: return count(kReadAcknowledged), respond(kAcknowledge, packet.psn, kAck, any);
                default: return count(kResponseLost);
            }
        }
        switch (random.below(7)) {
            case 0: return count(kResponseLost);
            case 1: return unsolicited(kAckNear);
            case 2: return count(kNakSent), respond(kAcknowledge, psn, static_cast<uint8_t>(kNakSequence | random.below(5)), any);
            case 3: return count(kRnrSent), respond(kAcknowledge, psn, static_cast<uint8_t>(kRnr | random.below(32)), any);
            case 4: return unsolicited(kSyndrome);
            case 5: return unsolicited(kReadAny);
            default: return count(kNakSelective), respond(kAcknowledge, psn, kNakSequence, (psn + static_cast<uint32_t>(random.below(20))) & kMask24);
        }
    }

    void respond(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t msn, const Bytes* payload = nullptr) {
        Packet packet;
        queue_.address(packet, from_, to_);
        packet.opcode = opcode;
        packet.psn = psn;
        packet.syndrome = syndrome;
        packet.msn = msn & kMask24;
        if (payload) packet.payload = *payload;
        encode(packet, frame_);
        port_.send(frame_, payload && payload->size() > most_ ? kRefused : kPacket);
    }

    void respond_read(const Packet& packet, uint32_t length, uint8_t opcode) {
        Bytes payload(length);
        for (size_t at = 0; at < length; ++at) payload[at] = pattern(queue_.settings.index, packet.va + at);
        respond(opcode, packet.psn, kAck, messages_, &payload);
    }

    Port& port_;
    Queue& queue_;
    const Station &from_, &to_;
    KindCounts& kinds_;
    uint32_t most_;
    Encoded frame_;
    uint32_t expected_ = 0, messages_ = 0;
    bool gap_ = false, known_ = false, silent_ = false;
    double honesty_ = 1;  // probability of a right response
    uint64_t va_ = 0;
};
