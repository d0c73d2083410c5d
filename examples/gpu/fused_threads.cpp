// SPDX-License-Identifier: Apache-2.0
//
// fused_threads.cpp: the program of fused.cu with a thread of the CPU for each workgroup.

#include "cpu.h"
#include "fused_program.h"

namespace {

class CpuWorkgroups : public Cpu {
public:
    void start(const fused_job &job, uint32_t workgroups)
    {
        for (uint32_t workgroup = 0; workgroup < workgroups; ++workgroup) {
            threads_.emplace_back([&job, workgroup] { fused_send(&job, workgroup); });
            threads_.emplace_back([&job, workgroup] { fused_receive(&job, workgroup); });
        }
    }
};

}  // namespace

int main(int argc, char **argv)
{
    return run_fused<CpuWorkgroups>(parse_fused(argc, argv, 4));
}
