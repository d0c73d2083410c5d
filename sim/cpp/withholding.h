// SPDX-License-Identifier: Apache-2.0
// A memory that withholds responses: any number of beats of a read burst, any write response, and from any cycle on
// every transfer of AR, AW or W, until it releases them on request. Received data is stored immediately.
//
// Responses of one ID are in order, those of different IDs in any order, with interleaved R beats.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "memory.h"

template <unsigned kBytes>
class WithholdingMemory {
public:
    static constexpr unsigned kStrobeBytes = kBytes / 8;
    enum Channel { kReadAddress, kWriteAddress, kWriteData, kChannels };

    SparseMemory bytes;

    struct Outputs {
        bool arready, awready, wready, rvalid, rlast, bvalid;
        uint32_t rid, bid;
        unsigned rresp, bresp;
        uint8_t rdata[kBytes];
    } out{};

    // Called with the address of each byte that is stored, after both its AW and its W beat were accepted.
    std::function<void(uint64_t)> landed;
    // Probabilities of withholding the response to a read and to a write at an address.
    std::function<double(uint64_t)> keeps_read, keeps_write;

    uint64_t taken[kChannels] = {};  // transfers
    uint64_t responses = 0;          // R beats and B responses that the engine has accepted

    explicit WithholdingMemory(uint64_t seed) : random_(seed) {}

    // Restarts with nothing in flight.
    void clear(uint64_t seed) {
        random_ = Random(seed);
        bytes = {};
        reads_.clear();
        writes_.clear();
        out = {};
        stop_between();
        for (uint64_t& after : stuck_after_) after = kNever;
    }

    // Blocks the channel after `transfers` more transfers.
    void stick(Channel channel, uint64_t transfers) { stuck_after_[channel] = taken[channel] + transfers; }
    void unstick() {
        for (uint64_t& after : stuck_after_) after = kNever;
    }
    bool stuck(Channel channel) const { return taken[channel] >= stuck_after_[channel]; }

    // Releases each withheld transfer with a probability.
    void release(double probability) {
        for (auto& [id, bursts] : reads_)
            for (Read& burst : bursts)
                if (random_.chance(probability)) burst.allowed = burst.beats;
        for (auto& [id, responses] : writes_)
            for (Response& response : responses)
                if (random_.chance(probability)) response.kept = false;
    }

    // Drops an incomplete write burst, as memory must when its manager is reset.
    void stop_between() {
        addresses_.clear();
        beats_.clear();
        done_ = 0;
    }

    // Whether memory withholds beats of a read burst whose first beats it has sent.
    bool begun() const {
        for (const auto& [id, bursts] : reads_)
            if (!bursts.empty() && bursts.front().given && bursts.front().given == bursts.front().allowed) return true;
        return false;
    }

    // Whether a response for an address that satisfies `theirs` is outstanding.
    template <class Theirs>
    bool has_outstanding(Theirs theirs) const {
        for (const auto& [id, bursts] : reads_)
            for (const Read& burst : bursts)
                if (theirs(burst.address)) return true;
        for (const auto& [id, responses] : writes_)
            for (const Response& response : responses)
                if (theirs(response.address)) return true;
        return false;
    }

    bool idle() const {
        for (const auto& [id, bursts] : reads_)
            if (!bursts.empty()) return false;
        for (const auto& [id, responses] : writes_)
            if (!responses.empty()) return false;
        return addresses_.empty() && beats_.empty();
    }

    void drive(uint64_t cycle) {
        out.arready = !stuck(kReadAddress) && !random_.chance(kStall);
        out.awready = !stuck(kWriteAddress) && !random_.chance(kStall);
        out.wready = !stuck(kWriteData) && !random_.chance(kStall);
        if (!out.rvalid && !random_.chance(kStall)) next_beat(cycle);
        if (!out.bvalid && !random_.chance(kStall)) next_response(cycle);
    }

    void read_accepted(uint64_t cycle, uint32_t id, uint64_t address, unsigned beats) {
        ++taken[kReadAddress];
        const bool keeps = keeps_read && random_.chance(keeps_read(address));
        reads_[id].push_back({address / kBytes * kBytes, beats, 0, keeps ? static_cast<unsigned>(random_.below(beats)) : beats,
                              cycle + 1 + random_.below(kLatency)});
    }

