// SPDX-License-Identifier: Apache-2.0
// Threads that repeatedly share the parts of some work.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Workers {
public:
    // Calls `work(part)` for parts 0 to `count` - 1; the caller of `run` does part 0.
    Workers(unsigned count, std::function<void(unsigned)> work) : work_(std::move(work)) {
        for (unsigned part = 1; part < count; ++part) threads_.emplace_back([this, part] { serve(part); });
    }

    ~Workers() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ending_ = true;
        }
        begin_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    // Returns when all parts are done; rethrows the exception of a part.
    void run() {
        if (!threads_.empty()) {
            const std::lock_guard<std::mutex> lock(mutex_);
            ++round_;
            left_ = threads_.size();
        }
        begin_.notify_all();
        attempt(0);
        std::unique_lock<std::mutex> lock(mutex_);
        end_.wait(lock, [this] { return left_ == 0; });
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

private:
    void attempt(unsigned part) {
        try {
            work_(part);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex_);
            failure_ = std::current_exception();
        }
    }

    void serve(unsigned part) {
        for (uint64_t round = 1;; ++round) {
            {
                std::unique_lock<std::mutex> lock(mutex_);
                begin_.wait(lock, [&] { return ending_ || round_ == round; });
                if (ending_) return;
            }
            attempt(part);
            const std::lock_guard<std::mutex> lock(mutex_);
            if (--left_ == 0) end_.notify_one();
        }
    }

    std::function<void(unsigned)> work_;
    std::mutex mutex_;
    std::condition_variable begin_, end_;
    uint64_t round_ = 0;
    size_t left_ = 0;
    bool ending_ = false;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_;
};
