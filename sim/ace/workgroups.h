// SPDX-License-Identifier: Apache-2.0
// Software of the GPU beside an endpoint: the workgroups of a persistent kernel, threads that post, threads that poll.
//
// A workgroup that is free starts the next task of the kernel's list. A task computes, then writes its part of a slice:
// its bytes are visible when the memory has served them (AxiMemory::served_write), with the memory's latency and in the
// bandwidth that m_axi shares. Only then does the workgroup give its notice: a tick, a bit of a mask in memory, or
// nothing. A post is a store to s_axi_db, which transfers at most one beat per cycle.
#pragma once

#include <queue>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "ports.h"

// A workgroup's notice that a part of a slice is in memory.
enum Notice : uint32_t {
    kNothing,
    kTick,  // a store to a tick page
    kMask,  // a write that sets the part's bit of the slice's mask, for a thread that polls
    kLast,  // an atomic operation on the mask; the workgroup that sets the last bit posts
};

struct TaskParameters {
    uint64_t compute;     // cycles
    uint64_t read_bytes;  // bytes that it reads from memory meanwhile, 0 if its cycles include this
    uint64_t address, bytes;
    uint32_t slice, bit;
};

struct StoreParameters {
    uint32_t address, strobes;
    uint64_t words[2];
};

struct SliceParameters {
    uint64_t mask;                 // address; bit 0 is its lowest; 0: none
    uint32_t first_store, stores;  // with kLast
    StoreParameters tick;
};

// Post stores in order when the first `bits` bits from an address on are set; no bits: without a condition.
struct RuleParameters {
    uint64_t address;
    uint32_t bits, first_store, stores;
};

// A thread that polls its rules one after the other, in each period, and posts.
struct PosterParameters {
    uint32_t first_rule, rules;
    uint32_t after_kernel;  // 1: it starts when the kernel has ended
    uint32_t in_order;      // 1: a rule waits for those before it
    uint64_t delay;         // cycles until it starts
    uint64_t period;        // cycles from one poll to the next, at least 1
    uint64_t latency;       // cycles from a load to the store that depends on it
    uint64_t gap;           // cycles from one store to the next, at least 1
};

// Threads keep at most `depth` posts to a doorbell page in flight, which they count by the completion word. One in
// `every` posts requests that word: the bits `flag` of its first half are set; 0: none needs to.
struct CreditParameters {
    uint32_t page, depth, every, reserved;
    uint64_t word, flag;
};

// A consumer that polls a word in each period until its lower half is at least `count`.
struct WaitParameters {
    uint64_t address, period;
    uint32_t count, reserved;
};

template <class Item>
struct List {
    const Item* items;
    uint64_t count;

    std::vector<Item> copy() const { return {items, items + count}; }
};

struct KernelParameters {
    uint64_t begin;  // cycles from now until the kernel starts
    uint32_t workgroups, notice;
    uint32_t fence;  // 1: a workgroup starts its next task only when the bytes of its last one are visible
    uint32_t store_delay, atomic_latency, reserved;
    List<TaskParameters> tasks;
    List<uint8_t> bytes;  // of all tasks
    List<SliceParameters> slices;
    List<StoreParameters> stores;
    List<RuleParameters> rules;
    List<PosterParameters> posters;
    List<CreditParameters> credits;
    List<WaitParameters> waits;
};

// Times of each task, slice, rule, or wait; kNever where that has not happened.
enum Times : uint32_t { kStarted, kVisible, kNoticed, kPosted, kSeen };

