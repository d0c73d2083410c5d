// SPDX-License-Identifier: Apache-2.0
// Checks of every request of the card as it arrives at a memory, and of every completion word, against the requests of
// the tenants.
//
// A read is within the source of a request in progress, or in the bus beat at its end. A write is within the
// destination of one, and its bytes are the source's; or it is a completion word. RC is in the memory of the
// destination, so the data of all requests that it counts must be there already.
#pragma once

#include <cinttypes>

#include "tenants.h"

class Judge {
public:
    uint64_t ended = 0, bytes = 0;                     // requests, and bytes of those that succeeded
    std::map<uint8_t, uint64_t> failures;              // by status
    uint64_t ended_at = 0;                             // cycle in which a request completed last
    bool uncertain = false;                            // a reset is in progress: requests may be cut off
    std::deque<uint32_t> held;                         // queues that need CLEAR

    Judge(System& system, Tenants& tenants) : system_(system), tenants_(tenants) {
        for (unsigned device = 0; device < system_.devices.size(); ++device)
            system_.memory(device).received = [this](const Tlp& tlp) {
                if (tlp.kind == Kind::kRead) {
                    read(tlp);
                } else {
                    write(tlp);
                }
            };
    }

private:
    static std::string name_of(const Queue& queue, uint64_t number) {
        return "Queue " + std::to_string(queue.number) + ", request " + std::to_string(number);
    }

    void read(const Tlp& tlp) {
        const std::string title = "RQ, " + tlp.title();
        const auto [offset, length] = enabled_bytes(tlp);
        const uint64_t start = tlp.address + offset, end = start + length;
        unsigned arena = 0;
        const Queue* queue = tenants_.owner(start, arena);
        need(queue && arena < kWordsArena, title, "it is in no region");
        const Region& region = queue->regions[arena];
        if (!tlp.first_be) {
            need(arena == kDestination && region.flush(), title, "only a region with the flush attribute is flushed");
            need(tlp.attributes == (region.attributes() & ~kRelaxed), title,
                 "the attributes must be the region's without relaxed ordering");
            return;
        }
        need(region.source, title, "the region may not be read");
        need(tlp.attributes == region.attributes(), title, "the attributes must be the region's");
        const uint64_t beat = kDataWidth / 8;
        for (const Request& request : queue->open)
            if (request.source && start >= request.source &&
                end <= (request.source + request.length + beat - 1) / beat * beat)
                return;
        need(uncertain, title, "it is in the source of no request in progress");
    }

    void write(const Tlp& tlp) {
        const std::string title = "RQ, " + tlp.title();
        const auto [offset, length] = enabled_bytes(tlp);
        const uint64_t start = tlp.address + offset;
        unsigned arena = 0;
        Queue* queue = tenants_.owner(start, arena);
        need(queue && arena >= kDestination, title, "it is in no region that may be written");
        if (arena == kWordsArena) {
            need(!tlp.attributes && length == 8, title, "a completion word has 8 bytes and no attribute");
            uint64_t word;
            std::memcpy(&word, tlp.data.data(), 8);
            const bool send = start == queue->sc.address;
            need(send || start == queue->rc.address, title, "it is no completion word of a queue");
            if (!uncertain) judge(*queue, send ? queue->sc : queue->rc, word, send);
            return;
        }
        need(tlp.attributes == queue->regions[kDestination].attributes(), title, "the attributes must be the region's");
        const auto* data = reinterpret_cast<const uint8_t*>(tlp.data.data()) + offset;
        for (const Request& request : queue->open)
            if (request.destination && start >= request.destination &&
                start + length <= request.destination + request.length) {
                need(!std::memcmp(data, system_.at(request.source + (start - request.destination)), length), title,
                     "its bytes must be those of the request's source");
                return;
            }
        throw Violation(title + ": it is in the destination of no request in progress.");
    }

    // A completion word as it arrives.
    void judge(Queue& queue, CompletionWord& word, uint64_t value, bool send) {
        const uint64_t count = dmace_count(value);
        const uint8_t status = dmace_status(value);
        const std::string title =
            std::string(send ? "SC" : "RC") + " of queue " + std::to_string(queue.number) + " with count " +
            std::to_string(count) + ", " + std::to_string(dmace_failed(value)) + " failed, status " + hex(status);
        need(count >= word.count, title, "the count must not decrease");
        need(count <= queue.made, title, "the count must not exceed the number of requests");
        word.count = count;
        word.status = status;
        check_failures(queue, value, title);
        if (!send) end(queue, count);
        if (send && status && !queue.skip_errors && queue.cleared != count) {
            queue.cleared = count;
            held.push_back(queue.number);
        }
    }

    // The failures in a word, where the count of RC has not passed it.
    void check_failures(const Queue& queue, uint64_t value, const std::string& title) const {
        const uint64_t count = dmace_count(value);
        if (count < queue.ended) return;
        uint64_t failed = queue.failed;
        uint8_t latest = queue.latest;
        for (uint64_t number = queue.ended; number < count; ++number)
            if (const uint8_t status = queue.request(number).status) {
                ++failed;
                latest = status;
            }
        if (!queue.skip_errors) {
            latest = 0;
            if (dmace_status(value)) {
                need(count < queue.made, title, "a request that has failed is not counted before CLEAR");
                latest = queue.request(count).status;
                ++failed;
            }
        }
        need(dmace_status(value) == latest, title, ("the status must be " + hex(latest)).c_str());
        need(dmace_failed(value) == (failed & DMACE_DMA_COMPLETION_FAILED_MASK), title,
             ("the failures must be " + std::to_string(failed)).c_str());
    }

    // The requests up to this number have completed.
    void end(Queue& queue, uint64_t count) {
        while (queue.ended < count) {
            const Request request = queue.open.front();
            const uint64_t wrong = tenants_.wrong_bytes(request, !request.status);
            if (wrong)
                throw Violation(name_of(queue, queue.ended) + ": " + std::to_string(wrong) + " of " +
                                std::to_string(request.length) + " bytes are wrong as it completes.");
            tenants_.clear(request);
            if (request.status) {
                ++failures[request.status];
                ++queue.failed;
                queue.latest = request.status;
            } else {
                bytes += request.length;
            }
            ++ended;
            ++queue.ended;
            queue.open.pop_front();
            ended_at = system_.cycle();
        }
    }

    System& system_;
    Tenants& tenants_;
};
