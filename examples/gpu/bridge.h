/* SPDX-License-Identifier: Apache-2.0
 *
 * bridge.h: a thread of the host that takes words from pages in memory and posts them to a card by libdmace; C++17.
 */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "slots.h"

#include "libdmace.h"

/* A page with its count of taken words, in memory that the threads reach. */
struct Page {
    dmace_word slots[SLOTS];
    uint64_t taken;
    char rest[DMACE_DMA_DOORBELL_PAGE - sizeof(uint64_t)];
};

class Bridge {
public:
    /* `pages` and `stop` are where the host sees them. */
    Bridge(const slots_job &job, Page *pages, uint64_t *stop, std::vector<dmace_queue_handle *> queues)
        : job_(job), pages_(pages), stop_(stop), queues_(std::move(queues)), latest_(queues_.size()) {}

    /* Runs until all words of the job are posted and complete, or one fails, or nothing happens for `seconds`. */
    void run(double seconds)
    {
        const uint64_t all = uint64_t{job_.threads} * job_.rounds;
        auto progress = std::chrono::steady_clock::now();
        while (error.empty() && taken < all) {
            const uint64_t before = taken;
            for (size_t number = 0; number < queues_.size() && error.empty(); ++number)
                poll(number);
            const auto now = std::chrono::steady_clock::now();
            if (taken != before)
                progress = now;
            else if (std::chrono::duration<double>(now - progress).count() > seconds)
                error = "No thread posted a word in " + std::to_string(int(seconds)) + " s, after "
                    + std::to_string(taken) + " of " + std::to_string(all);
            else
                std::this_thread::yield();
        }
        for (size_t number = 0; number < queues_.size() && error.empty(); ++number)
            if (latest_[number])
                check(number, int64_t(seconds * 1e9));
        if (!error.empty())
            __atomic_store_n(stop_, uint64_t{1}, __ATOMIC_RELEASE);
    }

    uint64_t taken = 0, torn = 0;
    std::string error;

private:
    /* Takes at most one word from a page. */
    void poll(size_t number)
    {
        Page &page = pages_[number];
        dmace_word *slot = &page.slots[page.taken % SLOTS];
        dmace_word word = machine_load_16(slot);
        if (slots_empty(word) && !word.hi) {
            if (latest_[number])
                check(number, 0);
            return;
        }
        if (!slots_whole(&job_, word)) {
            ++torn;
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
            while (!slots_whole(&job_, word = machine_load_16(slot))) {
                if (std::chrono::steady_clock::now() > end) {
                    error = "Slot " + std::to_string(page.taken % SLOTS) + " of queue " + std::to_string(number)
                        + " has had a word for 5 s that no thread stores";
                    return;
                }
                std::this_thread::yield();
            }
        }
        DMACE_STORE_16(slot, 0, 0);
        __atomic_store_n(&page.taken, page.taken + 1, __ATOMIC_RELEASE);
        ++taken;
        if (dmace_post_word(queues_[number], word, &latest_[number]))
            error = dmace_error();
    }

    /* Looks for the end of a queue's latest request, which reports failures, or waits for it. */
    void check(size_t number, int64_t timeout)
    {
        const int result = dmace_wait(queues_[number], latest_[number], timeout);
        if (result > 0)
            error = "A request of queue " + std::to_string(number) + " failed with " + dmace_status_name(result);
        else if (result < 0 && (timeout || result != -ETIMEDOUT))
            error = dmace_error();
        else if (result == 0)
            latest_[number] = 0;
    }

    const slots_job &job_;
    Page *pages_;
    uint64_t *stop_;
    std::vector<dmace_queue_handle *> queues_;
    std::vector<uint64_t> latest_;
};

#endif
