/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_memory.c: memory and regions.
 */
#include "cases.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void arguments(void)
{
    dmace_device *device = open_fake("", NULL);
    dmace_memory *memory;
    static char bytes[100];
    REQUIRE_FAILS(dmace_alloc(NULL, 1, 0, DMACE_READ, &memory), -EINVAL, "needs a device");
    REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_READ, NULL), -EINVAL, "needs a device");
    REQUIRE_FAILS(dmace_alloc(device, 0, 0, DMACE_READ, &memory), -EINVAL, "not 0");
    REQUIRE_FAILS(dmace_alloc(device, (size_t)1 << 37, 0, DMACE_READ, &memory), -EINVAL, "1 to 2^36 - 4096 bytes");
    REQUIRE_FAILS(dmace_alloc(device, 1, 256, DMACE_READ, &memory), -EINVAL, "Domain must be below 256, not 256");
    REQUIRE_FAILS(dmace_alloc(device, 1, 0, 0, &memory), -EINVAL, "not be 0");
    REQUIRE_FAILS(dmace_alloc(device, 1, 0, 65, &memory), -EINVAL, "not be 0x41");
    REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_FLUSH, &memory), -EINVAL, "DMACE_READ, DMACE_WRITE or both");
    REQUIRE_FAILS(dmace_register(device, NULL, 1, 0, DMACE_READ, &memory), -EINVAL, "Address of memory");
    REQUIRE_FAILS(dmace_register_address(device, 100, 1, 0, DMACE_READ, &memory), -EINVAL, "not 0x64");
    REQUIRE_FAILS(dmace_register_dmabuf(device, -1, 0, 1, 0, DMACE_READ, &memory), -EINVAL, "file descriptor");
    REQUIRE_FAILS(dmace_register_dmabuf(device, 0, 0, 1, 0, DMACE_READ, &memory), -ENOTSUP, "cannot map a DMA-BUF");
    REQUIRE_FAILS(dmace_register_bar(device, "../x", 0, 0, 1, 0, DMACE_READ, &memory), -EINVAL, "not ../x");
    REQUIRE_FAILS(dmace_register_bar(device, "ffff:ff:1f.7", 6, 0, 1, 0, DMACE_READ, &memory), -EINVAL, "not 6");
    REQUIRE_FAILS(dmace_register_bar(device, "ffff:ff:1f.7", 0, 0, 1, 0, DMACE_READ, &memory), -ENOENT, "ffff:ff:1f.7");
    REQUIRE_FAILS(dmace_deregister(NULL), -EINVAL, "needs memory");
    OK(dmace_register_address(device, 4096, 100, 0, DMACE_READ, &memory));
    REQUIRE(!dmace_memory_data(memory));
    REQUIRE_FAILS(dmace_memory_load(memory, 0, bytes, 1), -ENOTSUP, "cannot address");
    REQUIRE_FAILS(dmace_memory_save(memory, 0, bytes, 1), -ENOTSUP, "cannot address");
    REQUIRE_FAILS(dmace_memory_load(memory, 100, bytes, 1), -ERANGE, "100 bytes, not 1 bytes at 100");
    REQUIRE_FAILS(dmace_memory_load(memory, 0, NULL, 1), -EINVAL, "an address");
    OK(dmace_deregister(memory));
    dmace_close(device);
}

