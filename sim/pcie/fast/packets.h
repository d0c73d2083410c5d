// SPDX-License-Identifier: Apache-2.0
// Completions as the hard block shows them on RC.
#pragma once

#include "card.h"
#include "streams.h"
#include "tlp.h"

enum ErrorCode : uint8_t {
    kNoError = 0, kPoisonedError = 1, kBadStatus = 2, kMismatch = 4, kInvalidAddress = 5, kInvalidTag = 6,
    kFunctionReset = 8, kTimeoutError = 9
};

// `address`: of the first byte, modulo 4 KiB; `done`: the request with this tag has its last completion.
inline Packet completion_packet(const Tlp& tlp, unsigned address, ErrorCode code, bool done) {
    Packet packet;
    packet.words.resize(kCompletionDwords);
    uint32_t* words = packet.words.data();
    put(words, requester_completion::lower_address, address);
    put(words, requester_completion::error_code, code);
    put(words, requester_completion::byte_count, tlp.byte_count);
    put(words, requester_completion::request_completed, done);
    put(words, requester_completion::dwords, tlp.dwords);
    put(words, requester_completion::status, tlp.status);
    put(words, requester_completion::poisoned, tlp.poisoned);
    put(words, requester_completion::requester_id, tlp.requester);
    put(words, requester_completion::tag, tlp.tag);
    put(words, requester_completion::completer_id, tlp.completer);
    put(words, requester_completion::attributes, tlp.attributes);
    packet.words.insert(packet.words.end(), tlp.data.begin(), tlp.data.end());
    packet.descriptor = kCompletionDwords;
    const unsigned offset = tlp.lower_address & 3, end = offset + tlp.byte_count;
    packet.first_enables = 0xF << offset & 0xF;
    packet.last_enables = end >= 4 * tlp.dwords ? 0xF : 0xF >> ((4 - end) & 3);
    return packet;
}
