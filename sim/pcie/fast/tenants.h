// SPDX-License-Identifier: Apache-2.0
// Queues of the long random run: their tenants' regions in the memories of GPUs and host, their requests, and the
// expected result of each.
//
// Each queue has two source regions and a destination. A source is filled with random bytes, a destination with a guard
// byte. Two queues share a tenant, that is, a protection domain.
#pragma once

#include "registers.h"

constexpr uint64_t kSpan = Arenas::kBytes, kFirst = 64 << 20;  // bytes of an arena; offset of the first of a memory
constexpr uint64_t kSourceBytes = 384 << 10, kDestinationBytes = 192 << 10, kPage = 4096;
constexpr uint8_t kGuard = 0xA5;
constexpr unsigned kArenas = 4, kDestination = 2, kWordsArena = 3;  // of a queue; the first two are sources

struct Request {
    uint64_t source = 0, destination = 0;  // addresses; 0 if it must not reach memory
    uint32_t length = 0;
    uint8_t status = 0;                    // expected
    uint64_t posted = 0;                   // cycle
};

// A word in memory that counts completed requests.
struct CompletionWord {
    uint64_t address = 0, count = 0;
    uint8_t status = 0;
};

struct Queue {
    uint32_t number = 0, domain = 0;
    unsigned thread = 1;  // the device that posts
    bool skip_errors = false;
    Region regions[3];  // two sources and the destination
    CompletionWord sc, rc;
    std::deque<Request> open;       // from number `ended` on
    uint64_t made = 0, ended = 0;   // requests since START
    uint64_t failed = 0;            // of those that have ended
    uint8_t latest = 0;             // status of the latest failure of these
    uint64_t cleared = ~uint64_t{0};  // number of the failed request after which CLEAR was issued last
    uint64_t next = 0;                // offset of the next destination

    const Request& request(uint64_t number_of_it) const { return open[number_of_it - ended]; }
};

class Tenants {
public:
    std::array<Queue, DMACE_DMA_QUEUES> queues;

    Tenants(System& system, Random& random) : system_(system), random_(random) {
        for (uint32_t number = 0; number < queues.size(); ++number) {
            Queue& queue = queues[number];
            queue.number = number;
            queue.domain = 1 + number / 2;
            for (unsigned kind = 0; kind < 3; ++kind) place(queue, kind);
        }
    }

    // Assigns completion words, posting threads and error policies, and configures everything.
    void set_up() {
        for (Queue& queue : queues) {
            for (const Region& region : queue.regions) define_region(system_, region);
            queue.thread = static_cast<unsigned>(random_.below(system_.devices.size()));
            queue.skip_errors = queue.number % 2;
            place_words(queue);
            queue.made = queue.ended = queue.failed = queue.next = 0;
            queue.latest = 0;
            queue.cleared = ~uint64_t{0};
            queue.open.clear();
            start_queue(system_, queue.number, queue.domain, queue.sc.address, queue.rc.address, queue.skip_errors);
        }
        // A read waits for the writes before it.
        system_.read(DMACE_DMA_ID_OFFSET);
    }

    // The queue whose arena has an address, and the arena; none if there is no such arena.
    Queue* owner(uint64_t address, unsigned& arena) {
        const uint64_t base = system_.memory(system_.device_of(address)).base();
        if (address < base + kFirst) return nullptr;
        const uint64_t number = (address - base - kFirst) / kSpan;
        arena = static_cast<unsigned>(number % kArenas);
        return number / kArenas < queues.size() ? &queues[number / kArenas] : nullptr;
    }

