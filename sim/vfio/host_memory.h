// SPDX-License-Identifier: Apache-2.0
// The host's memory behind m_axi: bursts in order after a latency, with an error where the host refuses the address.
#pragma once

#include <deque>
#include <vector>

#include "axi_memory.h"
#include "device.h"

// For Ports of ports.h. A burst is refused as a whole: DECERR on all its beats, nothing stored.
template <unsigned kBytes>
class HostMemory {
public:
    static constexpr unsigned kStrobeBytes = kBytes / 8;

    bool master = false;  // without it, all addresses are refused
    typename AxiMemory<kBytes>::Outputs out{};

    HostMemory(Host& host, unsigned latency) : host_(host), latency_(latency) {
        out.arready = out.awready = out.wready = true;
    }

    bool idle() const { return reads_.empty() && addresses_.empty() && responses_.empty() && filling_.empty(); }

    void clear() {
        reads_.clear();
        addresses_.clear();
        contents_.clear();
        responses_.clear();
        filling_.clear();
        strobes_.clear();
        out.rvalid = out.bvalid = false;
    }

    void drive(uint64_t cycle) {
        if (!out.rvalid && !reads_.empty() && reads_.front().due <= cycle) next_beat();
        if (!out.bvalid && !responses_.empty() && responses_.front().due <= cycle) {
            out.bvalid = true;
            out.bid = responses_.front().id;
            out.bresp = responses_.front().response;
        }
    }

    void read_accepted(uint64_t cycle, uint32_t id, uint64_t address, unsigned beats) {
        reads_.push_back({cycle + latency_, id, address / kBytes * kBytes, beats, 0, false, {}});
    }

    void beat_taken() {
        out.rvalid = false;
        if (++reads_.front().beat == reads_.front().beats) reads_.pop_front();
    }

    void address_written(uint64_t cycle, uint32_t id, uint64_t address, unsigned) {
        addresses_.push_back({cycle, id, address / kBytes * kBytes});
        pair(cycle);
    }

    void beat_written(uint64_t cycle, const uint8_t* data, const uint8_t* strobe, bool last) {
        filling_.insert(filling_.end(), data, data + kBytes);
        strobes_.insert(strobes_.end(), strobe, strobe + kStrobeBytes);
        if (!last) return;
        contents_.emplace_back(std::move(filling_), std::move(strobes_));
        filling_.clear();
        strobes_.clear();
        pair(cycle);
    }

    template <class Written>
    void response_taken(Written) {
        out.bvalid = false;
        responses_.pop_front();
    }

private:
    static constexpr unsigned kOkay = 0, kDecodeError = 3;

    struct Read {
        uint64_t due;
        uint32_t id;
        uint64_t address;
        unsigned beats, beat;
        bool refused;
        std::vector<uint8_t> data;
    };
    struct Address {
        uint64_t cycle;
        uint32_t id;
        uint64_t address;
    };
    struct Response {
        uint64_t due;
        uint32_t id;
        unsigned response;
    };

    void next_beat() {
        Read& read = reads_.front();
        if (read.data.empty()) {
            read.data.resize(size_t{read.beats} * kBytes);
            read.refused = !master || !host_.read(read.address, read.data.size(), read.data.data());
        }
        out.rvalid = true;
        out.rid = read.id;
        out.rresp = read.refused ? kDecodeError : kOkay;
        out.rlast = read.beat + 1 == read.beats;
        std::memcpy(out.rdata, &read.data[size_t{read.beat} * kBytes], kBytes);
    }

    // Pairs addresses with contents, which arrive in the same order. Bytes are visible before the response.
    void pair(uint64_t cycle) {
        while (!addresses_.empty() && !contents_.empty()) {
            const Address address = addresses_.front();
            const auto& [data, strobes] = contents_.front();
            const bool stored = master && store(address.address, data, strobes);
            responses_.push_back({cycle + latency_, address.id, stored ? kOkay : kDecodeError});
            addresses_.pop_front();
            contents_.pop_front();
        }
    }

    bool store(uint64_t address, const std::vector<uint8_t>& data, const std::vector<uint8_t>& strobes) {
        bool stored = true;
        const auto enabled = [&](size_t index) { return strobes[index / 8] >> index % 8 & 1; };
        for (size_t index = 0; index < data.size();) {
            size_t end = index;
            while (end < data.size() && enabled(end)) ++end;
            if (end > index) stored &= host_.write(address + index, end - index, &data[index]);
            index = end + 1;
        }
        return stored;
    }

    Host& host_;
    unsigned latency_;
    std::deque<Read> reads_;
    std::deque<Address> addresses_;
    std::deque<std::pair<std::vector<uint8_t>, std::vector<uint8_t>>> contents_;
    std::deque<Response> responses_;
    std::vector<uint8_t> filling_, strobes_;
};
