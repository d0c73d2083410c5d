// SPDX-License-Identifier: Apache-2.0
// Violations of the contract, as sentences; the first ones are kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

class Findings {
public:
    uint64_t count = 0, cycle = 0;  // cycle: the present one

    template <class... Values>
    void add(const char* format, Values... values) {
        if (++count > kKept) return;
        char text[400];
        const int begin = std::snprintf(text, sizeof text, "cycle %llu: ", static_cast<unsigned long long>(cycle));
        std::snprintf(text + begin, sizeof text - static_cast<size_t>(begin), format, values...);
        sentences.emplace_back(text);
    }

    std::vector<std::string> sentences;

private:
    static constexpr uint64_t kKept = 20;
};

using Number = unsigned long long;  // of %llu
