// SPDX-License-Identifier: Apache-2.0
// DRAM behind the L2: channels of banks with row buffers, and a queue of reads and one of writes for each channel.
//
// A channel issues at most one column command and one activation per cycle. It serves reads until its writes reach
// the high mark or no read is queued, then writes down to the low mark; while both are queued, each gets as many
// commands in turn as there are between the marks. Among the queued requests of that kind, the
// oldest whose row is open is first (FR-FCFS); a row is closed only if none of them needs it. A request that has been
// queued longer than the age limit has its bank to itself. There is no refresh, and reads are not compared with queued writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

struct DramConfig {
    uint32_t line = 64, sector = 32;  // as those of the cache
    uint32_t channels = 2, banks = 16, row = 2048, interleave = 256, bus = 16;  // bytes; bus: per cycle and channel
    uint32_t reads = 64, writes = 128, high = 96, low = 32;                    // entries of a channel
    uint32_t cas = 14, rcd = 14, precharge = 14, ras = 33, recovery = 15, turnaround = 8, age = 1000;  // cycles
};

struct DramCounts {
    uint64_t reads = 0, writes = 0, bytes_read = 0, bytes_written = 0;
    uint64_t row_hits = 0, row_misses = 0, row_conflicts = 0, turnarounds = 0, busy = 0;
};

// Channel, bank, row and column of a line.
struct DramPosition {
    uint32_t channel, bank, column;
    uint64_t row;
};

class Dram {
public:
    DramCounts counts;
    std::vector<uint32_t> finished;  // tokens of the reads whose data arrived in this cycle

    explicit Dram(const DramConfig& config)
        : config_(config), row_lines_(config.row / config.line), span_(config.interleave / config.line),
          channels_(config.channels) {
        for (Channel& channel : channels_) channel.banks.resize(config.banks);
    }

    DramPosition position(uint64_t address) const {
        const uint64_t line = address / config_.line, piece = line / span_;
        const uint64_t inside = piece / config_.channels * span_ + line % span_, row = inside / row_lines_;
        // Hashed, so that streams at a distance of a power of two are not in the same bank.
        uint64_t bank = 0;
        for (uint64_t rest = row; rest; rest /= config_.banks) bank ^= rest % config_.banks;
        return {static_cast<uint32_t>(piece % config_.channels), static_cast<uint32_t>(bank),
                static_cast<uint32_t>(inside % row_lines_), row / config_.banks};
    }

    // Calls `visit(address)` for each line of the row that contains an address.
    template <class Visit>
    void each_line_of_row(uint64_t address, Visit visit) const {
        const uint64_t line = address / config_.line, piece = line / span_;
        const uint64_t inside = piece / config_.channels * span_ + line % span_, first = inside - inside % row_lines_;
        for (uint64_t at = first; at < first + row_lines_; ++at)
            visit(((at / span_ * config_.channels + piece % config_.channels) * span_ + at % span_) * config_.line);
    }

    bool accepts_write(uint64_t address) const { return channel_of(address).writes.size() < config_.writes; }

    // Reads are always accepted; beyond the queue's entries they wait in order. The L2's MSHRs bound their number.
    void read(uint64_t cycle, uint64_t address, uint32_t sectors, uint32_t token) {
        queue(cycle, address, sectors, token, &Channel::waiting);
        ++counts.reads;
        counts.bytes_read += uint64_t{bytes(sectors)};
    }

    void write(uint64_t cycle, uint64_t address, uint32_t sectors) {
        queue(cycle, address, sectors, 0, &Channel::writes);
        ++counts.writes;
        counts.bytes_written += uint64_t{bytes(sectors)};
    }

    bool idle() const {
        return std::all_of(channels_.begin(), channels_.end(), [](const Channel& channel) {
            return channel.waiting.empty() && channel.reads.empty() && channel.writes.empty() && channel.arriving.empty();
        });
    }

    void step(uint64_t cycle) {
        finished.clear();
        for (Channel& channel : channels_) {
            while (!channel.arriving.empty() && channel.arriving.front().time <= cycle) {
                finished.push_back(channel.arriving.front().token);
                channel.arriving.pop_front();
            }
            while (!channel.waiting.empty() && channel.reads.size() < config_.reads) {
                channel.reads.push_back(channel.waiting.front());
                channel.reads.back().since = cycle;
                channel.waiting.pop_front();
            }
            if (channel.reads.empty() && channel.writes.empty()) continue;
            choose(channel);
            schedule(channel, cycle);
        }
    }

private:
    static constexpr uint64_t kClosed = ~uint64_t{0};

