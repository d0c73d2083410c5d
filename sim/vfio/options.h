// SPDX-License-Identifier: Apache-2.0
// The argument of the simulated card's transport: options with commas between them.
//
//     latency=CYCLES      until memory responds to a read, 125 by default; CYCLES alone means the same
//     cluster=NAME        the card is one of a torus; all cards with this name are in one cluster
//     shape=2x2           its sizes, one to three
//     rank=N              which card it is; the last dimension's coordinate varies fastest
//     link=CYCLES         latency of its links, 20 by default
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "card_cluster.h"

class WrongOption : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct TransportOptions {
    ClusterOptions made;
    std::string cluster;
    unsigned rank = 0;
};

constexpr unsigned kMaxCards = 16;

inline unsigned number_of(const std::string& what, const std::string& text, unsigned low, unsigned high) {
    const bool digits = !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
    const unsigned value = digits ? static_cast<unsigned>(std::stoul(text)) : 0;
    if (!digits || value < low || value > high)
        throw WrongOption("The " + what + " must be a number from " + std::to_string(low) + " to " +
                          std::to_string(high) + ", not '" + text + "'.");
    return value;
}

inline TorusShape shape_of(const std::string& text) {
    TorusShape shape;
    std::istringstream sizes(text);
    std::string size;
    for (unsigned dimension = 0; std::getline(sizes, size, 'x'); ++dimension) {
        if (dimension == kDimensions) throw WrongOption("A torus has up to 3 dimensions, not those of '" + text + "'.");
        shape.sizes[dimension] = number_of("size of a dimension", size, 1, kMaxCards);
    }
    if (shape.ranks() > kMaxCards)
        throw WrongOption("A cluster has up to " + std::to_string(kMaxCards) + " cards, not the " +
                          std::to_string(shape.ranks()) + " of '" + text + "'.");
    if (shape.ranks() > 1 && !kPorts) throw WrongOption("This card has no links.");
    for (unsigned dimension = 0; dimension < kDimensions; ++dimension)
        if (shape.sizes[dimension] > 1 && 2 * dimension >= kPorts)
            throw WrongOption("The card has " + std::to_string(kPorts) + " ports, not those of a torus '" + text + "'.");
    return shape;
}

inline TransportOptions parse_options(const std::string& argument) {
    TransportOptions options;
    std::istringstream items(argument);
    std::string item, rank = "0";
    while (std::getline(items, item, ',')) {
        const size_t equals = item.find('=');
        const std::string key = equals == std::string::npos ? "latency" : item.substr(0, equals);
        const std::string value = equals == std::string::npos ? item : item.substr(equals + 1);
        if (key == "latency") {
            options.made.card.latency = number_of("latency of memory", value, 0, 100'000);
        } else if (key == "cluster") {
            options.cluster = value;
        } else if (key == "shape") {
            options.made.shape = shape_of(value);
        } else if (key == "rank") {
            rank = value;
        } else if (key == "link") {
            options.made.link_latency = number_of("latency of a link", value, 1, 10'000);
        } else {
            throw WrongOption("An option of a simulated card is latency, cluster, shape, rank or link, not '" + key +
                              "'.");
        }
    }
    const unsigned ranks = options.made.shape.ranks();
    if (ranks > 1 && options.cluster.empty()) throw WrongOption("A cluster of several cards needs a name.");
    options.rank = number_of("rank of a card", rank, 0, ranks - 1);
    return options;
}
