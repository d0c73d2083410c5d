// SPDX-License-Identifier: Apache-2.0
// A vfio-user server for one client: messages to accesses of a Device, which is a PCI function.
//
// The client is not trusted. A message that breaks a rule gets an error, and changes nothing; one without a valid
// length ends the connection. Time passes for the device only while it has work or a message has arrived.
#pragma once

#include <array>
#include <cstdio>
#include <map>

#include "client_host.h"
#include "config_space.h"
#include "connection.h"

class Server {
public:
    uint64_t messages = 0, refused = 0, stores = 0;

    Server(int fd, ClientHost& host, Device& device, const FunctionSizes& sizes, bool trace)
        : connection_(fd), host_(host), device_(device), sizes_(sizes), config_(sizes), trace_(trace) {
        device_.configure(config_.settings());
    }

    // Serves until the client closes the connection, and resets the device. Returns the reason, if it is not the
    // client's wish. The host keeps what the client has mapped, until it is cleared.
    std::string serve() {
        std::string reason;
        bool busy = true;
        try {
            for (;;) {
                if (connection_.wait(busy ? 0 : !held_.empty() ? kJoinMilliseconds : -1)) {
                    message();
                    busy = device_.run(kCyclesPerMessage);
                } else if (!busy && !held_.empty()) {
                    release();
                    busy = true;
                } else {
                    busy = device_.run(kCyclesPerTurn);
                }
            }
        } catch (const Closed&) {
        } catch (const Disconnected& end) {
            reason = end.what();
        }
        release();
        for (unsigned vector = 0; vector < sizes_.vectors; ++vector) enable(vector, -1);
        restart();
        return reason;
    }

private:
    static constexpr unsigned kCyclesPerMessage = 4, kCyclesPerTurn = 16;
    static constexpr int kJoinMilliseconds = 1;
    static constexpr uint64_t kPage = 4096;

    void message() {
        Message received;
        connection_.receive(received);
        ++messages;
        const Header& header = received.header;
        std::vector<uint8_t> reply;
        uint32_t error = 0;
        try {
            if (header.flags & kTypeMask) throw Refusal(EINVAL, "A server accepts commands, no replies.");
            reply = execute(received);
        } catch (const Refusal& refusal) {
            ++refused;
            error = static_cast<uint32_t>(refusal.number);
            reply.clear();
            if (trace_ || refused <= kReported)
                std::printf("refused: command %u: %s\n", header.command, refusal.what());
        }
        if (header.flags & kNoReply) return;
        const Header response{header.id, header.command, static_cast<uint32_t>(sizeof(Header) + reply.size()),
                              kReply | (error ? kErrorFlag : 0), error};
        connection_.send(response, reply.data(), reply.size());
    }

    static constexpr uint64_t kReported = 100;

    std::vector<uint8_t> execute(Message& message) {
        const auto command = static_cast<Command>(message.header.command);
        if (command != Command::kRegionWrite) release();
        switch (command) {
            case Command::kVersion: return version(message);
            case Command::kDmaMap: return dma_map(message);
            case Command::kDmaUnmap: return dma_unmap(message);
            case Command::kGetInfo:
                return pack(DeviceInfo{sizeof(DeviceInfo), kInfoReset | kInfoPci, kRegions, kInterrupts});
            case Command::kGetRegionInfo: return region_info(message);
            case Command::kGetIrqInfo: return irq_info(message);
            case Command::kSetIrqs: return set_irqs(message);
            case Command::kRegionRead: return region_read(message);
            case Command::kRegionWrite: return region_write(message);
            case Command::kReset: restart(); return {};
            default: throw Refusal(ENOTSUP, "There is no such command.");
        }
    }

    template <class Body>
    static Body unpack(const Message& message) {
        Body body;
        if (message.body.size() < sizeof body)
            throw Refusal(EINVAL, "The body must have at least " + std::to_string(sizeof body) + " bytes, not " +
                                      std::to_string(message.body.size()) + ".");
        std::memcpy(&body, message.body.data(), sizeof body);
        return body;
    }

