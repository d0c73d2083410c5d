/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c: until a request has completed, by polling or asleep.
 */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

/* Longest sleep without a look at the SC word: other readers of the eventfd may have taken its event. */
#define LONGEST_SLEEP INT64_C(100000000)

/* With the lock held: 1 if the request is still in progress, else the result in `result`. */
static int in_progress(dmace_queue_handle *queue, uint64_t request, int *result)
{
    if (queue->dead) {
        *result = dmace_fail(-ECANCELED, "Request %" PRIu64 " of queue %u is cancelled: the device was reset, or the "
                             "queue is being destroyed", request, queue->number);
        return 0;
    }
    if (queue->completed < request && !queue->broken && (*result = dmace_queue_progress(queue)) < 0)
        return 0;
    const int status = dmace_failure_find(queue, request);
    if (status) {
        *result = dmace_fail_request(queue, request, status);
        return 0;
    }
    *result = 0;
    return queue->completed < request;
}

static int begin(dmace_queue_handle *queue, uint64_t request)
{
    if (!queue)
        return dmace_fail(-EINVAL, "A wait needs a queue");
    const int code = dmace_queue_enter(queue);
    if (code)
        return code;
    pthread_mutex_lock(&queue->lock);
    const uint64_t posted = queue->posted;
    pthread_mutex_unlock(&queue->lock);
    if (request && request <= posted)
        return 0;
    dmace_queue_leave(queue);
    return dmace_fail(-EINVAL, "Request of queue %u must be 1 to %" PRIu64 ", those that were posted, not %" PRIu64,
                      queue->number, posted, request);
}

static int timed_out(const dmace_queue_handle *queue, uint64_t request, int64_t timeout)
{
    return dmace_fail(-ETIMEDOUT, "Request %" PRIu64 " of queue %u has not completed within %" PRId64 " ns", request,
                      queue->number, timeout);
}

int dmace_wait(dmace_queue_handle *queue, uint64_t request, int64_t timeout_ns)
{
    int result = begin(queue, request);
    if (result)
        return result;
    const int64_t deadline = dmace_deadline(timeout_ns);
    unsigned calls = 0;
    for (;;) {
        const bool last = deadline != INT64_MAX && dmace_now() >= deadline;
        pthread_mutex_lock(&queue->lock);
        const int waits = in_progress(queue, request, &result);
        pthread_mutex_unlock(&queue->lock);
        if (!waits)
            break;
        if (last) {
            result = timed_out(queue, request, timeout_ns);
            break;
        }
        dmace_stall(&calls);
    }
    dmace_queue_leave(queue);
    return result;
}

/* Sleeps until the eventfd is readable, or `until`, and reads it. Interrupts come behind the words that they report, so
 * a word that was old before this call is followed by one. */
static void sleep_on_event(const dmace_queue_handle *queue, int64_t until)
{
    struct pollfd waited = {.fd = queue->event, .events = POLLIN};
    const int64_t ns = until - dmace_now();
    const struct timespec time = {ns > 0 ? ns / 1000000000 : 0, ns > 0 ? ns % 1000000000 : 0};
    uint64_t count;
    if (ppoll(&waited, 1, &time, NULL) > 0 && read(queue->event, &count, sizeof count) < 0)
        return;     /* another reader was first */
}

/* With the lock held: one thread of a queue sleeps on its eventfd, and wakes the others. */
static void sleep_once(dmace_queue_handle *queue, int64_t until)
{
    if (queue->sleeping) {
        const struct timespec time = {until / 1000000000, until % 1000000000};
        pthread_cond_timedwait(&queue->changed, &queue->lock, &time);
        return;
    }
    queue->sleeping = true;
    pthread_mutex_unlock(&queue->lock);
    sleep_on_event(queue, until);
    pthread_mutex_lock(&queue->lock);
    queue->sleeping = false;
    pthread_cond_broadcast(&queue->changed);
}

int dmace_sleep(dmace_queue_handle *queue, uint64_t request, int64_t timeout_ns)
{
    if (queue && queue->event < 0)
        return dmace_fail(-ENOTSUP, "Queue %u has no interrupt: create it with the option `interrupt`", queue->number);
    int result = begin(queue, request);
    if (result)
        return result;
    const int64_t deadline = dmace_deadline(timeout_ns);
    pthread_mutex_lock(&queue->lock);
    while (in_progress(queue, request, &result)) {
        const int64_t now = dmace_now();
        if (now >= deadline) {
            result = timed_out(queue, request, timeout_ns);
            break;
        }
        sleep_once(queue, deadline - now < LONGEST_SLEEP ? deadline : now + LONGEST_SLEEP);
    }
    pthread_mutex_unlock(&queue->lock);
    dmace_queue_leave(queue);
    return result;
}
