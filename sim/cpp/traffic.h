// SPDX-License-Identifier: Apache-2.0
// GPU threads that post copies to the engine's queues, and checks of the results.
//
// Queue q copies within a target's range from its source arena, filled with a pattern, to slots of its destination
// arena, filled with a guard byte. A request is complete when the count in the SC word in memory includes it; then the
// slot must hold the source's bytes, its surroundings the guard, and the slot is reused.
#pragma once

#include <algorithm>

#include "flow.h"

struct Window {
    uint64_t cycles = 0, write_beats = 0, write_bytes = 0, completion_words = 0, read_beats = 0, requests = 0;
    uint64_t bursts_read = 0, bursts_written = 0, read_stalls = 0, write_stalls = 0;
};

class Traffic : public Observer {
public:
    std::array<Queue, DMACE_DMA_QUEUES> queues;
    Window window;
    bool measuring = false;
    std::vector<Request> finished;  // requests completed in the window, or of flows with a limit
    std::vector<uint64_t> word_delays, record_delays;  // from the last write response to AW of its word
    std::vector<std::string> errors;
    uint64_t misbehaved = 0;  // words in the window
    uint64_t wrong_bytes = 0, checked_bytes = 0, checked_requests = 0;

    Traffic(Engine& engine, const std::vector<Flow>& flows, uint64_t seed)
        : engine_(engine), flows_(flows), random_(seed * 2 + 1), turns_(flows_.size()), earned_(flows_.size()) {
        engine_.memory.bytes.map(kWords, DMACE_DMA_QUEUES * 16, 0);
        for (uint32_t number = 0; number < queues.size(); ++number) queues[number].number = number;
        for (const Flow& flow : flows_)
            for (uint32_t number = flow.first; number < flow.first + flow.count; ++number)
                prepare_queue(engine_, queues[number], flow);
        engine_.observer = this;
    }

    void configure() {
        uint32_t offset = DMACE_DMA_TARGET_LIMIT_0_OFFSET;
        for (const Target& target : engine_.memory.targets()) {
            engine_.write(offset, target.limit << DMACE_DMA_TARGET_LIMIT_0_BEATS_SHIFT |
                                      uint32_t{target.slow} << DMACE_DMA_TARGET_LIMIT_0_SLOW_SHIFT);
            offset += DMACE_DMA_TARGET_LIMIT_1_OFFSET - DMACE_DMA_TARGET_LIMIT_0_OFFSET;
        }
        for (uint32_t index = 0; index < queues.size(); ++index)
            if (queues[index].flow) configure_queue(engine_, queues[index]);
    }

    void begin() { start_ = engine_.cycle; }

    // Actions of the threads before a cycle.
    void step() {
        for (Queue& queue : queues)
            if (queue.flow && !queue.flow->misbehaves) check(queue);
        // One store per cycle enters the doorbell port: flows round robin, and the queues of a flow round robin.
        if (engine_.stores_waiting() > 1) return;
        for (size_t tried = 0; tried < flows_.size(); ++tried) {
            flow_turn_ = (flow_turn_ + 1) % flows_.size();
            if (post_for(flow_turn_)) return;
        }
    }

    // Whether all requests of flows with a limit have completed.
    bool finished_all() const {
        for (const Queue& queue : queues)
            if (queue.flow && queue.ended < queue.flow->requests) return false;
        return true;
    }

    // Checks the requests in flight at the end, which may be written or not.
    void check_rest() {
        for (Queue& queue : queues) {
            if (!queue.flow) continue;
            for (uint64_t number = queue.ended; number < queue.made; ++number) {
                const Request& request = queue.request(number);
                uint64_t wrong = 0;
                for (uint32_t index = 0; index < request.size; ++index) {
                    const uint8_t found = *engine_.memory.bytes.at(request.destination + index);
                    wrong += found != kGuard && found != *engine_.memory.bytes.at(request.source + index);
                }
                complain_bytes(queue, number, wrong, "wrong in flight");
                fill(request.destination, request.size);
            }
            const uint64_t outside = count_differing(queue.destination_base, queue.slots * queue.stride);
            complain_bytes(queue, queue.ended, outside, "written outside of every request");
        }
        if (engine_.memory.illegal_accesses())
            complain("The engine made " + std::to_string(engine_.memory.illegal_accesses()) +
                     " accesses outside of all memory.");
    }

