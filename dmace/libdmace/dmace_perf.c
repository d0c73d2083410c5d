/* SPDX-License-Identifier: Apache-2.0
 *
 * dmace_perf.c: the program dmace-perf, which measures copies by libdmace.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libdmace.h"

enum { MAX_SIZES = 32, MAX_QUEUES = 64, CARD_MHZ = 250 };

static const char usage[] =
    "usage: dmace-perf DEVICE [--mode bw|lat|both] [--size N | --sizes N,N,...] [--requests N] [--queues N] [--check]\n"
    "\n"
    "Measures copies from host memory to host memory.\n"
    "\n"
    "  DEVICE       vfio:DDDD:BB:DD.F, or sim:LIBRARY[,OPTION]\n"
    "  --mode       bw: all queues kept full; lat: one request at a time; both (default)\n"
    "  --sizes      bytes per request (default 64,1024,4096,65536)\n"
    "  --requests   per size (default 1000)\n"
    "  --queues     with --mode bw (default 1)\n"
    "  --check      compare every byte of each request's destination\n";

typedef struct options {
    const char *device;
    bool bandwidth, latency, check;
    uint64_t sizes[MAX_SIZES];
    unsigned count;
    uint64_t requests, queues;
} options;

typedef struct bench {
    dmace_device *device;
    dmace_queue_handle *queues[MAX_QUEUES];
    dmace_memory *source, *target;
    uint64_t slots;       /* of the longest size, per queue */
    uint64_t queue_count;
} bench;

_Noreturn static void wrong(const char *text, const char *value)
{
    fprintf(stderr, "dmace-perf: %s%s\n", text, value);
    exit(2);
}

_Noreturn static void failed(void)
{
    fprintf(stderr, "dmace-perf: %s\n", dmace_error());
    exit(1);
}

/* A number of that range at `text`, which ends at `*end`, or at the end of the text if that is null. */
static uint64_t number(const char *name, const char *text, uint64_t low, uint64_t high, const char **end)
{
    char *stop, message[128];
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 10);
    if (*text < '0' || *text > '9' || errno || value < low || value > high || (*stop && !(end && *stop == ','))) {
        snprintf(message, sizeof message, "%s must be %" PRIu64 " to %" PRIu64 ", not ", name, low, high);
        wrong(message, text);
    }
    if (end)
        *end = stop;
    return value;
}

static void read_sizes(options *chosen, const char *text)
{
    for (chosen->count = 0;; ++text) {
        if (chosen->count == MAX_SIZES)
            wrong("--sizes has more numbers than 32", "");
        chosen->sizes[chosen->count++] = number("--sizes", text, 1, DMACE_DMA_WORD_LENGTH_MASK, &text);
        if (!*text)
            return;
    }
}

static void read_mode(options *chosen, const char *text)
{
    chosen->bandwidth = strcmp(text, "lat");
    chosen->latency = strcmp(text, "bw");
    if (chosen->bandwidth && chosen->latency && strcmp(text, "both"))
        wrong("--mode must be bw, lat or both, not ", text);
}

static options read_arguments(int count, char **arguments)
{
    options chosen = {.bandwidth = true, .latency = true, .sizes = {64, 1024, 4096, 65536}, .count = 4,
                      .requests = 1000, .queues = 1};
    for (int index = 1; index < count; ++index) {
        const char *name = arguments[index];
        if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(name, "--check")) {
            chosen.check = true;
            continue;
        } else if (*name != '-') {
            if (chosen.device)
                wrong("There must be one DEVICE, so this is one argument too many: ", name);
            chosen.device = name;
            continue;
        }
        const char *value = index + 1 < count ? arguments[++index] : NULL;
        if (strcmp(name, "--mode") && strcmp(name, "--size") && strcmp(name, "--sizes") && strcmp(name, "--requests") &&
            strcmp(name, "--queues"))
            wrong("There is no option ", name);
        if (!value)
            wrong("A value must follow the option ", name);
        if (!strcmp(name, "--mode")) {
            read_mode(&chosen, value);
        } else if (!strcmp(name, "--size")) {
            chosen.sizes[0] = number(name, value, 1, DMACE_DMA_WORD_LENGTH_MASK, NULL);
            chosen.count = 1;
        } else if (!strcmp(name, "--sizes")) {
            read_sizes(&chosen, value);
        } else if (!strcmp(name, "--requests")) {
            chosen.requests = number(name, value, 1, UINT32_MAX, NULL);
        } else {
            chosen.queues = number(name, value, 1, MAX_QUEUES, NULL);
        }
    }
    if (!chosen.device)
        wrong("The first argument must be a DEVICE; --help shows all", "");
    return chosen;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Bytes of a source, all different in neighbouring positions and in neighbouring slots. */
static void fill(char *to, uint64_t length, uint64_t seed)
{
    for (uint64_t index = 0; index < length; ++index)
        to[index] = (char)(index * 31 + (index >> 8) * 7 + seed * 13 + 1);
}

