// SPDX-License-Identifier: Apache-2.0
// Valid requests of an honest queue pair: WRITEs, then READs of what they wrote, all compared with a copy of the region.
//
// Frames may be lost, duplicated or late. What has no acknowledgement is repeated from the oldest packet on (go-back-N).
#pragma once

#include "port.h"
#include "queue.h"

struct ClientCounts {
    uint64_t writes = 0, reads = 0, immediates = 0, batches = 0, bytes = 0, repeats = 0, rnrs = 0;  // packets; go-backs
};

class Client {
public:
    ClientCounts counts;
    uint64_t records = 0;  // that are compared, since the opening

    Client(Port& port, Queue& queue, const Station& from, const Station& to, uint32_t window, uint64_t patience)
        : port_(port), queue_(queue), from_(from), to_(to), window_(window), patience_(patience) {}

    // The queue pair was opened; its first region contains `content`.
    void open() {
        packets_.clear();
        sent_ = acked_ = 0;
        reading_ = true;
        records = 0;
        expected_.clear();
        hold_ = 0;
        progress_ = port_.cycle;
        port_.load(queue_.regions[0].address, copy_, queue_.regions[0].length);
        cursor_ = 0;
    }

    bool idle() const { return acked_ == packets_.size(); }
    uint32_t oldest() const { return packets_.empty() ? queue_.next : packets_[std::min(acked_, packets_.size() - 1)].psn; }

    // Sends the next packet; false if there is none. `stopped`: do not begin new batches.
    bool step(bool stopped) {
        if (idle()) {
            finish();
            if (stopped) return false;
            begin();
        }
        if (sent_ == packets_.size() || port_.cycle < hold_) return false;
        const Outgoing& one = packets_[sent_++];
        sent_most_ = std::max(sent_most_, sent_);
        if (port_.random.chance(0.01)) return false;  // lost
        send(one, one.payload);
        return true;
    }

    // A packet that the unit has already executed, with other payload; false if there is none.
    bool altered() {
        if (acked_ == 0 || acked_ > packets_.size()) return false;
        const Outgoing& one = packets_[port_.random.below(acked_)];
        if (one.opcode == kReadRequest) return false;
        Bytes other;
        queue_.fill(other, one.payload.size(), port_.random);
        send(one, other);
        return true;
    }

    // A frame with the fields of the next request, for a fault in it.
    bool next(Packet& packet) {
        if (acked_ >= packets_.size()) return false;
        const Outgoing& one = packets_[acked_];
        fields(one, packet);
        packet.psn = one.psn;
        queue_.fill(packet.payload, one.payload.size(), port_.random);
        return true;
    }

    void response(const Packet& packet) {
        if (packet.opcode != kAcknowledge) return read_response(packet);
        if (idle() || distance(packets_[acked_].psn, packet.psn) < -1 || distance(packet.psn, queue_.next) <= 0) return;
        const int32_t at = distance(first_, packet.psn);
        if (packet.syndrome <= kAck) return acknowledged(at + 1);
        if (packet.syndrome >> 5 == 1 || packet.syndrome == kNakSequence) {
            acknowledged(at);
            if (packet.syndrome != kNakSequence) {
                ++counts.rnrs;
                hold_ = port_.cycle + queue_.settings.rnr_us * 250;
            }
            if (port_.cycle > turned_ + kTurn) go_back();
        } else {
            port_.findings.add("honest queue pair %u was refused with syndrome %02x at PSN %06x", queue_.settings.index,
                               packet.syndrome, packet.psn);
        }
    }

    // Called now and then.
    void check_time() {
        if (idle() || port_.cycle < hold_) return;
        if (port_.cycle > turned_ + patience_ && port_.cycle > progress_ + patience_) go_back();
        if (port_.cycle > progress_ + kHang * patience_) {
            port_.findings.add("honest queue pair %u made no progress at PSN %06x for %llu cycles", queue_.settings.index,
                               packets_[acked_].psn, Number{port_.cycle - progress_});
            progress_ = port_.cycle;
        }
    }

private:
    static constexpr uint64_t kTurn = 500, kHang = 100;  // cycles between two go-backs; times of patience

