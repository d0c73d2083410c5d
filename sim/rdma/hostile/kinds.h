// SPDX-License-Identifier: Apache-2.0
// Kinds of frames that the attacker sends.
#pragma once

#include <array>
#include <cstdint>

enum Kind : uint32_t {
    // Valid, or without effect: requests in order, and ones that were executed before.
    kValid, kValidImmediate, kValidRead, kValidEmpty, kTail, kHonestWindow, kHonestAltered, kHonestResponse, kProbe, kReplay,
    kPsnBehind, kPsnNear, kPsnFar, kPsnHalf,
    // The parser refuses it.
    kBadIcrc, kFlippedBit, kTruncated, kIpOptions, kFragment, kIpChecksum, kIpLength, kUdpLength, kBothLengths, kUdpPort,
    kIpDestination, kMacDestination, kExtensionHeader, kTwoTags, kVersion, kPkey, kReservedOpcode, kTooLong, kPadOnly,
    kBareWithPayload, kRandomBytes, kJumbo, kOtherTraffic,
    // Dispatch drops it.
    kForeign, kOtherVersion, kUnknownQp, kClosedQp,
    // The queue pair fails.
    kSend, kSequence, kKey, kKeyIndex, kKeyDomain, kBelow, kBeyond, kWrap, kNoRight, kHuge, kLength, kShort, kPadding,
    kOverMtu, kLastEmpty, kReadFlood,
    // Responses.
    kAckNear, kAckAny, kAckOutside, kNakAny, kRnrAny, kSyndrome, kReadAny, kNakSent, kNakSelective, kRnrSent, kReadLong,
    kReadShort, kReadOpcode, kReadTwice, kReadAcknowledged, kResponseLost, kCongestion,
    kKinds
};

using KindCounts = std::array<uint64_t, kKinds>;

constexpr const char* kKindNames[kKinds] = {
    "valid WRITE", "valid WRITE with immediate data", "valid READ", "valid WRITE of 0 bytes",
    "valid, trailing bytes behind the IP packet", "honest request", "honest duplicate with other payload",
    "right response", "first WRITE after opening", "old frame again", "PSN behind", "PSN ahead, near", "PSN far ahead",
    "PSN half a window away",
    "wrong ICRC", "one flipped bit", "truncated", "IPv4 options", "fragment", "wrong IPv4 checksum", "wrong IP length",
    "wrong UDP length", "both lengths short", "other UDP port", "other IP destination", "other Ethernet destination",
    "IPv6 extension header", "two VLAN tags", "wrong BTH version", "wrong P_Key", "reserved opcode",
    "payload above the maximum MTU", "padding without payload", "payload without a payload opcode", "random bytes",
    "jumbo frame", "other traffic",
    "foreign IP source", "other IP version", "unknown QPN", "closed queue pair",
    "SEND", "wrong sequence of opcodes", "wrong key", "key beyond the table", "key of another domain", "below the region",
    "beyond the region", "range wraps at 2^64", "right missing", "message above 2^31 bytes", "length differs from payload",
    "middle packet too short", "wrong pad count", "payload above the path MTU", "empty last packet", "too many READs",
    "unsolicited ACK, near", "unsolicited ACK, any PSN", "ACK outside the window", "unsolicited NAK", "unsolicited RNR NAK",
    "any syndrome", "unsolicited READ response", "NAK of a request", "NAK with any MSN", "RNR NAK of a request",
    "READ response too long", "READ response too short", "READ response with wrong opcode", "READ response twice",
    "ACK of a READ", "no response", "CNP"};
