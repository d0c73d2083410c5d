/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_registers.h: the registers of fake_card.c, and the stores to its doorbell pages.
 */

/* Locks the card, unless this call is to fail. */
static int enter(struct card *card)
{
    pthread_mutex_lock(&card->lock);
    if (card->fail < 0 || card->fail--)
        return 0;
    pthread_mutex_unlock(&card->lock);
    snprintf(sentence, sizeof sentence, "the test made this call fail");
    return -EIO;
}

static bool is_ring(uint32_t config)
{
    return PART(config, QUEUE_CONFIG_MODE) == DMACE_DMA_MODE_RING;
}

static void reset_queue(struct card *card, struct queue *queue)
{
    *queue = (struct queue){.count = card->first_count, .config = queue->config, .sc = queue->sc, .rc = queue->rc,
                            .ring_base = queue->ring_base, .ring_size = queue->ring_size, .slot = queue->slot,
                            .ring = is_ring(queue->config), .pair = queue->pair};
}

static void command(struct card *card, uint32_t value)
{
    const uint32_t number = value & 0xff;
    struct queue *queue = &card->queues[number];
    switch (value >> 8) {
    case DMACE_DMA_COMMAND_START:
        queue->enabled = true;
        queue->refusing = false;
        break;
    case DMACE_DMA_COMMAND_CLEAR:
        queue->count += queue->held && queue->status != DMACE_DMA_STATUS_TIMEOUT;
        queue->held = queue->refusing = false;
        queue->status = 0;
        publish(card, number, false);
        break;
    case DMACE_DMA_COMMAND_RESET:
        reset_queue(card, queue);
        break;
    }
}

static void commit_queue(struct card *card, uint32_t number)
{
    struct queue *queue = &card->queues[number];
    queue->sc = PAIR(QUEUE_SC);
    queue->rc = PAIR(QUEUE_RC);
    queue->config = R(QUEUE_CONFIG);
    queue->ring_base = PAIR(RING_BASE);
    queue->ring_size = R(RING_CONFIG) & 31;
    if (!is_ring(queue->config)) {
        queue->ring &= queue->enabled;
        return;
    }
    /* No two rings have a part of the descriptor buffer in common, and until RESET a ring has the same one. */
    const bool pair = R(RING_CONFIG) & DMACE_DMA_RING_CONFIG_PAIR_MASK;
    if (number >= FAKE_EXTENDED || queue->ring_base % (64u << queue->ring_size) ||
        (card->queues[number ^ 1].ring && (pair || card->queues[number ^ 1].pair)) ||
        (queue->enabled && queue->ring && pair != queue->pair))
        abort();
    queue->ring = true;
    queue->pair = pair;
}

static void apply_write(struct card *card, uint32_t offset, uint32_t value)
{
    if (offset < sizeof card->registers)
        card->registers[offset / 4] = value;
    switch (offset) {
    case DMACE_DMA_REGION_COMMIT_OFFSET:
        card->regions[value] = (struct region){PAIR(REGION_BASE), PAIR(REGION_LENGTH), R(REGION_ACCESS),
                                               R(REGION_ATTRIBUTES)};
        break;
    case DMACE_DMA_QUEUE_COMMIT_OFFSET:
        commit_queue(card, value);
        break;
    case DMACE_DMA_QUEUE_COMMAND_OFFSET:
        command(card, value);
        break;
    case DMACE_DMA_ERROR_LOG_POP_OFFSET:
        if (card->logged)
            memmove(card->log, card->log + 1, --card->logged * sizeof *card->log);
        break;
    case DMACE_DMA_QUEUE_SNAPSHOT_OFFSET: {
        const struct queue *queue = &card->queues[R(QUEUE_SELECT)];
        const uint32_t found[] = {queue->count, queue->failed, (uint32_t)queue->bytes, (uint32_t)(queue->bytes >> 32),
                                  queue->count, 0};
        memcpy(card->snapshot, found, sizeof found);
        break;
    }
    }
}

