/* SPDX-License-Identifier: Apache-2.0
 *
 * fused_program.h: the program around the workgroups of fused.h: two ranks, their memory and endpoints, table; C++17.
 */
#ifndef FUSED_PROGRAM_H
#define FUSED_PROGRAM_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "cards.h"
#include "fused.h"
#include "options.h"

struct FusedOptions {
    std::vector<const char *> cards;
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
    if (!others.empty() && others.size() != 2)
        refuse_arguments("There are two cards, of the sender and of the receiver, or none, not "
                         + std::to_string(others.size()));
    options.cards = others;
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
        for (const auto &endpoint : endpoints_)
            if (error_.empty()) {
                endpoint->finish(uint64_t{options_.iterations} * options_.slices, options_.seconds);
                error_ = endpoint->error;
            }
        return report();
    }

private:
    enum : uint32_t { SENDER = 0, RECEIVER = 1 };

    /* Memory of a rank, where the host sees it. */
    struct Memory {
        BlockPages *pages;
        uint64_t *flags;
        char *data;
    };

    /* Pages and flags of the sender, then of the receiver, then the word `stop`, then the buffers of both. */
    void prepare()
    {
        const uint64_t data = (uint64_t{2} * options_.slices * options_.parts * options_.bytes + 4095) / 4096 * 4096;
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
            const CardRegions regions = add_endpoint(rank, mine, peer, data);
            fused_rank &to = rank == SENDER ? job_.sender : job_.receiver;
            char *pages = static_cast<char *>(reach(mine.pages));
            to.block = {pages, pages + sizeof mine.pages->ticks, DMACE_ENDPOINT_TICK_PAGE(0)};
            to.flags = static_cast<volatile uint64_t *>(reach(mine.flags));
            to.data = static_cast<unsigned char *>(reach(mine.data));
            to.next = reinterpret_cast<unsigned long long *>(words + 2 * rank);
            to.armed = words + 2 * rank + 1;
            to.data_region = regions.data, to.peer_data_region = regions.peer_data;
            to.peer_flag_region = regions.peer_flags, to.page = regions.page;
        }
        if (!options_.cards.empty())
            EndpointCard::connect(static_cast<EndpointCard &>(*endpoints_[SENDER]),
                                  static_cast<EndpointCard &>(*endpoints_[RECEIVER]), options_.seconds);
        job_.tally = static_cast<fused_tally *>(counters_);
        job_.stop = static_cast<const volatile uint64_t *>(reach(stop_));
        job_.slices = options_.slices, job_.parts = options_.parts, job_.bytes = options_.bytes;
        job_.iterations = options_.iterations, job_.early = options_.early;
        job_.first = 2 * (options_.generation - 1);
        for (const Memory &rank : memory_)
            std::fill_n(rank.flags, 2 * options_.slices, uint64_t{options_.generation} - 1);
    }

    CardRegions add_endpoint(uint32_t rank, const Memory &mine, const Memory &peer, uint64_t data)
    {
        if (!options_.cards.empty()) {
            auto card = std::make_unique<EndpointCard>(options_.cards[rank], mine.pages);
            const CardRegions regions = card->share(mine.data, data, mine.flags);
            endpoints_.push_back(std::move(card));
            return regions;
        }
        const CardRegions regions = {0, 1, 2, 3};
        endpoints_.push_back(std::make_unique<EndpointDouble>(
            mine.pages, std::vector<Region>{{mine.data, data}, {peer.data, data},
                                            {reinterpret_cast<char *>(peer.flags), 4096}}, regions.page));
        return regions;
    }

    void end() { __atomic_store_n(stop_, uint64_t{1}, __ATOMIC_RELEASE); }

    /* Both endpoints, until the threads have ended, a tick is refused, or none arrives for `seconds`. */
    void serve()
    {
        auto progress = std::chrono::steady_clock::now();
        while (error_.empty()) {
            bool any = false;
            const bool last = ended_.load();
            for (const auto &endpoint : endpoints_) {
                any |= endpoint->poll();
                if (!endpoint->error.empty())
                    error_ = endpoint->error;
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
        const Endpoint &sender = *endpoints_[SENDER], &receiver = *endpoints_[RECEIVER];
        std::printf("workgroups of %s, endpoints that are %s\n", threads_.name().c_str(),
                    options_.cards.empty() ? "test doubles" : "cards");
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
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
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
