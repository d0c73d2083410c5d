// SPDX-License-Identifier: Apache-2.0
// Main program of the fast path for PCIe: reads options, prints one JSON object.
//
//   program bench --link-bytes 63.015 --sizes 64,256 --queues 1,16 --window 25000
//   program soak --requests 100000 --resets 4 --seed 1
//
// Exit status: 0 if the run ended, with what is wrong in `error`; 2 for invalid options.

#include <chrono>
#include <cstdlib>

#include "bench.h"
#include "soak.h"

namespace {

class Wrong : public std::runtime_error {
    using runtime_error::runtime_error;
};

double number_of(const std::string& name, const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !(value >= 0))
        throw Wrong(name + " must be a number of at least 0, not '" + text + "'.");
    return value;
}

std::vector<uint32_t> numbers_of(const std::string& name, const std::string& text) {
    std::vector<uint32_t> values;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        values.push_back(static_cast<uint32_t>(number_of(name, text.substr(at, end - at))));
        at = end + 1;
    }
    return values;
}

struct Options {
    bool soak = false;
    SystemOptions system;
    BenchOptions bench;
    SoakOptions soaking;
    CompleterOptions completer;
    Limits limits;
};

template <class Value>
void into(Value& value, const std::string& name, const std::string& text) {
    value = static_cast<Value>(number_of(name, text));
}

Options read_options(int count, char** words) {
    Options options;
    const std::string mode = count > 1 ? words[1] : "";
    if (mode != "bench" && mode != "soak") throw Wrong("The first word must be bench or soak.");
    options.soak = mode == "soak";
    for (int index = 2; index < count; index += 2) {
        const std::string name = words[index];
        if (index + 1 == count) throw Wrong(name + " needs a value.");
        const std::string value = words[index + 1];
        if (name == "--sizes") options.bench.sizes = numbers_of(name, value);
        else if (name == "--queues") options.bench.queues = numbers_of(name, value);
        else if (name == "--depth") into(options.bench.depth, name, value);
        else if (name == "--settle") into(options.bench.settle, name, value);
        else if (name == "--window") into(options.bench.window, name, value);
        else if (name == "--link-bytes") into(options.system.link_bytes, name, value);
        else if (name == "--latency") {
            into(options.completer.latency_from, name, value);
            into(options.completer.latency_to, name, value);
        } else if (name == "--split") options.completer.split = static_cast<Split>(number_of(name, value));
        else if (name == "--max-payload") into(options.limits.max_payload, name, value);
        else if (name == "--max-read") into(options.limits.max_read, name, value);
        else if (name == "--requests") into(options.soaking.requests, name, value);
        else if (name == "--resets") into(options.soaking.resets, name, value);
        else if (name == "--plant") into(options.soaking.plant, name, value);
        else if (name == "--seed") into(options.system.seed, name, value);
        else throw Wrong("There is no option " + name + ".");
    }
    for (const uint32_t queues : options.bench.queues)
        if (queues == 0 || queues > DMACE_DMA_QUEUES) throw Wrong("There are not this many queues.");
    for (const uint32_t size : options.bench.sizes)
        if (size == 0 || size % 64 || size > Bench::kRegion / 2) throw Wrong("A size must be a multiple of 64.");
    if (options.soaking.plant >= kPlants) throw Wrong("There is no such planted error.");
    if (options.system.link_bytes < 1) throw Wrong("A link carries at least a byte per cycle.");
    return options;
}

void run(const Options& options) {
    const auto began = std::chrono::steady_clock::now();
    System system(options.system);
    std::string error, result;
    try {
        if (options.soak) {
            Soak soak(system, options.soaking, options.system.seed);
            try {
                soak.run();
            } catch (const Violation& violation) {
                error = violation.what();
            }
            result = soak.result();
        } else {
            for (auto& device : system.devices) {
                device->memory.options = options.completer;
                device->memory.max_payload = options.limits.max_payload;
            }
            system.card.limits = options.limits;
            system.card.extended_tags(true);
            result = Bench(system, options.bench).run();
        }
    } catch (const Violation& violation) {
        error = violation.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("{%s%s\"cycles\": %" PRIu64 ", \"seconds\": %.3f, \"error\": %s}\n", result.c_str(),
                result.empty() ? "" : ",\n", system.cycle(), seconds,
                error.empty() ? "null" : quoted(error).c_str());
}

}  // namespace

int main(int count, char** words) {
    try {
        run(read_options(count, words));
    } catch (const Wrong& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