/* Two memories that share pages, each with its own end. */
static void unaligned(void)
{
    bench made = open_bench("", NULL);
    uint8_t *bytes = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dmace_memory *first, *second;
    uint64_t request;
    OK(dmace_register(made.device, bytes + 100, 5000, 0, DMACE_WRITE, &first));
    OK(dmace_register(made.device, bytes + 5100, 3000, 0, DMACE_WRITE, &second));
    REQUIRE(dmace_memory_data(first) == bytes + 100 && dmace_memory_data(second) == bytes + 5100);
    REQUIRE(dmace_memory_offset(first) == 100 && dmace_memory_offset(second) == 1004);
    REQUIRE(dmace_memory_length(second) == 3000 && dmace_memory_region(first) != dmace_memory_region(second));
    OK(dmace_copy(made.queue, second, 0, made.from, 7, 3000, 0, NULL));
    OK(dmace_copy(made.queue, first, 4999, made.from, 0, 1, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    REQUIRE(!memcmp(bytes + 5100, made.source + 7, 3000) && bytes[5099] == made.source[0] && !bytes[5098] && !bytes[8100]);
    /* A word that ends one byte behind the memory, although the page is longer. */
    const dmace_word word = dmace_copy_word(dmace_memory_region(made.from), 0, dmace_memory_region(second),
                                            1004 + 2999, 2, 0);
    OK(dmace_post_word(made.queue, word, &request));
    REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_DST_BOUNDS, "DST_BOUNDS");
    OK(dmace_deregister(first));
    OK(dmace_copy(made.queue, second, 2999, made.from, 0, 1, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    OK(dmace_deregister(second));
    REQUIRE(fake_maps(made.context) == 3);
    munmap(bytes, 12288);
    close_bench(&made);
}

static void all_regions(void)
{
    void *context;
    dmace_device *device = open_fake("", &context);
    dmace_memory *memories[FAKE_REGIONS], *memory;
    for (int i = 0; i < FAKE_REGIONS; ++i)
        OK(dmace_alloc(device, 1, 0, DMACE_READ, &memories[i]));
    REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_READ, &memory), -ENOSPC, "All 16 regions");
    REQUIRE(fake_maps(context) == FAKE_REGIONS);
    OK(dmace_deregister(memories[5]));
    OK(dmace_alloc(device, 1, 0, DMACE_READ, &memory));
    REQUIRE(dmace_memory_region(memory) == 5);
    dmace_close(device);
}

static void quiesce(void)
{
    setenv("DMACE_TIMEOUT_MS", "30", 1);
    bench made = open_bench("", NULL);
    uint64_t request;
    fake_busy(made.context, 5);
    OK(dmace_deregister(made.to));
    fake_busy(made.context, -1);
    REQUIRE_FAILS(dmace_deregister(made.from), -ETIMEDOUT, "which stays mapped: the card is still at work after 30 ms");
    REQUIRE(fake_maps(made.context) == 2);
    REQUIRE_FAILS(dmace_copy(made.queue, made.from, 0, made.from, 0, 1, 0, NULL), -EINVAL, "has no region any more");
    const dmace_word word = dmace_copy_word(dmace_memory_region(made.from), 0, 3, 0, 1, 0);
    OK(dmace_post_word(made.queue, word, &request));
    REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_SRC_REGION, "SRC_REGION");
    REQUIRE_FAILS(dmace_queue_destroy(made.queue), -ETIMEDOUT, "at work");
    fake_busy(made.context, 0);
    OK(dmace_deregister(made.from));
    OK(dmace_queue_destroy(made.queue));
    REQUIRE(!fake_maps(made.context));
    close_bench(&made);
}

