// SPDX-License-Identifier: Apache-2.0
// Throughput and latency of copies from one GPU to another; SC and RC are on, as in sim/pcie/bench.py.
//
// A copy is counted by its bytes as they arrive at the destination, where each is compared with the source's.
#pragma once

#include <cinttypes>

#include "json.h"
#include "registers.h"

struct BenchOptions {
    std::vector<uint32_t> sizes, queues;
    uint32_t depth = DMACE_DMA_QUEUE_DEPTH;  // requests of a queue that have not completed at most
    uint64_t settle = 2000, window = 25000;  // cycles
};

class Bench {
public:
    static constexpr uint64_t kRegion = 1 << 20, kWords = 3 << 20, kPage = 4096;

    Bench(System& system, const BenchOptions& options) : system_(system), options_(options) {
        for (unsigned device : {kSource, kTarget}) {
            Completer& memory = system_.memory(device);
            memory.bytes.map(memory.base(), Arenas::kBytes);
            memory.received = [this, device](const Tlp& tlp) { arrived(device, tlp); };
        }
        Random random(7);
        for (uint64_t at = 0; at < kRegion; ++at) *source(at) = static_cast<uint8_t>(random.next() >> 32);
        system_.card.moved = [this](char stream) { moved(stream); };
    }

    std::string run() {
        set_up();
        text_ = "\"latencies\": [";
        const char* comma = "";
        for (const uint32_t size : options_.sizes) {
            append(text_, "%s\n", comma);
            measure_latency(size);
            comma = ",";
        }
        text_ += "],\n\"throughput\": [";
        comma = "";
        for (const uint32_t queues : options_.queues)
            for (const uint32_t size : options_.sizes) {
                append(text_, "%s\n", comma);
                measure_throughput(queues, size);
                comma = ",";
            }
        return text_ + "]";
    }

private:
    static constexpr unsigned kSource = 1, kTarget = 2, kThread = 10, kMerged = 4;

    struct Queue {
        uint64_t posted = 0, sc = 0, rc = 0;
    };

    uint8_t* source(uint64_t offset) { return system_.memory(kSource).bytes.at(System::kGpus + offset); }
    uint64_t target_base() { return system_.memory(kTarget).base(); }

    void set_up() {
        await_settings(system_, true);
        define_region(system_, {0, 0, system_.memory(kSource).base(), kRegion, true, 0, 0});
        define_region(system_, {1, 0, target_base(), kRegion, false, 0, 0});
        for (uint32_t queue = 0; queue < DMACE_DMA_QUEUES; ++queue)
            start_queue(system_, queue, 0, system_.memory(kSource).base() + kWords + queue * kPage,
                        target_base() + kWords + queue * kPage, false);
        system_.read(DMACE_DMA_ID_OFFSET);
    }

    // A TLP at the memory of a GPU.
    void arrived(unsigned device, const Tlp& tlp) {
        if (tlp.kind == Kind::kRead) return;
        const uint64_t offset = tlp.address - system_.memory(device).base();
        if (offset >= kWords) {
            uint64_t word;
            std::memcpy(&word, tlp.data.data(), 8);
            Queue& queue = queues_[(offset - kWords) / kPage];
            need(!dmace_status(word) && dmace_count(word) <= queue.posted, "Queue", "a completion word is wrong");
            (device == kSource ? queue.sc : queue.rc) = dmace_count(word);
            return;
        }
        const auto [first, length] = enabled_bytes(tlp);
        const auto* data = reinterpret_cast<const uint8_t*>(tlp.data.data()) + first;
        need(device == kTarget && !std::memcmp(data, source(offset + first), length), "RQ, " + tlp.title(),
             "the bytes must be those of the source");
        bytes_ += length;
    }

    void moved(char stream) {
        const uint64_t end = system_.cycle() + 1;
        if (stream == 'q' && watched_) requests_.push_back(end);
        if (stream == 'r' && watched_) completions_.push_back(end);
        if (stream == 'c' && watched_ && !doorbell_) doorbell_ = end;
    }

    // The next copy, aligned to its size if that is a power of two.
    dmace_word word(uint32_t size) {
        const uint64_t at = position_;
        position_ = at + 2 * size <= kRegion ? at + size : 0;
        return dmace_copy_word(0, at, 1, at, size, DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC);
    }

