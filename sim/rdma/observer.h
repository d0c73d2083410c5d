// SPDX-License-Identifier: Apache-2.0
// Functions of another library that a cluster calls: each cycle, and at each access of a unit to its memory.
#pragma once

#include <cstdint>

struct Observer {
    void* context;
    // The cycle begins; all that has arrived at the switch is forwarded.
    void (*step)(void* context, uint64_t cycle);
    // A beat of a write burst is accepted: address of lane 0, data, and a bit for each byte that is written. The result
    // counts with the last beat: other than 0, the burst gets an error response and stores nothing.
    int (*write)(void* context, uint32_t unit, uint64_t cycle, uint64_t address, const uint8_t* data,
                 const uint8_t* strobes, uint32_t last);
    // A read burst is accepted, from `address` to the end of the last beat: other than 0, it gets an error response.
    int (*read)(void* context, uint32_t unit, uint64_t cycle, uint64_t address, uint32_t beats);
};
