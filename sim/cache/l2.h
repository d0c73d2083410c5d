// SPDX-License-Identifier: Apache-2.0
// The L2: banks of a set-associative write-back cache with sectored lines, in front of the DRAM.
//
// A bank accepts the request at the head of its queue, one per cycle, or stalls. A load that misses fetches its line; a
// store allocates without a fetch and makes its sectors dirty. A bypassing load that misses reads only its sectors and
// allocates nothing; a bypassing store is written to DRAM, and updates a line that is present. A way is pending from
// the allocation of a load to its fill. Victims are invalid ways, then the least recently used that is not pending.
#pragma once

#include <deque>

#include "dram.h"
#include "policy.h"

struct CacheConfig {
    uint32_t sets = 256, ways = 16, line = 64, sector = 32, banks = 8;
    uint32_t mshrs = 64, queue = 8;  // of a bank
    uint32_t latency = 24;           // from a bank's decision, or the data's arrival, to the response
};

// A request for sectors of one line.
struct LineRequest {
    uint64_t address = 0;
    uint32_t sectors = 0, pc = 0;
    bool store = false, allocate = false, predicted = false;  // predicted: subject to the predictor of reuse
    uint32_t requester = 0, token = 0;                        // for the response
};

struct CacheCounts {
    uint64_t loads = 0, load_hits = 0, load_merges = 0, load_fills = 0, load_bypasses = 0;
    uint64_t stores = 0, store_hits = 0, store_allocations = 0, store_bypasses = 0;
    uint64_t evictions = 0, write_backs = 0, rinsed = 0, flushed = 0, allocation_bypasses = 0, predicted_bypasses = 0;
    uint64_t blocked = 0, mshr_stalls = 0, write_stalls = 0;  // cycles of a bank
};

class L2 {
public:
    struct Response {
        uint64_t time;
        uint32_t requester, token;
        bool store;
    };

    CacheCounts counts;

    L2(const CacheConfig& config, const PolicyConfig& policy, Dram& dram)
        : config_(config), policy_(policy), predictor_(policy), dram_(dram), whole_((1u << config.line / config.sector) - 1),
          lines_(size_t{config.sets} * config.ways), banks_(config.banks) {}

    // Counts from now on; the first bank is then the first to decide.
    void begin() {
        counts = {};
        turn_ = 0;
    }

    bool accepts(uint64_t address) const { return bank_of(address).queue.size() < config_.queue; }
    void request(const LineRequest& made) { bank_of(made.address).queue.push_back(made); }

    bool idle() const {
        return responses_.empty() && free_.size() == fills_.size() &&
               std::all_of(banks_.begin(), banks_.end(), [](const Bank& bank) { return bank.queue.empty(); });
    }

    // Calls `respond(response)` for each response of this cycle. The DRAM must have been stepped before.
    template <class Respond>
    void step(uint64_t cycle, Respond respond) {
        for (const uint32_t token : dram_.finished) fill(cycle, token);
        for (size_t step = 0; step < config_.banks; ++step) {
            Bank& bank = banks_[(turn_ + step) % config_.banks];
            if (!bank.queue.empty() && accept(cycle, bank, bank.queue.front())) bank.queue.pop_front();
        }
        ++turn_;
        while (!responses_.empty() && responses_.front().time <= cycle) {
            respond(responses_.front());
            responses_.pop_front();
        }
    }

    // Writes back dirty lines, set by set, while the DRAM accepts them, and returns whether none remains.
    bool flush(uint64_t cycle) {
        for (; flushed_ < lines_.size(); ++flushed_) {
            Line& line = lines_[flushed_];
            if (!line.dirty) continue;
            if (!dram_.accepts_write(line.address)) return false;
            ++counts.flushed;
            write_back(cycle, line);
        }
        return true;
    }

private:
    static constexpr uint64_t kNone = ~uint64_t{0};

    struct Line {
        uint64_t address = kNone, used = 0;
        uint32_t valid = 0, dirty = 0, pc = 0, fill = 0;
        bool pending = false, reused = false, trains = false;
    };
    struct Fill {
        Line* line = nullptr;  // null for a bypass
        uint32_t bank = 0;
        std::vector<LineRequest> waiting;
    };
    struct Bank {
        std::deque<LineRequest> queue;
        uint32_t mshrs = 0;
    };

    Bank& bank_of(uint64_t address) { return banks_[address / config_.line % config_.banks]; }
    const Bank& bank_of(uint64_t address) const { return banks_[address / config_.line % config_.banks]; }
    uint64_t set_of(uint64_t address) const { return address / config_.line % config_.sets; }

    Line* find(uint64_t address) {
        Line* line = &lines_[set_of(address) * config_.ways];
        for (uint32_t way = 0; way < config_.ways; ++way, ++line)
            if (line->address == address) return line;
        return nullptr;
    }

    // An invalid way, the least recently used one, or null if all are pending.
    Line* victim(uint64_t address) {
        Line* line = &lines_[set_of(address) * config_.ways];
        Line* best = nullptr;
        for (uint32_t way = 0; way < config_.ways; ++way, ++line) {
            if (line->address == kNone) return line;
            if (!line->pending && (!best || line->used < best->used)) best = line;
        }
        return best;
    }

    bool accept(uint64_t cycle, Bank& bank, const LineRequest& made) {
        Line* line = find(made.address);
        return made.store ? accept_store(cycle, made, line) : accept_load(cycle, bank, made, line);
    }