    // The next request of a queue, of a random kind; none if its destination has no free range.
    bool make(Queue& queue, double invalid, uint32_t longest, dmace_word& word) {
        const Region &source = queue.regions[random_.below(2)], &destination = queue.regions[kDestination];
        const uint32_t length = random_length(longest);
        uint64_t to;
        if (!find_range(queue, length, to)) return false;
        const uint64_t from = random_offset(source.length - length);
        Request request;
        request.length = length;
        request.posted = system_.cycle();
        const uint32_t fence = random_.chance(0.03) ? DMACE_DMA_FLAG_FENCE : 0;
        const uint32_t flags = DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC | fence;
        word = dmace_copy_word(source.number, from, destination.number, to, length, flags);
        if (random_.chance(invalid)) {
            word = spoil(queue, source, from, to, length, flags, request.status);
        } else {
            request.source = source.base + from;
            request.destination = destination.base + to;
            request.status = fault_of(request);
            queue.next = to + length + 1 + random_.below(40);
        }
        queue.open.push_back(request);
        ++queue.made;
        return true;
    }

    // Fills what a request has, or may have, written.
    void clear(const Request& request) {
        if (request.destination) std::memset(system_.at(request.destination), kGuard, request.length);
    }

    // Bytes of a request's destination that are wrong: of one that succeeded, all must be the source's; of another one,
    // each is the source's or has not been written.
    uint64_t wrong_bytes(const Request& request, bool complete) {
        if (!request.destination) return 0;
        const uint8_t *from = system_.at(request.source), *to = system_.at(request.destination);
        uint64_t wrong = 0;
        if (complete && !std::memcmp(from, to, request.length)) return 0;
        for (uint32_t index = 0; index < request.length; ++index)
            wrong += to[index] != from[index] && (complete || to[index] != kGuard);
        return wrong;
    }

    // Whether no byte of the destinations differs from the guard; nothing may be in progress.
    bool untouched() {
        for (const Queue& queue : queues) {
            const Region& region = queue.regions[kDestination];
            const uint8_t* at = system_.at(region.base);
            for (uint64_t index = 0; index < kDestinationBytes; ++index)
                if (at[index] != kGuard) return false;
        }
        return true;
    }

private:
    // Chooses a region of a queue in a memory, and fills it.
    void place(Queue& queue, unsigned kind) {
        const bool source = kind < kDestination;
        Completer& memory = system_.memory(static_cast<unsigned>(random_.below(system_.devices.size())));
        Region& region = queue.regions[kind];
        region.number = 3 * queue.number + kind;
        region.domain = queue.domain;
        region.source = source;
        const uint64_t start = memory.base() + kFirst + (queue.number * kArenas + kind) * kSpan;
        region.base = start + kPage * random_.below(64);
        region.length = (source ? kSourceBytes : kDestinationBytes) - random_.below(5000);
        static const uint32_t caches[] = {0, 2, 3, 15};
        region.cache = caches[random_.below(4)];
        region.qos = static_cast<uint32_t>(random_.below(source ? 4 : 8));
        memory.bytes.map(start, kSpan);
        if (!source) {
            std::memset(memory.bytes.at(region.base), kGuard, kDestinationBytes);
        } else {
            for (uint64_t at = region.base; at < region.base + kSourceBytes; at += 4) {
                const auto value = static_cast<uint32_t>(random_.next() >> 32);
                std::memcpy(memory.bytes.at(at), &value, 4);
            }
        }
    }

    // SC in the memory of a source, RC in that of the destination.
    void place_words(Queue& queue) {
        CompletionWord* words[] = {&queue.sc, &queue.rc};
        for (unsigned index = 0; index < 2; ++index) {
            Completer& memory = system_.memory(system_.device_of(queue.regions[index ? kDestination : 0].base));
            const uint64_t arena = memory.base() + kFirst + (queue.number * kArenas + kWordsArena) * kSpan;
            memory.bytes.map(arena, kPage);
            *words[index] = {arena + 2048 * index + 8 * random_.below(256), 0, 0};
        }
    }

    uint32_t random_length(uint32_t longest) {
        static const uint32_t most[] = {8, 64, 200, 600, 2000, 9000};
        return 1 + static_cast<uint32_t>(random_.below(std::min(most[random_.below(6)], longest)));
    }

