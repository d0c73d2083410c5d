/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.h: two connected cards whose trigger counters take ticks and words from pages in memory, by libdmace; C++17.
 *
 * A card sees stores to its own pages. Those of threads go to memory here, and the host stores them to the card: a tick as
 * 8 bytes, a field of the preparation page as 16. All else is the cards' work: counts, firings, puts and signals.
 */
#ifndef CARDS_H
#define CARDS_H

#include <chrono>
#include <stdexcept>
#include <string>

#include "endpoint.h"

#include "dmace_ace.h"
#include "libdmace.h"

/* What fused.h has to know of a rank's card. */
struct CardRegions {
    uint32_t data, peer_data, peer_flags, page;
};

/* A rank's card, of which block 0 and one queue are used. Port 0 leads to the other card, whose port 1 receives. */
class EndpointCard : public Endpoint {
public:
    EndpointCard(const char *name, BlockPages *pages) : pages_(pages)
    {
        succeed(dmace_open(name, &device_));
        const uint32_t sizes = read(ENDPOINT + DMACE_ENDPOINT_TRIGGER_SIZES_OFFSET);
        const uint32_t blocks = sizes >> DMACE_ENDPOINT_TRIGGER_SIZES_BLOCKS_SHIFT & DMACE_ENDPOINT_TRIGGER_SIZES_BLOCKS_MASK;
        ticks_page_ = (sizes & DMACE_ENDPOINT_TRIGGER_SIZES_PAGE_MASK) >> DMACE_ENDPOINT_TRIGGER_SIZES_PAGE_SHIFT;
        if (!blocks || ticks_page_ > 32)
            throw std::runtime_error(std::string("The card must have trigger counters and at most 32 pages before theirs, "
                                                 "unlike ") + name);
        words_page_ = ticks_page_ + blocks;
        succeed(dmace_queue_create(device_, nullptr, &queue_));
        write(ENDPOINT + DMACE_ENDPOINT_TRIGGER_PAGES_0_OFFSET, 1u << dmace_queue_number(queue_));
        write(ENDPOINT + DMACE_ENDPOINT_TRIGGER_COMMIT_OFFSET, 0);
    }

    EndpointCard(const EndpointCard &) = delete;
    EndpointCard &operator=(const EndpointCard &) = delete;

    ~EndpointCard() override { dmace_close(device_); }

    /* Lets this card read `data`, and the other card write it and the flags. Both are at multiples of 4096. */
    CardRegions share(void *data, size_t bytes, void *flags)
    {
        dmace_memory *own, *peer_data, *peer_flags;
        succeed(dmace_register(device_, data, bytes, 0, DMACE_READ, &own));
        succeed(dmace_register_address(device_, DMACE_ENDPOINT_REMOTE(0, 0, 0), bytes, 0, DMACE_WRITE, &peer_data));
        succeed(dmace_register_address(device_, DMACE_ENDPOINT_REMOTE(0, 1, 0), 4096, 0, DMACE_WRITE, &peer_flags));
        offer(0, data, bytes);
        offer(1, flags, 4096);
        return {dmace_memory_region(own), dmace_memory_region(peer_data), dmace_memory_region(peer_flags),
                dmace_queue_number(queue_)};
    }

    static void connect(EndpointCard &one, EndpointCard &other, double seconds)
    {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        for (EndpointCard *card : {&one, &other})
            card->write(ACE + DMACE_ACE_LINK_START_OFFSET, 3);
        while (!one.connected() || !other.connected())
            if (std::chrono::steady_clock::now() > end)
                throw std::runtime_error("The link of the cards has not come up in " + std::to_string(int(seconds)) + " s");
    }

    /* Stores what is there to the card; whether there was any tick. */
    bool poll() override
    {
        const uint64_t before = ticks;
        for (size_t slot = 0; slot < sizeof pages_->ticks / 8 && error.empty(); ++slot) {
            const uint64_t word = __atomic_load_n(&pages_->ticks[slot], __ATOMIC_ACQUIRE);
            if (!word)
                continue;
            /* A thread that ticks has seen that the counters are armed: their words are there. */
            prepare();
            store(ticks_page_, slot * 8, &word, 8);
            ++ticks;
            __atomic_store_n(&pages_->ticks[slot], uint64_t{0}, __ATOMIC_RELEASE);
        }
        return ticks != before;
    }