template <class Memory>
class Workgroups {
public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    Workgroups(uint64_t cycle, const KernelParameters& given)
        : notice_(given.notice), fence_(given.fence != 0), store_delay_(given.store_delay),
          atomic_latency_(given.atomic_latency), begin_(cycle + given.begin), tasks_(given.tasks.copy()),
          bytes_(given.bytes.copy()), slices_(given.slices.copy()), stores_(given.stores.copy()),
          rules_(given.rules.copy()), credits_(given.credits.copy()), waits_(given.waits.copy()),
          offsets_(tasks_.size()), remaining_(slices_.size()), credited_(credits_.size()), open_waits_(waits_.size()) {
        uint64_t offset = 0;
        for (size_t task = 0; task < tasks_.size(); ++task) {
            offsets_[task] = offset;
            offset += tasks_[task].bytes;
            if (tasks_[task].slice >= slices_.size()) throw std::runtime_error("A task is of no slice.");
            ++remaining_[tasks_[task].slice];
        }
        if (offset != bytes_.size())
            throw std::runtime_error("The tasks of a kernel do not have as many bytes as given.");
        for (const PosterParameters& poster : given.posters.copy()) {
            open_rules_ += poster.rules;
            posters_.push_back({poster, kNever, std::vector<bool>(poster.rules), poster.rules});
            if (!poster.after_kernel) posters_.back().next = begin_ + poster.delay;
        }
        for (const WaitParameters& wait : waits_) next_poll_.push_back(begin_ + wait.period);
        started_.assign(tasks_.size(), kNever);
        visible_.assign(tasks_.size(), kNever);
        noticed_.assign(slices_.size(), kNever);
        posted_.assign(rules_.size() + slices_.size(), kNever);
        seen_.assign(waits_.size(), kNever);
        open_tasks_ = tasks_.size();
        for (const TaskParameters& task : tasks_) open_notices_ += notices(slices_[task.slice]);
        for (uint32_t free = 0; free < given.workgroups; ++free) at(begin_, kStart, 0);
        if (tasks_.empty()) at(begin_, kEnd, 0);
    }

    // Everything has been computed, posted and seen.
    bool done() const { return !open_tasks_ && !open_notices_ && !open_rules_ && !open_stores_ && !open_waits_; }

    // Stores have not been transferred.
    bool storing() const { return open_stores_; }

    // Cycles by task (kStarted, kVisible), by slice (kNoticed: its last notice), by rule and then by slice (kPosted: the
    // last store at the pins), or by wait (kSeen).
    const std::vector<uint64_t>& times(Times which) const {
        const std::vector<uint64_t>* all[] = {&started_, &visible_, &noticed_, &posted_, &seen_};
        if (which > kSeen) throw std::runtime_error("There are no such times of a kernel.");
        return *all[which];
    }

    // Everything that happens in this cycle; `post(Store)` queues a store.
    template <class Post>
    void tick(uint64_t cycle, Memory& memory, Post post) {
        happen_until(cycle, memory, post);
        for (Poster& poster : posters_)
            if (poster.next <= cycle) poll(poster, cycle, memory);
        happen_until(cycle, memory, post);  // posts without latency
        if (open_waits_)
            for (size_t wait = 0; wait < waits_.size(); ++wait)
                if (next_poll_[wait] == cycle) look(wait, cycle, memory);
    }

    // A store with a tag other than 0 has been transferred.
    void stored(uint64_t cycle, uint32_t tag) {
        --open_stores_;
        if (tag - 1 < slices_.size()) noticed_[tag - 1] = cycle;
        else posted_[tag - 1 - slices_.size()] = cycle;
    }

private:
    enum Event { kStart, kComputed, kStored, kMarked, kPostSlice, kPost, kEnd };
    using Due = std::tuple<uint64_t, uint64_t, Event, uint64_t>;

    struct Poster {
        PosterParameters options;
        uint64_t next;
        std::vector<bool> posted;
        uint32_t open;
    };

    void at(uint64_t cycle, Event event, uint64_t item) { events_.emplace(cycle, order_++, event, item); }

    template <class Post>
    void happen_until(uint64_t cycle, Memory& memory, Post post) {
        while (!events_.empty() && std::get<0>(events_.top()) <= cycle) {
            const auto [time, order, event, item] = events_.top();
            events_.pop();
            happen(event, item, cycle, memory, post);
        }
    }