    // Offsets near multiples of the page and of a beat, and any others.
    uint64_t random_offset(uint64_t most) {
        const uint64_t any = random_.below(most + 1);
        switch (random_.below(4)) {
            case 0: return any & ~uint64_t{63};
            case 1: return std::min(most, (any & ~(kPage - 1)) + kPage - std::min(kPage, random_.below(80)));
            default: return any;
        }
    }

    // A free range of the destination, which is used as a ring.
    bool find_range(Queue& queue, uint32_t length, uint64_t& start) {
        const Region& region = queue.regions[kDestination];
        uint64_t tail = region.length;
        bool used = false;
        for (const Request& request : queue.open)
            if (request.destination) {
                tail = request.destination - region.base;
                used = true;
                break;
            }
        start = queue.next + (random_.chance(0.3) ? 64 - queue.next % 64 : 0);
        if (used && start < tail && queue.next <= tail) return start + length < tail;
        if (start + length <= region.length) return true;
        start = random_.below(64);
        return start + length < (used ? tail : region.length);
    }

    // Status of the first page of the source with a fault.
    uint8_t fault_of(const Request& request) {
        const auto& faulty = system_.memory(system_.device_of(request.source)).faulty;
        if (faulty.empty()) return DMACE_DMA_STATUS_OK;
        for (uint64_t page = request.source / kPage * kPage; page < request.source + request.length; page += kPage) {
            const auto found = faulty.find(page);
            if (found != faulty.end())
                return found->second == Fault::kUnsupported ? DMACE_DMA_STATUS_READ_DECERR
                                                            : DMACE_DMA_STATUS_READ_SLVERR;
        }
        return DMACE_DMA_STATUS_OK;
    }

    // A word that a check refuses.
    dmace_word spoil(const Queue& queue, const Region& source, uint64_t from, uint64_t to, uint32_t length,
                     uint32_t flags, uint8_t& status) {
        const Region& destination = queue.regions[kDestination];
        const Queue& other = queues[(queue.number + 2) % queues.size()];  // of another tenant
        const auto copy = [&](const Region& source_used, uint64_t source_offset, const Region& destination_used,
                              uint64_t destination_offset, uint32_t bytes, uint32_t flag_bits, unsigned expected) {
            status = static_cast<uint8_t>(expected);
            return dmace_copy_word(source_used.number, source_offset, destination_used.number, destination_offset,
                                   bytes, flag_bits);
        };
        Region none;
        none.number = 255;
        switch (random_.below(10)) {
            case 0: return copy(other.regions[0], 0, destination, to, length, flags, DMACE_DMA_STATUS_SRC_DOMAIN);
            case 1: return copy(source, from, other.regions[2], 0, length, flags, DMACE_DMA_STATUS_DST_DOMAIN);
            case 2: return copy(destination, to, destination, to, length, flags, DMACE_DMA_STATUS_SRC_RIGHTS);
            case 3: return copy(source, from, source, from, length, flags, DMACE_DMA_STATUS_DST_RIGHTS);
            case 4: return copy(source, source.length - length + 1, destination, to, length, flags,
                                DMACE_DMA_STATUS_SRC_BOUNDS);
            case 5: return copy(source, from, destination, destination.length - length + 1, length, flags,
                                DMACE_DMA_STATUS_DST_BOUNDS);
            case 6: return copy(none, from, destination, to, length, flags, DMACE_DMA_STATUS_SRC_REGION);
            case 7: return copy(source, from, none, to, length, flags, DMACE_DMA_STATUS_DST_REGION);
            case 8: return copy(source, from, destination, to, 0, flags, DMACE_DMA_STATUS_ZERO_LENGTH);
            default: return copy(source, from, destination, to, length, flags | 0x80, DMACE_DMA_STATUS_MALFORMED);
        }
    }

    System& system_;
    Random& random_;
};
