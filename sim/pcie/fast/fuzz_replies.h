// SPDX-License-Identifier: Apache-2.0
// Checks each completion of the card on CC against the requests that went to CQ (PCI Express Base 2.2.9, 2.3.1): in
// order, each non-posted request is completed once, as far as it is legal with data, and otherwise with UR.
#pragma once

#include "system.h"

// A non-posted request, as far as it is not completed.
struct Asked {
    uint32_t words[4];
    bool own = false;         // the host's, which waits for it
    bool legal = false;       // a memory read of a BAR: its completions have data, or UR instead
    bool counted = false;     // its byte enables are legal, so that the bytes are known
    unsigned dwords = 0;      // that remain
    unsigned bytes = 0, low = 0;
};

class Replies {
public:
    uint64_t successful = 0, unsupported = 0;

    size_t waiting() const { return asked_.size(); }
    void clear() { asked_.clear(); }

    // Whether a packet on CQ is a legal request to BAR 0 or BAR 2.
    static bool is_legal(const Packet& packet) {
        const uint32_t* words = packet.words.data();
        const uint64_t bar = get(words, completer_request::bar), dwords = get(words, completer_request::dwords);
        return !get(words, completer_request::target_function) && get(words, completer_request::address_type) != 1 &&
               dwords && !packet.discontinue && (bar == 0 || bar == 2);
    }

    // A packet goes to CQ.
    void offered(const Packet& packet, bool own) {
        const uint32_t* words = packet.words.data();
        const uint64_t kind = get(words, completer_request::request_type);
        if (kind == 1 || kind >= 12) return;
        Asked asked;
        std::memcpy(asked.words, words, sizeof asked.words);
        asked.own = own;
        asked.legal = kind == 0 && is_legal(packet);
        asked.dwords = static_cast<unsigned>(get(words, completer_request::dwords));
        if (kind == 0 && asked.dwords) {
            Tlp tlp;
            tlp.dwords = asked.dwords;
            tlp.first_be = packet.first_be, tlp.last_be = packet.last_be;
            asked.counted = tlp.dwords == 1 ? !tlp.last_be : tlp.first_be && tlp.last_be;
            if (asked.counted) {
                const auto [offset, length] = enabled_bytes(tlp);
                asked.bytes = length;
                asked.low = offset + 4 * (get(words, completer_request::address) & 31);
            }
        }
        asked_.push_back(asked);
    }

    // A packet on CC; returns whether it is for the host.
    bool completed(const Packet& packet) {
        using namespace completer_completion;
        const uint32_t* words = packet.words.data();
        Tlp tlp;
        tlp.kind = Kind::kCompletion;
        tlp.status = static_cast<uint8_t>(get(words, status));
        tlp.dwords = static_cast<unsigned>(get(words, dwords));
        tlp.byte_count = static_cast<unsigned>(get(words, byte_count));
        tlp.tag = static_cast<uint8_t>(get(words, tag));
        const std::string title = "CC, " + tlp.title();
        need(!asked_.empty(), title, "no request waits for a completion (2.3.2)");
        Asked& asked = asked_.front();
        const bool own = asked.own;
        const auto same = [&](Field one, Field other) { return get(words, one) == get(asked.words, other); };
        need(same(requester_id, completer_request::requester_id) && same(tag_field(), completer_request::tag), title,
             "requester ID and tag must be those of the request (2.2.9)");
        need(same(traffic_class, completer_request::traffic_class) && same(attributes, completer_request::attributes),
             title, "traffic class and attributes must be those of the request (2.2.9)");
        need(same(address_type, completer_request::address_type) &&
                 same(completer_function, completer_request::target_function), title,
             "address type and function must be those of the request");
        need(get(words, locked) == (get(asked.words, completer_request::request_type) == 7), title,
             "a locked completion is for a locked read (2.3.2)");
        need(!get(words, poisoned) && !get(words, completer_bus) && !get(words, completer_id_enable) &&
                 !get(words, force_ecrc), title, "the fields that the adapter does not use must be 0");
        if (tlp.status == kSuccessful) {
            success(packet, asked, tlp, title);
            if (!asked.dwords) asked_.pop_front();
            ++successful;
        } else {
            need(tlp.status == kUnsupportedRequest, title, "the adapter knows the status UR only");
            need(!tlp.dwords && packet.words.size() == kCompletionDwords + 5, title,
                 "UR has no data, and the request's header for the log");
            need(!std::memcmp(packet.words.data() + kCompletionDwords + 1, asked.words, sizeof asked.words), title,
                 "the log must have the request's descriptor");
            need(!asked.counted || tlp.byte_count == (asked.bytes & 0x1FFF), title,
                 "the byte count must be that of what remains (2.3.1.1)");
            asked_.pop_front();
            ++unsupported;
        }
        return own;
    }

private:
    static constexpr Field tag_field() { return completer_completion::tag; }

    // A completion with data, up to a multiple of 128 bytes or to the end.
    static void success(const Packet& packet, Asked& asked, const Tlp& tlp, const std::string& title) {
        need(asked.legal, title, "a request that is not supported must complete with UR");
        const auto address = static_cast<unsigned>(get(asked.words, completer_request::address));
        const auto whole = static_cast<unsigned>(get(asked.words, completer_request::dwords));
        const unsigned position = address + whole - asked.dwords, piece = std::min(asked.dwords, 32 - position % 32);
        need(tlp.dwords == piece && packet.words.size() == kCompletionDwords + piece, title,
             "data must go up to the next multiple of 128 bytes, or to the end (2.3.1.1)");
        if (asked.counted) {
            const auto low = static_cast<unsigned>(get(packet.words.data(), completer_completion::lower_address));
            need(tlp.byte_count == asked.bytes, title, "the byte count must be that of what remains (2.3.1.1)");
            need(low == asked.low, title, "the lower address must be that of the first byte (2.2.9)");
            asked.bytes -= asked.dwords == piece ? asked.bytes : 4 * piece - asked.low % 4;
            asked.low = 0;
        }
        asked.dwords -= piece;
    }

    std::deque<Asked> asked_;
};
