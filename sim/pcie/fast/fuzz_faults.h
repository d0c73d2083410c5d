// SPDX-License-Identifier: Apache-2.0
// Forged TLPs and packets for the card, and completions that are lost, repeated or changed in the link.
//
// A packet on CQ has any bits, but none that would change an address: those are privileged. As the hard block does, a
// memory write whose payload is not as long as its header says is withdrawn. Every request of the card whose completions
// are not its own is reported to `disturbed`.
#pragma once

#include "fuzz_replies.h"
#include "fuzz_tenants.h"

class FuzzFaults {
public:
    static constexpr uint64_t kTimeout = 2000;  // cycles of the adapter's time limit

    Replies replies;
    uint64_t forged = 0;

    FuzzFaults(System& system, FuzzTenants& tenants, uint64_t seed) : system_(system), tenants_(tenants), random_(seed + 17) {
        const auto host = system.card.completed;
        system.card.completed = [this, host](const Packet& packet) {
            if (replies.completed(packet)) host(packet);
        };
        system.card.offered = [this](const Packet& packet) { replies.offered(packet, !sending_); };
        system.card.observe([this](const Tlp& tlp) { tenants_.disturb(tlp); });
        // The adapter uses the tag of a request that has failed again after four time limits.
        system.card.reuse_after = 4 * kTimeout - 500;
        system.card.late_after = kTimeout - 500;
        system.tamper = [this](Tlp& tlp) { return pass(tlp); };
    }

    // Each cycle: late completions, and time-outs of the hard block.
    void step() {
        const uint64_t now = system_.cycle();
        while (!late_.empty() && late_.begin()->first <= now) {
            const Tlp tlp = late_.begin()->second;
            late_.erase(late_.begin());
            deliver(tlp);
        }
        while (!expiring_.empty() && expiring_.begin()->first <= now) {
            const auto [tag, serial] = expiring_.begin()->second;
            expiring_.erase(expiring_.begin());
            const HardBlock::Read& read = system_.card.reads[tag];
            if (read.valid && read.tlp.serial == serial) system_.card.expire(tag);
        }
    }

    void clear() {
        late_.clear();
        expiring_.clear();
        changes_.clear();
    }

    // Any packet on CQ: its descriptor, sideband, the first of its payload, and a seed for the rest.
    void request(const uint64_t* n) {
        Packet packet;
        packet.words.resize(kRequestDwords);
        std::memcpy(packet.words.data(), n, 16);
        packet.first_be = n[2] & 15, packet.last_be = n[2] >> 4 & 15;
        packet.discontinue = n[2] >> 8 & 1;
        const uint64_t kind = get(packet.words.data(), completer_request::request_type), extra = n[2] >> 9;
        const uint64_t dwords = get(packet.words.data(), completer_request::dwords);
        if (kind == 0 || kind == 7) {
            if (dwords > 1024) return;
        } else {
            const uint64_t words = std::min<uint64_t>(extra ? (extra - 1) % 257 : dwords, 256);
            Random random(n[5]);
            for (uint64_t index = 0; index < words; ++index)
                packet.words.push_back(static_cast<uint32_t>(index < 4 ? n[3 + index / 2] >> index % 2 * 32 : random.next()));
            if (kind == 1 && words != dwords) packet.discontinue = true;
        }
        send(std::move(packet));
    }

    // A read or a write of BAR 0.
    void access(bool write, uint64_t offset, uint64_t dwords, uint32_t value) {
        Packet packet;
        packet.words.resize(kRequestDwords);
        uint32_t* words = packet.words.data();
        put(words, completer_request::address, (System::kBar0 + offset % 0x10000) >> 2);
        put(words, completer_request::dwords, dwords);
        put(words, completer_request::request_type, write);
        put(words, completer_request::bar_aperture, kBar0Bits);
        packet.first_be = 0xF, packet.last_be = dwords > 1 ? 0xF : 0;
        if (write)
            for (uint64_t index = 0; index < dwords; ++index) packet.words.push_back(value + static_cast<uint32_t>(index));
        send(std::move(packet));
    }

    // A completion for a request in flight, or of any tag, in the link.
    void forge(uint64_t target, uint64_t mask, uint64_t seed) {
        Tlp tlp = completion_for(target, seed);
        change(tlp, mask);
        if (!system_.card.accepts(tlp)) return;
        ++forged;
        system_.card.completion(tlp);
    }

