// SPDX-License-Identifier: Apache-2.0
// Messages on a UNIX socket, with descriptors.
#pragma once

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "messages.h"

// The client has closed the connection, or broken it by a message without a valid length.
class Disconnected : public std::runtime_error {
    using runtime_error::runtime_error;
};

// It has closed it between two messages.
class Closed : public Disconnected {
    using Disconnected::Disconnected;
};

// Descriptors of a message; those that are not taken are closed.
class Descriptors {
public:
    Descriptors() = default;
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;
    ~Descriptors() {
        for (const int fd : fds_)
            if (fd >= 0) close(fd);
    }
    void add(int fd) { fds_.push_back(fd); }
    size_t size() const { return fds_.size(); }
    int at(size_t index) const { return index < fds_.size() ? fds_[index] : -1; }
    int take(size_t index) { return std::exchange(fds_[index], -1); }

private:
    std::vector<int> fds_;
};

struct Message {
    Header header;
    std::vector<uint8_t> body;
    Descriptors fds;
};

class Connection {
public:
    explicit Connection(int fd) : fd_(fd) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { close(fd_); }

    // Whether a message, or the end, is there within a time; -1 for no limit.
    bool wait(int milliseconds) const {
        pollfd poll_fd{fd_, POLLIN, 0};
        return poll(&poll_fd, 1, milliseconds) > 0;
    }

    void receive(Message& message) {
        receive(&message_header_, sizeof message_header_, message.fds);
        message.header = message_header_;
        const uint32_t size = message.header.size;
        if (size < sizeof(Header) || size > kMaxMessage)
            throw Disconnected("A message must have from " + std::to_string(sizeof(Header)) + " to " +
                               std::to_string(kMaxMessage) + " bytes, not " + std::to_string(size) + ".");
        message.body.resize(size - sizeof(Header));
        receive(message.body.data(), message.body.size(), message.fds);
    }

    void send(const Header& header, const void* body, size_t length) {
        std::vector<uint8_t> bytes(sizeof header + length);
        std::memcpy(bytes.data(), &header, sizeof header);
        if (length) std::memcpy(bytes.data() + sizeof header, body, length);
        for (size_t done = 0; done < bytes.size();) {
            const ssize_t sent = ::send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR) continue;
            if (sent <= 0) throw Closed("The client has closed the connection.");
            done += static_cast<size_t>(sent);
        }
    }

private:
    void receive(void* to, size_t length, Descriptors& fds) {
        for (size_t done = 0; done < length;) {
            iovec part{static_cast<uint8_t*>(to) + done, length - done};
            alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
            msghdr header{};
            header.msg_iov = &part;
            header.msg_iovlen = 1;
            header.msg_control = control;
            header.msg_controllen = sizeof control;
            const ssize_t got = recvmsg(fd_, &header, MSG_CMSG_CLOEXEC);
            if (got < 0 && errno == EINTR) continue;
            if (got == 0 && to == &message_header_ && done == 0) throw Closed("The client has closed the connection.");
            if (got <= 0) throw Disconnected("The client has closed the connection in the middle of a message.");
            for (cmsghdr* at = CMSG_FIRSTHDR(&header); at; at = CMSG_NXTHDR(&header, at)) {
                if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
                const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t index = 0; index < count; ++index) {
                    int fd;
                    std::memcpy(&fd, CMSG_DATA(at) + index * sizeof fd, sizeof fd);
                    fds.add(fd);
                }
            }
            done += static_cast<size_t>(got);
        }
    }

    int fd_;
    Header message_header_{};
};
