// SPDX-License-Identifier: Apache-2.0
// A memory behind a PCIe function: writes as they arrive, reads after a latency, in legal pieces, with errors.
//
// A completion has the bytes that memory holds when it leaves. Completions are cut at multiples of the read completion
// boundary (PCI Express Base, 2.3.1.1), each within the maximum payload size. Bytes outside of a read are noise.
#pragma once

#include <functional>
#include <unordered_map>

#include "arenas.h"
#include "completion.h"
#include "link.h"
#include "memory.h"

enum class Split : uint8_t { kNever, kRandom, kAlways };

enum class Fault : uint8_t { kUnsupported, kAborted, kPoisoned, kDropped, kFaults };

constexpr unsigned kFaultKinds = static_cast<unsigned>(Fault::kFaults);

struct CompleterOptions {
    unsigned latency_from = 125, latency_to = 125;  // cycles until the first completion
    bool reorder = false;                           // requests pass each other, and their completions interleave
    Split split = Split::kNever;
    unsigned boundary = 128;                        // read completion boundary, in bytes
};

class Completer {
public:
    static constexpr uint64_t kPage = 4096;

    Arenas bytes;
    CompleterOptions options;
    unsigned max_payload = 512;
    std::unordered_map<uint64_t, Fault> faulty;  // by the address of the page: all reads of it have this fault
    uint64_t faults[kFaultKinds] = {};           // reads with each fault so far
    uint64_t behind_fault = 0;                   // completions of a read behind a poisoned one
    // Called with each request as it arrives: before a write is stored.
    std::function<void(const Tlp&)> received;
    // Called with the tag of a read of which a completion is dropped.
    std::function<void(uint8_t)> dropped;

    Completer(uint64_t base, uint64_t size, uint16_t identity, uint64_t seed)
        : base_(base), size_(size), identity_(identity), random_(seed) {}

    bool has(uint64_t address) const { return address - base_ < size_; }
    uint64_t base() const { return base_; }
    uint16_t identity() const { return identity_; }
    bool idle() const { return due_.empty(); }

    void receive(Tlp tlp, double now) {
        if (received) received(tlp);
        if (tlp.kind == Kind::kWrite) {
            store(tlp);
            return;
        }
        double due = now + options.latency_from;
        if (options.latency_to > options.latency_from)
            due += static_cast<double>(random_.below(options.latency_to - options.latency_from + 1));
        if (!options.reorder) due = latest_ = std::max(due, latest_);
        due_.add(std::move(tlp), due);
    }

    // Calls `send(completion, time)` for each that is due.
    template <class Send>
    void tick(double now, Send send) {
        while (!due_.empty() && due_.time() < now + 1) {
            const double time = due_.time();
            serve(due_.take(), time, send);
        }
    }

    // Drops the reads of a requester that has been reset.
    void clear() { due_.clear(); }

private:
    void store(const Tlp& tlp) {
        for (unsigned index = 0; index < tlp.dwords; ++index) {
            const uint8_t enables = enables_of(tlp, index);
            uint8_t* to = bytes.at(tlp.address + 4 * index);
            if (!to) throw Violation("The " + tlp.title() + " is outside of all memory.");
            const auto* from = reinterpret_cast<const uint8_t*>(&tlp.data[index]);
            for (unsigned lane = 0; lane < 4; ++lane)
                if (enables >> lane & 1) to[lane] = from[lane];
        }
    }

    // End of the completion that starts at `from`; `end` is that of the request.
    uint64_t cut(uint64_t from, uint64_t end) {
        const uint64_t boundary = options.boundary, limit = (from & ~uint64_t{3}) + max_payload;
        const uint64_t first = (from / boundary + 1) * boundary;
        if (options.split == Split::kAlways) return std::min(first, end);
        const uint64_t most = limit >= end ? end : std::max(limit / boundary * boundary, first);
        if (options.split == Split::kNever || most <= first) return std::min(most, end);
        const uint64_t choices = (most - first + boundary - 1) / boundary + 1;
        return std::min(first + random_.below(choices) * boundary, most);
    }

    // Completes a read, whose first `lower_address` bytes have been completed before. `poisoned`: one of these
    // completions was.
    template <class Send>
    void serve(Tlp request, double time, Send send) {
        const auto [offset, length] = enabled_bytes(request);
        const uint64_t start = request.address + offset, end = start + length;
        const auto found = faulty.find(start / kPage * kPage);
        const bool fails = found != faulty.end() && request.first_be;
        bool poisoned = request.poisoned;
        for (uint64_t from = start + request.lower_address; from < end;) {
            const uint64_t upto = cut(from, end);
            Tlp completion = completion_of(request, from, upto, end);
            behind_fault += poisoned;
            if (fails && !poisoned && (upto == end || random_.chance(0.5))) {
                ++faults[static_cast<unsigned>(found->second)];
                if (found->second == Fault::kDropped) {
                    if (dropped) dropped(request.tag);
                    return;
                }
                if (found->second != Fault::kPoisoned) {
                    completion.status = found->second == Fault::kUnsupported ? kUnsupportedRequest : kCompleterAbort;
                    completion.dwords = completion.lower_address = 0;
                    completion.data.clear();
                    send(std::move(completion), time);
                    return;
                }
                completion.poisoned = poisoned = true;
                for (uint32_t& word : completion.data) word = static_cast<uint32_t>(random_.next());
            }
            send(std::move(completion), time);
            from = upto;
            if (from < end && options.reorder && random_.chance(0.5)) {
                request.lower_address = static_cast<unsigned>(from - start);
                request.poisoned = poisoned;
                due_.add(std::move(request), time + 1 + static_cast<double>(random_.below(25)));
                return;
            }
        }
    }

    Tlp completion_of(const Tlp& request, uint64_t from, uint64_t upto, uint64_t end) {
        Tlp completion = completion_header(request, from, upto, end, identity_);
        const uint64_t first = from & ~uint64_t{3};
        for (uint32_t& word : completion.data) word = static_cast<uint32_t>(random_.next());
        const uint8_t* data = bytes.at(from);
        if (!data) throw Violation("The " + request.title() + " is outside of all memory.");
        std::memcpy(reinterpret_cast<uint8_t*>(completion.data.data()) + (from - first), data, upto - from);
        return completion;
    }

    uint64_t base_, size_;
    uint16_t identity_;
    Random random_;
    TimedPackets due_;
    double latest_ = 0;
};
