/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c: names and meanings of the statuses of requests.
 */
#include "internal.h"

#include <inttypes.h>

static const struct {
    const char *name, *meaning;
} statuses[] = {
#define STATUS(name, meaning) [DMACE_DMA_STATUS_##name] = {#name, meaning}
    STATUS(OK, "it has completed"),
    STATUS(MALFORMED, "its word has an unknown opcode, a reserved flag, or a signal that is not 8 aligned bytes"),
    STATUS(ZERO_LENGTH, "its length is 0"),
    STATUS(OVERFLOW, "the queue was full, and refused it"),
    STATUS(DISABLED, "the queue is not started, and refused it"),
    STATUS(TIMEOUT, "memory did not respond within the watchdog's limit"),
    STATUS(COMPLETION_ERROR, "memory refused the completion word"),
    STATUS(RING_FETCH, "memory refused the read of its descriptor"),
    STATUS(CONNECTION, "its connection is not in the table, or belongs to another domain"),
    STATUS(RING_RANGE, "the new tail is not within the descriptor ring"),
    STATUS(SRC_REGION, "its source region is not in the table"),
    STATUS(SRC_DOMAIN, "its source belongs to another domain than the queue"),
    STATUS(SRC_RIGHTS, "its source may not be read"),
    STATUS(SRC_BOUNDS, "its source range ends beyond the region"),
    STATUS(READ_SLVERR, "the read of its source was aborted, poisoned, or timed out"),
    STATUS(READ_DECERR, "the address of its source was refused"),
    STATUS(SRC_PAGE, "a page of its source is not in the page table"),
    STATUS(DST_REGION, "its destination region is not in the table"),
    STATUS(DST_DOMAIN, "its destination belongs to another domain than the queue"),
    STATUS(DST_RIGHTS, "its destination may not be written"),
    STATUS(DST_BOUNDS, "its destination range ends beyond the region"),
    STATUS(WRITE_SLVERR, "the write of its destination was aborted, or timed out"),
    STATUS(WRITE_DECERR, "the address of its destination was refused"),
    STATUS(DST_PAGE, "a page of its destination is not in the page table"),
#undef STATUS
};

static bool known(int status)
{
    return status >= 0 && status < (int)(sizeof statuses / sizeof *statuses) && statuses[status].name;
}

const char *dmace_status_name(int status)
{
    return known(status) ? statuses[status].name : "UNKNOWN";
}

const char *dmace_status_meaning(int status)
{
    return known(status) ? statuses[status].meaning : "this version of libdmace does not know its status";
}

int dmace_fail_request(const dmace_queue_handle *queue, uint64_t request, int status)
{
    return dmace_fail(status, "Request %" PRIu64 " of queue %u failed: %s, %s", request, queue->number,
                      dmace_status_name(status), dmace_status_meaning(status));
}
