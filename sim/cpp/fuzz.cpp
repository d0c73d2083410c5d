// SPDX-License-Identifier: Apache-2.0
// Runs jobs of the fuzzer, from a seed or from a file, and prints counts and the shortest job with a finding as JSON.
//
//   fuzz --seed 1 --runs 1000 --job ""
//   fuzz --seed 1 --runs 1 --job FILE
//
// Jobs that reach new features are kept, and half of the others are changes of those. Exit status: 0 if all jobs ended,
// with or without a `finding`; 2 for an invalid option or job.

#include <fstream>

#include "fuzz.h"

namespace {

struct Totals {
    uint64_t runs = 0, stores = 0, copies = 0;
    std::set<uint64_t> features;
    size_t kept = 0;
};

// Runs a job on a new engine; returns the finding, or "".
std::string run(const Job& job, Totals* totals = nullptr) {
    Fuzz fuzz;
    fuzz.run(job);
    if (totals) {
        ++totals->runs;
        totals->stores += fuzz.accepted;
        totals->copies += fuzz.copies;
        totals->features.insert(fuzz.covered.begin(), fuzz.covered.end());
    }
    return fuzz.finding;
}

// Removes steps as long as there is still a finding.
Job shortest(Job job) {
    for (size_t size = std::max<size_t>(job.steps.size() / 2, 1); size; size /= 2)
        for (size_t at = 0; at < job.steps.size();) {
            Job less = job;
            const auto from = less.steps.begin() + static_cast<std::ptrdiff_t>(at);
            less.steps.erase(from, from + static_cast<std::ptrdiff_t>(std::min(size, less.steps.size() - at)));
            if (run(less).empty()) at += size;
            else job = std::move(less);
        }
    for (uint64_t* number : {&job.jitter, &job.stall}) {
        const uint64_t before = *number;
        *number = 0;
        if (run(job).empty()) *number = before;
    }
    return job;
}

void print(const Totals& totals, const std::string& finding, const std::string& job) {
    std::printf("{\"runs\": %" PRIu64 ", \"stores\": %" PRIu64 ", \"copies\": %" PRIu64
                ", \"features\": %zu, \"kept\": %zu, \"finding\": \"%s\", \"job\": \"",
                totals.runs, totals.stores, totals.copies, totals.features.size(), totals.kept, finding.c_str());
    for (const char letter : job)
        if (letter == '\n') std::fputs("\\n", stdout);
        else std::putchar(letter);
    std::printf("\"}\n");
}

}  // namespace

int main(int count, char** words) {
    uint64_t seed = 1, runs = 1;
    std::string file;
    Job given;
    try {
        for (int index = 1; index + 1 < count; index += 2) {
            const std::string name = words[index];
            if (name == "--seed") seed = std::stoull(words[index + 1]);
            else if (name == "--runs") runs = std::stoull(words[index + 1]);
            else if (name == "--job") file = words[index + 1];
            else throw std::invalid_argument("There is no option " + name + ".");
        }
        if (!file.empty()) {
            std::ifstream from(file);
            if (!from) throw std::invalid_argument("There is no job " + file + ".");
            given = Job::read(from);
        }
    } catch (const std::exception& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    }
    Totals totals;
    if (!file.empty()) {
        const std::string finding = run(given, &totals);
        print(totals, finding, finding.empty() ? "" : given.text());
        return 0;
    }
    Random random(seed);
    StepMaker maker(random);
    std::vector<Job> kept;
    while (totals.runs < runs) {
        Job job = kept.empty() || random.chance(0.5) ? maker.job()
                                                     : maker.changed(kept[random.below(kept.size())], kept[random.below(kept.size())]);
        const size_t before = totals.features.size();
        if (!run(job, &totals).empty()) {
            job = shortest(std::move(job));
            print(totals, run(job), job.text());
            return 0;
        }
        if (totals.features.size() > before) kept.push_back(std::move(job));
        totals.kept = kept.size();
    }
    print(totals, "", "");
}
