// SPDX-License-Identifier: Apache-2.0
// The attacker's port of the network: frames at the rate of its line, some of them late, and old ones again.
#pragma once

#include <deque>

#include "findings.h"
#include "memory.h"
#include "packet.h"

// Functions of the library of the cluster. The layout is that of `_Functions` in attacker.py.
struct Functions {
    void *network, *cluster;
    int (*send)(void* network, uint64_t cycle, uint32_t port, const uint8_t* data, uint64_t count);
    int64_t (*receive)(void* network, uint64_t cycle, uint32_t port, uint8_t* data, uint64_t limit, uint32_t* bad);
    int (*load)(void* cluster, uint32_t unit, uint64_t address, uint8_t* data, uint64_t count);
};

// How the unit's parser must count a frame.
enum Fate : uint8_t { kPacket, kRefused, kOther, kFates };

struct Sent {
    Bytes bytes;
    Fate fate;
};

class Port {
public:
    uint64_t cycle = 0;
    Random random;
    Findings findings;
    uint64_t sent[kFates] = {}, sent_bytes = 0, frames = 0, delayed = 0, replays = 0;

    Port(const Functions& functions, uint32_t number, double rate, uint64_t seed)
        : random(seed), functions_(functions), number_(number), rate_(rate) {}

    bool ready() const { return free_ < static_cast<double>(cycle + 1); }

    void send(const Encoded& frame, Fate fate, bool keep = true) {
        if (keep && random.chance(0.02)) {
            Sent& old = history_[random.below(kHistory)];
            old.bytes = frame.bytes;
            old.fate = fate;
        }
        if (random.chance(0.01)) {
            late_.push_back({frame.bytes, fate});
            ++delayed;
            return;
        }
        put(frame.bytes, fate);
        while (!late_.empty() && random.chance(0.3)) {
            put(late_.front().bytes, late_.front().fate);
            late_.pop_front();
        }
    }

    // Sends what is late.
    void flush() {
        for (const Sent& one : late_) put(one.bytes, one.fate);
        late_.clear();
    }

    // Sends a frame of any time before again; false if there is none.
    bool again() {
        const Sent& old = history_[random.below(kHistory)];
        if (old.bytes.empty()) return false;
        put(old.bytes, old.fate);
        ++replays;
        return true;
    }

    // The next frame that has arrived; false if there is none.
    bool receive(Bytes& frame) {
        uint32_t bad = 0;
        frame.resize(16384);
        const int64_t count = functions_.receive(functions_.network, cycle, number_, frame.data(), frame.size(), &bad);
        if (count <= 0) return false;
        frame.resize(static_cast<size_t>(count));
        if (bad) findings.add("the unit sent a frame with a wrong FCS");
        return true;
    }

    // Memory of the attacked unit.
    void load(uint64_t address, Bytes& data, size_t count) {
        data.resize(count);
        if (count && functions_.load(functions_.cluster, 0, address, data.data(), count) < 0)
            findings.add("there is no memory at %llx", Number{address});
    }

private:
    static constexpr size_t kHistory = 1024;

    void put(const Bytes& frame, Fate fate) {
        free_ = std::max(free_, static_cast<double>(cycle)) + static_cast<double>(frame.size() + 24) / rate_;
        functions_.send(functions_.network, cycle, number_, frame.data(), frame.size());
        ++sent[fate];
        ++frames;
        sent_bytes += frame.size();
    }

    Functions functions_;
    uint32_t number_;
    double rate_, free_ = 0;
    std::deque<Sent> late_;
    Sent history_[kHistory];
};
