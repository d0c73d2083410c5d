// SPDX-License-Identifier: Apache-2.0
// Compute units that execute the work groups of a trace, and issue their loads and stores to the L2.
//
// A unit executes some work groups at a time, and starts the next one in the order of the trace when one ends; those of
// a phase start after all of the earlier phases have ended. A work group executes its operations in order: loads and
// stores of consecutive bytes are issued line by line, one line per unit and cycle, and do not wait; arithmetic waits
// for the group's loads, then occupies the unit's arithmetic.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>

#include "l2.h"

struct UnitConfig {
    uint32_t units = 8, groups = 8;      // groups: at a time, of a unit
    uint32_t loads = 64, stores = 64;    // outstanding lines of a unit
};

enum OperationKind : uint8_t { kLoad, kStore, kCompute, kWait, kDrain, kOperationKinds };

// As in the file of a trace: bytes of a load or store, cycles of arithmetic.
struct Operation {
    uint64_t address;
    uint32_t amount;
    uint8_t kind, pc, allocate, unused;
};

struct WorkGroup {
    uint32_t phase;
    size_t first, end;  // operations
};

struct Trace {
    std::vector<WorkGroup> groups;
    std::vector<Operation> operations;

    // File: number of groups and of operations, (phase, operations) of each group, all operations; little endian.
    static Trace read(const std::string& name) {
        std::FILE* file = std::fopen(name.c_str(), "rb");
        if (!file) throw std::runtime_error("The trace " + name + " cannot be opened.");
        Trace trace;
        uint32_t sizes[2] = {};
        bool whole = std::fread(sizes, sizeof sizes, 1, file) == 1;
        size_t first = 0;
        for (uint32_t number = 0; whole && number < sizes[0]; ++number) {
            uint32_t words[2];
            whole = std::fread(words, sizeof words, 1, file) == 1;
            trace.groups.push_back({words[0], first, first + words[1]});
            first += words[1];
        }
        whole = whole && first == sizes[1];
        trace.operations.resize(whole ? first : 0);
        whole = whole && std::fread(trace.operations.data(), sizeof(Operation), first, file) == first;
        std::fclose(file);
        if (!whole) throw std::runtime_error("The trace " + name + " is incomplete.");
        for (const Operation& operation : trace.operations)
            if (operation.kind >= kOperationKinds) throw std::runtime_error("The trace " + name + " has an unknown operation.");
        return trace;
    }
};

class ComputeUnits {
public:
    uint64_t arithmetic = 0;  // cycles, of all units

    ComputeUnits(const UnitConfig& config, const CacheConfig& cache, const PolicyConfig& policy, const Trace& trace)
        : config_(config), cache_(cache), policy_(policy), trace_(trace), units_(config.units) {
        for (Unit& unit : units_) {
            unit.slots.resize(config.groups);
            for (uint32_t index = 0; index < config.groups; ++index) unit.by_age.push_back(index);
        }
    }

    bool finished() const { return ended_ == trace_.groups.size(); }

    // Issues the requests of a cycle; `drained`: nothing is in flight anywhere.
    void step(uint64_t cycle, L2& l2, bool drained) {
        for (uint32_t number = 0; number < units_.size(); ++number) {
            Unit& unit = units_[number];
            start_groups(unit);
            bool issued = try_issue(cycle, number, unit.turn, l2, drained);
            for (const uint32_t index : unit.by_age) {
                if (index == unit.turn) continue;
                Slot& slot = unit.slots[index];
                if (issued) {
                    if (slot.active) advance(cycle, unit, slot, drained);
                } else if (try_issue(cycle, number, index, l2, drained)) {
                    unit.turn = index;
                    issued = true;
                }
            }
        }
    }

