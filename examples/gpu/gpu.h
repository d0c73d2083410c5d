/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h: a GPU and memory of the host that is mapped into it; CUDA.
 */
#ifndef GPU_H
#define GPU_H

#include <cuda_runtime.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

inline void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(error));
}

class Gpu {
public:
    Gpu()
    {
        check(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
        if (!properties_.canMapHostMemory)
            throw std::runtime_error("This GPU cannot map host memory, which the pages are in: " + name());
        if (properties_.major < 7)
            throw std::runtime_error("Threads wait for others of their warp, and 16-byte stores must be one operation: "
                                     "the GPU must be of compute capability 7.0 or later, not "
                                     + std::to_string(properties_.major) + "." + std::to_string(properties_.minor));
    }

    // Errors do not matter any more.
    ~Gpu()
    {
        for (const Block &block : host_)
            cudaFreeHost(block.address);
        cudaFree(counters_);
    }

    void *allocate(size_t bytes)
    {
        void *block;
        check(cudaHostAlloc(&block, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
        host_.push_back({static_cast<char *>(block), bytes});
        return std::memset(block, 0, bytes);
    }

    // Memory of allocate() is mapped; another page, with completion words, is the library's.
    void *reach(void *address, size_t bytes)
    {
        void *found;
        bool mapped = false;
        for (const Block &block : host_)
            mapped |= address >= block.address && address < block.address + block.bytes;
        if (!mapped) {
            check(cudaHostRegister(address, bytes, cudaHostRegisterMapped), "cudaHostRegister of completion words");
            registered_.push_back(address);
        }
        check(cudaHostGetDevicePointer(&found, address, 0), "cudaHostGetDevicePointer");
        return found;
    }

    void forget()
    {
        for (void *page : registered_)
            cudaHostUnregister(page);
        registered_.clear();
    }

    void *counters(size_t bytes)
    {
        check(cudaMalloc(&counters_, bytes), "cudaMalloc");
        check(cudaMemset(counters_, 0, bytes), "cudaMemset");
        return counters_;
    }

    template <typename Tally> Tally tally(void *counters)
    {
        Tally tally;
        check(cudaMemcpy(&tally, counters, sizeof tally, cudaMemcpyDeviceToHost), "cudaMemcpy");
        return tally;
    }

    int processors() const { return properties_.multiProcessorCount; }

    std::string name() const { return properties_.name; }

private:
    struct Block {
        char *address;
        size_t bytes;
    };

    cudaDeviceProp properties_;
    std::vector<Block> host_;
    std::vector<void *> registered_;
    void *counters_ = nullptr;
};

#endif