    struct Outgoing {
        uint8_t opcode;
        bool ackreq;
        uint32_t psn, offset, length, imm;  // offset of its payload; length of the message
        uint32_t responses;                 // PSNs of a READ
        Bytes payload;
    };
    struct Record {
        uint32_t imm, bytes;
    };

    // Packets before number `end` of a batch of WRITEs are executed.
    void acknowledged(int32_t end) {
        if (reading_ || end <= static_cast<int32_t>(acked_) || static_cast<size_t>(end) > sent_most_) return;
        while (acked_ < static_cast<size_t>(end)) {
            const Outgoing& one = packets_[acked_++];
            std::copy(one.payload.begin(), one.payload.end(), copy_.begin() + one.offset);
            counts.bytes += one.payload.size();
            ++counts.writes;
            if (has_imm(one.opcode)) {
                ++counts.immediates;
                expected_.push_back({one.imm, one.length});
            }
        }
        sent_ = std::max(sent_, acked_);
        progress_ = port_.cycle;
    }

    void go_back() {
        sent_ = acked_;
        received_ = 0;
        turned_ = port_.cycle;
        ++counts.repeats;
    }

    void fields(const Outgoing& one, Packet& packet) const {
        const RegionSettings& region = queue_.regions[0];
        queue_.address(packet, from_, to_);
        packet.opcode = one.opcode;
        packet.psn = one.psn;
        packet.ackreq = one.ackreq;
        packet.va = region.va + one.offset;
        packet.rkey = region.rkey;
        packet.length = one.length;
        packet.imm = one.imm;
    }

    void send(const Outgoing& one, const Bytes& payload) {
        Packet packet;
        fields(one, packet);
        packet.payload = payload;
        encode(packet, frame_);
        port_.send(frame_, kPacket);
    }

    // All of a batch is complete: the whole region and the records are as they must be.
    void finish() {
        if (packets_.empty() || compared_) return;
        compared_ = true;
        Bytes found;
        port_.load(queue_.regions[0].address, found, queue_.regions[0].length);
        if (found != copy_) {
            size_t at = 0;
            while (found[at] == copy_[at]) ++at;
            port_.findings.add("byte %zu of the region of honest queue pair %u is %02x, and must be %02x", at,
                               queue_.settings.index, found[at], copy_[at]);
            copy_ = found;
        }
        ++counts.batches;
        for (const Record& record : expected_) {
            const uint64_t entries = queue_.settings.records;
            port_.load(queue_.settings.ring + 16 * (records % entries), found, 16);
            const bool phase = !(records / entries & 1);
            auto word = [&](size_t at) { return uint32_t{found[at]} | uint32_t{found[at + 1]} << 8 | uint32_t{found[at + 2]} << 16 | uint32_t{found[at + 3]} << 24; };
            if (word(0) != record.imm || word(4) != record.bytes || word(8) != queue_.settings.qpn ||
                word(12) != uint32_t{phase} << 31)
                port_.findings.add("record %llu of honest queue pair %u is %08x %08x %08x %08x", Number{records},
                                   queue_.settings.index, word(12), word(8), word(4), word(0));
            ++records;
        }
        expected_.clear();
    }

    void begin() {
        reading_ = !reading_;
        packets_.clear();
        acked_ = sent_ = sent_most_ = received_ = 0;
        compared_ = false;
        first_ = queue_.next;
        progress_ = turned_ = port_.cycle;
        if (reading_) begin_reads();
        else begin_writes();
    }

    uint32_t size_of() {
        const uint32_t mtu = queue_.settings.mtu;
        switch (port_.random.below(8)) {
            case 0: return 1 + static_cast<uint32_t>(port_.random.below(16));
            case 1: return mtu;
            case 2: return mtu + 1 + static_cast<uint32_t>(port_.random.below(mtu));
            case 3: return 2 * mtu + static_cast<uint32_t>(port_.random.below(mtu));
            default: return 1 + static_cast<uint32_t>(port_.random.below(200));
        }
    }

