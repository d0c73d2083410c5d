/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p: copies to and from a BAR of another PCI function, which stands for the memory of a GPU. The CPU compares the bytes
 * through its own mapping of the BAR, and the host in the file behind it: it computes the pattern of each span that a
 * line "p2p: span OFFSET LENGTH SEED" names.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "part.h"

enum { BAR = 2, PIECE = 40000, GUARD = 0xa5 };

static unsigned char *map_bar(const char *function, size_t *length)
{
    char path[128];
    struct stat about;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource%d", function, BAR);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && !fstat(fd, &about));
    *length = (size_t)about.st_size;
    unsigned char *window = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(window != MAP_FAILED);
    close(fd);
    return window;
}

int main(int argc, char **argv)
{
    static const uint64_t starts[] = {0, 112345, 300000};
    static unsigned char expected[PIECE];
    dmace_device *device;
    dmace_memory *gpu, *from, *to;
    dmace_queue_handle *queue;
    uint64_t request;
    size_t length;
    const char *name = part_device(argc, argv);
    if (argc < 3) {
        fprintf(stderr, "usage: %s DEVICE FUNCTION, the one whose BAR is memory\n", argv[0]);
        return 2;
    }
    unsigned char *window = map_bar(argv[2], &length);
    REQUIRE(length >= 1 << 20);
    memset(window, GUARD, length);
    MUST(dmace_open(name, &device));
    MUST(dmace_register_bar(device, argv[2], BAR, 0, length, 0, DMACE_READ | DMACE_WRITE | DMACE_FLUSH, &gpu));
    MUST(dmace_alloc(device, PIECE, 0, DMACE_READ, &from));
    MUST(dmace_alloc(device, PIECE, 0, DMACE_WRITE, &to));
    MUST(dmace_queue_create(device, NULL, &queue));

    for (unsigned round = 0; round < sizeof starts / sizeof *starts; ++round) {
        const uint64_t at = starts[round];
        const uint64_t seed = 1000 + round;
        unsigned char *source = dmace_memory_data(from);
        for (unsigned index = 0; index < PIECE; ++index)
            source[index] = part_pattern(seed, index);
        MUST(dmace_copy(queue, gpu, at, from, 0, PIECE, 0, &request));
        MUST(dmace_wait(queue, request, PART_TIMEOUT));
        part_same("BAR", window + at, source, PIECE);
        REQUIRE((!at || window[at - 1] == GUARD) && window[at + PIECE] == GUARD);
        printf("p2p: span %" PRIu64 " %d %" PRIu64 "\n", at, PIECE, seed);

        memset(dmace_memory_data(to), GUARD, PIECE);
        for (unsigned index = 0; index < PIECE; ++index)
            window[700000 + index] = expected[index] = part_pattern(seed + 500, index);
        MUST(dmace_copy(queue, to, 1, gpu, 700001, PIECE - 1, 0, &request));
        MUST(dmace_wait(queue, request, PART_TIMEOUT));
        expected[0] = GUARD;
        part_same("memory", dmace_memory_data(to), expected, PIECE);
    }
    printf("p2p: span 700000 %d 1502\n", PIECE);

    /* Inside of the BAR, without host memory in between. */
    MUST(dmace_copy(queue, gpu, 900001, gpu, 112345, PIECE, 0, &request));
    MUST(dmace_wait(queue, request, PART_TIMEOUT));
    part_same("BAR to BAR", window + 900001, window + 112345, PIECE);
    printf("p2p: span 900001 %d 1001\n", PIECE);
    printf("p2p: %zu bytes of BAR %d of %s\n", length, BAR, argv[2]);
    dmace_close(device);
    munmap(window, length);
    return 0;
}