static uint32_t value_of(struct card *card, uint32_t offset)
{
    const struct queue *queue = &card->queues[R(QUEUE_SELECT) % FAKE_QUEUES];
    const struct entry *entry = &card->log[0];
    switch (offset) {
    case DMACE_DMA_ID_OFFSET:
        return card->id;
    case DMACE_DMA_VERSION_OFFSET:
        return card->version;
    case DMACE_DMA_SIZES_OFFSET:
        return 3 | 4 << 4 | 3 << 8 | 3 << 12 | 4 << 16 | 3 << 20 | 8 << 24 | 2 << 28;
    case DMACE_DMA_SIZES_2_OFFSET:
        return 5 | 4 << 8 | 3 << 12 | 2 << 16;
    case DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_ID_OFFSET:
        return card->no_endpoint ? UINT32_MAX : DMACE_ENDPOINT_ID_RESET;
    case DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_VERSION_OFFSET:
        return 1;
    case DMACE_BAR0_ENDPOINT + DMACE_ENDPOINT_SIZES_OFFSET:
        return FAKE_QUEUES << DMACE_ENDPOINT_SIZES_DMA_PAGES_SHIFT;
    case DMACE_BAR0_PCIE + DMACE_PCIE_ID_OFFSET:
        return card->no_adapter ? UINT32_MAX : DMACE_PCIE_ID_RESET;
    case DMACE_BAR0_PCIE + DMACE_PCIE_VERSION_OFFSET:
        return 1;
    case DMACE_BAR0_PCIE + DMACE_PCIE_SIZES_OFFSET:
        return card->no_adapter ? UINT32_MAX : (uint32_t)FAKE_VECTORS << DMACE_PCIE_SIZES_VECTORS_SHIFT;
    case DMACE_DMA_QUIESCE_OFFSET:
        return card->busy && (card->busy < 0 || card->busy--) ? DMACE_DMA_QUIESCE_BUSY_MASK : 0;
    case DMACE_DMA_QUEUE_STATE_OFFSET:
        return queue->enabled | 2 | queue->held << 2 | queue->refusing << 3 |
            (queue->waiting || queue->next != queue->tail) << 5;
    case DMACE_DMA_QUEUE_COUNT_OFFSET:
        return queue->count;
    case DMACE_DMA_QUEUE_RESULT_OFFSET:
        return (queue->failed & 0xffffff) | queue->status << 24;
    case DMACE_DMA_ERROR_LOG_OFFSET:
        return card->logged ? entry->status | entry->queue << 8 | DMACE_DMA_ERROR_LOG_VALID_MASK : 0;
    case DMACE_DMA_ERROR_LOG_COUNT_OFFSET:
        return entry->count;
    case DMACE_DMA_HISTOGRAM_COUNT_OFFSET:
        return R(HISTOGRAM_BIN) * 10;
    case DMACE_DMA_QUEUE_SNAPSHOT_OFFSET:
        return 0;
    }
    if (offset >= DMACE_DMA_SNAPSHOT_REQUESTS_OFFSET && offset <= DMACE_DMA_SNAPSHOT_STALLS_OFFSET)
        return card->snapshot[(offset - DMACE_DMA_SNAPSHOT_REQUESTS_OFFSET) / 4];
    return offset < sizeof card->registers ? card->registers[offset / 4] : 0;
}

static void apply_late_writes(struct card *card)
{
    for (unsigned i = 0; i < card->late_writes; ++i)
        apply_write(card, card->writes[i].offset, card->writes[i].value);
    card->late_writes = 0;
}

static int write_register(void *context, uint32_t offset, uint32_t value)
{
    struct card *card = context;
    const int code = enter(card);
    if (code)
        return code;
    card->writes[card->late_writes].offset = offset;
    card->writes[card->late_writes++].value = value;
    if (!card->late || card->late_writes == LATE_WRITES)
        apply_late_writes(card);
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static int read_register(void *context, uint32_t offset, uint32_t *value)
{
    struct card *card = context;
    const int code = enter(card);
    if (code)
        return code;
    apply_late_writes(card);
    *value = value_of(card, offset);
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static int store(void *context, uint64_t offset, const void *data, size_t size)
{
    struct card *card = context;
    const int code = enter(card);
    if (code)
        return code;
    dmace_word word = {0, 0};
    memcpy(&word, data, size);
    accept_word(card, (uint32_t)(offset / 4096), size == 16 ? word : (dmace_word){0, 0});
    pthread_mutex_unlock(&card->lock);
    return 0;
}
