/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.h: endpoints whose pages are in memory, and a test double of one's trigger counters; C++17.
 *
 * The double takes what threads store to the tick page and the preparation page of one block, counts as docs/triggers.md has it,
 * and executes the requests that counters post: copies and signals between regions. A copy is complete when it returns,
 * so that a signal needs no wait, and no firing is ever pending.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <cstring>
#include <string>
#include <vector>

#include "machine.h"

#include "dmace_endpoint.h"

/* The two pages of a block. An empty slot is 0: no tick with a value, and no arm word of a mode, is. */
struct BlockPages {
    uint64_t ticks[DMACE_DMA_DOORBELL_PAGE / 8];
    dmace_word slots[DMACE_ENDPOINT_COUNTERS_PER_BLOCK][DMACE_ENDPOINT_SLOT_BYTES / 16];
};

struct Region {
    char *base;
    uint64_t length;
};

class Endpoint {
public:
    virtual ~Endpoint() = default;

    /* Takes each tick that is there; whether there was any. Ends with `error` at the first refusal. */
    virtual bool poll() = 0;

    /* After the last tick: waits up to `seconds` until there have been so many firings. */
    virtual void finish(uint64_t, double) {}

    uint64_t ticks = 0, firings = 0;
    std::string error;
};

class EndpointDouble : public Endpoint {
public:
    /* `page`: the only one to which counters may post. */
    EndpointDouble(BlockPages *pages, std::vector<Region> regions, uint32_t page)
        : pages_(pages), regions_(std::move(regions)), page_(page) {}

    bool poll() override
    {
        const uint64_t before = ticks;
        for (uint64_t &slot : pages_->ticks) {
            const uint64_t word = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
            if (!word)
                continue;
            /* A thread that ticks has seen that the counters are armed: their words are there. */
            prepare();
            tick(word);
            if (!error.empty())
                return false;
            ++ticks;
            __atomic_store_n(&slot, uint64_t{0}, __ATOMIC_RELEASE);
        }
        return ticks != before;
    }

private:
    struct Counter {
        uint32_t remaining = 0, threshold = 0, mode = DMACE_ENDPOINT_MODE_DISARM;
        uint16_t generation = 0;
        bool pair = false, stamp = false;
        uint64_t page = 0;
        dmace_word words[2] = {};
    };

    static uint64_t field(uint64_t half, unsigned shift, uint64_t mask) { return half >> shift & mask; }

    void prepare()
    {
        for (uint32_t number = 0; number < DMACE_ENDPOINT_COUNTERS_PER_BLOCK; ++number) {
            dmace_word *slot = pages_->slots[number];
            const dmace_word arm = machine_load_16(slot + DMACE_ENDPOINT_SLOT_ARM);
            if (!arm.lo && !arm.hi)
                continue;
            Counter &counter = counters_[number];
            for (uint32_t index = 0; index < 2; ++index)
                counter.words[index] = machine_load_16(slot + DMACE_ENDPOINT_SLOT_FIRST_WORD + index);
            counter.threshold = counter.remaining = uint32_t(
                field(arm.lo, DMACE_ENDPOINT_ARM_THRESHOLD_SHIFT, DMACE_ENDPOINT_ARM_THRESHOLD_MASK));
            counter.generation = uint16_t(
                field(arm.lo, DMACE_ENDPOINT_ARM_GENERATION_SHIFT, DMACE_ENDPOINT_ARM_GENERATION_MASK));
            counter.mode = uint32_t(field(arm.lo, DMACE_ENDPOINT_ARM_MODE_SHIFT, DMACE_ENDPOINT_ARM_MODE_MASK));
            counter.pair = field(arm.lo, DMACE_ENDPOINT_ARM_PAIR_SHIFT, 1);
            counter.stamp = field(arm.lo, DMACE_ENDPOINT_ARM_STAMP_SHIFT, 1);
            counter.page = field(arm.hi, DMACE_ENDPOINT_ARM_PAGE_SHIFT, DMACE_ENDPOINT_ARM_PAGE_MASK);
            if (counter.mode == DMACE_ENDPOINT_MODE_SUM)
                counter.remaining = 0;
            DMACE_STORE_16(slot + DMACE_ENDPOINT_SLOT_ARM, 0, 0);
        }
    }

