// SPDX-License-Identifier: Apache-2.0
// Every byte that the attacked unit writes or reads at its memory lies in memory that software has registered.
//
// Each queue pair has a protection domain of its own, and its number is in the upper 4 bits of each byte of its peer's
// payload, and of its registered memory. A byte that is written thus names the queue pair that wrote it.
#pragma once

#include <algorithm>
#include <deque>

#include "findings.h"
#include "packet.h"

// Bytes from `first` to `end` - 1 of a region, or of a ring of records, of queue pair `qp`.
struct Grant {
    uint64_t first, end;
    uint32_t qp;
    bool readable, writable, ring;
    uint64_t until;  // cycle in which software revoked it
    uint64_t number;
    uint64_t written, consumed;  // records of a ring
};

struct GuardCounts {
    uint64_t write_beats = 0, read_bursts = 0, late_beats = 0, latest = 0;  // late: behind a revocation, and how far
};

class Guard {
public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    GuardCounts counts;

    // `grace`: cycles in which bursts that were in flight at a revocation complete. `mask`: of the number of the queue
    // pair in its QPN, as far as the lowest byte has it.
    Guard(Findings& findings, unsigned beat_bytes, uint64_t grace, uint8_t mask)
        : findings_(findings), beat_(beat_bytes), grace_(grace), mask_(mask) {
        stopped_.fill(kNever);
    }

    uint64_t allow(Grant grant) {
        grant.until = kNever;
        grant.number = ++numbers_;
        grant.written = grant.consumed = 0;
        grants_.push_back(grant);
        return grant.number;
    }

    void revoke(uint64_t number, uint64_t cycle) {
        for (Grant& grant : grants_)
            if (grant.number == number) grant.until = cycle;
        while (!grants_.empty() && grants_.front().until != kNever && grants_.front().until + 8 * grace_ < cycle)
            grants_.pop_front();
    }

    // Software has consumed this number of records of a ring.
    void consume(uint64_t number, uint64_t records) {
        for (Grant& grant : grants_)
            if (grant.number == number) grant.consumed = records;
    }

    // Queue pair `qp` was opened; or it was closed, or its peer has the NAK of its failure.
    void start(uint32_t qp) { stopped_.at(qp) = kNever; }
    void stop(uint32_t qp, uint64_t cycle) { stopped_.at(qp) = std::min(stopped_.at(qp), cycle); }

    void written(uint64_t cycle, uint64_t address, const uint8_t* data, const uint8_t* strobes) {
        ++counts.write_beats;
        Grant* grant = nullptr;
        for (unsigned lane = 0; lane < beat_; ++lane) {
            if (!(strobes[lane / 8] >> lane % 8 & 1)) continue;
            const uint64_t at = address + lane;
            if (!grant || at < grant->first || at >= grant->end || (!grant->ring && data[lane] >> 4 != grant->qp))
                grant = find(cycle, at, [&](const Grant& one) {
                    return one.writable && (one.ring || one.qp == data[lane] >> 4u);
                });
            if (!grant) {
                findings_.add("the byte %02x of queue pair %u was written to %llx, which is not writable for it", data[lane],
                              data[lane] >> 4u, Number{at});
                return;
            }
            if (!grant->ring || at % 16 != 8) continue;
            if ((data[lane] & mask_) != grant->qp) {
                findings_.add("a record of queue pair %u was written to %llx, in the ring of queue pair %u",
                              data[lane] & mask_, Number{at}, grant->qp);
                return;
            }
            if (++grant->written > grant->consumed + (grant->end - grant->first) / 16)
                findings_.add("record %llu of queue pair %u was written to a full ring, of which %llu were consumed",
                              Number{grant->written}, grant->qp, Number{grant->consumed});
        }
        if (!grant) return;
        late(*grant, cycle);
        if (stopped_[grant->qp] != kNever && stopped_[grant->qp] + grace_ < cycle)
            findings_.add("queue pair %u has written to %llx, %llu cycles after its closing or failure", grant->qp,
                          Number{address}, Number{cycle - stopped_[grant->qp]});
    }

    void read(uint64_t cycle, uint64_t address, uint32_t beats) {
        ++counts.read_bursts;
        const uint64_t last = address / beat_ * beat_ + uint64_t{beat_} * (beats - 1);  // its last beat has a byte at least
        const Grant* grant = find(cycle, address, [&](const Grant& one) { return one.readable && last < one.end; });
        if (!grant) {
            findings_.add("%u beats from %llx on were read, which are not readable", beats, Number{address});
            return;
        }
        late(*grant, cycle);
    }

private:
    template <class Fits>
    Grant* find(uint64_t cycle, uint64_t at, Fits fits) {
        // A grant that is in force is preferred to a revoked one.
        Grant* found = nullptr;
        for (Grant& grant : grants_) {
            if (at < grant.first || at >= grant.end || !fits(grant)) continue;
            if (grant.until == kNever) return &grant;
            if (grant.until + grace_ >= cycle) found = &grant;
        }
        return found;
    }

    void late(const Grant& grant, uint64_t cycle) {
        if (grant.until == kNever || cycle <= grant.until) return;
        ++counts.late_beats;
        counts.latest = std::max(counts.latest, cycle - grant.until);
    }

    Findings& findings_;
    unsigned beat_;
    uint64_t grace_;
    uint8_t mask_;
    uint64_t numbers_ = 0;
    std::deque<Grant> grants_;
    std::array<uint64_t, 16> stopped_;  // by queue pair
};