    void posted(uint64_t cycle, uint32_t number) override {
        Queue& queue = queues[number];
        if (queue.flow->misbehaves) {
            misbehaved += measuring;
            return;
        }
        uint64_t upto = queue.posted + 1;
        if (queue.flow->ring) {
            upto = queue.reported.front();
            queue.reported.pop_front();
        }
        while (queue.posted < upto) queue.request(queue.posted++).posted = cycle;
    }

    void read_issued(uint64_t cycle, uint64_t address) override {
        window.bursts_read += measuring;
        Queue* queue = owner(address);
        if (!queue || queue->issued == queue->posted) return;
        Request& request = queue->request(queue->issued);
        if (address - request.source < request.size) {
            request.issued = cycle;
            ++queue->issued;
        }
    }

    void read_beat() override { window.read_beats += measuring; }

    void write_issued(uint64_t cycle, uint32_t id, uint64_t address) override {
        window.bursts_written += measuring;
        if (!(id >> (kIdBits - 1))) return;
        window.completion_words += measuring;
        const uint64_t word = (address - kWords) / 8;
        if (word / 2 < queues.size()) {
            Queue& queue = queues[word / 2];
            (word % 2 ? queue.rc_issued : queue.sc_issued) = cycle;
            (word % 2 ? queue.rc : queue.sc).issued.push_back(cycle);
        } else if (const uint64_t number = (address - kRings) / kRingSpan; number < queues.size()) {
            Queue& queue = queues[number];
            if (queue.pending_records.empty()) return complain("A record was written without an outstanding descriptor.");
            if (measuring) record_delays.push_back(cycle - queue.pending_records.front());
            queue.pending_records.pop_front();
        }
    }

    void write_beat(unsigned bytes) override {
        window.write_beats += measuring;
        window.write_bytes += measuring * bytes;
    }

    void written(uint64_t cycle, const WriteBurst& burst) override {
        if (burst.id >> (kIdBits - 1)) return reported(burst);
        Queue* queue = owner(burst.address);
        if (!queue) return complain("A write is in no arena.");
        queue->bytes += measuring * burst.bytes_enabled;
        // A slot holds one request at a time: the newest posted one that maps to it.
        const uint64_t slot = (burst.address - queue->destination_base) / queue->stride;
        const uint64_t number = queue->ended + (slot + queue->slots - queue->ended % queue->slots) % queue->slots;
        if (number >= queue->posted) return complain("A write does not belong to any posted request.");
        Request& request = queue->request(number);
        request.moved += burst.bytes_enabled;
        if (request.moved == request.size) request.done = cycle;
        while (queue->done < queue->posted && queue->request(queue->done).done) {
            ++queue->done;
            queue->sc.unreported.push_back(cycle);
            queue->rc.unreported.push_back(cycle);
            if (!queue->pending_ends.empty() && queue->pending_ends.front() == queue->done) {
                queue->pending_ends.pop_front();
                queue->pending_records.push_back(cycle);
            }
        }
    }

private:
    // A completion word was written: record the delay of the oldest request that it reports.
    void reported(const WriteBurst& burst) {
        const uint64_t number = (burst.address - kWords) / 8;
        if (number / 2 >= queues.size()) return;
        Word& word = number % 2 ? queues[number / 2].rc : queues[number / 2].sc;
        uint64_t value;
        std::memcpy(&value, &burst.data[burst.address % kBytes], 8);
        const size_t reported = dmace_count(value) - word.count;
        if (reported && reported <= word.unreported.size()) {
            if (measuring) word_delays.push_back(word.issued.front() - word.unreported.front());
            word.unreported.erase(word.unreported.begin(), word.unreported.begin() + static_cast<std::ptrdiff_t>(reported));
        }
        word.count = dmace_count(value);
        word.issued.pop_front();
    }

    void complain(std::string sentence) {
        if (errors.size() < 20) errors.push_back(std::move(sentence));
    }

    void complain_bytes(const Queue& queue, uint64_t number, uint64_t wrong, const char* what) {
        if (!wrong) return;
        wrong_bytes += wrong;
        complain(std::to_string(wrong) + " bytes are " + what + " (queue " + std::to_string(queue.number) +
                 ", request " + std::to_string(number) + ").");
    }

