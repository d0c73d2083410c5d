// SPDX-License-Identifier: Apache-2.0
//
// measure.cu: order and costs of stores and loads of a GPU's threads in memory of the host.

#include "gpu.h"
#include "measure_program.h"

#include <algorithm>

namespace {

__global__ void order(measure_job job)
{
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < job.threads)
        measure_thread(&job, thread);
}

class GpuThreads : public Gpu {
public:
    void start(const measure_job &job)
    {
        order<<<(job.threads + 31) / 32, 32>>>(job);
        check(cudaGetLastError(), "The launch");
    }

    void join() { check(cudaDeviceSynchronize(), "The kernel"); }
};

enum Operation { POST, STORE, POST_RELAXED, RELAXED, FENCE, LOAD };

// Each thread has a slot of its own, `stride` bytes between the pages of 256 threads; with 0 all share a page. `mask` is
// 0: the next address depends on what was loaded.
template <Operation operation> __global__ void repeat(char *pages, uint32_t stride, uint32_t rounds, uint64_t mask)
{
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    char *page = pages + size_t{thread / SLOTS} * stride;
    uint64_t loaded = 0;
    for (uint32_t round = 1; round <= rounds; ++round) {
        const dmace_queue queue = {page, nullptr, nullptr};
        const dmace_word word = dmace_copy_word(1, round, 2, round, 64, DMACE_DMA_FLAG_SC);
        if (operation == POST || operation == POST_RELAXED || operation == FENCE)
            DMACE_RELEASE();
        if (operation == POST || operation == STORE)
            dmace_post_to(&queue, thread % SLOTS, word);
        if (operation == POST_RELAXED || operation == RELAXED)
            measure_relaxed(page + thread % SLOTS * sizeof word, word);
        if (operation == LOAD) {
            loaded += DMACE_LOAD_8(reinterpret_cast<const volatile uint64_t *>(page) + 2 * (thread % SLOTS));
            page += loaded & mask;
        }
    }
    if (loaded & mask)
        *pages = 1;
}

// Nanoseconds of one operation of a thread: the median of 9 launches behind one that is not counted, least and most.
template <Operation operation>
void cost(const char *name, char *pages, uint32_t stride, uint32_t blocks, uint32_t threads, uint32_t rounds)
{
    enum { LAUNCHES = 9 };
    cudaEvent_t begin, end;
    std::vector<double> times;
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    for (int launch = 0; launch <= LAUNCHES; ++launch) {
        float milliseconds;
        check(cudaEventRecord(begin), "cudaEventRecord");
        repeat<operation><<<blocks, threads>>>(pages, stride, rounds, 0);
        check(cudaGetLastError(), "The launch");
        check(cudaEventRecord(end), "cudaEventRecord");
        check(cudaEventSynchronize(end), "The kernel");
        check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
        if (launch)
            times.push_back(1e6 * double(milliseconds) / rounds);
    }
    check(cudaEventDestroy(begin), "cudaEventDestroy");
    check(cudaEventDestroy(end), "cudaEventDestroy");
    std::sort(times.begin(), times.end());
    const double each = times[LAUNCHES / 2], all = double(blocks) * threads;
    std::printf("%-28s %8.0f %8.0f %10.1f %10.1f %10.1f %12.2f\n", name, all, stride ? std::max(1.0, all / SLOTS) : 1.0,
                each, times.front(), times.back(), all * 1e3 / each);
}

template <Operation operation> void costs_of(const char *name, char *pages, uint32_t blocks)
{
    enum : uint32_t { STRIDE = DMACE_DMA_DOORBELL_PAGE };
    cost<operation>(name, pages, STRIDE, 1, 1, 20000);
    cost<operation>(name, pages, STRIDE, 1, 32, 20000);
    cost<operation>(name, pages, STRIDE, blocks, 512, 200);
    cost<operation>(name, pages, 0, blocks, 512, 200);
}

void costs(Gpu &gpu)
{
    const uint32_t blocks = 2 * uint32_t(gpu.processors());
    const size_t bytes = size_t{blocks} * 512 * sizeof(dmace_word);
    char *pages = static_cast<char *>(gpu.reach(gpu.allocate(bytes), bytes));
    std::printf("\n%-28s %8s %8s %10s %10s %10s %12s\n", "", "threads", "pages", "ns", "least", "most", "million/s");
    costs_of<POST>("fence and store of a word", pages, blocks);
    costs_of<STORE>("store of a word", pages, blocks);
    costs_of<POST_RELAXED>("fence and relaxed store", pages, blocks);
    costs_of<RELAXED>("relaxed store", pages, blocks);
    costs_of<FENCE>("fence", pages, blocks);
    costs_of<LOAD>("load of a completion word", pages, blocks);
}

}  // namespace

int main(int argc, char **argv)
{
    const MeasureOptions options = parse_measure(argc, argv, MEASURE_THREADS);
    try {
        bool right;
        {
            GpuThreads threads;
            right = measure_order(options, threads, true);
        }
        Gpu gpu;
        costs(gpu);
        return !right;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