    template <class Post>
    void happen(Event event, uint64_t item, uint64_t cycle, Memory& memory, Post post) {
        switch (event) {
            case kStart: return start(cycle, memory);
            case kComputed: return computed(item, cycle, memory);
            case kStored: return stored_part(item, cycle, memory);
            case kMarked: return set_bit(item, cycle, memory);
            case kPostSlice: return post_slice(item, cycle, memory);
            case kPost: {
                const auto [store, tag] = posting_[item];
                return post(Store{tag, store.address, {{store.words[0], store.words[1]}},
                                  static_cast<uint16_t>(store.strobes)});
            }
            case kEnd:
                for (Poster& poster : posters_)
                    if (poster.options.after_kernel) poster.next = cycle + poster.options.delay;
        }
    }

    void start(uint64_t cycle, Memory& memory) {
        if (next_task_ == tasks_.size()) return;
        const TaskParameters& task = tasks_[next_task_];
        started_[next_task_] = cycle;
        uint64_t end = cycle + task.compute;
        if (task.read_bytes) end = std::max(end, memory.served_read(cycle, task.address, task.read_bytes));
        at(end, kComputed, next_task_++);
    }

    void computed(uint64_t number, uint64_t cycle, Memory& memory) {
        const TaskParameters& task = tasks_[number];
        at(memory.served_write(cycle, task.address, task.bytes), kStored, number);
        if (!fence_) start(cycle, memory);
    }

    void stored_part(uint64_t number, uint64_t cycle, Memory& memory) {
        const TaskParameters& task = tasks_[number];
        const uint8_t* from = bytes_.data() + offsets_[number];
        memory.bytes.each_run(task.address, task.bytes, [&](uint8_t* to, uint64_t run, uint64_t) {
            if (!to) throw std::runtime_error("A workgroup wrote where there is no memory.");
            std::memcpy(to, from, run);
            from += run;
        });
        visible_[number] = cycle;
        if (fence_) start(cycle, memory);
        const SliceParameters& slice = slices_[task.slice];
        if (--open_tasks_ == 0) at(cycle, kEnd, 0);
        if (!notices(slice)) return;
        if (notice_ == kTick) {
            send(slice.tick, task.slice + 1, cycle + store_delay_);
            --open_notices_;
        }
        if (notice_ == kMask) at(memory.served_write(cycle, slice.mask, 8), kMarked, number);
        if (notice_ == kLast) at(cycle + atomic_latency_, kMarked, number);
    }

    // A slice without a tick or a mask is not sent.
    bool notices(const SliceParameters& slice) const {
        return notice_ == kTick ? slice.tick.strobes : notice_ != kNothing && slice.mask;
    }

    void set_bit(uint64_t number, uint64_t cycle, Memory& memory) {
        const TaskParameters& task = tasks_[number];
        const SliceParameters& slice = slices_[task.slice];
        uint8_t* byte = memory.bytes.at(slice.mask + task.bit / 8);
        if (!byte) throw std::runtime_error("There is no memory for the mask of a slice.");
        *byte |= 1 << task.bit % 8;
        if (--remaining_[task.slice]) {
            --open_notices_;
            return;
        }
        noticed_[task.slice] = cycle;
        if (notice_ == kLast) at(cycle, kPostSlice, task.slice);
        else --open_notices_;
    }

    // While credits are missing, a workgroup loads the completion words again and again.
    void post_slice(uint64_t number, uint64_t cycle, Memory& memory) {
        const SliceParameters& slice = slices_[number];
        if (!has_credits(slice.first_store, slice.stores, memory)) {
            at(cycle + std::max<uint64_t>(atomic_latency_, 1), kPostSlice, number);
            return;
        }
        send_posts(slice.first_store, slice.stores, slices_.size() + rules_.size() + number + 1, cycle, 0);
        --open_notices_;
    }

