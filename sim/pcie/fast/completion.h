// SPDX-License-Identifier: Apache-2.0
// Completions of memory reads with data (PCI Express Base, 2.3.1.1).
#pragma once

#include "tlp.h"

// The completion of a request for the bytes from `from` up to `upto`, both addresses, of which the last requested one is in
// front of `end`. Its data is 0.
inline Tlp completion_header(const Tlp& request, uint64_t from, uint64_t upto, uint64_t end, uint16_t completer) {
    Tlp completion;
    completion.kind = Kind::kCompletion;
    completion.requester = request.requester;
    completion.completer = completer;
    completion.tag = request.tag;
    completion.serial = request.serial;
    completion.attributes = request.attributes;
    completion.byte_count = static_cast<unsigned>(end - from);
    completion.lower_address = from & 0x7F;
    completion.dwords = static_cast<unsigned>((upto - (from & ~uint64_t{3}) + 3) / 4);
    completion.data.resize(completion.dwords);
    return completion;
}