    // A thread of each queue keeps it full.
    void post(uint32_t queues, uint32_t size) {
        for (uint32_t number = 0; number < queues; ++number) {
            Queue& queue = queues_[number];
            if ((system_.cycle() + number) % kThread) continue;
            while (options_.depth - (queue.posted - queue.sc) >= std::min(kMerged, options_.depth)) {
                std::vector<dmace_word> words;
                while (words.size() < std::min(kMerged, options_.depth)) words.push_back(word(size));
                queue.posted += words.size();
                ring(system_, kSource, number, 0, words);
            }
        }
    }

    template <class Done>
    void run_until(const char* what, Done done) {
        const uint64_t began = system_.cycle();
        while (!done()) {
            if (system_.cycle() - began > kLimit)
                throw Violation(std::string(what) + " within " + std::to_string(kLimit) + " cycles; " +
                                system_.card.streams() + ".");
            system_.tick();
        }
    }

    // Drops the copies that have not completed: RESET and START of all queues. Their words count from 0.
    void restart(uint32_t queues) {
        for (uint32_t queue = 0; queue < queues; ++queue) command(system_, queue, DMACE_DMA_COMMAND_RESET);
        for (uint32_t queue = 0; queue < queues; ++queue) {
            system_.write(DMACE_DMA_QUEUE_SELECT_OFFSET, queue);
            run_until("A queue has not completed its reset", [&] {
                return !(system_.read(DMACE_DMA_QUEUE_STATE_OFFSET) & DMACE_DMA_QUEUE_STATE_RESETTING_MASK);
            });
        }
        run_until("The links are not idle", [&] { return system_.idle(); });
        for (uint32_t queue = 0; queue < queues; ++queue) {
            queues_[queue] = {};
            command(system_, queue, DMACE_DMA_COMMAND_START);
        }
        system_.read(DMACE_DMA_ID_OFFSET);
    }

    void measure_throughput(uint32_t queues, uint32_t size) {
        position_ = 0;
        const auto step = [&] {
            post(queues, size);
            system_.tick();
        };
        for (uint64_t count = 0; count < options_.settle; ++count) step();
        const uint64_t bytes = bytes_, beats = system_.card.rq_beats;
        for (uint64_t count = 0; count < options_.window; ++count) step();
        const auto window = static_cast<double>(options_.window);
        append(text_, "{\"queues\": %u, \"bytes\": %u, \"requests\": %.4f, \"cycles\": %" PRIu64 ", \"rq_busy\": %.5f}",
                    queues, size, static_cast<double>(bytes_ - bytes) / size, options_.window,
                    static_cast<double>(system_.card.rq_beats - beats) / window);
        restart(queues);
    }

    // Cycles of one copy in an idle card.
    void measure_latency(uint32_t size) {
        requests_.clear();
        completions_.clear();
        doorbell_ = 0;
        watched_ = true;
        position_ = 0;
        Queue& queue = queues_[0];
        const uint64_t posted = system_.cycle();
        ++queue.posted;
        ring(system_, kSource, 0, 0, {word(size)});
        uint64_t sc = 0, rc = 0;
        run_until("A copy has not completed", [&] {
            if (!sc && queue.sc == queue.posted) sc = system_.cycle();
            if (!rc && queue.rc == queue.posted) rc = system_.cycle();
            return sc && rc && system_.idle();
        });
        for (unsigned count = 0; count < 250; ++count) system_.tick();
        watched_ = false;
        const auto write = std::upper_bound(requests_.begin(), requests_.end(), completions_.front());
        append(text_, "{\"bytes\": %u, \"link_in\": %" PRIu64 ", \"read\": %" PRIu64 ", \"memory\": %" PRIu64
                    ", \"data\": %" PRIu64 ", \"last_word\": %" PRIu64 ", \"rc_there\": %" PRIu64
                    ", \"sc_here\": %" PRIu64 "}",
                    size, doorbell_ - posted, requests_.front() - doorbell_, completions_.front() - requests_.front(),
                    *write - completions_.front(), requests_.back() - completions_.back(), rc - posted, sc - posted);
    }

    static constexpr uint64_t kLimit = 1000000;

    System& system_;
    BenchOptions options_;
    std::array<Queue, DMACE_DMA_QUEUES> queues_;
    uint64_t position_ = 0, bytes_ = 0, doorbell_ = 0;
    bool watched_ = false;
    std::string text_;
    std::vector<uint64_t> requests_, completions_;
};
