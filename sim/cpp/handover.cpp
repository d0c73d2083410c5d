// SPDX-License-Identifier: Apache-2.0
// Runs handover.h's epochs with one seed after another, up to the first finding, and prints counts as JSON.
//
//   handover --seed 1 --runs 100
//
// Exit status: 0 if all runs ended, with or without `findings`; 2 for an invalid option.

#include <cinttypes>
#include <cstdlib>

#include "handover.h"

namespace {

uint64_t number_of(const char* name, const char* text) {
    char* end = nullptr;
    const uint64_t value = std::strtoull(text, &end, 10);
    if (!*text || *end) throw std::invalid_argument(std::string(name) + " must be a number, not '" + text + "'.");
    return value;
}

}  // namespace

int main(int count, char** words) {
    uint64_t seed = 1, runs = 1;
    try {
        for (int index = 1; index < count; index += 2) {
            const std::string name = words[index];
            if (index + 1 == count) throw std::invalid_argument(name + " needs a value.");
            if (name == "--seed") seed = number_of("--seed", words[index + 1]);
            else if (name == "--runs") runs = number_of("--runs", words[index + 1]);
            else throw std::invalid_argument("There is no option " + name + ".");
        }
    } catch (const std::invalid_argument& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    }
    try {
        Handover handover;
        for (uint64_t number = 0; number < runs && handover.findings.empty(); ++number) handover.run(seed + number);
        const Statistics& all = handover.statistics;
        std::printf("{\"runs\": %" PRIu64 ", \"epochs\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"resets\": %" PRIu64
                    ", \"abandoned\": %" PRIu64 ", \"late_ends\": %" PRIu64 ", \"ended_regularly\": %" PRIu64
                    ", \"unexpected\": %" PRIu64 ", \"findings\": [",
                    all.runs, all.epochs, all.requests, all.resets, all.abandoned, all.late_ends, all.ended_regularly, all.unexpected);
        const char* comma = "";
        for (const std::string& sentence : handover.findings) {
            std::printf("%s\"%s\"", comma, sentence.c_str());
            comma = ", ";
        }
        std::printf("]}\n");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
