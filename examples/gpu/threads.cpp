// SPDX-License-Identifier: Apache-2.0
//
// threads.cpp: the program of post.cu with threads of the CPU, so that slots and bridge are tested without a GPU.

#include "cpu.h"
#include "program.h"

namespace {

class CpuThreads : public Cpu {
public:
    void start(const slots_job &job)
    {
        for (uint32_t thread = 0; thread < job.threads; ++thread)
            threads_.emplace_back([&job, thread] { slots_thread(&job, thread); });
    }
};

}  // namespace

int main(int argc, char **argv)
{
    return run_program<CpuThreads>(parse(argc, argv, 64));
}
