/* SPDX-License-Identifier: Apache-2.0
 *
 * shared.h: memory that outlives the process that gave it to the card.
 */
#ifndef SHARED_H
#define SHARED_H

#include <sys/mman.h>

#include "part.h"

/* Memory of a memfd, which processes forked later share; both hold it. */
static inline void *shared_memory(const char *name, size_t length)
{
    const int fd = memfd_create(name, MFD_CLOEXEC);
    REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)length));
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(memory != MAP_FAILED);
    close(fd);
    return memory;
}

/* Nothing is written to the memory for a while: it stays what it is now. */
static inline void still(const char *what, const void *memory, void *scratch, size_t length, double seconds)
{
    memcpy(scratch, memory, length);
    part_sleep(seconds);
    part_same(what, memory, scratch, length);
}

#endif
