// SPDX-License-Identifier: Apache-2.0
// Cards in one process whose clocks advance together, in a thread of their own, while any of them has work. A card alone
// is a cluster of one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "card_links.h"
#include "process_host.h"

struct ClusterOptions {
    DeviceOptions card;
    TorusShape shape;
    unsigned link_latency = 20;  // cycles
};

class CardCluster {
public:
    explicit CardCluster(const ClusterOptions& options) : options_(options), links_(options.shape, options.link_latency) {
        settings_.memory = settings_.master = settings_.extended_tags = true;
        settings_.max_payload = 512;
        for (unsigned rank = 0; rank < options.shape.ranks(); ++rank) {
            DeviceOptions card = options.card;
            card.seed += rank;
            members_.push_back(std::make_unique<Member>(card));
            members_.back()->card.configure(settings_);
        }
        for (const auto& member : members_) links_.add(member->card);
        if (members_.size() > 1)
            for (const auto& member : members_) member->card.advance = [this] { links_.step(); };
        clock_ = std::thread([this] { run(); });
    }

    ~CardCluster() {
        {
            const auto lock = enter();
            ended_ = true;
        }
        wake_.notify_all();
        clock_.join();
    }

    const ClusterOptions& options() const { return options_; }
    const Settings& settings() const { return settings_; }

    // Takes a rank for one user; false if it has one.
    bool attach(unsigned rank) {
        const auto lock = enter();
        return !std::exchange(members_[rank]->attached, true);
    }

    // The card is reset, and reaches nothing of its user any more. The other cards may be at work.
    void detach(unsigned rank) {
        std::string ignored;
        if (members_.size() > 1)
            call(rank, [this](SimulatedDevice& card, ProcessHost&) { return card.reset(), card.configure(settings_), 0; },
                 ignored);
        const auto lock = enter();
        members_[rank]->host.clear();
        members_[rank]->attached = false;
    }

    // Runs `body` between two cycles. After a failure, `sentence` has the reason.
    template <class Body>
    int call(unsigned rank, Body body, std::string& sentence) {
        std::unique_lock<std::mutex> lock = enter();
        int result = -EIO;
        if (!broken_.empty()) {
            sentence = broken_;
            return result;
        }
        try {
            result = body(members_[rank]->card, members_[rank]->host);
        } catch (const std::exception& error) {
            sentence = broken_ = error.what();
        }
        asleep_ = false;
        lock.unlock();
        wake_.notify_all();
        return result;
    }

private:
    struct Member {
        explicit Member(const DeviceOptions& options) : card(host, options) {}

        ProcessHost host;
        SimulatedDevice card;
        bool attached = false;
    };

    // The clock holds the lock for turns, and lets callers in between two of them.
    std::unique_lock<std::mutex> enter() {
        ++callers_;
        std::unique_lock<std::mutex> lock(mutex_);
        --callers_;
        return lock;
    }

    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!ended_) {
            if (broken_.empty() && !asleep_) {
                try {
                    asleep_ = members_.size() == 1 ? !members_[0]->card.run(kTurn) : !run_all();
                } catch (const std::exception& error) {
                    broken_ = error.what();
                }
            } else {
                wake_.wait(lock);
            }
            if (callers_) {
                lock.unlock();
                while (callers_) std::this_thread::yield();
                lock.lock();
            }
        }
    }

    // A turn ends early for a caller: a cycle of many cards takes long.
    bool run_all() {
        for (unsigned count = 0; count < kTurn && working(); ++count) {
            if (count && callers_) return true;
            links_.step();
        }
        return working();
    }

    bool working() const {
        for (const auto& member : members_)
            if (member->card.working()) return true;
        return false;
    }

    static constexpr unsigned kTurn = 64;

    ClusterOptions options_;
    Settings settings_;
    std::vector<std::unique_ptr<Member>> members_;
    CardLinks links_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<unsigned> callers_{0};
    std::thread clock_;
    std::string broken_;
    bool ended_ = false, asleep_ = false;
};
