/* SPDX-License-Identifier: Apache-2.0
 *
 * unprivileged.h: a process keeps a doorbell page, completion words and memory, and nothing else of its parent.
 */
#ifndef UNPRIVILEGED_H
#define UNPRIVILEGED_H

#include <grp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "part.h"

typedef struct keep {
    const volatile void *address;
    size_t length;
} keep;

static inline int keeps(uintptr_t page, const keep *list, unsigned count)
{
    for (unsigned index = 0; index < count; ++index) {
        const uintptr_t first = (uintptr_t)list[index].address;
        if (page + 4096 > first && page < first + list[index].length)
            return 1;
    }
    return 0;
}

/* Unmaps the pages of every mapping that is shared with another process, the device's included, but those of `list`. */
static inline void unmap_others(const keep *list, unsigned count)
{
    enum { MOST = 512 };
    static struct {
        uintptr_t first, end;
    } shared[MOST];
    unsigned found = 0;
    unsigned long long first, end;
    char line[512], rights[8];
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx %7s", &first, &end, rights) == 3 && rights[3] == 's') {
            REQUIRE(found < MOST);
            shared[found].first = (uintptr_t)first;
            shared[found++].end = (uintptr_t)end;
        }
    fclose(maps);
    for (unsigned index = 0; index < found; ++index)
        for (uintptr_t page = shared[index].first; page < shared[index].end; page += 4096)
            if (!keeps(page, list, count))
                REQUIRE(!munmap((void *)page, 4096));
}

/* Becomes the user with the number of `nobody`, without a file and without a way back. */
static inline void drop_privileges(const keep *list, unsigned count)
{
    enum { UNPRIVILEGED = 65534 };
    unmap_others(list, count);
    REQUIRE(!setgroups(0, NULL));
    REQUIRE(!setgid(UNPRIVILEGED));
    REQUIRE(!setuid(UNPRIVILEGED));
    REQUIRE(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    REQUIRE(setuid(0) < 0 && geteuid() == UNPRIVILEGED);
    /* Standard error remains, for the sentence of a failure. */
    REQUIRE(!syscall(SYS_close_range, 3u, ~0u, 0u));
    close(0);
    close(1);
}

#endif
