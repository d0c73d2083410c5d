/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h: the program around the threads: options, card, memory, bridge, table; C++17.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "bridge.h"
#include "options.h"

struct Options {
    const char *device = nullptr;
    uint32_t threads, queues = 8, rounds = 4, bytes = 64, split = 0, seconds = 60;
};

inline Options parse(int argc, char **argv, uint32_t threads)
{
    Options options;
    options.threads = threads;
    const auto devices = parse_arguments(argc, argv, {
        {"--threads", &options.threads, 1, 1u << 20}, {"--queues", &options.queues, 1, 64},
        {"--rounds", &options.rounds, 1, 1u << 20}, {"--bytes", &options.bytes, 1, 1u << 16},
        {"--split", &options.split, 0, 1}, {"--seconds", &options.seconds, 1, 3600}});
    if (devices.empty())
        refuse_arguments("The first argument must be a device, vfio:DDDD:BB:DD.F or sim:LIBRARY");
    if (devices.size() > 1)
        refuse_arguments("There is one device, " + std::string(devices[0]) + ", and one argument too many: "
                         + devices[1]);
    options.device = devices[0];
    return options;
}

inline void succeed(int code)
{
    if (code)
        throw std::runtime_error(dmace_error());
}

/* `Threads` has
 *
 *     void *allocate(size_t)       memory that host and threads reach, zeroed, at a multiple of 4096
 *     void *reach(void *, size_t)  an address in memory of the host, a page of the library's too, as the threads see it
 *     void forget()                undoes reach(), before the library's pages are gone
 *     void *counters(size_t)       memory for atomic operations of the threads, zeroed
 *     T tally<T>(void *)           a value in it
 *     void start(job), void join(), std::string name()
 */
template <typename Threads> class Program {
public:
    Program(const Options &options, Threads &threads) : options_(options), threads_(threads)
    {
        succeed(dmace_open(options.device, &device_));
    }

    ~Program()
    {
        threads_.forget();
        dmace_close(device_);
    }

    /* Status of the process. */
    int run()
    {
        dmace_info info;
        succeed(dmace_get_info(device_, &info));
        if (options_.queues > info.queues)
            throw std::runtime_error("--queues must be at most the card's " + std::to_string(info.queues) + ", not "
                                     + std::to_string(options_.queues));
        prepare();
        Bridge bridge(job_, pages_, stop_, queues_);
        std::thread host([&] { bridge.run(options_.seconds); });
        try {
            threads_.start(job_);
            threads_.join();
        } catch (...) {
            host.join();
            throw;
        }
        host.join();
        return report(bridge, info);
    }

private:
    static size_t pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

    void prepare()
    {
        const uint32_t count = options_.queues;
        const size_t data = pages(size_t{options_.threads} * options_.bytes), front = sizeof(Page) * count;
        char *memory = static_cast<char *>(threads_.allocate(front + 4096 + 2 * data)), *source = memory + front + 4096;
        pages_ = reinterpret_cast<Page *>(memory);
        stop_ = reinterpret_cast<uint64_t *>(memory + front);
        slots_queue *shared = reinterpret_cast<slots_queue *>(stop_ + 1);
        static_assert(sizeof(slots_queue) * 64 + 8 <= 4096, "the queues fit into a page");
        counters_ = threads_.counters(sizeof(slots_tally) + sizeof(unsigned long long) * count);
        const auto tickets = reinterpret_cast<unsigned long long *>(static_cast<slots_tally *>(counters_) + 1);
        dmace_memory *from, *to;
        succeed(dmace_register(device_, source, data, 0, DMACE_READ, &from));
        succeed(dmace_register(device_, source + data, data, 0, DMACE_WRITE, &to));
        for (uint32_t number = 0; number < count; ++number) {
            dmace_queue_handle *queue;
            succeed(dmace_queue_create(device_, nullptr, &queue));
            queues_.push_back(queue);
            const dmace_queue view = dmace_queue_view(queue);
            if (!view.sc)
                throw std::runtime_error("The card writes completion words to memory that threads cannot read");
            const uint32_t first = dmace_count(DMACE_LOAD_8(view.sc));
            /* Both words are in one page. */
            char *words = static_cast<char *>(threads_.reach(const_cast<uint64_t *>(view.sc), 4096));
            const auto rc = words + (reinterpret_cast<uintptr_t>(view.rc) - reinterpret_cast<uintptr_t>(view.sc));
            char *page = static_cast<char *>(threads_.reach(&pages_[number], sizeof(Page)));
            shared[number] = {{page, reinterpret_cast<const volatile uint64_t *>(words),
                               reinterpret_cast<const volatile uint64_t *>(rc)},
                              reinterpret_cast<const volatile uint64_t *>(page + offsetof(Page, taken)),
                              tickets + number, first};
        }
        const auto reach = [this](void *address) { return threads_.reach(address, 4096); };
        job_ = {static_cast<const slots_queue *>(reach(shared)), static_cast<slots_tally *>(counters_),
                static_cast<const volatile uint64_t *>(reach(stop_)), static_cast<unsigned char *>(reach(source)),
                static_cast<unsigned char *>(reach(source + data)), dmace_memory_region(from), dmace_memory_region(to),
                dmace_memory_offset(from), dmace_memory_offset(to), options_.threads, count, options_.rounds,
                options_.bytes, options_.split};
    }

    int report(const Bridge &bridge, const dmace_info &info)
    {
        const slots_tally tally = threads_.template tally<slots_tally>(counters_);
        const uint64_t all = uint64_t{options_.threads} * options_.rounds;
        uint64_t failed = 0;
        for (dmace_queue_handle *queue : queues_) {
            dmace_queue_stats stats;
            succeed(dmace_get_queue_stats(queue, &stats));
            failed += stats.failed;
        }
        std::printf("threads of %s, card behind %s\n", threads_.name().c_str(), info.transport);
        std::printf("%8s %7s %9s %10s %7s %11s %12s\n", "threads", "queues", "requests", "completed", "failed",
                    "torn words", "wrong bytes");
        std::printf("%8u %7u %9llu %10llu %7llu %11llu %12llu\n", options_.threads, options_.queues,
                    (unsigned long long)bridge.taken, tally.completed, (unsigned long long)failed,
                    (unsigned long long)bridge.torn, tally.wrong_bytes);
        if (!bridge.error.empty())
            std::fprintf(stderr, "%s\n", bridge.error.c_str());
        return !bridge.error.empty() || failed || bridge.torn || tally.wrong_bytes || tally.completed != all;
    }

    const Options &options_;
    Threads &threads_;
    dmace_device *device_ = nullptr;
    Page *pages_ = nullptr;
    uint64_t *stop_ = nullptr;
    void *counters_ = nullptr;
    std::vector<dmace_queue_handle *> queues_;
    slots_job job_{};
};

/* The program with these threads. `threads` outlives the card, which uses its memory. */
template <typename Threads> int run_program(const Options &options)
{
    try {
        Threads threads;
        return Program<Threads>(options, threads).run();
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}

#endif
