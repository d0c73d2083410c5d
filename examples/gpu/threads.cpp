// SPDX-License-Identifier: Apache-2.0
//
// threads.cpp: the program of post.cu with threads of the CPU, so that slots and bridge are tested without a GPU.

#include "program.h"

namespace {

class CpuThreads {
public:
    ~CpuThreads()
    {
        for (void *block : blocks_)
            std::free(block);
    }

    void *allocate(size_t bytes)
    {
        bytes = (bytes + 4095) / 4096 * 4096;
        void *block = std::aligned_alloc(4096, bytes);
        if (!block)
            throw std::bad_alloc();
        blocks_.push_back(block);
        return std::memset(block, 0, bytes);
    }

    void *reach(void *address, size_t) { return address; }

    void forget() {}

    void *counters(size_t bytes) { return allocate(bytes); }

    slots_tally tally(void *counters) { return *static_cast<slots_tally *>(counters); }

    void start(const slots_job &job)
    {
        for (uint32_t thread = 0; thread < job.threads; ++thread)
            threads_.emplace_back([&job, thread] { slots_thread(&job, thread); });
    }

    void join()
    {
        for (std::thread &thread : threads_)
            thread.join();
    }

    std::string name() { return "the CPU"; }

private:
    std::vector<void *> blocks_;
    std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char **argv)
{
    return run_program<CpuThreads>(parse(argc, argv, 64));
}
