// SPDX-License-Identifier: Apache-2.0
// The program around a server: its options, its socket, and its clients.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <sys/un.h>

#include "server.h"

// An option is wrong.
class Wrong : public std::runtime_error {
    using runtime_error::runtime_error;
};

struct ProgramOptions {
    std::string socket;
    bool once = false, trace = false;
    std::map<std::string, unsigned> numbers;  // by name, of those that the device has

    // The value of one of these, if it was given.
    void into(const char* name, unsigned& value) const {
        const auto found = numbers.find(name);
        if (found != numbers.end()) value = found->second;
    }
};

inline unsigned number_of(const std::string& name, const std::string& text) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(text.c_str(), &end, 10);
    if (text.empty() || *end || text[0] == '-' || value > 100'000'000)
        throw Wrong(name + " must be a number from 0 to 100000000, not '" + text + "'.");
    return static_cast<unsigned>(value);
}

inline ProgramOptions read_options(int count, char** words, const std::vector<std::string>& numbers) {
    ProgramOptions options;
    for (int index = 1; index < count; ++index) {
        const std::string name = words[index];
        if (name == "--once") {
            options.once = true;
        } else if (name == "--trace") {
            options.trace = true;
        } else if (name == "--socket" || std::find(numbers.begin(), numbers.end(), name) != numbers.end()) {
            if (++index == count) throw Wrong(name + " needs a value.");
            if (name == "--socket") {
                options.socket = words[index];
            } else {
                options.numbers[name] = number_of(name, words[index]);
            }
        } else {
            throw Wrong("There is no option " + name + ".");
        }
    }
    if (options.socket.empty()) throw Wrong("--socket PATH is missing.");
    if (options.socket.size() >= sizeof(sockaddr_un{}.sun_path))
        throw Wrong("The path of a socket must be shorter than " + std::to_string(sizeof(sockaddr_un{}.sun_path)) +
                    " bytes, not " + options.socket + ".");
    return options;
}

inline int listen_at(const std::string& path) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) || listen(fd, 1))
        throw Wrong("The socket " + path + " cannot be made: " + std::strerror(errno) + ".");
    return fd;
}

// Serves clients of the device, one after the other.
inline int serve(const ProgramOptions& options, ClientHost& host, Device& device, const FunctionSizes& sizes) {
    guarded::install();
    std::signal(SIGPIPE, SIG_IGN);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const int listening = listen_at(options.socket);
    std::printf("listening on %s\n", options.socket.c_str());
    for (;;) {
        const int client = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            if (errno == EINTR) continue;
            throw std::runtime_error("No client can be accepted: " + std::string(std::strerror(errno)) + ".");
        }
        Server server(client, host, device, sizes, options.trace);
        const std::string reason = server.serve();
        std::ostringstream line;
        line << "client: " << server.messages << " messages, " << server.refused << " of them refused; "
             << server.stores << " doorbells, " << host.interrupts << " interrupts, " << device.cycles() << " cycles; the host refused "
             << host.refused_reads << " reads and " << host.refused_writes << " writes";
        std::puts(line.str().c_str());
        host.clear();
        if (!reason.empty()) std::printf("disconnected: %s\n", reason.c_str());
        if (options.once) {
            close(listening);
            unlink(options.socket.c_str());
            return reason.empty() ? 0 : 1;
        }
    }
}

// All of main(): `numbers` are the names of the options that `run(options)` reads. Exit status: 0 after the client has
// closed the connection; 1 with a sentence if the device or the client broke a rule; 2 for invalid options.
template <class Run>
int run_program(int count, char** words, const std::vector<std::string>& numbers, Run run) {
    try {
        return run(read_options(count, words, numbers));
    } catch (const Wrong& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
