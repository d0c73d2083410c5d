/* SPDX-License-Identifier: Apache-2.0
 *
 * tenants: two processes without any privilege, each with one doorbell page, its completion words and its memory. One
 * stores whatever it likes; all requests of the other complete, with the right bytes. Then: I/O addresses that the IOMMU
 * does not map fail the requests that name them, and no others.
 */
#include <sched.h>
#include <sys/wait.h>

#include "unprivileged.h"

enum { VICTIM = 1, HOSTILE = 2, BYSTANDER = 3, SPAN = 65536, REQUESTS = 400, STORES = 300, GUARD = 0xa5, FLOOD = 64 };

/* An I/O address that libdmace does not choose, below the 39 bits of the smallest IOMMU. */
static const uint64_t UNMAPPED = UINT64_C(0x7d00000000);

static dmace_device *device;
static dmace_info info;
static dmace_memory *from, *to, *prey, *canary;

static void wait_for(const dmace_queue *queue, uint32_t count)
{
    const double limit = part_seconds() + 1e-9 * (double)PART_TIMEOUT;
    uint64_t word;
    while (!dmace_reached(word = dmace_try_sc(queue, count, 100), count)) {
        if (dmace_status(word)) {
            fprintf(stderr, "victim: request %u failed with %s\n", dmace_count(word) + 1,
                    dmace_status_name(dmace_status(word)));
            exit(1);
        }
        REQUIRE(part_seconds() < limit);
        sched_yield();
    }
}

/* Copies of random sizes and alignments; the whole destination is compared after each batch. */
static int victim(dmace_queue queue)
{
    static unsigned char expected[SPAN];
    const unsigned char *source = dmace_memory_data(from);
    unsigned char *destination = dmace_memory_data(to);
    const uint32_t source_region = dmace_memory_region(from), destination_region = dmace_memory_region(to);
    const uint32_t batch = info.queue_depth < 8 ? info.queue_depth : 8;
    const keep kept[] = {{queue.doorbell, 4096}, {queue.sc, 8}, {queue.rc, 8}, {source, SPAN}, {destination, SPAN}};
    part_random state = {77};
    uint32_t posted = 0;
    drop_privileges(kept, 5);
    memset(destination, GUARD, SPAN);
    memset(expected, GUARD, SPAN);
    while (posted < REQUESTS) {
        for (uint32_t index = 0; index < batch; ++index, ++posted) {
            const size_t slice = SPAN / batch, length = 1 + part_below(&state, 2000);
            const uint64_t at = index * slice + part_below(&state, slice - length);
            const uint64_t start = part_below(&state, SPAN - length);
            memcpy(expected + at, source + start, length);
            dmace_post(&queue, dmace_copy_word(source_region, start, destination_region, at, (uint32_t)length,
                                               DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC));
        }
        wait_for(&queue, posted);
        part_same("victim", destination, expected, SPAN);
    }
    return 0;
}

typedef uint64_t __attribute__((aligned(1), may_alias)) loose_64;
typedef uint32_t __attribute__((aligned(1), may_alias)) loose_32;

/* Random words, well-formed words that reach for other tenants' memory, stores of parts of words, and floods. */
static void hostile(dmace_queue queue, uint64_t *tally, uint32_t own)
{
    volatile unsigned char *page = queue.doorbell;
    const keep kept[] = {{queue.doorbell, 4096}, {queue.sc, 8}, {queue.rc, 8}, {dmace_memory_data(prey), SPAN},
                         {tally, 8}};
    part_random state = {UINT64_C(0xbad0000) + own};
    drop_privileges(kept, 5);
    for (;; __atomic_add_fetch(tally, 1, __ATOMIC_RELAXED)) {
        const uint32_t slot = (uint32_t)part_below(&state, 256), region = (uint32_t)part_below(&state, 256);
        const uint32_t other = part_below(&state, 4) ? region % info.regions : region;
        const uint32_t flags = (uint32_t)part_below(&state, 16);
        const uint64_t any = part_next(&state), offset = any >> (28 + part_below(&state, 36));
        const uint32_t length = (uint32_t)(part_next(&state) >> (36 + part_below(&state, 27)));
        switch (part_below(&state, 8)) {
        case 0:
            dmace_post_to(&queue, slot, (dmace_word){any, part_next(&state)});
            break;
        case 1:
            dmace_post_to(&queue, slot, dmace_copy_word(own, part_below(&state, SPAN), other, offset, length, flags));
            break;
        case 2:
            dmace_post_to(&queue, slot, dmace_copy_word(other, offset, own, part_below(&state, SPAN), length, flags));
            break;
        case 3:
            dmace_post_to(&queue, slot, dmace_copy_word(own, SPAN - 100 + part_below(&state, 200), own,
                                                        part_below(&state, SPAN), 200, flags));
            break;
        case 4:
            *(volatile loose_64 *)(page + 8 * part_below(&state, 512)) = any;
            break;
        case 5:
            *(volatile loose_32 *)(page + 4 * part_below(&state, 1024)) = (uint32_t)any;
            break;
        case 6:
            if (any & 1)
                *(volatile loose_64 *)(page + part_below(&state, 4089)) = any;
            else
                page[part_below(&state, 4096)] = (unsigned char)any;
            break;
        default:
            if (part_below(&state, 8))
                break;
            for (unsigned index = 0; index < FLOOD; ++index)
                dmace_post_to(&queue, index, dmace_copy_word(own, 0, own, SPAN / 2, 1 + index, flags));
        }
        if (part_below(&state, 4) == 0)
            sched_yield();
    }
}

