// SPDX-License-Identifier: Apache-2.0
// Jobs of a fuzzer: steps as text, and changes of them.
//
// The including header has the kinds of steps: `enum Kind`, and `step_kinds()` in the same order.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <istream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory.h"

constexpr unsigned kMostNumbers = 6;

// Name of a kind of step, and how many numbers it has.
struct StepKind {
    const char* name;
    unsigned numbers;
};

const std::vector<StepKind>& step_kinds();

// One line of a job: a name, and numbers.
struct Step {
    unsigned kind = 0;
    uint64_t numbers[kMostNumbers] = {};
};

// `memory SEED JITTER STALL`: responses are delayed by up to JITTER cycles, and STALL percent of the cycles of each
// channel stall.
struct Job {
    uint64_t seed = 1, jitter = 0, stall = 0;
    std::vector<Step> steps;

    std::string text() const {
        char line[160];
        std::snprintf(line, sizeof line, "memory %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seed, jitter, stall);
        std::string made = line;
        for (const Step& step : steps) {
            const StepKind& kind = step_kinds()[step.kind];
            made += kind.name;
            for (unsigned index = 0; index < kind.numbers; ++index) {
                std::snprintf(line, sizeof line, " %#" PRIx64, step.numbers[index]);
                made += line;
            }
            made += '\n';
        }
        return made;
    }

    static Job read(std::istream& from) {
        Job job;
        std::string line, name;
        for (unsigned number = 1; std::getline(from, line); ++number) {
            const auto wrong = [&] { throw std::invalid_argument("Line " + std::to_string(number) + " of the job is no step: " + line); };
            std::istringstream words(line);
            if (!(words >> name) || name[0] == '#') continue;
            words >> std::hex;
            if (name == "memory") {
                if (!(words >> std::dec >> job.seed >> job.jitter >> job.stall)) wrong();
                if (job.jitter > 10000 || job.stall > 90) wrong();
                continue;
            }
            const auto& kinds = step_kinds();
            const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const StepKind& one) { return name == one.name; });
            if (found == kinds.end()) wrong();
            Step step;
            step.kind = static_cast<unsigned>(found - kinds.begin());
            for (unsigned index = 0; index < found->numbers; ++index)
                if (!(words >> step.numbers[index])) wrong();
            if (words >> name) wrong();
            job.steps.push_back(step);
        }
        return job;
    }
};

// Makes jobs of random steps, and changes jobs.
class JobMaker {
public:
    explicit JobMaker(Random& random) : random_(random) {}
    virtual ~JobMaker() = default;

    virtual Step step() = 0;

    virtual Job job() {
        Job made;
        made.seed = random_.below(1 << 30);
        made.jitter = random_.chance(0.5) ? random_.below(300) : 0;
        made.stall = random_.chance(0.5) ? random_.below(60) : 0;
        for (uint64_t left = 1 + random_.below(40); left; --left) made.steps.push_back(step());
        return made;
    }

    // A job with some steps of others, changed.
    Job changed(Job job, const Job& other) {
        for (uint64_t left = 1 + random_.below(6); left; --left) {
            const auto at = job.steps.begin() + static_cast<std::ptrdiff_t>(random_.below(job.steps.size() + 1));
            switch (random_.below(5)) {
            case 0:
                if (!other.steps.empty()) job.steps.insert(at, other.steps[random_.below(other.steps.size())]);
                break;
            case 1:
                if (at != job.steps.end()) job.steps.erase(at);
                break;
            case 2:
                if (at != job.steps.end()) at->numbers[random_.below(kMostNumbers)] ^= uint64_t{1} << random_.below(64);
                break;
            case 3:
                if (at != job.steps.end()) {
                    const Step copy = *at;
                    job.steps.insert(at, 1 + random_.below(4), copy);
                }
                break;
            default: job.steps.insert(at, step());
            }
        }
        if (job.steps.size() > 80) job.steps.resize(80);
        return job;
    }

protected:
    static Step made(unsigned kind, std::initializer_list<uint64_t> numbers) {
        Step step;
        step.kind = kind;
        std::copy(numbers.begin(), numbers.end(), step.numbers);
        return step;
    }

    Random& random_;
};