    void beat_taken() {
        out.rvalid = false;
        ++responses;
        auto& bursts = reads_[out.rid];
        if (++bursts.front().given == bursts.front().beats) bursts.pop_front();
    }

    void address_written(uint64_t cycle, uint32_t id, uint64_t address, unsigned beats) {
        ++taken[kWriteAddress];
        addresses_.push_back({id, address, beats});
        pair(cycle);
    }

    void beat_written(uint64_t cycle, const uint8_t* data, const uint8_t* strobe, bool last) {
        ++taken[kWriteData];
        Beat beat{{}, {}, last};
        std::copy(data, data + kBytes, beat.data.begin());
        std::copy(strobe, strobe + kStrobeBytes, beat.strobe.begin());
        beats_.push_back(beat);
        pair(cycle);
    }

    template <class Report>
    void response_taken(Report) {
        out.bvalid = false;
        ++responses;
        writes_[out.bid].pop_front();
    }

private:
    static constexpr uint64_t kNever = ~uint64_t{0}, kLatency = 60;
    static constexpr double kStall = 0.1;

    struct Read {
        uint64_t address;
        unsigned beats, given, allowed;
        uint64_t ready;
    };
    struct Response {
        uint64_t address;
        uint64_t ready;
        bool kept;
    };
    struct Address {
        uint32_t id;
        uint64_t address;
        unsigned beats;
    };
    struct Beat {
        std::array<uint8_t, kBytes> data;
        std::array<uint8_t, kStrobeBytes> strobe;
        bool last;
    };

    // A random one of the queues whose head satisfies `ready`.
    template <class Queues, class Ready>
    const typename Queues::value_type* choose(const Queues& queues, Ready ready) {
        const typename Queues::value_type* chosen = nullptr;
        unsigned count = 0;
        for (const auto& entry : queues)
            if (!entry.second.empty() && ready(entry.second.front()) && random_.below(++count) == 0) chosen = &entry;
        return chosen;
    }

    void next_beat(uint64_t cycle) {
        const auto* entry =
            choose(reads_, [&](const Read& read) { return read.given < read.allowed && read.ready <= cycle; });
        if (!entry) return;
        const Read& read = entry->second.front();
        out.rvalid = true;
        out.rid = entry->first;
        out.rlast = read.given + 1 == read.beats;
        for (unsigned lane = 0; lane < kBytes; ++lane) {
            const uint8_t* byte = bytes.at(read.address + read.given * kBytes + lane);
            out.rdata[lane] = byte ? *byte : 0xEE;
        }
    }

    void next_response(uint64_t cycle) {
        const auto* entry =
            choose(writes_, [&](const Response& response) { return !response.kept && response.ready <= cycle; });
        if (!entry) return;
        out.bvalid = true;
        out.bid = entry->first;
    }

    void pair(uint64_t cycle) {
        while (!addresses_.empty() && !beats_.empty()) {
            const Address& address = addresses_.front();
            const Beat& beat = beats_.front();
            const uint64_t at = address.address / kBytes * kBytes + done_ * kBytes;
            for (unsigned lane = 0; lane < kBytes; ++lane) {
                if (!(beat.strobe[lane / 8] >> lane % 8 & 1)) continue;
                landed(at + lane);
                if (uint8_t* byte = bytes.at(at + lane)) *byte = beat.data[lane];
            }
            ++done_;
            const bool last = beat.last;
            beats_.pop_front();
            if (!last) continue;
            const bool keeps = keeps_write && random_.chance(keeps_write(address.address));
            writes_[address.id].push_back({address.address, cycle + 1 + random_.below(kLatency), keeps});
            addresses_.pop_front();
            done_ = 0;
        }
    }

    Random random_;
    std::map<uint32_t, std::deque<Read>> reads_;
    std::map<uint32_t, std::deque<Response>> writes_;
    std::deque<Address> addresses_;
    std::deque<Beat> beats_;
    uint64_t done_ = 0;  // stored beats of the first address
    uint64_t stuck_after_[kChannels] = {kNever, kNever, kNever};
};