    bool post_for(size_t number) {
        const Flow& flow = flows_[number];
        const uint64_t cycle = engine_.cycle - start_;
        if (cycle < flow.start) return false;
        if (flow.rate > 0 && static_cast<double>(earned_[number]) >= flow.rate * static_cast<double>(cycle - flow.start))
            return false;
        for (uint32_t tried = 0; tried < flow.count; ++tried) {
            turns_[number] = (turns_[number] + 1) % flow.count;
            Queue& queue = queues[flow.first + turns_[number]];
            const uint64_t words = flow.requests ? std::min<uint64_t>(flow.burst, flow.requests - queue.made) : flow.burst;
            if (words == 0 || !may_post(queue, words)) continue;
            const uint32_t slot = static_cast<uint32_t>(random_.below(128));
            if (flow.ring) {
                post_to_ring(queue, words, slot);
                earned_[number] += words;
                return true;
            }
            for (uint32_t count = 0; count < words; ++count)
                dmace_post_to(&queue.gpu, slot + count, flow.misbehaves ? bad_word(queue) : next_word(queue));
            earned_[number] += words;
            engine_.merge(queue.number, slot, static_cast<uint32_t>(words));
            return true;
        }
        return false;
    }

    void post_to_ring(Queue& queue, uint64_t words, uint32_t slot) {
        const Flow& flow = *queue.flow;
        while (words) {
            dmace_word list[DMACE_DMA_LIST_WORDS];
            const uint32_t count = static_cast<uint32_t>(std::min<uint64_t>(flow.ring, words));
            for (uint32_t index = 0; index < count; ++index) list[index] = next_word(queue);
            dmace_ring_list(&queue.ring, list, count, flow.records ? DMACE_DMA_DESCRIPTOR_FLAG_RECORD : 0u, queue.ring.tail);
            queue.ends.push_back(queue.made);
            if (flow.records) {
                queue.record_ends.push_back(queue.made);
                queue.pending_ends.push_back(queue.made);
            }
            words -= count;
        }
        dmace_ring_tell(&queue.gpu, &queue.ring, slot);
        queue.reported.push_back(queue.made);
        engine_.merge(queue.number, slot, 1);
    }

    // Checks that records arrive in order, each after its requests were written.
    void poll_records(Queue& queue) {
        uint64_t record;
        while (dmace_ring_record(&queue.ring, &record)) {
            const auto field = [&](unsigned shift, uint64_t mask) { return record >> shift & mask; };
            const uint64_t tag = field(DMACE_DMA_RECORD_TAG_SHIFT, DMACE_DMA_RECORD_TAG_MASK);
            if (tag != ((queue.ring.record - 1) & DMACE_DMA_RECORD_TAG_MASK) ||
                field(DMACE_DMA_RECORD_STATUS_SHIFT, DMACE_DMA_RECORD_STATUS_MASK) || queue.record_ends.empty() ||
                queue.record_ends.front() > queue.done)
                complain("A record of queue " + std::to_string(queue.number) + " is wrong or early.");
            if (!queue.record_ends.empty()) queue.record_ends.pop_front();
        }
    }

    bool may_post(const Queue& queue, uint64_t words) const {
        const Flow& flow = *queue.flow;
        if (flow.ring && (queue.ends.size() + (words + flow.ring - 1) / flow.ring > queue.ring.entries ||
                          queue.record_ends.size() + (words + flow.ring - 1) / flow.ring > queue.ring.entries))
            return false;
        return queue.made + words <= queue.ended + flow.depth &&
               (flow.waiting == 0 || queue.made + words <= queue.issued + flow.waiting);
    }

    dmace_word bad_word(const Queue& queue) const {
        const uint32_t flags = queue.flow->misbehaves == kMalformed ? 0x80u : 0u;
        return dmace_copy_word(2 * queue.number, uint64_t{1} << 35, 2 * queue.number + 1, 0, queue.flow->size,
                               queue.flow->flags | flags);
    }

    dmace_word next_word(Queue& queue) {
        const Flow& flow = *queue.flow;
        uint32_t source_shift = flow.source_shift, destination_shift = flow.destination_shift;
        if (flow.random_shift) {
            source_shift = static_cast<uint32_t>(random_.below(flow.random_shift));
            destination_shift = static_cast<uint32_t>(random_.below(flow.random_shift));
        }
        uint32_t size = flow.size;
        if (flow.size_from) {
            const uint32_t most = random_.chance(0.5) ? size : std::min(size, flow.size_from + 2 * kBytes);
            size = flow.size_from + static_cast<uint32_t>(random_.below(most - flow.size_from + 1));
        }
        if (flow.across) source_shift = 4096 - size / 2;
        const uint64_t from = queue.made % queue.source_slots * queue.stride + source_shift;
        const uint64_t to = queue.made % queue.slots * queue.stride + destination_shift;
        queue.open.push_back({queue.source_base + from, queue.destination_base + to, size});
        ++queue.made;
        return dmace_copy_word(2 * queue.number, from, 2 * queue.number + 1, to, size, flow.flags);
    }

