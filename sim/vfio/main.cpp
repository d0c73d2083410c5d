// SPDX-License-Identifier: Apache-2.0
// The Verilated card behind a vfio-user server.
//
//   program --socket PATH [--once] [--trace] [--latency CYCLES] [--settle CYCLES]

#include "card_device.h"
#include "program.h"

int main(int count, char** words) {
    return run_program(count, words, {"--latency", "--settle"}, [](const ProgramOptions& options) {
        CardOptions card_options;
        options.into("--latency", card_options.latency);
        options.into("--settle", card_options.settle);
        card_options.link_bytes = kDataWidth / 8;
        ClientHost host;
        CardDevice card(host, card_options);
        return serve(options, host, card,
                     {kBar0Bits, kDoorbellBits, kMsixVectors, kMsixTable, kMsixPending, kDataWidth / 32});
    });
}
