// SPDX-License-Identifier: Apache-2.0
//
// post.cu: threads of a GPU post requests to pages in mapped host memory, from which a bridge feeds a card.

#include <cuda_runtime.h>

#include "program.h"

namespace {

void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(error));
}

__global__ void post(slots_job job)
{
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < job.threads)
        slots_thread(&job, thread);
}

class GpuThreads {
public:
    GpuThreads()
    {
        cudaDeviceProp properties;
        check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
        name_ = properties.name;
        if (!properties.canMapHostMemory)
            throw std::runtime_error("This GPU cannot map host memory, which the pages are in: " + name_);
        if (properties.major < 7)
            throw std::runtime_error("Threads wait for others of their warp, and 16-byte stores must be one operation: "
                                     "the GPU must be of compute capability 7.0 or later, not "
                                     + std::to_string(properties.major) + "." + std::to_string(properties.minor));
    }

    // Errors do not matter any more.
    ~GpuThreads()
    {
        for (void *block : host_)
            cudaFreeHost(block);
        cudaFree(counters_);
    }

    void *allocate(size_t bytes)
    {
        void *block;
        check(cudaHostAlloc(&block, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
        host_.push_back(block);
        bytes_ = bytes;
        return std::memset(block, 0, bytes);
    }

    // Memory of allocate() is mapped; a page with completion words is the library's.
    void *reach(void *address, size_t bytes)
    {
        void *found;
        const char *at = static_cast<char *>(address), *own = static_cast<char *>(host_.at(0));
        if (at < own || at >= own + bytes_) {
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

    slots_tally tally(void *counters)
    {
        slots_tally tally;
        check(cudaMemcpy(&tally, counters, sizeof tally, cudaMemcpyDeviceToHost), "cudaMemcpy");
        return tally;
    }

    void start(const slots_job &job)
    {
        post<<<(job.threads + 127) / 128, 128>>>(job);
        check(cudaGetLastError(), "The launch");
    }

    void join() { check(cudaDeviceSynchronize(), "The kernel"); }

    std::string name() { return name_; }

private:
    std::string name_;
    std::vector<void *> host_, registered_;
    size_t bytes_ = 0;
    void *counters_ = nullptr;
};

}  // namespace

int main(int argc, char **argv)
{
    return run_program<GpuThreads>(parse(argc, argv, 4096));
}