static pid_t begin(void)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    return child;
}

static void battle(uint32_t skip_errors)
{
    const dmace_queue_options good = {.domain = VICTIM}, bad = {.domain = HOSTILE, .skip_errors = skip_errors};
    static unsigned char before[SPAN], source[SPAN];
    uint64_t *tally = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    dmace_queue_handle *ours, *theirs;
    uint32_t queue, count, failures = 0;
    int status;
    pid_t victim_process, hostile_process;
    REQUIRE(tally != MAP_FAILED);
    memcpy(before, dmace_memory_data(canary), SPAN);
    memcpy(source, dmace_memory_data(from), SPAN);
    MUST(dmace_queue_create(device, &good, &ours));
    MUST(dmace_queue_create(device, &bad, &theirs));
    REQUIRE(dmace_queue_view(ours).doorbell && dmace_queue_view(theirs).doorbell);
    if (!(hostile_process = begin()))
        hostile(dmace_queue_view(theirs), tally, dmace_memory_region(prey));
    if (!(victim_process = begin()))
        _exit(victim(dmace_queue_view(ours)));

    REQUIRE(waitpid(victim_process, &status, 0) == victim_process);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    while (__atomic_load_n(tally, __ATOMIC_RELAXED) < STORES && !waitpid(hostile_process, &status, WNOHANG))
        part_sleep(0.01);
    REQUIRE(!kill(hostile_process, SIGKILL));
    REQUIRE(waitpid(hostile_process, &status, 0) == hostile_process);
    REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    while (dmace_pop_log(device, &queue, &status, &count) == 1) {
        REQUIRE(queue == dmace_queue_number(theirs));
        printf("tenants: error log: queue %u, request %u, %s\n", queue, count, dmace_status_name(status));
        ++failures;
    }
    REQUIRE(failures > 0);
    MUST(dmace_queue_destroy(theirs));
    MUST(dmace_queue_destroy(ours));
    part_same("canary", dmace_memory_data(canary), before, SPAN);
    part_same("victim's source", dmace_memory_data(from), source, SPAN);
    printf("tenants: %d requests of the victim completed beside %" PRIu64 " hostile actions, errors %s\n", REQUESTS,
           *tally, skip_errors ? "skipped" : "held");
    munmap(tally, 4096);
}

/* I/O addresses that the IOMMU refuses. */
static void unmapped(void)
{
    const dmace_queue_options options = {.domain = VICTIM};
    static unsigned char before[SPAN];
    dmace_memory *nowhere;
    dmace_queue_handle *queue;
    uint64_t request;
    MUST(dmace_register_address(device, UNMAPPED, SPAN, VICTIM, DMACE_READ | DMACE_WRITE | DMACE_FLUSH, &nowhere));
    MUST(dmace_queue_create(device, &options, &queue));
    for (unsigned round = 0; round < 3; ++round) {
        memcpy(before, dmace_memory_data(canary), SPAN);
        MUST(dmace_copy(queue, to, 0, nowhere, 1 + round, 3000, 0, &request));
        EXPECT(dmace_wait(queue, request, PART_TIMEOUT), (int)DMACE_DMA_STATUS_READ_DECERR);
        MUST(dmace_copy(queue, nowhere, 1 + round, from, 0, 3000, 0, &request));
        EXPECT(dmace_wait(queue, request, PART_TIMEOUT), (int)DMACE_DMA_STATUS_WRITE_DECERR);
        memset(dmace_memory_data(to), 0, SPAN);
        MUST(dmace_copy(queue, to, 0, from, 0, SPAN, 0, &request));
        MUST(dmace_wait(queue, request, PART_TIMEOUT));
        part_same("copy after refused ones", dmace_memory_data(to), dmace_memory_data(from), SPAN);
        part_same("canary", dmace_memory_data(canary), before, SPAN);
    }
    MUST(dmace_queue_destroy(queue));
    MUST(dmace_deregister(nowhere));
    printf("tenants: reads and writes of unmapped addresses fail, later requests work\n");
}

int main(int argc, char **argv)
{
    part_random state = {5};
    MUST(dmace_open(part_device(argc, argv), &device));
    MUST(dmace_get_info(device, &info));
    REQUIRE(info.domains > BYSTANDER);
    MUST(dmace_alloc(device, SPAN, VICTIM, DMACE_READ, &from));
    MUST(dmace_alloc(device, SPAN, VICTIM, DMACE_WRITE, &to));
    MUST(dmace_alloc(device, SPAN, HOSTILE, DMACE_READ | DMACE_WRITE, &prey));
    MUST(dmace_alloc(device, SPAN, BYSTANDER, DMACE_READ | DMACE_WRITE, &canary));
    part_fill(&state, dmace_memory_data(from), SPAN);
    part_fill(&state, dmace_memory_data(canary), SPAN);
    battle(1);
    battle(0);
    unmapped();
    dmace_close(device);
    return 0;
}
