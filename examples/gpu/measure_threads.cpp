// SPDX-License-Identifier: Apache-2.0
//
// measure_threads.cpp: the order of measure.cu with threads of the CPU, so that its checks are tested without a GPU.

#include "cpu.h"
#include "measure_program.h"

namespace {

class CpuThreads : public Cpu {
public:
    void start(const measure_job &job)
    {
        for (uint32_t thread = 0; thread < job.threads; ++thread)
            threads_.emplace_back([job, thread] { measure_thread(&job, thread); });
    }

    void join()
    {
        Cpu::join();
        threads_.clear();
    }
};

}  // namespace

int main(int argc, char **argv)
{
    const MeasureOptions options = parse_measure(argc, argv, 2);
    try {
        CpuThreads threads;
        return !measure_order(options, threads, false);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
