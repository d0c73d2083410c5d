// SPDX-License-Identifier: Apache-2.0
// Options of a program as NAME=NUMBER,...
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

class Wrong : public std::runtime_error {
    using runtime_error::runtime_error;
};

inline double number_of(const std::string& name, const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !(value >= 0)) throw Wrong(name + " must be a number of at least 0, not '" + text + "'.");
    return value;
}

// "a=1,b=2" -> values by name; every name must be in `set`.
inline void read_pairs(const std::string& text, const std::map<std::string, std::function<void(double)>>& set) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
        if (equals >= end) throw Wrong("'" + text.substr(at, end - at) + "' is not NAME=NUMBER.");
        const std::string name = text.substr(at, equals - at);
        const auto found = set.find(name);
        if (found == set.end()) throw Wrong("There is no '" + name + "'.");
        found->second(number_of(name, text.substr(equals + 1, end - equals - 1)));
        at = end + 1;
    }
}

template <class Value>
std::function<void(double)> into(Value& value) {
    return [&value](double number) { value = static_cast<Value>(number); };
}
