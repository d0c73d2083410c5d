// SPDX-License-Identifier: Apache-2.0
// A station that sends packets of all kinds to a unit as fast as its line permits, and checks what the unit sends.
//
// Of good queue pairs, whose peer is another unit, it can only send frames that the parser or dispatch must drop. To its
// honest queue pairs it sends valid requests, and around them such frames, and duplicates. To its hostile ones it sends
// everything.
#pragma once

#include <memory>

#include "client.h"
#include "faults.h"
#include "guard.h"
#include "requests.h"
#include "server.h"

// The layout is that of `_Settings` in attacker.py.
struct Settings {
    uint32_t port, beat_bytes, most, window, pairs, regions, count;  // most: maximum MTU; count: queue pairs in use
    double rate;
    uint64_t seed, grace, patience;
    uint64_t macs[3];      // of the attacked unit, of the attacker, of the good peer
    uint32_t ipv4s[3];
};

// State of a queue pair for software. The layout is that of `QueueStatus` in attacker.py.
struct Status {
    uint32_t probing, idle, failed, pad;
    uint64_t records, batches, writes, reads, immediates, bytes, repeats, rnrs;
    uint64_t served_writes, served_reads, served_bytes, duplicates, early;
    uint64_t returned, acknowledgements, probes;
};

class Attacker {
public:
    Port port;
    Guard guard;
    KindCounts kinds{};
    bool stopped = false;  // only what is in progress continues
    uint64_t cnps = 0, read_bytes = 0, received = 0;

    Attacker(const Functions& functions, const Settings& settings)
        : port(functions, settings.port, settings.rate, settings.seed),
          guard(port.findings, settings.beat_bytes, settings.grace, static_cast<uint8_t>(settings.pairs - 1)),
          settings_(settings), faults_(port, kinds, settings.most),
          requests_(port, kinds, queues_, stations_[1], stations_[0], settings.most, settings.regions), queues_(settings.count) {
        for (unsigned number = 0; number < 3; ++number) {
            stations_[number].mac = settings.macs[number];
            bytes::put(stations_[number].ipv4.data(), settings.ipv4s[number], 4);
            stations_[number].ipv6[0] = 0xFD;
            bytes::put(stations_[number].ipv6.data() + 12, settings.ipv4s[number], 4);
        }
        for (Queue& queue : queues_) {
            clients_.push_back(std::make_unique<Client>(port, queue, stations_[1], stations_[0], settings.window, settings.patience));
            servers_.push_back(std::make_unique<Server>(port, queue, stations_[1], stations_[0], kinds, settings.most));
        }
        statuses_.resize(queues_.size());
    }

    void open(const QueueSettings& settings) {
        Queue& queue = queues_.at(settings.index);
        queue.settings = settings;
        queue.open = queue.was_open = true;
        guard.start(settings.index);
        queue.failed = queue.inside = queue.gapped = queue.forbidden = false;
        queue.opened = queue.probed = port.cycle;
        queue.asked = 0;
        queue.probe.clear();
        queue.next = settings.request_psn;
        queue.probing = settings.role == kHostile;
        servers_[settings.index]->open();
        if (settings.role == kHonest) clients_[settings.index]->open();
    }

    void close(uint32_t index) {
        queues_.at(index).open = queues_.at(index).probing = false;
        guard.stop(index, port.cycle);
    }
    void region(const RegionSettings& settings) { queues_.at(settings.index).regions[settings.which & 1] = settings; }
    void hint(uint32_t index, uint32_t psn) { queues_.at(index).next = psn; }

    Status status(uint32_t index) const {
        const Queue& queue = queues_.at(index);
        Status status = statuses_[index];
        const Client& client = *clients_[index];
        const Server& server = *servers_[index];
        status.probing = queue.probing;
        status.idle = client.idle();
        status.failed = queue.failed;
        status.records = client.records;
        status.batches = client.counts.batches;
        status.writes = client.counts.writes;
        status.reads = client.counts.reads;
        status.immediates = client.counts.immediates;
        status.bytes = client.counts.bytes;
        status.repeats = client.counts.repeats;
        status.rnrs = client.counts.rnrs;
        status.served_writes = server.counts.writes;
        status.served_reads = server.counts.reads;
        status.served_bytes = server.counts.bytes;
        status.duplicates = server.counts.duplicates;
        status.early = server.counts.early;
        return status;
    }

