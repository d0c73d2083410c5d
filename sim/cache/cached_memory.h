// SPDX-License-Identifier: Apache-2.0
// The memory behind a DMA engine's m_axi, with the machine's timing: its bursts pass the L2 beside the compute units.
//
// A burst is split into lines. ARCACHE[2] and AWCACHE[3] decide whether they allocate. A read burst begins on R when
// all its lines have arrived, and its B is sent when the L2 has accepted all lines of a write; both in the order of
// their addresses. Each cycle the L2 gets one line of a read and one of a write. The bytes are those of AxiMemory.
#pragma once

#include "axi_memory.h"
#include "machine.h"

struct PortConfig {
    uint32_t lines = 64;  // of reads, and of writes, that wait for the L2, above which AR and W stall
};

// Lines of the engine's bursts, since reset.
struct PortCounts {
    uint64_t reads = 0, writes = 0, allocating_reads = 0, allocating_writes = 0;
};

template <unsigned kBytes>
class CachedMemory {
public:
    static constexpr unsigned kStrobeBytes = kBytes / 8;
    static constexpr bool kTakesCache = true;  // AxCACHE is the last argument of read_accepted and address_written

    Machine& machine;
    AxiMemory<kBytes> inner;
    SparseMemory& bytes = inner.bytes;
    typename AxiMemory<kBytes>::Outputs& out = inner.out;
    PortCounts counts;

    CachedMemory(Machine& made, const CacheConfig& cache, const PortConfig& port, unsigned id_bits)
        : machine(made), inner({everything()}, {}, id_bits), cache_(cache), port_(port) {}

    uint64_t illegal_accesses() const { return inner.illegal_accesses(); }

    void drive(uint64_t cycle) {
        machine.step(cycle, [&](const L2::Response& response) {
            Burst& burst = (response.store ? writes_ : reads_)[response.token - (response.store ? first_write_ : first_read_)];
            --burst.lines;
        });
        send(read_lines_);
        send(write_lines_);
        while (!reads_.empty() && !reads_.front().lines) {
            const Burst& burst = reads_.front();
            inner.read_accepted(cycle, burst.id, burst.address, burst.beats);
            reads_.pop_front();
            ++first_read_;
        }
        while (!writes_.empty() && !writes_.front().lines) {
            const Burst& burst = writes_.front();
            inner.address_written(cycle, burst.id, burst.address, burst.beats);
            for (unsigned beat = 0; beat < burst.beats; ++beat)
                inner.beat_written(cycle, &burst.data[beat * kBytes], &burst.strobes[beat * kStrobeBytes], beat + 1 == burst.beats);
            writes_.pop_front();
            ++first_write_;
        }
        inner.drive(cycle);
        out.arready = read_lines_.size() < port_.lines;
        out.awready = addresses_.size() < port_.lines;
        out.wready = write_lines_.size() < port_.lines;
    }

    void read_accepted(uint64_t, uint32_t id, uint64_t address, unsigned beats, unsigned cache) {
        const uint32_t token = first_read_ + static_cast<uint32_t>(reads_.size());
        Burst burst{id, address, beats, cache, {}, {}};
        const uint64_t end = address / kBytes * kBytes + uint64_t{beats} * kBytes;
        for (uint64_t line = address / cache_.line * cache_.line; line < end; line += cache_.line) {
            const uint64_t from = std::max(line, address), to = std::min(line + cache_.line, end);
            queue(read_lines_, burst, line, sectors(from - line, to - line), token, false);
        }
        counts.reads += burst.lines;
        if (cache >> 2 & 1) counts.allocating_reads += burst.lines;
        reads_.push_back(std::move(burst));
    }

    void beat_taken() { inner.beat_taken(); }

    void address_written(uint64_t, uint32_t id, uint64_t address, unsigned beats, unsigned cache) {
        addresses_.push_back({id, address, beats, cache, {}, {}});
        pair();
    }

    void beat_written(uint64_t, const uint8_t* data, const uint8_t* strobe, bool last) {
        filling_.data.insert(filling_.data.end(), data, data + kBytes);
        filling_.strobes.insert(filling_.strobes.end(), strobe, strobe + kStrobeBytes);
        if (!last) return;
        contents_.push_back(std::move(filling_));
        filling_ = {};
        pair();
    }

    template <class Written>
    void response_taken(Written written) {
        inner.response_taken(written);
    }

private:
    static constexpr uint32_t kPort = 1;  // requester

    struct Burst {
        uint32_t id = 0;
        uint64_t address = 0;
        unsigned beats = 0, cache = 0;
        std::vector<uint8_t> data, strobes;
        uint32_t lines = 0;  // without a response
    };

    static Target everything() {
        Target target;
        target.size = ~uint64_t{0};
        target.read_latency = target.write_latency = 1;
        return target;
    }

    // Mask of the sectors of bytes [from, to) of a line.
    uint32_t sectors(uint64_t from, uint64_t to) const {
        return (2u << (to - 1) / cache_.sector) - (1u << from / cache_.sector);
    }

    void queue(std::deque<LineRequest>& lines, Burst& burst, uint64_t line, uint32_t mask, uint32_t token, bool store) {
        LineRequest made;
        made.address = line;
        made.sectors = mask;
        made.store = store;
        made.allocate = burst.cache >> (store ? 3 : 2) & 1;
        made.requester = kPort;
        made.token = token;
        lines.push_back(made);
        ++burst.lines;
    }

    void send(std::deque<LineRequest>& lines) {
        if (lines.empty() || !machine.l2.accepts(lines.front().address)) return;
        machine.l2.request(lines.front());
        lines.pop_front();
    }

    // Pairs addresses with their data, and queues the lines with a byte to write.
    void pair() {
        while (!addresses_.empty() && !contents_.empty()) {
            Burst burst = std::move(addresses_.front());
            burst.data = std::move(contents_.front().data);
            burst.strobes = std::move(contents_.front().strobes);
            addresses_.pop_front();
            contents_.pop_front();
            const uint32_t token = first_write_ + static_cast<uint32_t>(writes_.size());
            const uint64_t start = burst.address / kBytes * kBytes;
            uint64_t line = 0;
            uint32_t mask = 0;
            for (uint64_t byte = 0; byte < burst.data.size(); ++byte) {
                if (!(burst.strobes[byte / 8] >> byte % 8 & 1)) continue;
                const uint64_t of = (start + byte) / cache_.line * cache_.line;
                if (mask && of != line) {
                    queue(write_lines_, burst, line, mask, token, true);
                    mask = 0;
                }
                line = of;
                mask |= 1u << (start + byte - of) / cache_.sector;
            }
            if (mask) queue(write_lines_, burst, line, mask, token, true);
            counts.writes += burst.lines;
            if (burst.cache >> 3 & 1) counts.allocating_writes += burst.lines;
            writes_.push_back(std::move(burst));
        }
    }

    CacheConfig cache_;
    PortConfig port_;
    std::deque<LineRequest> read_lines_, write_lines_;
    std::deque<Burst> reads_, writes_, addresses_, contents_;
    Burst filling_;
    uint32_t first_read_ = 0, first_write_ = 0;  // tokens of the oldest bursts
};
