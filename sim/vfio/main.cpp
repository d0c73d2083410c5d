// SPDX-License-Identifier: Apache-2.0
// The Verilated card behind a vfio-user server.
//
//   program --socket PATH [--once] [--trace] [--latency CYCLES] [--settle CYCLES]

#include "program.h"
#include "simulated.h"

int main(int count, char** words) {
    return run_program(count, words, {"--latency", "--settle"}, [](const ProgramOptions& options) {
        DeviceOptions device_options;
        options.into("--latency", device_options.latency);
        options.into("--settle", device_options.settle);
        ClientHost host;
        SimulatedDevice device(host, device_options);
        return serve(options, host, device,
                     {kBar0Bits, kDoorbellBits, kMsixVectors, kMsixTable, kMsixPending, kDataWidth / 32});
    });
}
