// SPDX-License-Identifier: Apache-2.0
// Main program of the C++ harness: reads options, prints one JSON object.
//
//   harness --target read_latency=500,write_latency=500 --flow count=16,size=64,depth=64 --warmup 4000 --window 8000
//
// Exit status: 0 if the run ended, with its errors in `errors`; 2 for invalid options.

#include <chrono>
#include <cinttypes>

#include "pairs.h"
#include "traffic.h"

namespace {

struct Options {
    std::vector<Target> targets;
    std::vector<Flow> flows;
    std::vector<std::pair<uint32_t, uint32_t>> registers;  // offset, value
    MemoryOptions memory;
    uint64_t warmup = 0, window = 0, limit = 1000000, seed = 1;
};

Target read_target(const std::string& text) {
    Target target;
    read_pairs(text, {{"read_latency", into(target.read_latency)},
                      {"write_latency", into(target.write_latency)},
                      {"read_rate", into(target.read_beats_per_cycle)},
                      {"write_rate", into(target.write_beats_per_cycle)},
                      {"limit", into(target.limit)},
                      {"slow", into(target.slow)}});
    if (!target.read_latency || !target.write_latency) throw Wrong("A latency must be at least 1.");
    return target;
}

Flow read_flow(const std::string& text) {
    Flow flow;
    read_pairs(text, {{"first", into(flow.first)},
                      {"count", into(flow.count)},
                      {"size", into(flow.size)},
                      {"depth", into(flow.depth)},
                      {"waiting", into(flow.waiting)},
                      {"requests", into(flow.requests)},
                      {"start", into(flow.start)},
                      {"burst", into(flow.burst)},
                      {"source", into(flow.source)},
                      {"destination", into(flow.destination)},
                      {"source_shift", into(flow.source_shift)},
                      {"destination_shift", into(flow.destination_shift)},
                      {"random_shift", into(flow.random_shift)},
                      {"size_from", into(flow.size_from)},
                      {"across", into(flow.across)},
                      {"rate", into(flow.rate)},
                      {"target", into(flow.target)},
                      {"limit", into(flow.limit)},
                      {"priority", into(flow.priority)},
                      {"weight", into(flow.weight)},
                      {"flags", into(flow.flags)},
                      {"ring", into(flow.ring)},
                      {"records", into(flow.records)},
                      {"pair", into(flow.pair)},
                      {"misbehaves", into(flow.misbehaves)}});
    return flow;
}

std::pair<uint32_t, uint32_t> read_register(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw Wrong("'" + text + "' is not OFFSET=VALUE.");
    return {static_cast<uint32_t>(number_of("An offset", text.substr(0, equals))),
            static_cast<uint32_t>(number_of("A register's value", text.substr(equals + 1)))};
}

Options read_options(int count, char** words) {
    Options options;
    for (int index = 1; index < count; ++index) {
        const std::string name = words[index];
        if (name == "--out-of-order") {
            options.memory.out_of_order = true;
            continue;
        }
        if (++index == count) throw Wrong(name + " needs a value.");
        const std::string value = words[index];
        if (name == "--target") options.targets.push_back(read_target(value));
        else if (name == "--flow") options.flows.push_back(read_flow(value));
        else if (name == "--register") options.registers.push_back(read_register(value));
        else read_pairs(name.substr(2) + "=" + value, {{"warmup", into(options.warmup)},
                                                       {"window", into(options.window)},
                                                       {"limit", into(options.limit)},
                                                       {"seed", into(options.seed)},
                                                       {"jitter", into(options.memory.jitter)},
                                                       {"stall", into(options.memory.stall)},
                                                       {"plant", into(options.memory.plant)}});
    }
    options.memory.seed = options.seed;
    if (options.targets.empty()) options.targets.emplace_back();
    if (options.flows.empty()) throw Wrong("There is no flow.");
    if (options.targets.size() > 4) throw Wrong("There are at most 4 targets.");
    for (size_t number = 0; number < options.targets.size(); ++number) {
        options.targets[number].base = kFirstTarget + number * kTargetSpan;
        options.targets[number].size = kTargetSpan;
    }
    std::vector<bool> used(DMACE_DMA_QUEUES);
    for (const Flow& flow : options.flows) {
        if (flow.first + flow.count > DMACE_DMA_QUEUES) throw Wrong("A flow names a queue that there is not.");
        if (flow.count == 0 || flow.size == 0 || flow.depth == 0 || flow.burst == 0)
            throw Wrong("A flow needs a count, a size, a depth and a burst of at least 1.");
        if (flow.misbehaves >= kMisbehaviours || (flow.misbehaves && flow.requests))
            throw Wrong("A flow misbehaves in one of 3 ways, and to no end.");
        if (flow.burst > flow.depth || flow.burst > 128) throw Wrong("A burst is at most the depth, and at most 128.");
        if (flow.size >= 1u << 28 || flow.size_from > flow.size) throw Wrong("A size is less than 2^28, and size_from no more.");
        if (flow.random_shift > 4096) throw Wrong("A random shift is at most 4096.");
        if (flow.across && (flow.size < 2 || flow.size > 4096))
            throw Wrong("A source across a multiple of 4 KiB has 2 to 4096 bytes.");
        if (flow.source_shift >= kBytes || flow.destination_shift >= kBytes) throw Wrong("A shift is less than a beat.");
        if (std::max({flow.source, flow.destination, flow.target}) >= options.targets.size())
            throw Wrong("A flow names a target that there is not.");
        if (!(flow.flags & DMACE_DMA_FLAG_SC)) throw Wrong("Threads need the flag SC to detect completion.");
        if (flow.ring > DMACE_DMA_LIST_WORDS || (flow.ring && flow.first + flow.count > DMACE_DMA_EXTENDED_QUEUES) ||
            (flow.ring && flow.misbehaves))
            throw Wrong("A ring takes 1 to 3 words in a descriptor, drives one of the first queues, and behaves.");
        for (uint32_t queue = flow.first; queue < flow.first + flow.count; ++queue) {
            if (used[queue]) throw Wrong("Two flows use the same queue.");
            used[queue] = true;
        }
    }
    return options;
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

void print_percentiles(const char* name, std::vector<uint64_t> values, const char* after) {
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
        return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
    };
    if (values.empty()) {
        std::printf("\"%s\": null%s", name, after);
    } else {
        std::printf("\"%s\": {\"min\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p90\": %" PRIu64 ", \"p99\": %" PRIu64
                    ", \"max\": %" PRIu64 "}%s",
                    name, values.front(), at(0.5), at(0.9), at(0.99), values.back(), after);
    }
}

template <class Part>
void print_percentiles(const char* name, const std::vector<Request>& requests, Part part, const char* after) {
    std::vector<uint64_t> values;
    for (const Request& request : requests) values.push_back(part(request));
    print_percentiles(name, std::move(values), after);
}

void run(const Options& options) {
    const auto began = std::chrono::steady_clock::now();
    Verilated::randReset(2);  // without effect where the design has its initial values
    Verilated::randSeed(static_cast<int>(options.seed % INT32_MAX) + 1);
    Engine engine(options.targets, options.memory);
    Traffic traffic(engine, options.flows, options.seed);
    traffic.configure();
    for (const auto& [offset, value] : options.registers) engine.write(offset, value);
    if (engine.read(DMACE_DMA_ID_OFFSET) != DMACE_DMA_ID_RESET || engine.read(DMACE_DMA_SIZES_OFFSET) != DMACE_DMA_SIZES_RESET)
        throw std::runtime_error("ID or SIZES is not that of this engine.");

    traffic.begin();
    const auto started = std::chrono::steady_clock::now();
    const uint64_t first = engine.cycle;
    const auto step = [&] {
        traffic.step();
        engine.tick();
    };
    for (uint64_t count = 0; count < options.warmup; ++count) step();
    traffic.measuring = true;
    traffic.window.read_stalls = engine.read_stalls;
    traffic.window.write_stalls = engine.write_stalls;
    for (uint64_t count = 0; count < options.window; ++count) step();
    traffic.measuring = false;
    Window& window = traffic.window;
    window.cycles = options.window;
    window.read_stalls = engine.read_stalls - window.read_stalls;
    window.write_stalls = engine.write_stalls - window.write_stalls;
    while (!traffic.finished_all() && traffic.errors.empty()) {
        if (engine.cycle - first > options.limit) {
            traffic.errors.push_back("Not all requests completed within " + std::to_string(options.limit) + " cycles.");
            break;
        }
        step();
    }
    const uint64_t cycles = engine.cycle - first;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();

    const uint32_t refused = engine.read(DMACE_DMA_COUNT_REFUSED_OFFSET);
    const uint32_t failed = engine.read(DMACE_DMA_COUNT_FAILED_OFFSET);
    const bool wild = std::any_of(options.flows.begin(), options.flows.end(), [](const Flow& flow) { return flow.misbehaves; });
    if (refused && !wild) traffic.errors.push_back("The engine refused " + std::to_string(refused) + " words.");
    if (failed && !wild) traffic.errors.push_back(std::to_string(failed) + " requests failed.");
    traffic.check_rest();

    std::printf("{\"cycles\": %" PRIu64 ", \"seconds\": %.3f, \"cycles_per_second\": %.0f, \"setup_seconds\": %.3f,\n", cycles,
                seconds, static_cast<double>(cycles) / std::max(seconds, 1e-9),
                std::chrono::duration<double>(started - began).count());
    std::printf("\"window\": {\"cycles\": %" PRIu64 ", \"payload_bytes\": %" PRIu64 ", \"payload_beats\": %" PRIu64
                ", \"completion_words\": %" PRIu64 ", \"read_beats\": %" PRIu64 ", \"read_bursts\": %" PRIu64
                ", \"write_bursts\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"read_stalls\": %" PRIu64
                ", \"write_stalls\": %" PRIu64 ", \"misbehaved\": %" PRIu64 "},\n",
                window.cycles, window.write_bytes - 8 * window.completion_words,
                window.write_beats - window.completion_words, window.completion_words, window.read_beats,
                window.bursts_read, window.bursts_written, window.requests, window.read_stalls, window.write_stalls, traffic.misbehaved);
    std::printf("\"queue_bytes\": {");
    const char* comma = "";
    for (const Queue& queue : traffic.queues)
        if (queue.flow) {
            std::printf("%s\"%u\": %" PRIu64, comma, queue.number, queue.bytes);
            comma = ", ";
        }
    std::printf("},\n\"latency\": {");
    print_percentiles("to_read", traffic.finished, [](const Request& r) { return r.issued - r.posted; }, ", ");
    print_percentiles("to_done", traffic.finished, [](const Request& r) { return r.done - r.posted; }, ", ");
    print_percentiles("to_seen", traffic.finished, [](const Request& r) { return r.seen - r.posted; }, "},\n");
    std::printf("\"delays\": {");
    print_percentiles("words", traffic.word_delays, ", ");
    print_percentiles("records", traffic.record_delays, "},\n");
    std::printf("\"requests\": [");
    comma = "";
    for (const Queue& queue : traffic.queues)
        if (queue.flow && queue.flow->requests == 1 && !queue.single.empty()) {
            const Request& r = queue.single.front();
            std::printf("%s{\"queue\": %u, \"size\": %u, \"posted\": %" PRIu64 ", \"to_read\": %" PRIu64 ", \"to_done\": %" PRIu64
                        ", \"done_to_rc\": %" PRId64 ", \"done_to_sc\": %" PRId64 ", \"to_seen\": %" PRIu64 "}",
                        comma, queue.number, r.size, r.posted - first, r.issued - r.posted, r.done - r.posted,
                        static_cast<int64_t>(queue.rc_issued - r.done), static_cast<int64_t>(queue.sc_issued - r.done),
                        r.seen - r.posted);
            comma = ", ";
        }
    std::printf("],\n\"checked\": {\"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"wrong_bytes\": %" PRIu64 "},\n",
                traffic.checked_requests, traffic.checked_bytes, traffic.wrong_bytes);
    std::printf("\"errors\": [");
    comma = "";
    for (const std::string& sentence : traffic.errors) {
        std::printf("%s%s", comma, quoted(sentence).c_str());
        comma = ", ";
    }
    std::printf("]}\n");
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
