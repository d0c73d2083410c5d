// SPDX-License-Identifier: Apache-2.0
// Frames in a pcap file with timestamps in nanoseconds, which Wireshark and tcpdump read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

class Capture {
public:
    Capture(const std::string& path, double ns_per_cycle) : ns_per_cycle_(ns_per_cycle), file_(std::fopen(path.c_str(), "wb")) {
        if (!file_) throw std::runtime_error("The file " + path + " cannot be written.");
        const uint32_t head[] = {0xA1B23C4D, 2 | 4 << 16, 0, 0, 65535, 1};  // version 2.4; link type Ethernet
        std::fwrite(head, sizeof head, 1, file_);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture() { std::fclose(file_); }

    void add(double cycle, const std::vector<uint8_t>& bytes) {
        const auto time = static_cast<uint64_t>(cycle * ns_per_cycle_), length = static_cast<uint64_t>(bytes.size());
        const uint32_t head[] = {static_cast<uint32_t>(time / 1'000'000'000), static_cast<uint32_t>(time % 1'000'000'000),
                                 static_cast<uint32_t>(length), static_cast<uint32_t>(length)};
        std::fwrite(head, sizeof head, 1, file_);
        std::fwrite(bytes.data(), 1, bytes.size(), file_);
    }

    void flush() { std::fflush(file_); }

private:
    double ns_per_cycle_;
    std::FILE* file_;
};
