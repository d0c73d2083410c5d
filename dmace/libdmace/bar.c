/* SPDX-License-Identifier: Apache-2.0
 *
 * bar.c: pages of a BAR of another PCI function, from sysfs.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool dmace_is_function(const char *name)
{
    unsigned domain, bus, device, number;
    int end = 0;
    return name && strlen(name) <= 16 && strspn(name, "0123456789abcdefABCDEF:.") == strlen(name) &&
        sscanf(name, "%x:%2x:%2x.%1u%n", &domain, &bus, &device, &number, &end) == 4 && !name[end];
}

/* Its memory must respond: the file `enable` has the number of those that have enabled it. */
static int enable(const char *function)
{
    char path[96], count = '0';
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", function);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return dmace_fail(-errno, "Opening %s: %s", path, strerror(errno));
    int code = 0;
    if (read(fd, &count, 1) == 1 && count == '0' && pwrite(fd, "1", 1, 0) != 1)
        code = dmace_fail(-errno, "Enabling the function %s: %s", function, strerror(errno));
    close(fd);
    return code;
}

int dmace_bar_map(const char *function, unsigned bar, uint64_t offset, size_t length, uint64_t first, size_t size,
                  dmace_span *span)
{
    if (!dmace_is_function(function))
        return dmace_fail(-EINVAL, "Name of a function must be DDDD:BB:DD.F, not %s", function ? function : "null");
    if (bar > 5)
        return dmace_fail(-EINVAL, "Number of a BAR must be 0 to 5, not %u", bar);
    char path[96];
    int code = enable(function);
    if (code)
        return code;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource%u", function, bar);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return dmace_fail(-errno, "Opening %s: %s", path, strerror(errno));
    struct stat found;
    if (fstat(fd, &found)) {
        code = dmace_fail(-errno, "Reading the size of %s: %s", path, strerror(errno));
    } else if (length > (uint64_t)found.st_size || offset > (uint64_t)found.st_size - length) {
        code = dmace_fail(-ERANGE, "Range must be in the %lld bytes of %s, not %zu bytes at %#llx",
                          (long long)found.st_size, path, length, (unsigned long long)offset);
    } else {
        void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
        if (data == MAP_FAILED)
            code = dmace_fail(-errno, "Mapping %s: %s", path, strerror(errno));
        else
            *span = (dmace_span){.data = data, .length = size, .owned = true};
    }
    close(fd);
    return code;
}