    template <class Body>
    static std::vector<uint8_t> pack(const Body& body) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&body);
        return {bytes, bytes + sizeof body};
    }

    std::vector<uint8_t> version(const Message& message) {
        const auto theirs = unpack<std::array<uint16_t, 2>>(message);
        if (theirs[0] != 0) throw Refusal(ENOTSUP, "This server has version 0 of the protocol.");
        const std::string ours = "{\"capabilities\": {\"max_msg_fds\": " + std::to_string(kMaxDescriptors) +
                                 ", \"max_data_xfer_size\": " + std::to_string(kMaxData) + "}}";
        std::vector<uint8_t> reply(4);
        reply.insert(reply.end(), ours.begin(), ours.end());
        reply.push_back(0);
        return reply;
    }

    std::vector<uint8_t> dma_map(const Message& message) {
        const auto body = unpack<DmaMap>(message);
        if (message.fds.size() > 1) throw Refusal(EINVAL, "A range has at most one descriptor.");
        host_.memory.map(body.address, body.size, body.flags, message.fds.at(0), body.offset);
        if (trace_)
            std::printf("map: %#llx + %#llx, %s\n", static_cast<unsigned long long>(body.address),
                        static_cast<unsigned long long>(body.size), message.fds.size() ? "a file" : "no file");
        return {};
    }

    std::vector<uint8_t> dma_unmap(const Message& message) {
        auto body = unpack<DmaUnmap>(message);
        if (body.flags & kUnmapDirty) throw Refusal(ENOTSUP, "This server does not track dirty pages.");
        if (body.flags & kUnmapAll) {
            host_.memory.clear();
        } else {
            body.size = host_.memory.unmap(body.address, body.size);
        }
        return pack(body);
    }

    uint64_t size_of(uint32_t region) const {
        switch (region) {
            case kBar0Region: return uint64_t{1} << sizes_.bar0_bits;
            case kBar2Region: return uint64_t{1} << sizes_.bar2_bits;
            case kConfigRegion: return ConfigSpace::kBytes;
            default: return 0;
        }
    }

    std::vector<uint8_t> region_info(const Message& message) {
        const auto body = unpack<RegionInfo>(message);
        if (body.index >= kRegions) throw Refusal(EINVAL, "There is no region " + std::to_string(body.index) + ".");
        const uint64_t size = size_of(body.index);
        const uint32_t flags = size ? kRegionReadable | kRegionWritable : 0;
        return pack(RegionInfo{sizeof(RegionInfo), flags, body.index, 0, size, 0});
    }

    std::vector<uint8_t> irq_info(const Message& message) {
        const auto body = unpack<IrqInfo>(message);
        if (body.index >= kInterrupts)
            throw Refusal(EINVAL, "There is no interrupt " + std::to_string(body.index) + ".");
        const uint32_t count = body.index == kMsixInterrupt ? sizes_.vectors : 0;
        return pack(IrqInfo{sizeof(IrqInfo), count ? kIrqEventfd : 0, body.index, count});
    }

    std::vector<uint8_t> set_irqs(Message& message) {
        const auto body = unpack<IrqSet>(message);
        const uint32_t vectors = body.index == kMsixInterrupt ? sizes_.vectors : 0;
        if (body.index >= kInterrupts || body.start > vectors || body.count > vectors - body.start)
            throw Refusal(EINVAL, "Interrupt " + std::to_string(body.index) + " has " + std::to_string(vectors) +
                                      " vectors, not " + std::to_string(body.count) + " from " +
                                      std::to_string(body.start) + " on.");
        if (!(body.flags & kActionTrigger)) throw Refusal(ENOTSUP, "Vectors are masked in the MSI-X table only.");
        if (body.flags & kDataNone) {
            if (body.count == 0)
                for (unsigned vector = 0; vector < vectors; ++vector) enable(vector, -1);
            for (unsigned vector = body.start; vector < body.start + body.count; ++vector) host_.interrupt(vector);
            return {};
        }
        if (!(body.flags & kDataEventfd)) throw Refusal(ENOTSUP, "Vectors are connected by eventfds only.");
        if (message.fds.size() && message.fds.size() != body.count)
            throw Refusal(EINVAL, "There must be a descriptor for each of " + std::to_string(body.count) +
                                      " vectors, or none, not " + std::to_string(message.fds.size()) + ".");
        for (unsigned index = 0; index < body.count; ++index)
            enable(body.start + index, message.fds.size() ? message.fds.take(index) : -1);
        return {};
    }

    void enable(unsigned vector, int event) {
        host_.connect(vector, event);
        device_.enable_vector(vector, event >= 0);
    }

    RegionAccess access(const Message& message, uint32_t data) const {
        const auto body = unpack<RegionAccess>(message);
        const uint64_t size = size_of(body.region);
        if (body.offset > size || body.count > size - body.offset || body.count > kMaxData)
            throw Refusal(EINVAL, "Region " + std::to_string(body.region) + " has " + std::to_string(size) +
                                      " bytes, not " + std::to_string(body.count) + " at " +
                                      std::to_string(body.offset) + ".");
        if (data && message.body.size() - sizeof body != body.count)
            throw Refusal(EINVAL, "A write of " + std::to_string(body.count) + " bytes must have as many, not " +
                                      std::to_string(message.body.size() - sizeof body) + ".");
        const bool power = body.count && !(body.count & (body.count - 1));
        if (body.region != kConfigRegion && (!power || body.count > 8 * (1 + data) || body.offset % body.count))
            throw Refusal(EINVAL, "An access to a BAR must have 1, 2, 4 or 8 bytes, a write at most 16, at a multiple "
                                  "of its size, not " + std::to_string(body.count) + " at " +
                                  std::to_string(body.offset) + ".");
        return body;
    }

    std::vector<uint8_t> region_read(const Message& message) {
        const RegionAccess body = access(message, 0);
        std::vector<uint8_t> reply = pack(body);
        reply.resize(sizeof body + body.count, 0xFF);
        if (body.region == kConfigRegion) {
            if (body.offset <= ConfigSpace::kCycles + 8 && body.offset + body.count > ConfigSpace::kCycles + 8)
                config_.set_cycles(device_.cycles());
            config_.read(static_cast<unsigned>(body.offset), body.count, &reply[sizeof body]);
        } else if (config_.settings().memory) {
            const uint64_t value = device_.read(body.region, body.offset, body.count);
            std::memcpy(&reply[sizeof body], &value, body.count);
        }
        return reply;
    }

    std::vector<uint8_t> region_write(const Message& message) {
        const RegionAccess body = access(message, 1);
        const uint8_t* data = message.body.data() + sizeof body;
        if (body.region == kConfigRegion) {
            release();
            if (config_.write(static_cast<unsigned>(body.offset), body.count, data)) restart();
            device_.configure(config_.settings());
        } else if (config_.settings().memory) {
            if (body.region == kBar2Region) {
                store(body, data);
            } else {
                release();
                if (!in_msix_table(body.offset)) device_.write(0, body.offset, data, body.count);
            }
        }
        return pack(body);
    }

    bool in_msix_table(uint64_t offset) const {
        return offset >= sizes_.msix_table && offset < sizes_.msix_table + 16 * sizes_.vectors;
    }

    // A processor's store of 16 bytes arrives as two messages of 8: they are one request again. Stores to other pages
    // may be between them.
    void store(const RegionAccess& body, const uint8_t* data) {
        const auto found = held_.find(body.offset / kPage);
        if (found != held_.end()) {
            const Half half = found->second;
            held_.erase(found);
            if (body.count == 8 && body.offset == half.offset + 8) {
                uint8_t both[16];
                std::memcpy(both, half.data, 8);
                std::memcpy(both + 8, data, 8);
                post(half.offset, both, 16);
                return;
            }
            post(half.offset, half.data, 8);
        }
        if (body.count == 8 && body.offset % 16 == 0) {
            Half& half = held_[body.offset / kPage];
            half.offset = body.offset;
            std::memcpy(half.data, data, 8);
        } else {
            post(body.offset, data, body.count);
        }
    }

    void post(uint64_t offset, const uint8_t* data, unsigned size) {
        ++stores;
        device_.write(2, offset, data, size);
    }

    void release() {
        for (const auto& [page, half] : held_) post(half.offset, half.data, 8);
        held_.clear();
    }

    void restart() {
        device_.reset();
        config_.reset();
        device_.configure(config_.settings());
    }

    struct Half {
        uint64_t offset = 0;
        uint8_t data[8] = {};
    };

    Connection connection_;
    ClientHost& host_;
    Device& device_;
    FunctionSizes sizes_;
    ConfigSpace config_;
    std::map<uint64_t, Half> held_;  // by page
    bool trace_;
};
