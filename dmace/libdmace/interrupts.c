/* SPDX-License-Identifier: Apache-2.0
 *
 * interrupts.c: an eventfd for each queue with an interrupt. The vector of a queue that has one of its own signals it
 * directly. Where queues share a vector, a thread, the dispatcher, passes its events to all of them.
 */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

uint32_t dmace_queue_vector(const dmace_device *device, uint32_t number)
{
    return device->card_vectors < 2 ? UINT32_MAX : 1 + number % (device->card_vectors - 1);
}

static void signal_event(int fd)
{
    const uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0)
        return;     /* its count is at the limit: it is readable */
}

static int make_event(int *fd)
{
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *fd < 0 ? dmace_fail(-errno, "Creating an eventfd: %s", strerror(errno)) : 0;
}

static int connect_vector(dmace_device *device, uint32_t vector, int fd)
{
    const int code = device->transport->interrupt(device->context, vector, fd);
    return code ? dmace_fail_transport(device, code, "Connecting an interrupt") : 0;
}

/* With `events` held. */
static void pass_event(const dmace_vector *vector)
{
    for (const dmace_queue_handle *queue = vector->queues; queue; queue = queue->next_of_vector)
        signal_event(queue->event);
}

static void *dispatch(void *argument)
{
    dmace_device *device = argument;
    struct pollfd waited[DMACE_MAX_VECTORS + 1];
    uint64_t count;
    pthread_mutex_lock(&device->events);
    while (!device->dispatcher_stop) {
        unsigned length = 1;
        waited[0] = (struct pollfd){.fd = device->dispatcher_wake, .events = POLLIN};
        for (unsigned vector = 0; vector < DMACE_MAX_VECTORS; ++vector)
            if (device->vectors[vector].fd >= 0)
                waited[length++] = (struct pollfd){.fd = device->vectors[vector].fd, .events = POLLIN};
        pthread_mutex_unlock(&device->events);
        poll(waited, length, -1);
        pthread_mutex_lock(&device->events);
        if (read(device->dispatcher_wake, &count, sizeof count) < 0 && errno != EAGAIN)
            break;
        for (unsigned vector = 0; vector < DMACE_MAX_VECTORS; ++vector)
            if (device->vectors[vector].fd >= 0 && read(device->vectors[vector].fd, &count, sizeof count) > 0)
                pass_event(&device->vectors[vector]);
    }
    pthread_mutex_unlock(&device->events);
    return NULL;
}

/* With `events` held. */
static int start_dispatcher(dmace_device *device)
{
    if (device->dispatcher_wake >= 0)
        return 0;
    const int code = make_event(&device->dispatcher_wake);
    if (code)
        return code;
    const int failed = pthread_create(&device->dispatcher, NULL, dispatch, device);
    if (failed) {
        close(device->dispatcher_wake);
        device->dispatcher_wake = -1;
        return dmace_fail(-failed, "Starting the thread for interrupts: %s", strerror(failed));
    }
    return 0;
}

void dmace_dispatcher_end(dmace_device *device)
{
    if (device->dispatcher_wake < 0)
        return;
    pthread_mutex_lock(&device->events);
    device->dispatcher_stop = true;
    signal_event(device->dispatcher_wake);
    pthread_mutex_unlock(&device->events);
    pthread_join(device->dispatcher, NULL);
    close(device->dispatcher_wake);
    device->dispatcher_wake = -1;
}

/* When the transport is closed, and signals them no more. */
void dmace_vectors_close(dmace_device *device)
{
    for (unsigned vector = 0; vector < DMACE_MAX_VECTORS; ++vector)
        if (device->vectors[vector].fd >= 0)
            close(device->vectors[vector].fd);
}

/* With `events` held: a vector that one queue has had alone goes to the dispatcher. */
static int share(dmace_device *device, uint32_t number)
{
    dmace_vector *vector = &device->vectors[number];
    if (vector->fd >= 0)
        return 0;
    int code = start_dispatcher(device);
    if (code || (code = make_event(&vector->fd)))
        return code;
    if ((code = connect_vector(device, number, vector->fd))) {
        close(vector->fd);
        vector->fd = -1;
        return code;
    }
    pass_event(vector);     /* an event may have been lost meanwhile */
    signal_event(device->dispatcher_wake);
    return 0;
}

int dmace_interrupt_attach(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    const uint32_t number = dmace_queue_vector(device, queue->number);
    dmace_vector *vector = &device->vectors[number];
    int code = make_event(&queue->event);
    if (code)
        return code;
    pthread_mutex_lock(&device->events);
    code = vector->queues ? share(device, number) : connect_vector(device, number, queue->event);
    if (!code) {
        queue->vector = number;
        queue->next_of_vector = vector->queues;
        vector->queues = queue;
    }
    pthread_mutex_unlock(&device->events);
    return code;
}

/* With `events` held. */
static void disconnect(dmace_device *device, uint32_t number)
{
    dmace_vector *vector = &device->vectors[number];
    connect_vector(device, number, -1);
    if (vector->fd < 0)
        return;
    close(vector->fd);
    vector->fd = -1;
    signal_event(device->dispatcher_wake);
}

void dmace_interrupt_detach(dmace_queue_handle *queue)
{
    dmace_device *device = queue->device;
    if (!queue->vector)
        return;
    pthread_mutex_lock(&device->events);
    dmace_vector *vector = &device->vectors[queue->vector];
    dmace_queue_handle **link = &vector->queues;
    while (*link != queue)
        link = &(*link)->next_of_vector;
    *link = queue->next_of_vector;
    if (!vector->queues)
        disconnect(device, queue->vector);
    queue->vector = 0;
    pthread_mutex_unlock(&device->events);
}

void dmace_interrupt_close(dmace_queue_handle *queue)
{
    if (queue->event >= 0)
        close(queue->event);
    queue->event = -1;
}

int dmace_queue_eventfd(const dmace_queue_handle *queue)
{
    if (!queue)
        return dmace_fail(-EINVAL, "dmace_queue_eventfd() needs a queue");
    return queue->event >= 0 ? queue->event :
        dmace_fail(-ENOTSUP, "Queue %u has no interrupt: create it with the option `interrupt`", queue->number);
}
