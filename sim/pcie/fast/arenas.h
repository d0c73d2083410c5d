// SPDX-License-Identifier: Apache-2.0
// The bytes of a memory: arenas of 4 MiB, each one run of bytes, of which only the mapped ones exist.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>

class Arenas {
public:
    static constexpr uint64_t kBytes = 4 << 20;

    // Maps all arenas of [address, address + length), initially 0.
    void map(uint64_t address, uint64_t length) {
        for (uint64_t arena = address / kBytes; arena * kBytes < address + length; ++arena) {
            auto& bytes = arenas_[arena];
            if (bytes) continue;
            bytes.reset(static_cast<uint8_t*>(std::calloc(kBytes, 1)));
            if (!bytes) throw std::bad_alloc();
        }
    }

    // Pointer to the byte at an address, or null if it is not mapped.
    uint8_t* at(uint64_t address) {
        const uint64_t arena = address / kBytes;
        if (arena != last_arena_) {
            const auto found = arenas_.find(arena);
            if (found == arenas_.end()) return nullptr;
            last_arena_ = arena;
            last_ = found->second.get();
        }
        return last_ + address % kBytes;
    }

private:
    struct Free {
        void operator()(uint8_t* bytes) const { std::free(bytes); }
    };
    std::unordered_map<uint64_t, std::unique_ptr<uint8_t, Free>> arenas_;
    uint64_t last_arena_ = ~uint64_t{0};
    uint8_t* last_ = nullptr;
};
