// SPDX-License-Identifier: Apache-2.0
// Memory behind the streams of a RoCEv2 unit: write beats that carry their address, and read bursts.
#pragma once

#include "axi_memory.h"
#include "observer.h"
#include "pins.h"

class MemoryStreams {
public:
    AxiMemory<kDataBytes> memory;
    const Observer* observer = nullptr;
    uint32_t unit = 0;  // its number, for the observer

    MemoryStreams(const Target& target, const MemoryOptions& options) : memory({target}, options, kIdBits) {}

    template <class Top>
    void drive(Top& top, uint64_t cycle) {
        memory.drive(cycle);
        top.memory_writes___05Fready = memory.out.wready;
        top.memory_reads___05Fready = memory.out.arready;
        top.memory_responses___05Fvalid = memory.out.bvalid;
        if (memory.out.bvalid) {
            response_.clear();
            response_.put(pins::memory_responses::k_id, memory.out.bid);
            response_.put(pins::memory_responses::k_resp, memory.out.bresp);
            response_.store(top.memory_responses___05Fpayload);
        }
        top.memory_beats___05Fvalid = memory.out.rvalid;
        if (memory.out.rvalid) {
            beat_.clear();
            beat_.put(pins::memory_beats::k_id, memory.out.rid);
            beat_.put_bytes(pins::memory_beats::k_data, memory.out.rdata);
            beat_.put(pins::memory_beats::k_resp, memory.out.rresp);
            beat_.put(pins::memory_beats::k_last, memory.out.rlast);
            beat_.store(top.memory_beats___05Fpayload);
        }
    }

    template <class Top>
    void sample(Top& top, uint64_t cycle) {
        if (top.memory_writes___05Fvalid && memory.out.wready) {
            write_.load(top.memory_writes___05Fpayload);
            if (write_.get(pins::memory_writes::k_first)) {
                writing_ = write_.get(pins::memory_writes::k_addr);
                memory.address_written(cycle, static_cast<uint32_t>(write_.get(pins::memory_writes::k_id)), writing_,
                                       static_cast<unsigned>(write_.get(pins::memory_writes::k_len)) + 1);
                writing_ = writing_ / kDataBytes * kDataBytes;
            }
            uint8_t data[kDataBytes], strobes[AxiMemory<kDataBytes>::kStrobeBytes];
            write_.get_bytes(pins::memory_writes::k_data, data);
            write_.get_bytes(pins::memory_writes::k_strb, strobes);
            const bool last = write_.get(pins::memory_writes::k_last);
            if (observer && observer->write(observer->context, unit, cycle, writing_, data, strobes, last) && last)
                memory.fail_write(1);
            writing_ += kDataBytes;
            memory.beat_written(cycle, data, strobes, last);
        }
        if (top.memory_reads___05Fvalid && memory.out.arready) {
            read_.load(top.memory_reads___05Fpayload);
            const uint64_t address = read_.get(pins::memory_reads::k_addr);
            const unsigned beats = static_cast<unsigned>(read_.get(pins::memory_reads::k_len)) + 1;
            if (observer && observer->read(observer->context, unit, cycle, address, beats)) memory.fail_read(1);
            memory.read_accepted(cycle, static_cast<uint32_t>(read_.get(pins::memory_reads::k_id)), address, beats);
        }
        if (memory.out.bvalid && top.memory_responses___05Fready) memory.response_taken([](const WriteBurst&) {});
        if (memory.out.rvalid && top.memory_beats___05Fready) memory.beat_taken();
    }

private:
    uint64_t writing_ = 0;  // address of the next beat
    Payload<pins::memory_writes::kBits> write_;
    Payload<pins::memory_reads::kBits> read_;
    Payload<pins::memory_responses::kBits> response_;
    Payload<pins::memory_beats::kBits> beat_;
};