    void step(uint64_t cycle) {
        port.cycle = port.findings.cycle = cycle;
        while (port.receive(frame_)) take();
        if (cycle % 1024 == 0) check();
        if (cycle >= mode_until_) choose_mode();
        for (int tries = 0; tries < 4 && port.ready(); ++tries) {
            if (port.random.chance(pause_)) return;
            attack();
        }
    }

private:
    void check() {
        for (size_t index = 0; index < queues_.size(); ++index) {
            Queue& queue = queues_[index];
            if (!queue.open) continue;
            if (queue.settings.role == kHonest) clients_[index]->check_time();
            if (queue.probing && port.cycle > queue.probed + 40 * settings_.patience) {
                port.findings.add("the first WRITE of queue pair %u, opened in cycle %llu, was not executed",
                                  queue.settings.index, Number{queue.opened});
                queue.probing = false;
            }
        }
        if (stopped) port.flush();
    }

    // For some time, packets are for all queue pairs alike, mostly for one, mostly CNPs, or fewer.
    void choose_mode() {
        Random& random = port.random;
        mode_until_ = port.cycle + 2000 + random.below(20000);
        flood_ = random.chance(0.5) ? random.below(queues_.size()) : queues_.size();
        cnps_ = random.chance(0.1) ? 0.7 : 0.005;
        pause_ = random.chance(0.05) ? 0.98 : 0;
    }

    void attack() {
        Random& random = port.random;
        if (!stopped && random.chance(0.02) && port.again()) {
            ++kinds[kReplay];
            return;
        }
        const size_t index = flood_ < queues_.size() && random.chance(0.8) ? flood_ : random.below(queues_.size());
        Queue& queue = queues_[index];
        if (!queue.was_open) return;
        const uint32_t role = queue.settings.role;
        if (queue.open && queue.probing) {
            if (port.cycle >= queue.asked) {
                queue.asked = port.cycle + settings_.patience / 4;
                requests_.probe(queue);
            }
            return;
        }
        if (stopped) {
            if (queue.open && role == kHonest && clients_[index]->step(true)) ++kinds[kHonestWindow];
            return;
        }
        if (!queue.open) return closed(queue);
        if (role != kGood && random.chance(cnps_)) return requests_.congestion(queue);
        if (role == kGood) return harmless(index);
        if (role == kHonest) {
            if (random.chance(0.65)) {
                if (clients_[index]->step(false)) ++kinds[kHonestWindow];
                return;
            }
            if (random.chance(0.3)) {
                if (clients_[index]->altered()) ++kinds[kHonestAltered];
                return;
            }
            if (random.chance(0.1)) return servers_[index]->unsolicited(kAckOutside);
            return harmless(index);
        }
        hostile(index);
    }

    void closed(Queue& queue) {
        if (port.random.chance(0.5)) return;
        Packet packet;
        requests_.base(queue, packet);
        requests_.send(kClosedQp, packet);
    }

    void harmless(size_t index) {
        Queue& queue = queues_[index];
        Random& random = port.random;
        Packet packet;
        if (queue.settings.role == kHonest) {
            if (!clients_[index]->next(packet)) return;
        } else {
            requests_.base(queue, packet);
        }
        if (queue.settings.role == kGood) {
            packet.psn = (packet.psn + static_cast<uint32_t>(random.below(4))) & kMask24;
            packet.from = stations_[2];
            packet.to = stations_[0];
        }
        if (random.chance(0.25)) {
            const auto kind = static_cast<Kind>(kForeign + random.below(kUnknownQp - kForeign + 1));
            return requests_.dropped(queue, kind, packet);
        }
        auto kind = static_cast<Kind>(kBadIcrc + random.below(kOtherTraffic - kBadIcrc + 1));
        // Long frames take the time of many others.
        if ((kind == kJumbo || kind == kTooLong) && random.chance(0.9)) kind = kBadIcrc;
        faults_.send(kind, packet);
    }

