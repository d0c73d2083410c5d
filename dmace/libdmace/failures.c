/* SPDX-License-Identifier: Apache-2.0
 *
 * failures.c: which requests of a queue have failed. The latest DMACE_FAILURES ranges are remembered.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>

static void mark_groups(dmace_queue_handle *queue, uint64_t first, uint64_t last, int status)
{
    for (dmace_group *group = queue->groups; group; group = group->next)
        if (group->first <= last && first <= group->last && !group->status)
            group->status = status;
}

static int add(dmace_queue_handle *queue, uint64_t first, uint64_t last, int status)
{
    if (!queue->failures && !(queue->failures = calloc(DMACE_FAILURES, sizeof *queue->failures)))
        return dmace_fail(-ENOMEM, "No memory for the failures of queue %u", queue->number);
    queue->failures[queue->failure_count++ % DMACE_FAILURES] = (dmace_failure){first, last, status};
    return 0;
}

int dmace_failure_add(dmace_queue_handle *queue, uint64_t first, uint64_t last, int status)
{
    if (first > last)
        return 0;
    mark_groups(queue, first, last, status);
    return add(queue, first, last, status);
}

/* The status of a request that failed, else 0. */
int dmace_failure_find(const dmace_queue_handle *queue, uint64_t request)
{
    const uint64_t known = queue->failure_count < DMACE_FAILURES ? queue->failure_count : DMACE_FAILURES;
    for (uint64_t age = 1; age <= known; ++age) {
        const dmace_failure *failure = &queue->failures[(queue->failure_count - age) % DMACE_FAILURES];
        if (failure->first <= request && request <= failure->last)
            return failure->status;
    }
    return 0;
}

/* Groups that have completed: a failure of any request is that of the last one. */
void dmace_groups_retire(dmace_queue_handle *queue)
{
    while (queue->groups && (queue->dead || queue->groups->last <= queue->completed)) {
        dmace_group *group = queue->groups;
        if (group->status && !queue->dead)
            add(queue, group->last, group->last, group->status);
        queue->groups = group->next;
        if (!queue->groups)
            queue->last_group = &queue->groups;
        free(group);
    }
}