    // A thread loads the queue's SC word and checks the data of newly completed requests.
    void check(Queue& queue) {
        const uint32_t next = static_cast<uint32_t>(queue.ended + 1);
        const uint64_t sc = dmace_try_sc(&queue.gpu, next, 1), rc = dmace_try_rc(&queue.gpu, next, 1);
        judge(queue, sc, queue.sc_count, "SC");
        judge(queue, rc, queue.rc_count, "RC");
        while (!queue.open.empty() && queue.ended < queue.done &&
               dmace_reached(sc, static_cast<uint32_t>(queue.ended + 1)))
            end(queue);
        while (!queue.ends.empty() && queue.ends.front() <= queue.ended) queue.ends.pop_front();
        if (queue.flow->records) poll_records(queue);
    }

    void judge(Queue& queue, uint64_t word, uint32_t& known, const char* name) {
        const uint32_t count = dmace_count(word);
        if (count == known) return;
        if (!dmace_reached(word, known)) complain(std::string(name) + " went back.");
        if (dmace_reached(word, static_cast<uint32_t>(queue.done + 1)))
            complain(std::string(name) + " of queue " + std::to_string(queue.number) + " says " +
                     std::to_string(count) + " requests ended, but only " + std::to_string(queue.done) + " are written.");
        if (dmace_failed(word) || dmace_status(word))
            complain(std::string(name) + " of queue " + std::to_string(queue.number) + " reports status " +
                     std::to_string(dmace_status(word)) + ".");
        known = count;
    }

    void end(Queue& queue) {
        Request& request = queue.open.front();
        request.seen = engine_.cycle;
        auto& bytes = engine_.memory.bytes;
        uint64_t wrong = 0, source = request.source;
        bytes.each_run(request.destination, request.size, [&](uint8_t* to, uint64_t length, uint64_t) {
            bytes.each_run(source, length, [&](const uint8_t* from, uint64_t run, uint64_t at) {
                const uint8_t* found = to + (at - source);
                if (std::memcmp(found, from, run))
                    for (uint64_t index = 0; index < run; ++index) wrong += found[index] != from[index];
            });
            source += length;
        });
        complain_bytes(queue, queue.ended, wrong, "wrong");
        // The surroundings, up to the neighbouring slots.
        wrong = count_differing(request.destination + request.size, kBytes - 1);
        if (request.destination > queue.destination_base)
            wrong += count_differing(request.destination - 1, 1);
        complain_bytes(queue, queue.ended, wrong, "written beside it");
        fill(request.destination, request.size);
        checked_bytes += request.size;
        ++checked_requests;
        window.requests += measuring;
        if (measuring || queue.flow->requests) finished.push_back(request);
        if (queue.flow->requests == 1) queue.single.push_back(request);
        ++queue.ended;
        queue.open.pop_front();
    }

    uint64_t count_differing(uint64_t address, uint64_t length) {
        uint64_t wrong = 0;
        engine_.memory.bytes.each_run(address, length, [&](const uint8_t* at, uint64_t run, uint64_t) {
            for (uint64_t index = 0; index < run; ++index) wrong += at[index] != kGuard;
        });
        return wrong;
    }

    void fill(uint64_t address, uint64_t length) {
        engine_.memory.bytes.each_run(address, length,
                                      [](uint8_t* at, uint64_t run, uint64_t) { std::memset(at, kGuard, run); });
    }

    Queue* owner(uint64_t address) {
        const uint64_t number = (address - kFirstTarget) % kTargetSpan / kArenaSpan / 2;
        return number < queues.size() && queues[number].flow ? &queues[number] : nullptr;
    }

    Engine& engine_;
    std::vector<Flow> flows_;
    Random random_;
    std::vector<uint32_t> turns_;
    std::vector<uint64_t> earned_;
    size_t flow_turn_ = 0;
    uint64_t start_ = 0;
};