static void remote(void)
{
    bench made = open_bench("remote", NULL);
    static uint8_t bytes[4096], found[4096];
    dmace_memory *memory;
    uint64_t request;
    for (int i = 0; i < 4096; ++i)
        bytes[i] = (uint8_t)(i * 7);
    REQUIRE(!made.source);
    OK(dmace_memory_load(made.to, BENCH_BYTES - 4096, found, 4096));
    for (int i = 0; i < 4096; ++i)
        REQUIRE(!found[i]);
    OK(dmace_memory_save(made.from, 10, bytes, 4096));
    for (int i = 0; i < 100; ++i)
        OK(dmace_copy(made.queue, made.to, 1, made.from, 10, 4096, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    OK(dmace_memory_load(made.to, 1, found, 4096));
    REQUIRE(!memcmp(bytes, found, 4096));
    REQUIRE(!dmace_queue_view(made.queue).sc && !dmace_queue_view(made.queue).doorbell);
    REQUIRE_FAILS(dmace_register(made.device, bytes, 4096, 0, DMACE_READ, &memory), -ENOTSUP, "use dmace_alloc()");
    OK(dmace_deregister(made.from));
    OK(dmace_deregister(made.to));
    OK(dmace_queue_destroy(made.queue));
    REQUIRE(!fake_maps(made.context));
    OK(dmace_queue_create(made.device, &(dmace_queue_options){.ring = 3}, &made.queue));
    OK(dmace_post_word(made.queue, (dmace_word){0, 0}, &request));
    REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_MALFORMED, "MALFORMED");
    close_bench(&made);
}

/* A write to an address that is refused is noticed with a flush only. */
static void flush(void)
{
    bench made = open_bench("", NULL);
    dmace_memory *flushed, *posted;
    uint64_t request;
    static uint8_t page[8192];
    OK(dmace_register(made.device, page, sizeof page, 0, DMACE_WRITE | DMACE_FLUSH, &flushed));
    OK(dmace_register_address(made.device, UINT64_C(0x500000000), 4096, 0, DMACE_WRITE | DMACE_RELAXED | DMACE_NO_SNOOP,
                              &posted));
    OK(dmace_copy(made.queue, posted, 0, made.from, 0, 64, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    OK(dmace_copy(made.queue, flushed, 0, made.from, 0, 64, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    fake_refuse(made.context, 0, 1 << 30);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 64, 0, &request));
    REQUIRE_FAILS(dmace_wait(made.queue, request, DMACE_FOREVER), DMACE_DMA_STATUS_READ_DECERR,
                  "the address of its source was refused");
    close_bench(&made);
}

static void alloc_failures(void)
{
    for (int remote = 0; remote < 2; ++remote) {
        void *context;
        dmace_device *device = open_fake(remote ? "remote" : "", &context);
        dmace_memory *memory;
        int calls = 0, code;
        do {
            fake_fail_call(context, calls++);
            code = dmace_alloc(device, 10000, 0, DMACE_READ, &memory);
            fake_fail_call(context, -1);
            REQUIRE(!code || (code == -EIO && !fake_maps(context)));
        } while (code);
        REQUIRE(calls > 8);
        for (calls = 0, code = 1; code; ++calls) {
            fake_fail_call(context, calls);
            code = dmace_deregister(memory);
            fake_fail_call(context, -1);
        }
        REQUIRE(calls > 3 && !fake_maps(context));
        dmace_close(device);
    }
}

/* A process that was forked posts by the view of a queue, to memory that it shares. */
static void forked(void)
{
    bench made = open_bench("page", NULL);
    const dmace_queue view = dmace_queue_view(made.queue);
    REQUIRE(view.doorbell && view.sc && view.rc);
    const pid_t child = fork();
    if (!child) {
        memset(made.source, 0x5a, 100);
        dmace_post(&view, dmace_copy_word(dmace_memory_region(made.from), 0, dmace_memory_region(made.to), 0, 100,
                                          DMACE_DMA_FLAG_RC));
        const uint64_t word = dmace_poll_rc(&view, 1);
        _exit(dmace_status(word) || made.target[99] != 0x5a);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && !status && made.target[99] == 0x5a);
    close_bench(&made);
}

/* Memory for other engines of the card: it takes no region, and no request reaches it. */
static void no_region(void)
{
    bench made = open_bench("", NULL);
    dmace_memory *memory, *more;
    const uint64_t zero[2] = {0, 0};
    REQUIRE(dmace_memory_address(NULL) == 0);
    for (uint32_t region = 2; region < 16; ++region)
        OK(dmace_alloc(made.device, 1, 0, DMACE_READ, &more));
    OK(dmace_alloc(made.device, 5000, 0, DMACE_READ | DMACE_WRITE | DMACE_NO_REGION, &memory));
    REQUIRE(dmace_memory_data(memory) && dmace_memory_address(memory) && dmace_memory_address(memory) % 4096 == 0);
    REQUIRE(dmace_memory_address(memory) != dmace_memory_address(made.from));
    REQUIRE_FAILS(dmace_copy(made.queue, memory, 0, made.from, 0, 8, 0, NULL), -EINVAL, "must have a region");
    REQUIRE_FAILS(dmace_copy(made.queue, made.to, 0, memory, 0, 8, 0, NULL), -EINVAL, "source must have a region");
    OK(dmace_deregister(memory));
    REQUIRE_FAILS(dmace_store(NULL, 0, zero, 16), -EINVAL, "needs a device");
    REQUIRE_FAILS(dmace_store(made.device, 0, NULL, 16), -EINVAL, "needs a device and data");
    REQUIRE_FAILS(dmace_store(made.device, 0, zero, 5), -EINVAL, "not 5 at 0");
    REQUIRE_FAILS(dmace_store(made.device, 8, zero, 16), -EINVAL, "not 16 at 0x8");
    OK(dmace_store(made.device, (dmace_queue_number(made.queue) + 1) * UINT64_C(4096), zero, 16));
    dmace_close(made.device);
}

const test_case memory_cases[] = {
    {"arguments", arguments}, {"unaligned", unaligned}, {"all_regions", all_regions}, {"quiesce", quiesce},
    {"remote", remote}, {"flush", flush}, {"alloc_failures", alloc_failures}, {"forked", forked},
    {"no_region", no_region}, {NULL, NULL},
};
