// SPDX-License-Identifier: Apache-2.0
// Copies from and to a mapped file that its owner may truncate at any time: SIGBUS becomes a result.
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace guarded {

inline thread_local sigjmp_buf jump;
inline thread_local volatile sig_atomic_t armed = 0;

inline void handle(int signal) {
    if (armed) siglongjmp(jump, 1);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

inline void install() {
    struct sigaction action = {};
    action.sa_handler = handle;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGBUS, &action, nullptr);
}

// Aligned words of 8 bytes are copied whole: the host polls them.
[[gnu::noinline]] inline void copy_words(uint8_t* to, const uint8_t* from, size_t length) {
    while (length) {
        const auto at = reinterpret_cast<uintptr_t>(to);
        if (at % 8 == 0 && length >= 8) {
            uint64_t word;
            std::memcpy(&word, from, 8);
            __atomic_store_n(reinterpret_cast<uint64_t*>(to), word, __ATOMIC_RELEASE);
            to += 8, from += 8, length -= 8;
        } else {
            *to++ = *from++;
            --length;
        }
    }
}

// False if a page of either is not there any more.
inline bool copy(uint8_t* to, const uint8_t* from, size_t length) {
    if (sigsetjmp(jump, 0)) {
        armed = 0;
        return false;
    }
    armed = 1;
    copy_words(to, from, length);
    armed = 0;
    return true;
}

}  // namespace guarded
