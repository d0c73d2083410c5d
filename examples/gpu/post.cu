// SPDX-License-Identifier: Apache-2.0
//
// post.cu: threads of a GPU post requests to pages in mapped host memory, from which a bridge feeds a card.

#include "gpu.h"
#include "program.h"

namespace {

__global__ void post(slots_job job)
{
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < job.threads)
        slots_thread(&job, thread);
}

class GpuThreads : public Gpu {
public:
    void start(const slots_job &job)
    {
        post<<<(job.threads + 127) / 128, 128>>>(job);
        check(cudaGetLastError(), "The launch");
    }

    void join() { check(cudaDeviceSynchronize(), "The kernel"); }
};

}  // namespace

int main(int argc, char **argv)
{
    return run_program<GpuThreads>(parse(argc, argv, 4096));
}
