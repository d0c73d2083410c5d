// SPDX-License-Identifier: Apache-2.0
// Register accesses at an AXI4-Lite port named `bus`, one at a time and in order.
#pragma once

#include <cstdint>
#include <deque>

class RegisterBus {
public:
    std::deque<uint32_t> values;  // words read, oldest first
    uint64_t refused = 0;         // accesses with an error response

    void post(uint32_t offset, uint32_t value, bool write) { accesses_.push_back({offset, value, write}); }
    size_t waiting() const { return accesses_.size(); }

    template <class Top>
    void drive(Top& top) {
        const bool any = !accesses_.empty(), write = any && accesses_.front().write;
        top.bus___05Fawvalid = write && !addressed_;
        top.bus___05Fwvalid = write && !filled_;
        top.bus___05Farvalid = any && !write && !addressed_;
        top.bus___05Fbready = top.bus___05Frready = 1;
        top.bus___05Fwstrb = 0xF;
        if (any) {
            top.bus___05Fawaddr = top.bus___05Faraddr = accesses_.front().offset;
            top.bus___05Fwdata = accesses_.front().value;
        }
    }

    template <class Top>
    void sample(Top& top) {
        if (accesses_.empty()) return;
        const bool write = accesses_.front().write;
        addressed_ |= write ? top.bus___05Fawvalid && top.bus___05Fawready : top.bus___05Farvalid && top.bus___05Farready;
        filled_ |= top.bus___05Fwvalid && top.bus___05Fwready;
        if (write ? !top.bus___05Fbvalid : !top.bus___05Frvalid) return;
        if (!write) values.push_back(top.bus___05Frdata);
        refused += (write ? top.bus___05Fbresp : top.bus___05Frresp) != 0;
        accesses_.pop_front();
        addressed_ = filled_ = false;
    }

private:
    struct Access {
        uint32_t offset, value;
        bool write;
    };

    std::deque<Access> accesses_;
    bool addressed_ = false, filled_ = false;
};