    struct Bank {
        uint64_t row = kClosed, ready = 0, precharge_at = 0;
    };
    struct Entry {
        uint64_t row, since;
        uint32_t bank, cycles, token;
        bool activated, conflicted;
    };
    struct Arriving {
        uint64_t time;
        uint32_t token;
    };
    struct Channel {
        std::vector<Bank> banks;
        std::vector<Entry> reads, writes;  // oldest first
        std::deque<Entry> waiting;         // reads
        std::deque<Arriving> arriving;
        bool writing = false, wrote = false, used = false;
        uint32_t served = 0;  // column commands since the last change between reads and writes
        uint64_t free = 0;  // cycle in which the data bus may take the next column command
    };

    Channel& channel_of(uint64_t address) { return channels_[position(address).channel]; }
    const Channel& channel_of(uint64_t address) const { return channels_[position(address).channel]; }

    uint32_t bytes(uint32_t sectors) const {
        return static_cast<uint32_t>(__builtin_popcount(sectors)) * config_.sector;
    }

    template <class Entries>
    void queue(uint64_t cycle, uint64_t address, uint32_t sectors, uint32_t token, Entries Channel::*kind) {
        const DramPosition at = position(address);
        const uint32_t cycles = (bytes(sectors) + config_.bus - 1) / config_.bus;
        (channels_[at.channel].*kind).push_back({at.row, cycle, at.bank, cycles, token, false, false});
    }

    // Chooses between reads and writes.
    void choose(Channel& channel) const {
        const bool fair = channel.served >= config_.high - config_.low;
        bool turn = (channel.writing ? channel.writes : channel.reads).empty();
        if (channel.writing) turn |= !channel.reads.empty() && (fair || channel.writes.size() <= config_.low);
        else turn |= fair && channel.writes.size() >= config_.high;
        if (!turn) return;
        channel.writing = !channel.writing;
        channel.served = 0;
    }

    void schedule(Channel& channel, uint64_t cycle) {
        auto& queue = channel.writing ? channel.writes : channel.reads;
        const bool old = queue.front().since + config_.age < cycle;
        const uint64_t turn = channel.used && channel.wrote != channel.writing ? config_.turnaround : 0;
        if (channel.free + turn <= cycle) {
            for (size_t index = 0; index < queue.size(); ++index) {
                const Bank& bank = channel.banks[queue[index].bank];
                if (old && index && queue[index].bank == queue[0].bank && queue[0].row != queue[index].row) continue;
                if (bank.row != queue[index].row || bank.ready > cycle) continue;
                issue(channel, queue[index], cycle, turn != 0);
                queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(index));
                break;
            }
        }
        if (activate(channel, queue, {}, cycle, old)) return;
        activate(channel, channel.writing ? channel.reads : channel.writes, queue, cycle, false);
    }

    void issue(Channel& channel, const Entry& entry, uint64_t cycle, bool turned) {
        Bank& bank = channel.banks[entry.bank];
        channel.free = cycle + entry.cycles;
        ++channel.served;
        channel.wrote = channel.writing;
        channel.used = true;
        const uint64_t end = cycle + config_.cas + entry.cycles;
        bank.precharge_at = std::max(bank.precharge_at, channel.writing ? end + config_.recovery : cycle + entry.cycles);
        if (!channel.writing) channel.arriving.push_back({end, entry.token});
        counts.turnarounds += turned;
        counts.busy += entry.cycles;
        ++(!entry.activated ? counts.row_hits : entry.conflicted ? counts.row_conflicts : counts.row_misses);
    }

    // Opens the row of the oldest request whose bank is not needed by another one for its open row, nor by any of
    // `first`; returns whether there is one.
    bool activate(Channel& channel, std::vector<Entry>& queue, const std::vector<Entry>& first, uint64_t cycle, bool old) {
        uint64_t considered = 0;  // banks that an older request needs
        for (const Entry& entry : first) considered |= uint64_t{1} << entry.bank;
        for (size_t index = 0; index < queue.size(); ++index) {
            Entry& entry = queue[index];
            const uint64_t bit = uint64_t{1} << entry.bank;
            if (considered & bit) continue;
            considered |= bit;
            Bank& bank = channel.banks[entry.bank];
            if (bank.row == entry.row || bank.ready > cycle) continue;
            if (bank.row != kClosed) {
                if (bank.precharge_at > cycle) continue;
                if (!(old && index == 0) &&
                    std::any_of(queue.begin(), queue.end(),
                                [&](const Entry& other) { return other.bank == entry.bank && other.row == bank.row; }))
                    continue;
            }
            entry.activated = true;
            entry.conflicted = bank.row != kClosed;
            const uint64_t opened = cycle + (entry.conflicted ? config_.precharge : 0);
            bank.row = entry.row;
            bank.ready = opened + config_.rcd;
            bank.precharge_at = opened + config_.ras;
            return true;
        }
        return false;
    }

    DramConfig config_;
    uint64_t row_lines_, span_;
    std::vector<Channel> channels_;
};
