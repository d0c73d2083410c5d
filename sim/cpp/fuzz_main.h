// SPDX-License-Identifier: Apache-2.0
// Main program of a fuzzer: runs jobs from a seed or from a file, and prints counts and the shortest job with a finding
// as JSON.
//
//   fuzz --seed 1 --runs 1000 --job ""
//   fuzz --seed 1 --runs 1 --job FILE
//
// Jobs that reach new features are kept, and half of the others are changes of those. Exit status: 0 if all jobs ended,
// with or without a `finding`; 2 for an invalid option or job.
//
// `Fuzz` runs a job on a new engine, `run(job)`; its members `finding`, `covered`, `stores` and `checked` are a sentence or
// "", the features that the job has reached, and the stores and valid operations of the job. `Maker` is a JobMaker.
#pragma once

#include <fstream>
#include <memory>
#include <set>

#include "fuzz_steps.h"

template <class Fuzz, class Maker>
class FuzzMain {
public:
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
        if (!file.empty()) {
            const std::string finding = run(given, true);
            print(finding, finding.empty() ? "" : given.text());
            return 0;
        }
        Random random(seed);
        Maker maker(random);
        std::vector<Job> kept;
        while (runs_ < runs) {
            Job job = kept.empty() || random.chance(0.5) ? maker.job()
                                                         : maker.changed(kept[random.below(kept.size())], kept[random.below(kept.size())]);
            const size_t before = features_.size();
            if (!run(job, true).empty()) {
                job = shortest(std::move(job));
                print(run(job, false), job.text());
                return 0;
            }
            if (features_.size() > before) kept.push_back(std::move(job));
            kept_ = kept.size();
        }
        print("", "");
        return 0;
    }

private:
    // Runs a job on a new engine; returns the finding, or "".
    std::string run(const Job& job, bool counts) {
        const auto fuzz = std::make_unique<Fuzz>(job);
        fuzz->run(job);
        if (counts) {
            ++runs_;
            stores_ += fuzz->stores;
            checked_ += fuzz->checked;
            features_.insert(fuzz->covered.begin(), fuzz->covered.end());
        }
        return fuzz->finding;
    }

    // Removes steps as long as there is still a finding.
    Job shortest(Job job) {
        for (size_t size = std::max<size_t>(job.steps.size() / 2, 1); size; size /= 2)
            for (size_t at = 0; at < job.steps.size();) {
                Job less = job;
                const auto from = less.steps.begin() + static_cast<std::ptrdiff_t>(at);
                less.steps.erase(from, from + static_cast<std::ptrdiff_t>(std::min(size, less.steps.size() - at)));
                if (run(less, false).empty()) at += size;
                else job = std::move(less);
            }
        for (uint64_t* number : {&job.jitter, &job.stall}) {
            const uint64_t before = *number;
            *number = 0;
            if (run(job, false).empty()) *number = before;
        }
        return job;
    }

    void print(const std::string& finding, const std::string& job) {
        std::printf("{\"runs\": %" PRIu64 ", \"stores\": %" PRIu64 ", \"checked\": %" PRIu64
                    ", \"features\": %zu, \"kept\": %zu, \"finding\": \"%s\", \"job\": \"",
                    runs_, stores_, checked_, features_.size(), kept_, finding.c_str());
        for (const char letter : job)
            if (letter == '\n') std::fputs("\\n", stdout);
            else std::putchar(letter);
        std::printf("\"}\n");
    }

    uint64_t runs_ = 0, stores_ = 0, checked_ = 0;
    std::set<uint64_t> features_;
    size_t kept_ = 0;
};