    // A packet on RC.
    void raw(uint64_t target, uint64_t low, uint64_t high, uint64_t payload, uint64_t seed) {
        const Tlp tlp = completion_for(target, seed);
        if (!system_.card.accepts(tlp)) return;
        const unsigned address = tlp.lower_address | (tlp.address & 0xF80);
        Packet packet = completion_packet(tlp, address, kNoError, tlp.byte_count <= 4 * tlp.dwords);
        packet.words[0] ^= static_cast<uint32_t>(low), packet.words[1] ^= static_cast<uint32_t>(low >> 32);
        packet.words[2] ^= static_cast<uint32_t>(high);
        const auto more = static_cast<int8_t>(payload & 0xFF);
        const auto size = static_cast<int64_t>(packet.words.size()) + more;
        packet.words.resize(static_cast<size_t>(std::clamp<int64_t>(size, kCompletionDwords, kCompletionDwords + 256)), 0x5EED);
        packet.discontinue = payload >> 8 & 1;
        ++forged;
        system_.card.send_completion(std::move(packet));
    }

    // The `count`-th completion from now on is changed.
    void tamper(uint64_t count, uint64_t change, uint64_t value) {
        changes_.push_back({count, static_cast<Change>(change % static_cast<unsigned>(Change::kChanges)), value});
    }

    // The hard block's time-out of a request in flight.
    void expire(uint64_t which) {
        uint8_t tag = 0;
        if (!in_flight(which, tag)) return;
        tenants_.disturb(system_.card.reads[tag].tlp);
        system_.card.expire(tag);
    }

private:
    struct Pending {
        uint64_t count;
        Change change;
        uint64_t value;
    };

    // -- Requests.

    void send(Packet packet) {
        Tlp tlp;
        tlp.kind = Kind::kWrite;
        tlp.dwords = static_cast<unsigned>(packet.words.size());
        if (is_privileged(packet) || !system_.card.accepts(tlp)) return;
        packet.descriptor = kRequestDwords;
        packet.first_enables = packet.first_be, packet.last_enables = packet.words.size() > 5 ? packet.last_be : 0xF;
        sending_ = true;
        system_.card.send_request(std::move(packet));
        sending_ = false;
    }

    // Whether software alone may write this: what holds addresses, the anchor's page and commands, and the time limit.
    static bool is_privileged(const Packet& packet) {
        const uint32_t* words = packet.words.data();
        if (get(words, completer_request::request_type) != 1 || !Replies::is_legal(packet)) return false;
        const uint64_t address = get(words, completer_request::address), dwords = get(words, completer_request::dwords);
        if (get(words, completer_request::bar) == 2) return (address >> 10) % kQueues == kAnchorQueue;
        for (uint64_t index = 0; index < dwords && kRequestDwords + index < packet.words.size(); ++index) {
            const bool whole = (index ? 0xF : packet.first_be) == 0xF && (index + 1 < dwords || dwords == 1 || packet.last_be == 0xF);
            if (is_privileged(static_cast<uint32_t>((address + index) << 2 & 0xFFFF), packet.words[kRequestDwords + index], whole))
                return true;
        }
        return false;
    }

    static bool is_privileged(uint32_t offset, uint32_t value, bool whole) {
        if (offset >= kMsixTable) return offset < kMsixPending && (offset & 8) == 0;
        const uint32_t local = offset & 0xFFC;
        if (offset >= kPcieRegisters) return local == DMACE_PCIE_COMPLETION_TIMEOUT_OFFSET;
        if (local == DMACE_DMA_QUEUE_COMMAND_OFFSET) return !whole || value % 64 == kAnchorQueue;
        return (local >= DMACE_DMA_REGION_BASE_LO_OFFSET && local <= DMACE_DMA_PAGE_COMMIT_OFFSET) ||
               (local >= DMACE_DMA_CONNECTION_RC_LO_OFFSET && local <= DMACE_DMA_QUEUE_COMMIT_OFFSET) ||
               local == DMACE_DMA_WATCHDOG_OFFSET;
    }

    // -- Completions.

    // Tag of one of the requests in flight.
    bool in_flight(uint64_t which, uint8_t& tag) const {
        std::vector<uint8_t> tags;
        for (unsigned one = 0; one < system_.card.reads.size(); ++one)
            if (system_.card.reads[one].valid) tags.push_back(static_cast<uint8_t>(one));
        if (!tags.empty()) tag = tags[which % tags.size()];
        return !tags.empty();
    }