    void respond(uint32_t token, bool store) {
        Unit& unit = units_[token / config_.groups];
        Slot& slot = unit.slots[token % config_.groups];
        --(store ? unit.stores : unit.loads);
        --(store ? slot.stores : slot.loads);
    }

private:
    struct Slot {
        bool active = false, computing = false;
        size_t at = 0, end = 0;
        uint32_t done = 0;  // bytes of the operation
        uint32_t loads = 0, stores = 0;
        uint64_t until = 0;
    };
    struct Unit {
        std::vector<Slot> slots;
        std::vector<uint32_t> by_age;  // indices of slots, the oldest group first
        uint32_t turn = 0;             // slot that issued last
        uint32_t loads = 0, stores = 0;
        uint64_t busy_until = 0;
    };

    bool try_issue(uint64_t cycle, uint32_t number, uint32_t index, L2& l2, bool drained) {
        Unit& unit = units_[number];
        Slot& slot = unit.slots[index];
        return slot.active && advance(cycle, unit, slot, drained) && issue(number, index, unit, slot, l2);
    }

    void start_groups(Unit& unit) {
        for (uint32_t index = 0; index < unit.slots.size(); ++index) {
            Slot& slot = unit.slots[index];
            if (slot.active || started_ == trace_.groups.size()) continue;
            const WorkGroup& group = trace_.groups[started_];
            if (group.phase != phase_) {
                if (ended_ != started_) return;
                phase_ = group.phase;
            }
            slot = {};
            slot.active = true;
            slot.at = group.first;
            slot.end = group.end;
            ++started_;
            unit.by_age.erase(std::find(unit.by_age.begin(), unit.by_age.end(), index));
            unit.by_age.push_back(index);
            return;  // one per cycle, so that the groups spread over the units
        }
    }

    // Executes arithmetic and waits; returns whether a load or store is to be issued.
    bool advance(uint64_t cycle, Unit& unit, Slot& slot, bool drained) {
        while (slot.at < slot.end) {
            const Operation& operation = trace_.operations[slot.at];
            if (operation.kind == kLoad || operation.kind == kStore) return true;
            if (operation.kind == kDrain && !drained) return false;
            if (operation.kind == kWait && slot.loads + slot.stores) return false;
            if (operation.kind == kCompute) {
                if (!slot.computing) {
                    if (slot.loads || unit.busy_until > cycle) return false;
                    slot.computing = true;
                    slot.until = unit.busy_until = cycle + operation.amount;
                    arithmetic += operation.amount;
                }
                if (slot.until > cycle) return false;
                slot.computing = false;
            }
            ++slot.at;
        }
        if (slot.loads + slot.stores == 0) {
            slot.active = false;
            ++ended_;
        }
        return false;
    }

    bool issue(uint32_t number, uint32_t index, Unit& unit, Slot& slot, L2& l2) {
        const Operation& operation = trace_.operations[slot.at];
        const bool store = operation.kind == kStore;
        const uint64_t address = operation.address + slot.done, line = address / cache_.line * cache_.line;
        if (store ? unit.stores == config_.stores : unit.loads == config_.loads) return false;
        if (!l2.accepts(line)) return false;
        const uint32_t length = std::min(operation.amount - slot.done, static_cast<uint32_t>(line + cache_.line - address));
        const uint32_t first = static_cast<uint32_t>(address - line) / cache_.sector;
        const uint32_t last = static_cast<uint32_t>(address - line + length - 1) / cache_.sector;
        LineRequest made;
        made.address = line;
        made.sectors = (2u << last) - (1u << first);
        made.pc = operation.pc;
        made.store = store;
        made.allocate = policy_.regions ? operation.allocate : store ? policy_.stores : policy_.loads;
        made.predicted = policy_.predict;
        made.token = number * config_.groups + index;
        l2.request(made);
        ++(store ? unit.stores : unit.loads);
        ++(store ? slot.stores : slot.loads);
        slot.done += length;
        if (slot.done == operation.amount) {
            slot.done = 0;
            ++slot.at;
        }
        return true;
    }

    UnitConfig config_;
    CacheConfig cache_;
    PolicyConfig policy_;
    const Trace& trace_;
    std::vector<Unit> units_;
    size_t started_ = 0, ended_ = 0;
    uint32_t phase_ = 0;
};
