// SPDX-License-Identifier: Apache-2.0
// An Ethernet frame in the network model: its bytes without preamble and FCS, and what switches read of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

struct Frame {
    static constexpr int kNoOpcode = -1;

    std::vector<uint8_t> bytes;
    bool bad = false;         // its FCS is wrong
    int opcode = kNoOpcode;   // of the BTH, if it is RoCEv2
    uint32_t payload = 0;     // bytes behind its headers, without padding
    uint32_t ip = 0;          // start of the IP header; 0 if there is none
    uint64_t born = 0;        // cycle in which its sender began

    // Sets what is derived from the bytes.
    void describe() {
        opcode = kNoOpcode;
        payload = ip = 0;
        if (bytes.size() < 34) return;
        uint32_t at = 14;
        unsigned type = word(12);
        if (type == 0x8100) {
            type = word(16);
            at = 18;
        }
        const bool four = type == 0x0800 && bytes[at] == 0x45;
        if (!four && type != 0x86DD) return;
        const uint32_t udp = at + (four ? 20 : 40);
        if (bytes.size() < udp + 24) return;
        ip = at;
        if (bytes[at + (four ? 9 : 6)] != 17 || word(udp + 2) != 4791) return;
        opcode = bytes[udp + 8];
        const uint32_t headers = 24 + extension(opcode) + (bytes[udp + 9] >> 4 & 3);
        if (word(udp + 4) > headers) payload = word(udp + 4) - headers;
    }

    // Sets congestion experienced (RFC 3168) if the sender is capable of ECN; false if it is not.
    bool mark() {
        if (!ip) return false;
        const bool four = bytes[ip] >> 4 == 4;
        const unsigned ecn = four ? bytes[ip + 1] & 3u : bytes[ip + 1] >> 4 & 3u;
        if (ecn == 0) return false;
        if (!four) {
            bytes[ip + 1] |= 0x30;
        } else if (ecn != 3) {
            bytes[ip + 1] |= 3;
            // RFC 1624, equation 3: the header's first word has grown by 3 - ecn.
            uint32_t sum = (word(ip + 10) ^ 0xFFFFu) + (3 - ecn);
            sum = (sum & 0xFFFF) + (sum >> 16);
            sum ^= 0xFFFF;
            bytes[ip + 10] = static_cast<uint8_t>(sum >> 8);
            bytes[ip + 11] = static_cast<uint8_t>(sum);
        }
        return true;
    }

    // An Ethernet address as a number: byte 0 is the highest.
    uint64_t address(size_t at) const {
        uint64_t value = 0;
        for (size_t index = at; index < at + 6; ++index) value = value << 8 | bytes[index];
        return value;
    }

private:
    unsigned word(size_t at) const { return bytes[at] * 256u + bytes[at + 1]; }

    // Bytes of RETH, AETH, immediate data or a CNP's reserved bytes.
    static uint32_t extension(int opcode) {
        switch (opcode) {
            case 0x06: case 0x0A: case 0x0C: case 0x81: return 16;
            case 0x0B: return 20;
            case 0x03: case 0x05: case 0x09: case 0x0D: case 0x0F: case 0x10: case 0x11: return 4;
            default: return 0;
        }
    }
};

// Frames that are used again.
class FramePool {
public:
    Frame* take() {
        if (free_.empty()) {
            all_.push_back(std::make_unique<Frame>());
            return all_.back().get();
        }
        Frame* frame = free_.back();
        free_.pop_back();
        frame->bytes.clear();
        frame->bad = false;
        return frame;
    }

    Frame* copy(const Frame& frame) {
        Frame* made = take();
        *made = frame;
        return made;
    }

    void release(Frame* frame) { free_.push_back(frame); }

private:
    std::vector<std::unique_ptr<Frame>> all_;
    std::vector<Frame*> free_;
};
