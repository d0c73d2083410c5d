// SPDX-License-Identifier: Apache-2.0
// Jobs of the fuzzer: steps that arbitrary software, threads and memory take, as text, and random ones.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "epoch.h"

// One line of a job: a name, and up to four numbers.
struct Step {
    enum Kind { kStore, kWrite, kPoke, kFailRead, kFailWrite, kRevoke, kReset, kWait, kAnchor, kKinds } kind = kWait;
    uint64_t numbers[4] = {};
};

constexpr const char* kStepNames[] = {"store", "write", "poke", "fail_read", "fail_write", "revoke", "rst", "wait", "anchor"};
constexpr unsigned kStepNumbers[] = {4, 2, 2, 1, 1, 1, 0, 1, 0};
static_assert(std::size(kStepNames) == Step::kKinds && std::size(kStepNumbers) == Step::kKinds);

// `memory SEED JITTER STALL`: responses are delayed by up to JITTER cycles and in any order, and STALL percent of the
// cycles of each channel stall.
struct Job {
    uint64_t seed = 1, jitter = 0, stall = 0;
    std::vector<Step> steps;

    std::string text() const {
        char line[160];
        std::snprintf(line, sizeof line, "memory %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seed, jitter, stall);
        std::string made = line;
        for (const Step& step : steps) {
            made += kStepNames[step.kind];
            for (unsigned index = 0; index < kStepNumbers[step.kind]; ++index) {
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
            Step step;
            const auto found = std::find(std::begin(kStepNames), std::end(kStepNames), name);
            if (found == std::end(kStepNames)) wrong();
            step.kind = static_cast<Step::Kind>(found - kStepNames);
            for (unsigned index = 0; index < kStepNumbers[step.kind]; ++index)
                if (!(words >> step.numbers[index])) wrong();
            if (words >> name) wrong();
            job.steps.push_back(step);
        }
        return job;
    }
};

// Makes steps: any bits, half of the time in the form of something valid.
class StepMaker {
public:
    explicit StepMaker(Random& random) : random_(random) {}

    Job job() {
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
                if (at != job.steps.end()) at->numbers[random_.below(4)] ^= uint64_t{1} << random_.below(64);
                break;
            case 3: made_from(job, at); break;
            default: job.steps.insert(at, step());
            }
        }
        if (job.steps.size() > 80) job.steps.resize(80);
        return job;
    }

    Step step() {
        Step made;
        const auto set = [&](Step::Kind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
            made.kind = kind;
            made.numbers[0] = a, made.numbers[1] = b, made.numbers[2] = c, made.numbers[3] = d;
        };
        const uint64_t dice = random_.below(100);
        if (dice < 40) {
            const uint64_t queue = random_.below(4);
            dmace_word stored = word(queue);
            if (queue == 1 && random_.chance(0.7))          // ARK
                stored = {random_.below(8) << 18 | random_.below(6000) << 25 | random_.below(1 << 18), random_.next()};
            if (queue == 0 && random_.chance(0.7)) stored = {random_.below(1 << (kRingBits + 2)), 0};
            set(Step::kStore, queue, stored.lo, stored.hi, random_.chance(0.8) ? 0xFFFF : random_.below(0x10000));
        } else if (dice < 55) {
            const uint64_t slot = random_.below(1 << kRingBits) * 8;
            const uint64_t half = random_.below(8);
            const dmace_word any = word(0);
            set(Step::kPoke, slot + half, half == 0 ? (random_.chance(0.8) ? 1 | random_.below(4) << 8 | random_.below(4) << 12 |
                                                      random_.below(1 << 16) << 16 : random_.next())
                                          : half == 1 ? (random_.chance(0.8) ? 0 : random_.next())
                                          : half % 2 ? any.hi : any.lo);
        } else if (dice < 70) {
            // Commands more often than other registers.
            if (random_.chance(0.5))
                set(Step::kWrite, DMACE_DMA_QUEUE_COMMAND_OFFSET, random_.below(4) | random_.below(8) << 8);
            else
                set(Step::kWrite, random_.below(0x130) & ~uint64_t{3}, random_.chance(0.5) ? random_.below(64) : random_.next() >> 32);
        } else if (dice < 75) {
            set(Step::kFailRead, 1 + random_.below(8));
        } else if (dice < 80) {
            set(Step::kFailWrite, 1 + random_.below(8));
        } else if (dice < 84) {
            set(Step::kRevoke, random_.below(4));
        } else if (dice < 86) {
            set(Step::kReset);
        } else if (dice < 93) {
            set(Step::kWait, random_.chance(0.7) ? random_.below(60) : random_.below(1500));
        } else {
            set(Step::kAnchor);
        }
        return made;
    }

private:
    void made_from(Job& job, std::vector<Step>::iterator at) {
        if (at == job.steps.end()) return;
        const Step copy = *at;
        job.steps.insert(at, 1 + random_.below(4), copy);
    }

    // A native word: any bits, or fields near their limits.
    dmace_word word(uint64_t queue) {
        if (random_.chance(0.3)) return {random_.next(), random_.next()};
        const auto near_limit = [&](uint64_t limit) {
            return random_.chance(0.6) ? random_.below(kArena) : random_.chance(0.5) ? limit - random_.below(70) : random_.next();
        };
        const uint64_t source = random_.chance(0.6) ? 2 * queue : random_.below(DMACE_DMA_REGIONS + 2);
        const uint64_t target = random_.chance(0.5) ? 2 * queue + 1 : random_.below(DMACE_DMA_REGIONS + 2);
        const uint64_t length = random_.chance(0.7) ? 1 + random_.below(600) : random_.chance(0.7) ? random_.below(1 << 17) : random_.next();
        const uint64_t mask36 = (uint64_t{1} << 36) - 1;
        return {(random_.chance(0.9) ? 1 + random_.below(2) : random_.below(16)) | random_.below(16) << 4 | (source & 0xFF) << 12 |
                    (target & 0xFF) << 20 | (near_limit(kArena) & mask36) << 28,
                (length & 0xFFFFFFF) | (near_limit(kArena - 3) & mask36) << 28};
    }

    Random& random_;
};