    void begin_writes() {
        const uint32_t mtu = queue_.settings.mtu;
        const auto space = static_cast<uint32_t>(copy_.size());
        const uint32_t most = 1 + static_cast<uint32_t>(port_.random.below(std::min(window_ - 4, 24u)));
        written_.clear();
        uint32_t used = 0, immediates = 0;
        while (packets_.size() < most) {
            uint32_t length = port_.random.chance(0.02) ? 0 : size_of();
            length = std::min(length, space / 4);
            if (used + length > space) break;
            if (cursor_ + length > space) {
                used += space - cursor_;
                cursor_ = 0;
                if (used + length > space) break;
            }
            const uint32_t offset = cursor_;
            cursor_ += length;
            used += length;
            if (length) written_.push_back({offset, length});
            const bool imm = immediates < std::min<uint64_t>(3, queue_.settings.records) && port_.random.chance(0.2);
            immediates += imm;
            const uint32_t word = static_cast<uint32_t>(port_.random.next());
            const uint32_t parts = std::max(1u, (length + mtu - 1) / mtu);
            for (uint32_t part = 0; part < parts; ++part) {
                const bool last = part + 1 == parts;
                uint8_t opcode = parts == 1 ? kWriteOnly : part == 0 ? kWriteFirst : last ? kWriteLast : kWriteMiddle;
                if (last && imm) ++opcode;
                const uint32_t begin = part * mtu, count = std::min(mtu, length - begin);
                Outgoing one{opcode, last || port_.random.chance(0.1), queue_.next, offset + begin, length, word, 1, {}};
                queue_.fill(one.payload, count, port_.random);
                packets_.push_back(std::move(one));
                queue_.next = (queue_.next + 1) & kMask24;
            }
        }
        if (!packets_.empty()) packets_.back().ackreq = true;
    }

    void begin_reads() {
        const uint32_t mtu = queue_.settings.mtu;
        const size_t most = 1 + port_.random.below(queue_.settings.max_reads);
        while (packets_.size() < most && !written_.empty()) {
            auto [offset, length] = written_[port_.random.below(written_.size())];
            if (queue_.settings.selective) length = std::min(length, mtu);
            const uint32_t responses = std::max(1u, (length + mtu - 1) / mtu);
            packets_.push_back({kReadRequest, true, queue_.next, offset, length, 0, responses, {}});
            queue_.next = (queue_.next + responses) & kMask24;
        }
    }

    void read_response(const Packet& packet) {
        if (!reading_ || idle()) return;
        const Outgoing& one = packets_[acked_];
        const int32_t at = distance(one.psn, packet.psn);
        if (at != static_cast<int32_t>(received_)) return;
        const uint32_t mtu = queue_.settings.mtu, begin = received_ * mtu, count = std::min(mtu, one.length - begin);
        const uint8_t opcode = one.responses == 1 ? kReadOnly : received_ == 0 ? kReadFirst
                               : received_ + 1 == one.responses ? kReadLast : kReadMiddle;
        if (packet.opcode != opcode || packet.payload.size() != count) {
            port_.findings.add("honest queue pair %u got %zu bytes with opcode %02x for PSN %06x, not %u with %02x",
                               queue_.settings.index, packet.payload.size(), packet.opcode, packet.psn, count, opcode);
        } else if (!std::equal(packet.payload.begin(), packet.payload.end(), copy_.begin() + one.offset + begin)) {
            port_.findings.add("a READ of honest queue pair %u returned wrong bytes at PSN %06x", queue_.settings.index,
                               packet.psn);
        }
        progress_ = port_.cycle;
        if (++received_ < one.responses) return;
        received_ = 0;
        ++counts.reads;
        ++acked_;
        sent_ = std::max(sent_, acked_);
    }

    Port& port_;
    Queue& queue_;
    const Station &from_, &to_;
    uint32_t window_;
    uint64_t patience_;
    Encoded frame_;
    std::vector<Outgoing> packets_;   // of the batch
    size_t sent_ = 0, acked_ = 0, sent_most_ = 0;
    bool reading_ = true, compared_ = true;
    uint32_t first_ = 0, received_ = 0, cursor_ = 0;
    uint64_t progress_ = 0, turned_ = 0, hold_ = 0;
    std::vector<std::pair<uint32_t, uint32_t>> written_;
    std::deque<Record> expected_;
    Bytes copy_;
};