    void finish(uint64_t expected, double seconds) override
    {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        do
            firings = read(ENDPOINT + DMACE_ENDPOINT_COUNT_TRIGGER_FIRINGS_OFFSET);
        while (firings < expected && std::chrono::steady_clock::now() < end);
        const uint32_t refused = read(ENDPOINT + DMACE_ENDPOINT_COUNT_TRIGGER_REFUSED_OFFSET);
        dmace_queue_stats stats;
        succeed(dmace_get_queue_stats(queue_, &stats));
        if (refused || stats.failed)
            error = "The card refused " + std::to_string(refused) + " stores, and "
                + std::to_string(stats.failed) + " requests failed";
    }

private:
    enum : uint32_t { ACE = 0x1000, ENDPOINT = 0x2000 };

    static void succeed(int code)
    {
        if (code)
            throw std::runtime_error(dmace_error());
    }

    uint32_t read(uint32_t offset)
    {
        uint32_t value;
        succeed(dmace_read_register(device_, offset, &value));
        return value;
    }

    void write(uint32_t offset, uint32_t value) { succeed(dmace_write_register(device_, offset, value)); }

    void store(uint32_t page, uint64_t offset, const void *data, size_t size)
    {
        if (dmace_store(device_, uint64_t{page} * DMACE_DMA_DOORBELL_PAGE + offset, data, size))
            error = dmace_error();
    }

    void prepare()
    {
        for (uint32_t number = 0; number < DMACE_ENDPOINT_COUNTERS_PER_BLOCK; ++number) {
            dmace_word *slot = pages_->slots[number];
            if (const dmace_word arm = machine_load_16(slot + DMACE_ENDPOINT_SLOT_ARM); !arm.lo && !arm.hi)
                continue;
            for (uint32_t index : {DMACE_ENDPOINT_SLOT_FIRST_WORD, DMACE_ENDPOINT_SLOT_SECOND_WORD, DMACE_ENDPOINT_SLOT_ARM}) {
                const dmace_word word = machine_load_16(slot + index);
                if (word.lo || word.hi)
                    store(words_page_, number * DMACE_ENDPOINT_SLOT_BYTES + index * sizeof word, &word, sizeof word);
            }
            DMACE_STORE_16(slot + DMACE_ENDPOINT_SLOT_ARM, 0, 0);
        }
    }

    void offer(uint32_t span, void *address, size_t bytes)
    {
        dmace_memory *memory;
        succeed(dmace_register(device_, address, bytes, 0, DMACE_WRITE | DMACE_NO_REGION, &memory));
        const uint64_t base = dmace_memory_address(memory);
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_BASE_LO_OFFSET, uint32_t(base));
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_BASE_HI_OFFSET, uint32_t(base >> 32));
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_LENGTH_LO_OFFSET, uint32_t(bytes));
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_LENGTH_HI_OFFSET, uint32_t(uint64_t(bytes) >> 32));
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_ACCESS_OFFSET, DMACE_ENDPOINT_EXPORT_ACCESS_VALID_MASK | 2u);
        write(ENDPOINT + DMACE_ENDPOINT_EXPORT_COMMIT_OFFSET, span);
    }

    bool connected()
    {
        write(ACE + DMACE_ACE_LINK_SELECT_OFFSET, 0);
        return (read(ACE + DMACE_ACE_LINK_STATE_OFFSET) & DMACE_ACE_LINK_STATE_STATE_MASK)
            == DMACE_ACE_LINK_STATE_STATE_UP;
    }

    BlockPages *pages_;
    dmace_device *device_ = nullptr;
    dmace_queue_handle *queue_ = nullptr;
    uint32_t ticks_page_, words_page_;
};

#endif