    // A completion that fits: up to the first boundary, or whole. Bit 9 of `target`: of any tag, in flight or not.
    Tlp completion_for(uint64_t target, uint64_t seed) {
        auto tag = static_cast<uint8_t>(target);
        if (!(target >> 9 & 1))
            for (unsigned left = 100; !in_flight(target & 0xFF, tag) && left; --left) system_.step();
        Tlp request = system_.card.reads[tag].tlp;
        if (!request.serial) {
            request.dwords = 8;
            request.first_be = request.last_be = 0xF;
        }
        request.tag = tag;
        request.requester = HardBlock::kCardId;
        request.serial = 0;
        const auto [offset, length] = enabled_bytes(request);
        const uint64_t start = request.address + offset, end = start + length;
        const uint64_t boundary = (start / 64 + 1) * 64, most = start / 4 * 4 + system_.card.limits.max_payload;
        const uint64_t upto = target >> 8 & 1 ? std::min(boundary, end) : std::min(most / 128 * 128, end);
        Tlp tlp = completion_header(request, start, std::max(upto, start + 1), end, 0x0100);
        tlp.address = start;
        Random random(seed);
        for (uint32_t& word : tlp.data) word = static_cast<uint32_t>(random.next());
        return tlp;
    }

    void change(Tlp& tlp, uint64_t mask) {
        tlp.dwords = (tlp.dwords ^ (mask & 0x7FF)) % (system_.card.limits.max_payload / 4 + 1);
        tlp.byte_count ^= mask >> 11 & 0x1FFF;
        tlp.lower_address ^= mask >> 24 & 0x7F;
        tlp.status ^= mask >> 31 & 7;
        tlp.poisoned ^= mask >> 34 & 1;
        tlp.attributes ^= mask >> 35 & 7;
        tlp.tag ^= static_cast<uint8_t>(mask >> 38);
        tlp.data.resize(tlp.dwords, 0xF0E1D2C3);
    }

    // A copy of a completion.
    void deliver(Tlp tlp) {
        tlp.serial = 0;
        if (system_.card.accepts(tlp)) system_.card.completion(tlp);
    }

    // A TLP between card and switch; false if it is lost.
    bool pass(Tlp& tlp) {
        if (tlp.kind != Kind::kCompletion || tlp.requester != HardBlock::kCardId) return true;
        for (size_t index = 0; index < changes_.size(); ++index) {
            if (--changes_[index].count) continue;
            const Pending now = changes_[index];
            changes_.erase(changes_.begin() + static_cast<std::ptrdiff_t>(index));
            return apply(tlp, now.change, now.value);
        }
        return true;
    }

    bool apply(Tlp& tlp, Change what, uint64_t value) {
        const HardBlock::Read& read = system_.card.reads[tlp.tag];
        const bool own = read.valid && read.tlp.serial == tlp.serial;
        if (what == Change::kRepeat || what == Change::kRepeatLate) {
            late_.emplace(system_.cycle() + 1 + (what == Change::kRepeat ? 0 : value % 3000), tlp);
            return true;
        }
        if (own) tenants_.disturb(read.tlp);
        const auto fail = [&tlp](uint8_t status) {
            tlp.status = status;
            tlp.dwords = 0;
            tlp.data.clear();
        };
        switch (what) {
        case Change::kDrop:
            // The hard block may have a time limit, too.
            if (own && value % 4)
                expiring_.emplace(system_.cycle() + 1 + random_.below(3 * kTimeout), std::make_pair(tlp.tag, tlp.serial));
            return false;
        case Change::kFields: change(tlp, value); break;
        case Change::kUnsupported: fail(kUnsupportedRequest); break;
        case Change::kAbort: fail(kCompleterAbort); break;
        case Change::kRetry: fail(2); break;
        case Change::kPoison: tlp.poisoned = true; break;
        case Change::kShorten: change(tlp, tlp.dwords ^ tlp.dwords / 2); break;
        case Change::kLengthen: change(tlp, tlp.dwords ^ (tlp.dwords + 1 + value % 8)); break;
        default: break;
        }
        return true;
    }

    System& system_;
    FuzzTenants& tenants_;
    Random random_;
    std::vector<Pending> changes_;
    std::multimap<uint64_t, Tlp> late_;                                    // by cycle
    std::multimap<uint64_t, std::pair<uint8_t, uint64_t>> expiring_;      // by cycle: tag and serial number
    bool sending_ = false;
};
