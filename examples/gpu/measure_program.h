/* SPDX-License-Identifier: Apache-2.0
 *
 * measure_program.h: the host's side of measure.h, and its table; C++17.
 */
#ifndef MEASURE_PROGRAM_H
#define MEASURE_PROGRAM_H

#include <chrono>
#include <stdexcept>
#include <thread>

#include "measure.h"
#include "options.h"

struct MeasureOptions {
    uint32_t threads, rounds = 200000, seconds = 60;
};

inline MeasureOptions parse_measure(int argc, char **argv, uint32_t threads)
{
    MeasureOptions options;
    options.threads = threads;
    const auto others = parse_arguments(argc, argv, {
        {"--threads", &options.threads, 1, MEASURE_THREADS}, {"--rounds", &options.rounds, 1, 1u << 30},
        {"--seconds", &options.seconds, 1, 3600}});
    if (!others.empty())
        refuse_arguments(std::string("This program takes options only, not ") + others[0]);
    return options;
}

/* `Threads` has allocate, reach, counters, tally and name like those of program.h, and
 *
 *     void start(job), void join()  may be called again
 */
template <typename Threads> class Measurement {
public:
    Measurement(const MeasureOptions &options, Threads &threads) : options_(options), threads_(threads)
    {
        const size_t data = size_t{8} * MEASURE_THREADS * MEASURE_LINES * MEASURE_LINE;
        memory_ = static_cast<char *>(threads.allocate(4096 + 4096 + data));
        counters_ = threads.counters(sizeof(Found));
        const auto reach = [&](void *address) { return threads.reach(address, 4096); };
        slots_ = reinterpret_cast<dmace_word *>(memory_);
        word_ = reinterpret_cast<uint64_t *>(memory_ + 4096);
        lines_ = reinterpret_cast<uint64_t *>(memory_ + 8192);
        job_.queue = {reach(slots_), nullptr, nullptr};
        job_.word = static_cast<const volatile uint64_t *>(reach(word_));
        job_.lines = static_cast<uint64_t *>(reach(lines_));
        job_.seen = &static_cast<Found *>(counters_)->seen, job_.stale = &static_cast<Found *>(counters_)->stale;
        job_.threads = options.threads, job_.rounds = options.rounds;
        total_ = 8192 + data;
    }

    /* One line of the table. Returns how many were torn or stale. */
    uint64_t line(const char *name, uint32_t kind, uint32_t store, uint32_t fence)
    {
        std::memset(memory_, 0, total_);
        job_.kind = kind, job_.store = store, job_.fence = fence;
        const Found before = threads_.template tally<Found>(counters_);
        threads_.start(job_);
        Found found;
        try {
            if (kind == MEASURE_IN)
                complete();
            else
                found = look();
        } catch (...) {
            threads_.join();
            throw;
        }
        threads_.join();
        if (kind == MEASURE_IN) {
            found = threads_.template tally<Found>(counters_);
            found.seen -= before.seen, found.stale -= before.stale;
        }
        std::printf("%-44s %12llu %12llu\n", name, found.seen, found.stale);
        return found.stale;
    }

private:
    struct Found {
        unsigned long long seen = 0, stale = 0;
    };

    /* Each slot in turn, until all have the last round. */
    Found look()
    {
        Found found;
        uint64_t before[MEASURE_THREADS] = {};
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options_.seconds);
        for (uint32_t finished = 0; finished < options_.threads;) {
            finished = 0;
            for (uint32_t thread = 0; thread < options_.threads; ++thread) {
                const dmace_word word = machine_load_16(slots_ + thread);
                const volatile uint64_t *lines = lines_ + size_t{thread} * MEASURE_LINES * MEASURE_LINE;
                finished += word.lo == options_.rounds && word.hi == options_.rounds;
                if (word.lo == before[thread] && word.hi == before[thread])
                    continue;
                bool wrong = word.lo != word.hi;
                for (uint32_t line = 0; job_.kind == MEASURE_OUT && line < MEASURE_LINES; ++line)
                    wrong |= lines[line * MEASURE_LINE] < word.lo;
                before[thread] = word.lo;
                ++found.seen, found.stale += wrong;
            }
            if (std::chrono::steady_clock::now() > end)
                throw std::runtime_error("After " + std::to_string(options_.seconds)
                                         + " s, the last words of all threads have not arrived");
        }
        return found;
    }

    void complete()
    {
        volatile uint64_t *lines = lines_;
        for (uint64_t round = 1; round <= options_.rounds; ++round) {
            for (uint32_t line = 0; line < MEASURE_LINES; ++line)
                lines[line * MEASURE_LINE] = round;
            __atomic_store_n(word_, round, __ATOMIC_RELEASE);
            for (int pause = 0; pause < 20; ++pause)
                _mm_pause();
        }
    }

    const MeasureOptions &options_;
    Threads &threads_;
    char *memory_;
    void *counters_;
    size_t total_;
    dmace_word *slots_;
    uint64_t *word_, *lines_;
    measure_job job_{};
};

/* All lines; whether those that are done right had no torn word and no stale line. `gpu`: threads have its stores. */
template <typename Threads> bool measure_order(const MeasureOptions &options, Threads &threads, bool gpu)
{
    Measurement<Threads> measurement(options, threads);
    uint64_t wrong = 0;
    std::printf("%u threads of %s, %u rounds\n%-44s %12s %12s\n", options.threads, threads.name().c_str(),
                options.rounds, "", "seen", "torn, stale");
    wrong += measurement.line("words of one 16-byte store", MEASURE_WHOLE, MEASURE_WORD, 0);
    if (gpu) {
        measurement.line("words of one 16-byte store, relaxed", MEASURE_WHOLE, MEASURE_RELAXED, 0);
        measurement.line("words of one vector store", MEASURE_WHOLE, MEASURE_VECTOR, 0);
    }
    measurement.line("words of two stores", MEASURE_WHOLE, MEASURE_HALVES, 0);
    measurement.line("words of two stores, a fence between", MEASURE_WHOLE, MEASURE_APART, 0);
    wrong += measurement.line("data before words, fence", MEASURE_OUT, MEASURE_WORD, 1);
    measurement.line("data before words, no fence", MEASURE_OUT, MEASURE_WORD, 0);
    wrong += measurement.line("data before completion words, fence", MEASURE_IN, MEASURE_WORD, 1);
    measurement.line("data before completion words, no fence", MEASURE_IN, MEASURE_WORD, 0);
    return !wrong;
}

#endif