    // Returns the cycle after the last gap.
    uint64_t send_posts(uint32_t first, uint32_t stores, uint64_t tag, uint64_t cycle, uint64_t gap) {
        for (uint32_t number = first; number < first + stores; ++number, cycle += gap) {
            StoreParameters store = stores_[number];
            for (size_t credit = 0; credit < credits_.size(); ++credit) {
                if (store.address / 4096 != credits_[credit].page) continue;
                const uint32_t every = credits_[credit].every;
                ++credited_[credit];
                if (every && credited_[credit] % every == 0) store.words[0] |= credits_[credit].flag;
            }
            send(store, tag, cycle + store_delay_);
        }
        return cycle;
    }

    void send(const StoreParameters& store, uint64_t tag, uint64_t cycle) {
        posting_.emplace_back(store, static_cast<uint32_t>(tag));
        at(cycle, kPost, posting_.size() - 1);
        ++open_stores_;
    }

    // Loads the words of all open rules at once, and posts those that are met, as far as there are credits.
    void poll(Poster& poster, uint64_t cycle, Memory& memory) {
        uint64_t next = cycle + poster.options.latency;
        for (uint32_t number = 0; number < poster.options.rules; ++number) {
            if (poster.posted[number]) continue;
            const uint32_t rule = poster.options.first_rule + number;
            const RuleParameters& posts = rules_.at(rule);
            if (met(posts, memory) && has_credits(posts.first_store, posts.stores, memory)) {
                next = send_posts(posts.first_store, posts.stores, slices_.size() + rule + 1, next, poster.options.gap);
                poster.posted[number] = true;
                --poster.open;
                --open_rules_;
            } else if (poster.options.in_order) {
                break;
            }
        }
        poster.next = poster.open ? std::max(cycle + poster.options.period, next) : kNever;
    }

    bool met(const RuleParameters& rule, Memory& memory) {
        for (uint32_t bit = 0; bit < rule.bits; ++bit) {
            const uint8_t* byte = memory.bytes.at(rule.address + bit / 8);
            if (!byte || !(*byte >> bit % 8 & 1)) return false;
        }
        return true;
    }

    bool has_credits(uint32_t first, uint32_t stores, Memory& memory) {
        for (size_t number = 0; number < credits_.size(); ++number) {
            const CreditParameters& credit = credits_[number];
            uint32_t wanted = 0;
            for (uint32_t store = first; store < first + stores; ++store)
                wanted += stores_.at(store).address / 4096 == credit.page;
            if (wanted && credited_[number] + wanted - half(credit.word, memory) > credit.depth) return false;
        }
        return true;
    }

    static uint32_t half(uint64_t address, Memory& memory) {
        uint32_t value = 0;
        if (const uint8_t* at = memory.bytes.at(address)) std::memcpy(&value, at, 4);
        return value;
    }

    void look(size_t wait, uint64_t cycle, Memory& memory) {
        if (half(waits_[wait].address, memory) < waits_[wait].count) {
            next_poll_[wait] = cycle + waits_[wait].period;
            return;
        }
        seen_[wait] = cycle;
        --open_waits_;
    }

    uint32_t notice_;
    bool fence_;
    uint32_t store_delay_, atomic_latency_;
    uint64_t begin_;
    std::vector<TaskParameters> tasks_;
    std::vector<uint8_t> bytes_;
    std::vector<SliceParameters> slices_;
    std::vector<StoreParameters> stores_;
    std::vector<RuleParameters> rules_;
    std::vector<CreditParameters> credits_;
    std::vector<WaitParameters> waits_;
    std::vector<Poster> posters_;
    std::vector<uint64_t> offsets_;  // of each task's bytes
    std::vector<uint32_t> remaining_, credited_;
    std::vector<uint64_t> next_poll_;
    std::vector<std::pair<StoreParameters, uint32_t>> posting_;
    std::vector<uint64_t> started_, visible_, noticed_, posted_, seen_;
    std::priority_queue<Due, std::vector<Due>, std::greater<Due>> events_;
    uint64_t order_ = 0, next_task_ = 0, open_tasks_ = 0, open_notices_ = 0, open_rules_ = 0,
             open_stores_ = 0, open_waits_;
};
