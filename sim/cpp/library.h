// SPDX-License-Identifier: Apache-2.0
// A library of C functions for Python's ctypes: they return a number of at least 0, or -1 on an error, whose sentence is
// kept.
#pragma once

#include <exception>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace {

thread_local std::string error;

template <class Body>
auto guarded(Body body) -> decltype(body()) {
    try {
        return body();
    } catch (const std::exception& wrong) {
        error = wrong.what();
        return decltype(body())(-1);
    }
}

}  // namespace
