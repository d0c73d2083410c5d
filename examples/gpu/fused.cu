// SPDX-License-Identifier: Apache-2.0
//
// fused.cu: a kernel whose workgroups compute slices of a result and tick, and one whose workgroups wait for the slices.
// Both are persistent: all iterations are in one launch.

#include "gpu.h"
#include "fused_program.h"

namespace {

enum { LANES = 128, PER_PROCESSOR = 8 };

__global__ void __launch_bounds__(LANES, PER_PROCESSOR) send(fused_job job) { fused_send(&job, blockIdx.x); }

__global__ void __launch_bounds__(LANES, PER_PROCESSOR) receive(fused_job job) { fused_receive(&job, blockIdx.x); }

class GpuWorkgroups : public Gpu {
public:
    ~GpuWorkgroups()
    {
        for (cudaStream_t stream : streams_)
            cudaStreamDestroy(stream);
    }

    // Workgroups wait for others, so that all of them must be on the GPU at once. CUDA loads a kernel when it is used
    // first, which may wait for all that run: `receive` would not start before `send` has ended. resident() loads both.
    void start(const fused_job &job, uint32_t workgroups)
    {
        const uint32_t most = std::min(resident(send), resident(receive)) / 2;
        if (workgroups > most)
            throw std::runtime_error("--workgroups must be at most " + std::to_string(most) + " on this GPU, not "
                                     + std::to_string(workgroups));
        for (cudaStream_t &stream : streams_)
            check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        send<<<workgroups, LANES, 0, streams_[0]>>>(job);
        check(cudaGetLastError(), "The launch");
        receive<<<workgroups, LANES, 0, streams_[1]>>>(job);
        check(cudaGetLastError(), "The launch");
    }

    void join() { check(cudaDeviceSynchronize(), "The kernels"); }

private:
    template <typename Kernel> uint32_t resident(Kernel kernel)
    {
        int blocks;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, LANES, 0), "cudaOccupancy");
        return uint32_t(blocks * processors());
    }

    cudaStream_t streams_[2] = {};
};

}  // namespace

int main(int argc, char **argv)
{
    return run_fused<GpuWorkgroups>(parse_fused(argc, argv, 16));
}