    void refuse(uint32_t number, const char *reason)
    {
        error = "A tick or firing of counter " + std::to_string(number) + " was refused: " + reason;
    }

    void tick(uint64_t word)
    {
        const uint32_t number = uint32_t(
            field(word, DMACE_ENDPOINT_TICK_COUNTER_SHIFT, DMACE_ENDPOINT_TICK_COUNTER_MASK));
        const uint64_t value = field(word, DMACE_ENDPOINT_TICK_VALUE_SHIFT, DMACE_ENDPOINT_TICK_VALUE_MASK);
        Counter &counter = counters_[number];
        if (field(word, DMACE_ENDPOINT_TICK_RESERVED_SHIFT, DMACE_ENDPOINT_TICK_RESERVED_MASK)
            || field(word, DMACE_ENDPOINT_TICK_RESERVED_HIGH_SHIFT, DMACE_ENDPOINT_TICK_RESERVED_HIGH_MASK))
            return refuse(number, "MALFORMED");
        if (!value)
            return;
        if (counter.mode == DMACE_ENDPOINT_MODE_DISARM)
            return refuse(number, "IDLE");
        if (!field(word, DMACE_ENDPOINT_TICK_ANY_SHIFT, 1)
            && field(word, DMACE_ENDPOINT_TICK_GENERATION_SHIFT, DMACE_ENDPOINT_TICK_GENERATION_MASK)
                != counter.generation)
            return refuse(number, "GENERATION");
        if (counter.mode != DMACE_ENDPOINT_MODE_SUM && value > counter.remaining)
            return refuse(number, "OVERFLOW");
        counter.remaining -= uint32_t(value);
        if (counter.mode == DMACE_ENDPOINT_MODE_SUM)
            return fire(number, uint32_t(0) - counter.remaining);
        if (counter.remaining)
            return;
        const uint16_t generation = counter.generation;
        if (counter.mode == DMACE_ENDPOINT_MODE_ONCE) {
            counter.mode = DMACE_ENDPOINT_MODE_DISARM;
        } else {
            counter.remaining = counter.threshold;
            ++counter.generation;
        }
        fire(number, generation);
    }

    void fire(uint32_t number, uint32_t firing)
    {
        const Counter &counter = counters_[number];
        if (counter.page != page_)
            return refuse(number, "PAGE");
        for (uint32_t index = 0; index <= uint32_t(counter.pair); ++index) {
            dmace_word word = counter.words[index];
            if (counter.stamp && index == uint32_t(counter.pair))
                word.lo = (word.lo & ((UINT64_C(1) << DMACE_DMA_WORD_SRC_OFFSET_SHIFT) - 1u))
                    | uint64_t(firing) << DMACE_DMA_WORD_SRC_OFFSET_SHIFT;
            if (!execute(word))
                return refuse(number, "a word that it posts is no request within its regions");
        }
        ++firings;
    }

    char *span(uint64_t region, uint64_t offset, uint64_t length)
    {
        return region < regions_.size() && offset <= regions_[region].length
            && length <= regions_[region].length - offset ? regions_[region].base + offset : nullptr;
    }

    bool execute(dmace_word word)
    {
#define FIELD(half, name) field(word.half, DMACE_DMA_WORD_##name##_SHIFT, DMACE_DMA_WORD_##name##_MASK)
        const uint64_t source_region = FIELD(lo, SRC_REGION), source = FIELD(lo, SRC_OFFSET), length = FIELD(hi, LENGTH);
        char *to = span(FIELD(lo, DST_REGION), FIELD(hi, DST_OFFSET), length);
        const uint64_t opcode = FIELD(lo, OPCODE);
#undef FIELD
        if (opcode == DMACE_DMA_OP_SIGNAL && to && length == 8) {
            const uint64_t value = source_region << (DMACE_ENDPOINT_SIGNAL_BITS - 8u) | source;
            __atomic_store_n(reinterpret_cast<uint64_t *>(to), value, __ATOMIC_RELEASE);
            return true;
        }
        const char *from = span(source_region, source, length);
        if (opcode != DMACE_DMA_OP_COPY || !to || !from || !length)
            return false;
        std::memcpy(to, from, length);
        return true;
    }

    BlockPages *pages_;
    std::vector<Region> regions_;
    uint32_t page_;
    Counter counters_[DMACE_ENDPOINT_COUNTERS_PER_BLOCK];
};

#endif
