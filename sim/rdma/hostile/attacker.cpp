// SPDX-License-Identifier: Apache-2.0
// The attacker as a library of C functions, for Python's ctypes.

#include "attacker.h"

#include "library.h"
#include "observer.h"

namespace {

struct Session {
    Attacker attacker;
    Observer observer;
    uint64_t fail_first = 0, fail_end = 0, failed = 0;  // an access from here to there gets an error, once

    Session(const Functions& functions, const Settings& settings) : attacker(functions, settings) {
        observer = {this, step, write, read};
    }

    bool fails(uint64_t address) {
        if (address < fail_first || address >= fail_end) return false;
        fail_first = fail_end = 0;
        ++failed;
        return true;
    }

    static void step(void* context, uint64_t cycle) { static_cast<Session*>(context)->attacker.step(cycle); }

    static int write(void* context, uint32_t unit, uint64_t cycle, uint64_t address, const uint8_t* data,
                     const uint8_t* strobes, uint32_t last) {
        auto& session = *static_cast<Session*>(context);
        if (unit != 0) return 0;
        session.attacker.guard.written(cycle, address, data, strobes);
        return last && session.fails(address);
    }

    static int read(void* context, uint32_t unit, uint64_t cycle, uint64_t address, uint32_t beats) {
        auto& session = *static_cast<Session*>(context);
        if (unit != 0) return 0;
        session.attacker.guard.read(cycle, address, beats);
        return session.fails(address);
    }
};

}  // namespace

API Session* attacker_create(const Functions* functions, const Settings* settings) {
    return new Session(*functions, *settings);
}
API void attacker_destroy(Session* session) { delete session; }
API Observer* attacker_observer(Session* session) { return &session->observer; }
API void attacker_open(Session* session, const QueueSettings* settings) { session->attacker.open(*settings); }
API void attacker_close(Session* session, uint32_t index) { session->attacker.close(index); }
API void attacker_region(Session* session, const RegionSettings* settings) { session->attacker.region(*settings); }
API void attacker_hint(Session* session, uint32_t index, uint32_t psn) { session->attacker.hint(index, psn); }
API void attacker_stop(Session* session, uint32_t stopped) { session->attacker.stopped = stopped != 0; }
API void attacker_status(Session* session, uint32_t index, Status* status) { *status = session->attacker.status(index); }

// Memory of a queue pair; returns a number for attacker_revoke.
API uint64_t attacker_allow(Session* session, uint32_t qp, uint64_t first, uint64_t end, uint32_t readable,
                            uint32_t writable, uint32_t ring) {
    return session->attacker.guard.allow({first, end, qp, readable != 0, writable != 0, ring != 0, 0, 0, 0, 0});
}
API void attacker_revoke(Session* session, uint64_t number) {
    session->attacker.guard.revoke(number, session->attacker.port.cycle);
}

API void attacker_consume(Session* session, uint64_t number, uint64_t records) {
    session->attacker.guard.consume(number, records);
}

// The next access to one of these bytes gets an error.
API void attacker_fail(Session* session, uint64_t first, uint64_t end) {
    session->fail_first = first;
    session->fail_end = end;
}

API uint32_t attacker_kinds() { return kKinds; }
API const char* attacker_kind_name(uint32_t kind) { return kind < kKinds ? kKindNames[kind] : ""; }
API void attacker_kind_counts(Session* session, uint64_t* counts) {
    std::copy(session->attacker.kinds.begin(), session->attacker.kinds.end(), counts);
}

// In the order of the fields of `AttackerCounts` in attacker.py.
API void attacker_counts(Session* session, uint64_t* numbers) {
    const Attacker& attacker = session->attacker;
    const Port& port = attacker.port;
    const GuardCounts& guard = attacker.guard.counts;
    const uint64_t all[] = {port.frames, port.sent_bytes, port.sent[kPacket], port.sent[kRefused], port.sent[kOther],
                            port.delayed, attacker.received, attacker.cnps, attacker.read_bytes, guard.write_beats,
                            guard.read_bursts, guard.late_beats, guard.latest, session->failed, port.findings.count};
    std::copy(std::begin(all), std::end(all), numbers);
}

// Sentence number `number`, or null.
API const char* attacker_finding(Session* session, uint32_t number) {
    const auto& sentences = session->attacker.port.findings.sentences;
    return number < sentences.size() ? sentences[number].c_str() : nullptr;
}