    // Whether a request that misses allocates, before any look at its set.
    bool allocates(const LineRequest& made) {
        return made.allocate && (!made.predicted || set_of(made.address) % policy_.sampled == 0 ||
                                 predictor_.expects_reuse(made.pc));
    }

    bool accept_load(uint64_t cycle, Bank& bank, const LineRequest& made, Line* line) {
        if (line && (line->valid & made.sectors) == made.sectors) {
            touch(*line);
            ++counts.loads;
            ++counts.load_hits;
            respond(cycle, made);
            return true;
        }
        if (line && line->pending) {
            touch(*line);
            ++counts.loads;
            ++counts.load_merges;
            fills_[line->fill].waiting.push_back(made);
            return true;
        }
        if (bank.mshrs == config_.mshrs) return stall(counts.mshr_stalls);
        bool allocating = line || allocates(made);
        const bool predicted = !allocating && made.allocate;
        if (allocating && !line && !(line = victim(made.address))) {
            if (!policy_.allocation_bypass) return stall(counts.blocked);
            ++counts.allocation_bypasses;
            allocating = false;
        }
        if (allocating && line->address != made.address && !claim(cycle, *line, made)) return false;
        if (allocating) line->used = ++uses_;
        counts.predicted_bypasses += predicted;
        ++counts.loads;
        ++(allocating ? counts.load_fills : counts.load_bypasses);
        fetch(cycle, bank, made, allocating ? line : nullptr);
        return true;
    }

    bool accept_store(uint64_t cycle, const LineRequest& made, Line* line) {
        bool allocating = allocates(made);
        bool blocked = false;
        const bool predicted = !allocating && made.allocate && !line;
        if (line ? made.allocate : allocating) {
            const bool hit = line;
            if (!line && !(line = victim(made.address))) {
                if (!policy_.allocation_bypass) return stall(counts.blocked);
                blocked = true;
            } else {
                if (!hit && !claim(cycle, *line, made)) return false;
                if (hit) touch(*line);
                line->used = ++uses_;
                line->valid |= made.sectors;
                line->dirty |= made.sectors;
                ++counts.stores;
                ++(hit ? counts.store_hits : counts.store_allocations);
                respond(cycle, made);
                return true;
            }
        }
        if (!dram_.accepts_write(made.address)) return stall(counts.write_stalls);
        if (line) {
            line->valid |= made.sectors;
            line->dirty &= ~made.sectors;
        }
        counts.allocation_bypasses += blocked;
        counts.predicted_bypasses += predicted;
        ++counts.stores;
        ++counts.store_bypasses;
        dram_.write(cycle, made.address, made.sectors);
        respond(cycle, made);
        return true;
    }

    static bool stall(uint64_t& count) {
        ++count;
        return false;
    }

    void touch(Line& line) {
        line.used = ++uses_;
        if (!line.reused && line.trains) predictor_.reused(line.pc);
        line.reused = true;
    }

    // Evicts the line's contents and assigns it to the request, unless the DRAM does not accept the write-back.
    bool claim(uint64_t cycle, Line& line, const LineRequest& made) {
        if (line.dirty && !dram_.accepts_write(line.address)) return stall(counts.write_stalls);
        if (line.address != kNone) {
            ++counts.evictions;
            if (!line.reused && line.trains) predictor_.wasted(line.pc);
            if (line.dirty) {
                ++counts.write_backs;
                write_back(cycle, line);
            }
        }
        line = {};
        line.address = made.address;
        line.pc = made.pc;
        line.trains = made.predicted;
        return true;
    }

    // Writes the dirty sectors, and with rinsing those of the other lines of the row while the DRAM accepts them.
    void write_back(uint64_t cycle, Line& line) {
        dram_.write(cycle, line.address, line.dirty);
        line.dirty = 0;
        if (!policy_.rinse) return;
        dram_.each_line_of_row(line.address, [&](uint64_t address) {
            Line* other = find(address);
            if (!other || !other->dirty || !dram_.accepts_write(address)) return;
            dram_.write(cycle, address, other->dirty);
            other->dirty = 0;
            ++counts.rinsed;
        });
    }

    void fetch(uint64_t cycle, Bank& bank, const LineRequest& made, Line* line) {
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(fills_.size()));
            fills_.emplace_back();
        }
        const uint32_t token = free_.back();
        free_.pop_back();
        Fill& fill = fills_[token];
        fill.line = line;
        fill.bank = static_cast<uint32_t>(&bank - banks_.data());
        fill.waiting.assign(1, made);
        ++bank.mshrs;
        if (line) {
            line->pending = true;
            line->fill = token;
        }
        dram_.read(cycle, made.address, line ? whole_ : made.sectors, token);
    }

    void fill(uint64_t cycle, uint32_t token) {
        Fill& fill = fills_[token];
        --banks_[fill.bank].mshrs;
        if (fill.line) {
            fill.line->valid = whole_;
            fill.line->pending = false;
        }
        for (const LineRequest& made : fill.waiting) respond(cycle, made);
        free_.push_back(token);
    }

    void respond(uint64_t cycle, const LineRequest& made) {
        responses_.push_back({cycle + config_.latency, made.requester, made.token, made.store});
    }

    CacheConfig config_;
    PolicyConfig policy_;
    ReusePredictor predictor_;
    Dram& dram_;
    uint32_t whole_;
    std::vector<Line> lines_;
    std::vector<Bank> banks_;
    std::vector<Fill> fills_;
    std::vector<uint32_t> free_;
    std::deque<Response> responses_;  // in order of time, as all have the same latency
    uint64_t uses_ = 0, turn_ = 0;
    size_t flushed_ = 0;
};
