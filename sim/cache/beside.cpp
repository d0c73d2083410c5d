// SPDX-License-Identifier: Apache-2.0
// A Verilated DMA engine that copies beside the compute units, through the same L2 and DRAM: prints one JSON object.
//
//   program TRACE --cache ... --policy ... --copy size=4096,write_cache=15 --limit 1000000
//
// The copies begin first. Exit status as of main.cpp; wrong bytes and refused requests are in the result.

#include "copies.h"
#include "options.h"

int main(int count, char** words) {
    try {
        MachineConfig config;
        CopyConfig copy;
        PortConfig port;
        double limit = 1e8;
        for (int index = 2; index + 1 < count; index += 2) {
            const std::string name = words[index], value = words[index + 1];
            if (name == "--limit") limit = number_of(name, value);
            else if (name == "--copy")
                read_pairs(value, {{"queues", into(copy.queues)}, {"size", into(copy.size)}, {"depth", into(copy.depth)},
                                   {"slots", into(copy.slots)}, {"read_cache", into(copy.read_cache)},
                                   {"write_cache", into(copy.write_cache)}, {"rate", into(copy.rate)},
                                   {"lead", into(copy.lead)}, {"port", into(port.lines)}});
            else if (!read_machine(config, name, value)) throw Wrong("There is no " + name + ".");
        }
        if (count < 2 || count % 2) throw Wrong("Each option needs a value, after the name of the trace.");
        const Trace trace = Trace::read(words[1]);
        Machine machine(config, trace);
        CachedEngine engine(machine, config.cache, port, kIdBits);
        Copies copies(engine, copy);
        const auto step = [&] {
            copies.step();
            engine.tick();
            if (static_cast<double>(engine.cycle) > limit)
                throw std::runtime_error("The trace did not end within " + std::to_string(engine.cycle - 1) + " cycles.");
        };
        for (uint64_t cycle = 0; cycle < copy.lead; ++cycle) step();
        machine.begin(engine.cycle - 1);  // the next cycle is the first
        const uint64_t before = copies.bytes;
        while (!machine.executed) step();
        const uint64_t copied = copies.bytes - before;
        copies.stopped = true;
        while (!machine.ended || !copies.idle()) step();
        copies.check();
        const PortCounts& lines = engine.memory.counts;
        std::printf("{\"copied\": %" PRIu64 ", \"checked_bytes\": %" PRIu64 ", \"wrong_bytes\": %" PRIu64
                    ", \"refused\": %u, \"failed\": %u, \"line_reads\": %" PRIu64 ", \"line_writes\": %" PRIu64
                    ", \"allocating_reads\": %" PRIu64 ", \"allocating_writes\": %" PRIu64 ", ",
                    copied, copies.checked, copies.wrong, engine.read(DMACE_DMA_COUNT_REFUSED_OFFSET),
                    engine.read(DMACE_DMA_COUNT_FAILED_OFFSET), lines.reads, lines.writes, lines.allocating_reads,
                    lines.allocating_writes);
        machine.print();
        std::printf("}\n");
    } catch (const Wrong& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
