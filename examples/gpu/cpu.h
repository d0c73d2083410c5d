/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h: memory for threads of the CPU, which take the place of those of a GPU; C++17.
 */
#ifndef CPU_H
#define CPU_H

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

class Cpu {
public:
    ~Cpu()
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

    template <typename Tally> Tally tally(void *counters) { return *static_cast<Tally *>(counters); }

    void join()
    {
        for (std::thread &thread : threads_)
            thread.join();
    }

    std::string name() const { return "the CPU"; }

protected:
    std::vector<std::thread> threads_;

private:
    std::vector<void *> blocks_;
};

#endif