    void hostile(size_t index) {
        Queue& queue = queues_[index];
        Random& random = port.random;
        if (queue.failed && random.chance(0.7)) return;
        const uint64_t chosen = random.below(1000);
        if (chosen < 480) return requests_.valid(queue);
        if (chosen < 600) return requests_.wrong_psn(queue, static_cast<Kind>(kPsnBehind + random.below(kPsnHalf - kPsnBehind + 1)));
        if (chosen < 890) return harmless(index);
        if (chosen < 940) return requests_.wrong(queue, static_cast<Kind>(kSend + random.below(kReadFlood - kSend + 1)));
        servers_[index]->unsolicited(static_cast<Kind>(kAckNear + random.below(kReadAny - kAckNear + 1)));
    }

    // A frame that has arrived.
    void take() {
        ++received;
        if (bytes::get64(frame_.data()) >> 16 != stations_[1].mac) return;  // flooded
        const char* wrong = decode(frame_, packet_);
        if (wrong) {
            port.findings.add("%s", wrong);
            return;
        }
        // The lowest bits of the attacker's own numbers are those of the queue pair, too.
        const size_t index = packet_.qpn & 0xFF;
        if (index >= queues_.size() || !queues_[index].was_open) {
            port.findings.add("the unit sent a packet to QPN %06x, which was not opened", packet_.qpn);
            return;
        }
        Queue& queue = queues_[index];
        if (packet_.opcode == kCnp) {
            ++cnps;
            return;
        }
        Status& status = statuses_[index];
        if (is_response(packet_.opcode)) {
            ++(packet_.opcode == kAcknowledge ? status.acknowledgements : status.returned);
            for (const uint8_t byte : packet_.payload) {
                if (byte >> 4 == index) continue;
                port.findings.add("a READ response of queue pair %zu contains byte %02x", index, byte);
                break;
            }
            read_bytes += packet_.payload.size();
        }
        if (!queue.open || packet_.qpn != queue.settings.peer_qpn) return;  // of an earlier connection
        if (packet_.vlan != queue.settings.vlan || packet_.ipv6 != (queue.settings.ipv6 != 0))
            port.findings.add("a frame of queue pair %zu has another VLAN tag or IP version than it was opened with", index);
        if (!is_response(packet_.opcode)) return servers_[index]->request(packet_);
        if (queue.settings.role == kHonest) return clients_[index]->response(packet_);
        acknowledged(index);
    }

    void acknowledged(size_t index) {
        Queue& queue = queues_[index];
        const bool executed = packet_.opcode != kAcknowledge || packet_.syndrome <= kAck;
        // A READ of half a window before may be executed again.
        const int32_t after = distance(queue.forbidden_psn, packet_.psn);
        if (executed && queue.forbidden && !queue.gapped && after >= 0 && after < 10'000)
            port.findings.add("hostile queue pair %zu has executed PSN %06x: %s", index, queue.forbidden_psn,
                              kKindNames[queue.forbidden_kind]);
        if (packet_.opcode != kAcknowledge) return;
        if (queue.probing) {
            if (packet_.syndrome != kAck || packet_.psn != queue.settings.request_psn) {
                if (packet_.syndrome > kAck)
                    port.findings.add("the first WRITE of queue pair %zu was refused with syndrome %02x", index, packet_.syndrome);
                return;
            }
            queue.probing = false;
            queue.next = (queue.settings.request_psn + 1) & kMask24;
            ++statuses_[index].probes;
            if (queue.probe.empty()) return;
            Bytes found;
            port.load(queue.regions[0].address, found, queue.probe.size());
            if (found != queue.probe) port.findings.add("the first WRITE of queue pair %zu is not in memory", index);
            return;
        }
        if (packet_.syndrome == kNakSequence || packet_.syndrome >> 5 == 1) {
            queue.next = packet_.psn;
            queue.inside = false;
            queue.gapped = true;
        } else if (packet_.syndrome >> 5 == 3) {
            queue.failed = true;
            guard.stop(queue.settings.index, port.cycle);
        }
    }

    Station stations_[3];
    Settings settings_;
    Faults faults_;
    Requests requests_;
    std::vector<Queue> queues_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<std::unique_ptr<Server>> servers_;
    std::vector<Status> statuses_;
    Bytes frame_;
    Packet packet_;
    uint64_t mode_until_ = 0, flood_ = 0;
    double cnps_ = 0, pause_ = 0;
};
