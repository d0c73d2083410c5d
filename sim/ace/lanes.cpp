// SPDX-License-Identifier: Apache-2.0
// Streams operands through a Verilated Lane, one word per cycle, without Python in the loop.
//
// lanes INPUT OUTPUT LATENCY: each record of INPUT is three little-endian 32-bit words: operand a, operand b, and
// control (a_type, b_type and o_type in four bits each, from bit 0, and the operation above). OUTPUT gets a 32-bit
// word for each record, in order: the lane's output LATENCY cycles after it accepted the record.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

struct Record {
    uint32_t a, b, control;
};

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "lanes takes INPUT, OUTPUT and LATENCY, not %d arguments.\n", argc - 1);
        return 2;
    }
    const size_t latency = std::strtoul(argv[3], nullptr, 10);
    std::FILE* in = std::fopen(argv[1], "rb");
    std::FILE* out = std::fopen(argv[2], "wb");
    if (!in || !out) {
        std::fprintf(stderr, "%s cannot be opened.\n", in ? argv[2] : argv[1]);
        return 2;
    }

    auto context = std::make_unique<VerilatedContext>();
    auto top = std::make_unique<Vtop>(context.get());
    top->rst = 0;
    size_t cycle = 0, taken = 0;
    std::vector<Record> records(1 << 16);
    std::vector<uint32_t> results;
    const auto tick = [&](const Record& record) {
        // `o` is a register: before the edge of cycle n + LATENCY it holds the result of the record of cycle n.
        if (cycle++ >= latency) results.push_back(top->o);
        top->a = record.a;
        top->b = record.b;
        top->a_type = record.control & 15;
        top->b_type = record.control >> 4 & 15;
        top->o_type = record.control >> 8 & 15;
        top->op = record.control >> 12 & 7;
        top->clk = 1;
        top->eval();
        top->clk = 0;
        top->eval();
    };
    const auto flush = [&] {
        if (std::fwrite(results.data(), sizeof(uint32_t), results.size(), out) != results.size()) std::exit(3);
        results.clear();
    };
    top->clk = 0;
    top->eval();
    while (size_t count = std::fread(records.data(), sizeof(Record), records.size(), in)) {
        for (size_t index = 0; index < count; ++index) tick(records[index]);
        taken += count;
        flush();
    }
    for (size_t index = 0; taken && index < latency; ++index) tick(Record{0, 0, 0});
    flush();
    top->final();
    std::fclose(in);
    return std::fclose(out) ? 3 : 0;
}