static void set_up(bench *made, const options *chosen)
{
    uint64_t longest = 0;
    for (unsigned index = 0; index < chosen->count; ++index)
        longest = chosen->sizes[index] > longest ? chosen->sizes[index] : longest;
    dmace_info info;
    made->queue_count = chosen->bandwidth ? chosen->queues : 1;
    if (dmace_open(chosen->device, &made->device) || dmace_get_info(made->device, &info))
        failed();
    if (made->queue_count > info.queues) {
        fprintf(stderr, "dmace-perf: --queues must be at most the card's %" PRIu32 ", not %" PRIu64 "\n", info.queues,
                made->queue_count);
        exit(2);
    }
    made->slots = longest < 1 << 20 ? (1 << 20) / longest : 1;
    made->slots = made->slots > info.queue_depth ? info.queue_depth : made->slots;
    const uint64_t bytes = made->slots * made->queue_count * longest;
    if (dmace_alloc(made->device, bytes, 0, DMACE_READ, &made->source) ||
        dmace_alloc(made->device, bytes, 0, DMACE_WRITE, &made->target))
        failed();
    char *data = malloc(bytes);
    if (!data)
        wrong("There is no memory for the source", "");
    fill(data, bytes, 0);
    if (dmace_memory_save(made->source, 0, data, bytes))
        failed();
    free(data);
    for (uint64_t index = 0; index < made->queue_count; ++index)
        if (dmace_queue_create(made->device, NULL, &made->queues[index]))
            failed();
}

typedef struct result {
    double seconds;
    uint64_t cycles, checked;
    bool has_cycles;
} result;

static uint64_t position(const bench *made, uint64_t queue, uint64_t request, uint64_t size)
{
    return (queue * made->slots + request % made->slots) * size;
}

static void check(const bench *made, uint64_t at, uint64_t size, result *found, char *buffers)
{
    if (dmace_memory_load(made->source, at, buffers, size) ||
        dmace_memory_load(made->target, at, buffers + size, size))
        failed();
    if (memcmp(buffers, buffers + size, size)) {
        fprintf(stderr, "dmace-perf: a copy of %" PRIu64 " bytes to offset %" PRIu64 " has wrong bytes\n", size, at);
        exit(1);
    }
    memset(buffers, 0, size);
    if (dmace_memory_save(made->target, at, buffers, size))
        failed();
    found->checked += size;
}

/* `window` requests of each queue are in flight. A slot is used again once its request was checked. */
static result measure(const bench *made, const options *chosen, uint64_t size, uint64_t queues, uint64_t window)
{
    result found = {0};
    uint64_t before = 0, after = 0, numbers[MAX_QUEUES][256];
    char *buffers = malloc(2 * size);
    if (!buffers)
        wrong("There is no memory for a check", "");
    found.has_cycles = !dmace_cycles(made->device, &before);
    double checking = 0;
    const double began = now();
    for (uint64_t index = 0; index < chosen->requests + window * queues; ++index) {
        const uint64_t queue = index % queues, request = index / queues;
        const uint64_t old = index - window * queues;
        if (index >= window * queues && old < chosen->requests) {
            if (dmace_wait(made->queues[queue], numbers[queue][request % window], DMACE_FOREVER))
                failed();
            if (chosen->check) {
                const double start = now();
                check(made, position(made, queue, old / queues, size), size, &found, buffers);
                checking += now() - start;
            }
        }
        const uint64_t at = position(made, queue, request, size);
        if (index < chosen->requests && dmace_copy(made->queues[queue], made->target, at, made->source, at, size, 0,
                                                   &numbers[queue][request % window]))
            failed();
    }
    found.seconds = now() - began - checking;
    found.has_cycles = found.has_cycles && !dmace_cycles(made->device, &after);
    found.cycles = after - before;
    free(buffers);
    return found;
}

static void print_table(const bench *made, const options *chosen, bool bandwidth)
{
    const uint64_t queues = bandwidth ? chosen->queues : 1, window = bandwidth ? made->slots : 1;
    uint64_t cycles;
    const bool simulated = !dmace_cycles(made->device, &cycles);
    printf("%s, %" PRIu64 " queue%s, %" PRIu64 " request%s of each in flight\n", bandwidth ? "Bandwidth" : "Latency",
           queues, queues > 1 ? "s" : "", window, window > 1 ? "s" : "");
    printf("%42s%s\n", "| wall clock of this machine  ", simulated ? "| simulated time, clock of 250 MHz" : "");
    printf("%10s %10s %10s | %13s %12s ", "bytes", "requests", "checked", "us/request", "MB/s");
    puts(simulated ? "| cycles/request  ns/request       GB/s" : "");
    for (unsigned index = 0; index < chosen->count; ++index) {
        const uint64_t size = chosen->sizes[index];
        const result found = measure(made, chosen, size, queues, window);
        const double each = found.seconds / (double)chosen->requests;
        printf("%10" PRIu64 " %10" PRIu64 " %10" PRIu64 " | %13.3f %12.3f ", size, chosen->requests, found.checked,
               each * 1e6, (double)size / each / 1e6);
        if (found.has_cycles) {
            const double per = (double)found.cycles / (double)chosen->requests;
            printf("| %14.1f %11.1f %10.3f", per, per * 1000 / CARD_MHZ,
                   per > 0 ? (double)size / per * CARD_MHZ / 1e3 : 0);
        }
        puts("");
        fflush(stdout);
    }
}

int main(int count, char **arguments)
{
    const options chosen = read_arguments(count, arguments);
    bench made = {0};
    set_up(&made, &chosen);
    if (chosen.bandwidth)
        print_table(&made, &chosen, true);
    if (chosen.bandwidth && chosen.latency)
        puts("");
    if (chosen.latency)
        print_table(&made, &chosen, false);
    dmace_close(made.device);
    return 0;
}
