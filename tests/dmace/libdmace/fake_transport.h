/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_transport.h: opening and closing fake_card.c, and what tests do to it.
 */

static void *page(void *context, uint64_t offset)
{
    return (char *)((struct card *)context)->pages + offset;
}

static int interrupt(void *context, uint32_t vector, int event)
{
    struct card *card = context;
    const int code = enter(card);
    if (code)
        return code;
    if (vector >= FAKE_VECTORS)
        abort();
    card->events[vector] = event;
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static int reset(void *context)
{
    struct card *card = context;
    const int code = enter(card);
    if (code)
        return code;
    memset(card->registers, 0, sizeof card->registers);
    memset(card->regions, 0, sizeof card->regions);
    memset(card->queues, 0, sizeof card->queues);
    card->late_writes = 0;
    card->logged = 0;
    card->timed_out = FAKE_QUEUES;
    for (int i = 0; i < FAKE_QUEUES; ++i)
        reset_queue(card, &card->queues[i]);
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static int cycles(void *context, uint64_t *number)
{
    struct card *card = context;
    pthread_mutex_lock(&card->lock);
    *number = card->cycles;
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static const char *error(void *context)
{
    (void)context;
    return *sentence ? sentence : NULL;
}

static void close_card(void *context)
{
    struct card *card = context;
    pthread_mutex_lock(&card->lock);
    card->end = true;
    pthread_mutex_unlock(&card->lock);
    pthread_join(card->worker, NULL);
    for (int i = 0; i < SPANS; ++i)
        if (card->spans[i].own)
            free(card->spans[i].data);
    if (card->pages)
        munmap(card->pages, FAKE_QUEUES * 4096);
    pthread_mutex_destroy(&card->lock);
    free(card);
    --open_cards;
}

__attribute__((visibility("default")))
int dmace_transport_open(const char *argument, const dmace_transport **transport, void **context, char *message,
                         size_t size)
{
    if (strstr(argument, "refuse")) {
        snprintf(message, size, "The fake card refuses to open");
        return -EBUSY;
    }
    struct card *card = calloc(1, sizeof *card);
    if (!card)
        return -ENOMEM;
    pthread_mutex_init(&card->lock, NULL);
    card->fail = -1;
    card->next_io = strstr(argument, "zero") ? 0 : 0x10000;
    card->id = strstr(argument, "badid") ? 0xffffffff : DMACE_DMA_ID_RESET;
    card->version = DMACE_DMA_VERSION_RESET + !!strstr(argument, "badversion");
    card->no_endpoint = strstr(argument, "noendpoint");
    card->no_adapter = strstr(argument, "noadapter");
    card->slow = strstr(argument, "slow");
    card->late = strstr(argument, "late");
    card->first_count = strstr(argument, "wrap") ? UINT32_MAX - 4 : 0;
    for (int i = 0; i < FAKE_VECTORS; ++i)
        card->events[i] = -1;
    card->transport = (dmace_transport){
        .version = DMACE_TRANSPORT_VERSION, .name = "fake", .read = read_register, .write = write_register, .store = store,
        .map = map, .unmap = unmap, .vectors = FAKE_VECTORS, .interrupt = interrupt, .reset = reset, .cycles = cycles,
        .error = error, .close = close_card};
    if (strstr(argument, "remote")) {
        card->transport.map = NULL;
        card->transport.unmap = NULL;
        card->transport.allocate = allocate;
        card->transport.release = unmap;
        card->transport.load = load;
        card->transport.save = save;
    }
    if (strstr(argument, "page")) {
        card->pages = mmap(NULL, FAKE_QUEUES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        card->transport.page = page;
    }
    ++open_cards;
    pthread_create(&card->worker, NULL, work, card);
    *transport = &card->transport;
    *context = card;
    return 0;
}

#define LOCKED(statement) \
    struct card *card = context; \
    pthread_mutex_lock(&card->lock); \
    statement; \
    pthread_mutex_unlock(&card->lock)

void fake_refuse(void *context, uint64_t io_address, uint64_t length)
{
    LOCKED((card->refused = io_address, card->refused_length = length));
}

void fake_stop(void *context, int stop)
{
    LOCKED(card->stop = stop);
}

void fake_busy(void *context, int reads)
{
    LOCKED(card->busy = reads);
}

void fake_mute(void *context, int mute)
{
    LOCKED(card->mute = mute);
}

void fake_time_out(void *context, uint32_t queue)
{
    LOCKED(card->timed_out = queue);
}

void fake_fail_call(void *context, int calls)
{
    LOCKED(card->fail = calls);
}

unsigned fake_maps(void *context)
{
    unsigned count = 0;
    LOCKED(for (int i = 0; i < SPANS; ++i) count += card->spans[i].data != NULL);
    return count;
}

unsigned fake_open_cards(void)
{
    return open_cards;
}
