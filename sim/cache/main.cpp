// SPDX-License-Identifier: Apache-2.0
// Compute units, L2 and DRAM without a DMA engine: executes a trace, prints one JSON object.
//
//   program TRACE --cache sets=256,ways=16 --policy loads=1,stores=0 --limit 1000000
//
// Exit status: 0; 2 for invalid options; 1 if the trace cannot be read or does not end within the limit.

#include "options.h"

int main(int count, char** words) {
    try {
        MachineConfig config;
        double limit = 1e8;
        for (int index = 2; index + 1 < count; index += 2) {
            const std::string name = words[index], value = words[index + 1];
            if (name == "--limit") limit = number_of(name, value);
            else if (!read_machine(config, name, value)) throw Wrong("There is no " + name + ".");
        }
        if (count < 2 || count % 2) throw Wrong("Each option needs a value, after the name of the trace.");
        const Trace trace = Trace::read(words[1]);
        Machine machine(config, trace);
        machine.begin(0);
        for (uint64_t cycle = 1; !machine.ended; ++cycle) {
            machine.step(cycle, [](const L2::Response&) {});
            if (static_cast<double>(cycle) > limit)
                throw std::runtime_error("The trace did not end within " + std::to_string(cycle - 1) + " cycles.");
        }
        std::printf("{");
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
