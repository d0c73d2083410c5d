/* SPDX-License-Identifier: Apache-2.0
 *
 * fused_program.h: the program around the workgroups of fused.h: two ranks, their memory and endpoints, table; C++17.
 */
#ifndef FUSED_PROGRAM_H
#define FUSED_PROGRAM_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "endpoint.h"
#include "fused.h"
#include "options.h"

struct FusedOptions {
    uint32_t workgroups, slices = 8, parts = 4, iterations = 16, bytes = 256, generation = 1, early = 0, seconds = 60;
};

inline FusedOptions parse_fused(int argc, char **argv, uint32_t workgroups)
{
    FusedOptions options;
    options.workgroups = workgroups;
    const auto others = parse_arguments(argc, argv, {
        {"--workgroups", &options.workgroups, 1, FUSED_TICKS}, {"--slices", &options.slices, 1,
                                                                DMACE_ENDPOINT_COUNTERS_PER_BLOCK / 2},
        {"--parts", &options.parts, 1, 1024}, {"--iterations", &options.iterations, 1, 1u << 20},
        {"--bytes", &options.bytes, 1, 1u << 16},
        {"--generation", &options.generation, 1, 1u << DMACE_ENDPOINT_GENERATION_BITS}, {"--early", &options.early, 0, 1},
        {"--seconds", &options.seconds, 1, 3600}});
    if (!others.empty())
        refuse_arguments(std::string("This program takes options only, not ") + others[0]);
    return options;
}

/* `Threads` has allocate, reach, counters, tally, join and name like those of program.h, and
 *
 *     void start(job, workgroups)  as many workgroups of each rank, all of them at once
 */
template <typename Threads> class FusedProgram {
public:
    FusedProgram(const FusedOptions &options, Threads &threads) : options_(options), threads_(threads) {}

    /* Status of the process. */
    int run()
    {
        prepare();
        std::thread host([this] { serve(); });
        try {
            threads_.start(job_, options_.workgroups);
            threads_.join();
        } catch (...) {
            end();
            host.join();
            throw;
        }
        ended_.store(true);
        host.join();
        return report();
    }

private:
    enum : uint32_t { PAGE = 3, DATA = 0, PEER_DATA = 1, PEER_FLAGS = 2, SENDER = 0, RECEIVER = 1 };

    /* Memory of a rank, where the host sees it. */
    struct Memory {
        BlockPages *pages;
        uint64_t *flags;
        char *data;
    };

    /* Pages and flags of the sender, then of the receiver, then the word `stop`, then the buffers of both. */
    void prepare()
    {
        const uint64_t data = uint64_t{2} * options_.slices * options_.parts * options_.bytes;
        const size_t own = sizeof(BlockPages) + 4096, bytes = 2 * own + 4096 + 2 * size_t(data);
        char *memory = static_cast<char *>(threads_.allocate(bytes));
        const auto reach = [&](void *address) { return threads_.reach(address, 4096); };
        stop_ = reinterpret_cast<uint64_t *>(memory + 2 * own);
        for (uint32_t rank : {SENDER, RECEIVER}) {
            char *front = memory + rank * own;
            memory_[rank] = {reinterpret_cast<BlockPages *>(front),
                             reinterpret_cast<uint64_t *>(front + sizeof(BlockPages)),
                             memory + 2 * own + 4096 + rank * data};
        }
        counters_ = threads_.counters(sizeof(fused_tally) + 4 * sizeof(uint64_t));
        uint64_t *words = reinterpret_cast<uint64_t *>(static_cast<fused_tally *>(counters_) + 1);
        for (uint32_t rank : {SENDER, RECEIVER}) {
            const Memory &mine = memory_[rank], &peer = memory_[1 - rank];
            endpoints_.push_back(EndpointDouble(
                mine.pages, {{mine.data, data}, {peer.data, data}, {reinterpret_cast<char *>(peer.flags), 4096}}, PAGE));
            fused_rank &to = rank == SENDER ? job_.sender : job_.receiver;
            char *pages = static_cast<char *>(reach(mine.pages));
            to.block = {pages, pages + sizeof mine.pages->ticks, DMACE_ENDPOINT_TICK_PAGE(0)};
            to.flags = static_cast<volatile uint64_t *>(reach(mine.flags));
            to.data = static_cast<unsigned char *>(reach(mine.data));
            to.next = reinterpret_cast<unsigned long long *>(words + 2 * rank);
            to.armed = words + 2 * rank + 1;
            to.data_region = DATA, to.peer_data_region = PEER_DATA, to.peer_flag_region = PEER_FLAGS, to.page = PAGE;
        }
        job_.tally = static_cast<fused_tally *>(counters_);
        job_.stop = static_cast<const volatile uint64_t *>(reach(stop_));
        job_.slices = options_.slices, job_.parts = options_.parts, job_.bytes = options_.bytes;
        job_.iterations = options_.iterations, job_.early = options_.early;
        job_.first = 2 * (options_.generation - 1);
        for (const Memory &rank : memory_)
            std::fill_n(rank.flags, 2 * options_.slices, uint64_t{options_.generation} - 1);
    }

    void end() { __atomic_store_n(stop_, uint64_t{1}, __ATOMIC_RELEASE); }

    /* Both endpoints, until the threads have ended, a tick is refused, or none arrives for `seconds`. */
    void serve()
    {
        auto progress = std::chrono::steady_clock::now();
        while (error_.empty()) {
            bool any = false;
            const bool last = ended_.load();
            for (EndpointDouble &endpoint : endpoints_) {
                any |= endpoint.poll();
                if (!endpoint.error.empty())
                    error_ = endpoint.error;
            }
            const auto now = std::chrono::steady_clock::now();
            if (any)
                progress = now;
            else if (last)
                return;
            else if (std::chrono::duration<double>(now - progress).count() > options_.seconds)
                error_ = "No workgroup ticked in " + std::to_string(options_.seconds) + " s";
            else
                std::this_thread::yield();
        }
        end();
    }

    int report()
    {
        const fused_tally tally = threads_.template tally<fused_tally>(counters_);
        const uint64_t all = uint64_t{options_.iterations} * options_.slices * options_.parts;
        const EndpointDouble &sender = endpoints_[SENDER], &receiver = endpoints_[RECEIVER];
        std::printf("workgroups of %s, endpoints that are test doubles\n", threads_.name().c_str());
        std::printf("%10s %7s %7s %11s %9s %11s %12s\n", "workgroups", "slices", "parts", "iterations", "ticks", "parts used",
                    "wrong bytes");
        std::printf("%10u %7u %7u %11u %9llu %11llu %12llu\n", options_.workgroups, options_.slices, options_.parts,
                    options_.iterations, (unsigned long long)(sender.ticks + receiver.ticks), tally.parts,
                    tally.wrong_bytes);
        if (!error_.empty())
            std::fprintf(stderr, "%s\n", error_.c_str());
        const uint64_t firings = uint64_t{options_.iterations} * options_.slices;
        return !error_.empty() || tally.wrong_bytes || tally.parts != all || sender.ticks != all
            || receiver.ticks != all || sender.firings != firings || receiver.firings != firings;
    }

    const FusedOptions &options_;
    Threads &threads_;
    Memory memory_[2];
    uint64_t *stop_ = nullptr;
    void *counters_ = nullptr;
    std::vector<EndpointDouble> endpoints_;
    std::atomic<bool> ended_{false};
    std::string error_;
    fused_job job_{};
};

template <typename Threads> int run_fused(const FusedOptions &options)
{
    try {
        Threads threads;
        return FusedProgram<Threads>(options, threads).run();
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}

#endif
