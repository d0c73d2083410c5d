// SPDX-License-Identifier: Apache-2.0
// The links of cards on a torus: ports of the cards' pins, and queues with a latency between them.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "../ace/link.h"
#include "beat.h"
#include "simulated.h"

constexpr unsigned kDimensions = 3;

// Ranks of a torus; the last dimension's coordinate varies fastest.
struct TorusShape {
    std::array<unsigned, kDimensions> sizes{1, 1, 1};

    unsigned ranks() const { return sizes[0] * sizes[1] * sizes[2]; }

    // The neighbour at a port: 2 * d leads to the next higher coordinate, 2 * d + 1 to the next lower.
    unsigned neighbour(unsigned rank, unsigned port) const {
        const unsigned size = sizes[port / 2];
        unsigned stride = 1;
        for (unsigned later = port / 2 + 1; later < kDimensions; ++later) stride *= sizes[later];
        const unsigned here = rank / stride % size, there = (here + (port % 2 ? size - 1 : 1)) % size;
        return rank + there * stride - here * stride;
    }

    bool operator==(const TorusShape& other) const { return sizes == other.sizes; }
};

#if ACE_PORTS

constexpr unsigned kPorts = ACE_PORTS, kLinkBytes = sizeof(std::declval<Vtop>().tx___05F0___05Fpayload);
using CardLink = Link<kLinkBytes>;

constexpr BeatFormat kFormat{ACE_BEAT_FIRST,        ACE_BEAT_LAST,         ACE_BEAT_KIND,
                             ACE_BEAT_KIND_WIDTH,   ACE_BEAT_PAYLOAD_KINDS, ACE_BEAT_HEADER,
                             ACE_BEAT_HEADER_WIDTH, ACE_BEAT_LINK_HEADER,  ACE_BEAT_LINK_HEADER_WIDTH,
                             ACE_BEAT_CRC,          ACE_BEAT_CRC_WIDTH,    ACE_BEAT_DATA,
                             ACE_BEAT_HEADER_BYTES, ACE_DATA_BYTES};

// The ports of one card. A port without a link accepts nothing and offers nothing.
class CardPorts {
public:
    std::array<CardLink*, kPorts> out{}, in{};

    explicit CardPorts(Vtop& top) {
#define LINK_PINS(number)                                                                                  \
    pins_[number] = {&top.tx___05F##number##___05Fvalid,   &top.rx___05F##number##___05Fready,             \
                     &top.tx___05F##number##___05Fready,   &top.rx___05F##number##___05Fvalid,             \
                     &top.tx___05F##number##___05Fpayload, &top.rx___05F##number##___05Fpayload}
        LINK_PINS(0);
        LINK_PINS(1);
#if ACE_PORTS > 2
        LINK_PINS(2);
        LINK_PINS(3);
#endif
#if ACE_PORTS > 4
        LINK_PINS(4);
        LINK_PINS(5);
#endif
#undef LINK_PINS
    }

    // In front of a cycle of the card.
    void drive(uint64_t cycle) {
        for (unsigned port = 0; port < kPorts; ++port) {
            const Pins& pins = pins_[port];
            *pins.tx_ready = out[port] && out[port]->ready(cycle);
            const uint8_t* beat = in[port] ? in[port]->offer(cycle) : nullptr;
            *pins.rx_valid = beat != nullptr;
            if (beat) std::memcpy(pins.rx_payload, beat, kLinkBytes);
        }
    }

    // Behind it. Whether a beat has moved that belongs to no CREDIT packet, which ports exchange without work, too.
    bool sample(uint64_t cycle) {
        bool moved = false;
        for (unsigned port = 0; port < kPorts; ++port) {
            const Pins& pins = pins_[port];
            if (*pins.tx_valid && *pins.tx_ready) {
                moved |= counts(pins.tx_payload, sending_[port]);
                out[port]->take(pins.tx_payload, cycle);
            }
            if (*pins.rx_valid && *pins.rx_ready) {
                moved |= counts(pins.rx_payload, receiving_[port]);
                in[port]->taken(cycle);
            }
        }
        return moved;
    }

private:
    struct Pins {
        const CData *tx_valid, *rx_ready;
        CData *tx_ready, *rx_valid;
        const void* tx_payload;
        void* rx_payload;
    };

    static bool counts(const void* payload, bool& work) {
        const auto* beat = static_cast<const uint8_t*>(payload);
        if (field(beat, ACE_BEAT_FIRST, 1)) work = field(beat, ACE_BEAT_KIND, ACE_BEAT_KIND_WIDTH) != kCredit;
        return work;
    }

    static constexpr uint64_t kCredit = 0;

    std::array<Pins, kPorts> pins_;
    std::array<bool, kPorts> sending_{}, receiving_{};
};

// All links of a torus of cards. A ring of two has two links.
class CardLinks {
public:
    CardLinks(const TorusShape& shape, unsigned latency) : shape_(shape) { options_.latency = latency; }

    // Cards in the order of their ranks; links exist when the last one has been added.
    void add(SimulatedDevice& card) {
        cards_.push_back({&card, CardPorts(card.top())});
        if (cards_.size() < shape_.ranks()) return;
        for (unsigned rank = 0; rank < shape_.ranks(); ++rank)
            for (unsigned port = 0; port < kPorts; ++port) {
                if (shape_.sizes[port / 2] < 2) continue;
                links_.push_back(std::make_unique<CardLink>(options_, kFormat, rank * kPorts + port));
                cards_[rank].second.out[port] = links_.back().get();
                cards_[shape_.neighbour(rank, port)].second.in[port ^ 1] = links_.back().get();
            }
    }

    // One cycle of all cards.
    void step() {
        for (auto& [card, ports] : cards_) ports.drive(cycle_);
        for (unsigned rank = 0; rank < cards_.size(); ++rank) {
            auto& [card, ports] = cards_[rank];
            try {
                card->step();
            } catch (const std::exception& error) {
                throw std::runtime_error("Rank " + std::to_string(rank) + ": " + error.what());
            }
            if (ports.sample(cycle_)) card->touch();
        }
        for (const auto& link : links_) link->carry();
        ++cycle_;
    }

private:
    TorusShape shape_;
    LinkOptions options_;
    std::vector<std::pair<SimulatedDevice*, CardPorts>> cards_;
    std::vector<std::unique_ptr<CardLink>> links_;
    uint64_t cycle_ = 0;
};

#else

constexpr unsigned kPorts = 0;

// A card without links.
class CardLinks {
public:
    CardLinks(const TorusShape&, unsigned) {}
    void add(SimulatedDevice& card) { cards_.push_back(&card); }
    void step() {
        for (SimulatedDevice* card : cards_) card->step();
    }

private:
    std::vector<SimulatedDevice*> cards_;
};

#endif
