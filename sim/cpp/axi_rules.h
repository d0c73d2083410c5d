// SPDX-License-Identifier: Apache-2.0
// Rules of AXI4 for a manager's AR, AW and W (IHI 0022H, A3.2.1 and A3.4.1), cycle by cycle.
#pragma once

#include <cstring>
#include <deque>
#include <string>

#include "ports.h"

template <unsigned kBytes>
class AxiRules {
public:
    std::string broken;  // the first broken rule, as a sentence, or ""

    void clear() {
        for (Waiting* waiting : {&ar_, &aw_, &w_}) waiting->valid = false;
        lengths_.clear();
        ends_.clear();
        beats_ = 0;
    }

    // The pins of a cycle, after those of memory were driven.
    template <class Top, class Outputs>
    void sample(const Top& top, const Outputs& out) {
        address("AR", ar_, PORT(m_axi, arvalid), out.arready, PORT(m_axi, arid), PORT(m_axi, araddr), PORT(m_axi, arlen));
        const bool issued = PORT(m_axi, awvalid) && out.awready;
        address("AW", aw_, PORT(m_axi, awvalid), out.awready, PORT(m_axi, awid), PORT(m_axi, awaddr), PORT(m_axi, awlen));
        if (issued) lengths_.push_back(PORT(m_axi, awlen) + 1u);
        Waiting now{PORT(m_axi, wvalid) != 0};
        if (now.valid) {
            get(PORT(m_axi, wdata), now.bytes, kBytes);
            get(PORT(m_axi, wstrb), now.bytes + kBytes, kBytes / 8);
            now.bytes[sizeof now.bytes - 1] = PORT(m_axi, wlast);
        }
        stable("W", w_, now, out.wready);
        if (!now.valid || !out.wready) return;
        ++beats_;
        if (!PORT(m_axi, wlast)) return;
        ends_.push_back(beats_);
        beats_ = 0;
        while (!ends_.empty() && !lengths_.empty()) {
            if (ends_.front() != lengths_.front()) breaks("W has another number of beats than AW names");
            ends_.pop_front();
            lengths_.pop_front();
        }
    }

private:
    struct Waiting {
        bool valid = false;
        uint8_t bytes[kBytes + kBytes / 8 + 32] = {};
    };

    void breaks(const std::string& sentence) {
        if (broken.empty()) broken = "AXI: " + sentence + ".";
    }

    void stable(const std::string& name, Waiting& before, const Waiting& now, bool ready) {
        if (before.valid && !now.valid) breaks(name + " was withdrawn");
        else if (before.valid && std::memcmp(before.bytes, now.bytes, sizeof now.bytes)) breaks(name + " changed while it waited");
        before = now;
        if (ready) before.valid = false;
    }

    void address(const std::string& name, Waiting& before, bool valid, bool ready, uint64_t id, uint64_t address, unsigned length) {
        Waiting now{valid};
        if (valid) {
            std::memcpy(now.bytes, &id, 8);
            std::memcpy(now.bytes + 8, &address, 8);
            std::memcpy(now.bytes + 16, &length, 4);
            if (address % 4096 / kBytes + length + 1 > 4096 / kBytes) breaks("a burst on " + name + " crosses 4 KiB");
        }
        stable(name, before, now, ready);
    }

    Waiting ar_, aw_, w_;
    std::deque<unsigned> lengths_, ends_;
    unsigned beats_ = 0;
};
