// SPDX-License-Identifier: Apache-2.0
// The configuration of the machine on the command line: --cache sets=256,ways=16 --dram ... --units ... --policy ...
#pragma once

#include "machine.h"
#include "pairs.h"

// Reads an option of the machine, or returns false.
inline bool read_machine(MachineConfig& machine, const std::string& name, const std::string& value) {
    CacheConfig& cache = machine.cache;
    DramConfig& dram = machine.dram;
    UnitConfig& units = machine.units;
    PolicyConfig& policy = machine.policy;
    if (name == "--cache") {
        read_pairs(value, {{"sets", into(cache.sets)}, {"ways", into(cache.ways)}, {"line", into(cache.line)},
                           {"sector", into(cache.sector)}, {"banks", into(cache.banks)}, {"mshrs", into(cache.mshrs)},
                           {"queue", into(cache.queue)}, {"latency", into(cache.latency)}});
        dram.line = cache.line;
        dram.sector = cache.sector;
    } else if (name == "--dram") {
        read_pairs(value, {{"channels", into(dram.channels)}, {"banks", into(dram.banks)}, {"row", into(dram.row)},
                           {"interleave", into(dram.interleave)}, {"bus", into(dram.bus)}, {"reads", into(dram.reads)},
                           {"writes", into(dram.writes)}, {"high", into(dram.high)}, {"low", into(dram.low)},
                           {"cas", into(dram.cas)}, {"rcd", into(dram.rcd)}, {"precharge", into(dram.precharge)},
                           {"ras", into(dram.ras)}, {"recovery", into(dram.recovery)},
                           {"turnaround", into(dram.turnaround)}, {"age", into(dram.age)}});
    } else if (name == "--units") {
        read_pairs(value, {{"units", into(units.units)}, {"groups", into(units.groups)}, {"loads", into(units.loads)},
                           {"stores", into(units.stores)}});
    } else if (name == "--policy") {
        read_pairs(value, {{"loads", into(policy.loads)}, {"stores", into(policy.stores)},
                           {"regions", into(policy.regions)}, {"allocation_bypass", into(policy.allocation_bypass)},
                           {"rinse", into(policy.rinse)}, {"predict", into(policy.predict)},
                           {"flush", into(policy.flush)},
                           {"counter", into(policy.counter)}, {"reuse", into(policy.reuse)},
                           {"waste", into(policy.waste)}, {"sampled", into(policy.sampled)}});
    } else {
        return false;
    }
    return true;
}
