// SPDX-License-Identifier: Apache-2.0
// The card and the hard block at its pins: TLPs of the link to packets on CQ and RC, packets on RQ and CC to TLPs.
//
// As sim/pcie/hard_block.py: it checks every completion for the card against the request with its tag, and reports the
// error codes of PG213. Each request of the card is checked by rules.h. Stalls of the test may also split a packet on
// CQ and RC, which the hard block does not do.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "Vtop.h"
#include "memory.h"
#include "packets.h"
#include "rules.h"
#include "verilated.h"

// Verilator encodes "__" in the name of a port like this.
#define PIN(bus, signal) top_.bus##___05F##signal

constexpr unsigned kLanes = kDataWidth / 32, kUserWords = 6;
constexpr bool kStraddle = kDataWidth == 512;

// Share of cycles in which the hard block stalls each stream.
struct Stalls {
    double cq = 0, cc = 0, rq = 0, rc = 0;
};

class HardBlock {
public:
    static constexpr uint16_t kCardId = 0x0300;
    static constexpr unsigned kTransmit = 4;                               // TLPs from the card that wait for the link
    static constexpr unsigned kRequests = 64, kRequestDwordsHeld = 4096;   // credits of requests
    static constexpr unsigned kCompletions = 256, kCompletionBytes = 32768;

    uint64_t cycle = 0;
    Limits limits, earlier{0, 0, 0, false};  // what requests may still have from earlier settings
    bool memory_enable = true, msix_enable = false;
    // Requests while bus mastering is disabled: a violation, or dropped, and reads completed with UR.
    enum class WithoutMaster : uint8_t { kViolation, kUnsupported };
    WithoutMaster without_master = WithoutMaster::kViolation;
    Stalls stalls;
    // Requests of the card in flight, by tag.
    struct Read {
        bool valid = false;
        Tlp tlp;
        uint64_t cycle = 0;
        uint64_t foreign = 0;  // cycle in which a packet with this tag that is not its own was on RC
    };
    std::array<Read, 256> reads;
    uint64_t read_requests = 0, write_requests = 0, unexpected = 0;
    std::array<uint64_t, 256> tag_uses{};
    std::deque<Tlp> transmit;  // to the link
    uint64_t rq_beats = 0, rc_beats = 0, cq_beats = 0, cc_beats = 0;
    // Called for each beat that CQ ('c'), RQ ('q') or RC ('r') transfers.
    std::function<void(char)> moved;
    // Called with each completion of the card on CC.
    std::function<void(const Packet&)> completed;
    // Called with each packet that is sent to CQ.
    std::function<void(const Packet&)> offered;
    // Cycles after which a tag may be used again though its completions have not arrived, and after which a completion
    // may be too late.
    uint64_t reuse_after = ~uint64_t{0}, late_after = ~uint64_t{0};

    explicit HardBlock(uint64_t seed) : random_(seed) {
        std::memset(&pins_, 0, sizeof pins_);
        hold(true);
        for (int count = 0; count < 8; ++count) tick();
        hold(false);
    }
    ~HardBlock() { top_.final(); }

    // Level of `user_reset` from the next cycle on.
    void hold(bool reset) {
        top_.rst = reset;
        in_reset_ = reset;
        if (reset) lose();
    }

    // Function-level reset: its request, and whether the card has finished. The requests in flight end.
    void function_reset(bool active) {
        pins_.flr = active;
        flr_done_ = false;
        if (!active) return;
        for (unsigned tag = 0; tag < reads.size(); ++tag)
            if (reads[tag].valid) terminate(static_cast<uint8_t>(tag), kFunctionReset);
    }
    bool function_reset_done() const { return flr_done_; }

    // Calls `disturbed` with each request of the card that may not get its own completions, or not in time.
    void observe(std::function<void(const Tlp&)> disturbed) {
        disturbed_ = std::move(disturbed);
        rc_.leaving = [this](const Packet& packet) { watch(packet); };
    }

    void extended_tags(bool on) { pins_.extended = on; }

    // Whether the receive buffer has credits for a TLP.
    bool accepts(const Tlp& tlp) const {
        if (tlp.kind == Kind::kCompletion)
            return rc_.waiting() < kCompletions && 4 * rc_.waiting_words() + 4 * tlp.dwords < kCompletionBytes;
        return cq_.waiting() < kRequests && cq_.waiting_words() + tlp.dwords < kRequestDwordsHeld;
    }

    // A memory request from the link, to a BAR.
    void request(const Tlp& tlp, unsigned bar, unsigned aperture) {
        Packet packet;
        packet.words.resize(kRequestDwords);
        uint32_t* words = packet.words.data();
        put(words, completer_request::address, tlp.address >> 2);
        put(words, completer_request::dwords, tlp.dwords);
        put(words, completer_request::request_type, tlp.kind == Kind::kWrite);
        put(words, completer_request::requester_id, tlp.requester);
        put(words, completer_request::tag, tlp.tag);
        put(words, completer_request::bar, bar);
        put(words, completer_request::bar_aperture, aperture);
        put(words, completer_request::attributes, tlp.attributes);
        packet.words.insert(packet.words.end(), tlp.data.begin(), tlp.data.end());
        packet.first_be = packet.first_enables = tlp.first_be;
        packet.last_be = tlp.last_be;
        packet.last_enables = tlp.dwords > 1 ? tlp.last_be : 0xF;
        packet.descriptor = kRequestDwords;
        send_request(std::move(packet));
    }

    // Any packet to CQ.
    void send_request(Packet packet) {
        if (offered) offered(packet);
        cq_.send(std::move(packet));
    }

    // Any packet to RC. If it ends the request with its tag, the request is not in flight any more.
    void send_completion(Packet packet) {
        const uint32_t* words = packet.words.data();
        Read& read = reads[get(words, requester_completion::tag)];
        if (read.valid && disturbed_) disturbed_(read.tlp);
        const uint64_t count = get(words, requester_completion::byte_count) + (get(words, requester_completion::lower_address) & 3);
        if (get(words, requester_completion::request_completed) || count <= 4 * get(words, requester_completion::dwords))
            read.valid = false;
        packet.foreign = true;
        rc_.send(std::move(packet));
    }

    // A completion from the link.
    void completion(const Tlp& tlp) {
        Read& read = reads[tlp.tag];
        unsigned address = tlp.lower_address;
        ErrorCode code = kNoError;
        bool done = false;
        const bool foreign = !read.valid || tlp.serial != read.tlp.serial;
        if (read.valid && foreign && disturbed_) disturbed_(read.tlp);
        if (!read.valid) {
            code = kInvalidTag;
        } else if (tlp.attributes != read.tlp.attributes) {
            code = kMismatch;
        } else if (tlp.status != kSuccessful) {
            code = kBadStatus;
            done = true;
        } else {
            const auto [offset, length] = enabled_bytes(read.tlp);
            const uint64_t first = read.tlp.address + offset + length - tlp.byte_count;
            if ((first & 0x7F) != tlp.lower_address) {
                code = kInvalidAddress;
            } else {
                address = first & 0xFFF;
            }
            done = tlp.byte_count <= 4 * tlp.dwords - (tlp.lower_address & 3);
        }
        if (tlp.poisoned) code = kPoisonedError;
        if (code == kInvalidTag) ++unexpected;
        if (done) read.valid = false;
        deliver(tlp, address, code, done, foreign);
    }

    // The hard block's own time-out of the request with a tag in flight.
    void expire(uint8_t tag) { terminate(tag, kTimeoutError); }

    bool idle() const { return rq_.idle() && cc_.idle() && cq_.idle() && rc_.idle() && transmit.empty(); }
    // Whether requests of the link wait for the card.
    bool requests_wait() const { return !cq_.idle(); }
    std::string streams() const {
        const auto level = [](bool valid, bool ready) { return valid ? ready ? "moves" : "stalls" : "idle"; };
        return std::string("RQ ") + level(rq_valid_, rq_ready_) + ", CC " + level(cc_valid_, cc_ready_) + ", CQ " +
               level(cq_.valid, cq_taken_) + ", RC " + level(rc_.valid, rc_taken_);
    }

    // Pins that are not the hard block's.
    Vtop& top() { return top_; }

    // The edge at which the card's inputs are registered (ClockedInputs) begins the cycle.
    void tick() {
        drive();
        top_.clk = 0;
        top_.eval();
        top_.clk = 1;
        top_.eval();
        if (!in_reset_) sample();
        ++cycle;
    }

private:
    // TLPs in the hard block are lost.
    void lose() {
        for (Read& read : reads) read.valid = false;
        transmit.clear();
        rq_.clear();
        cc_.clear();
        cq_.clear();
        rc_.clear();
    }

    void terminate(uint8_t tag, ErrorCode code) {
        Tlp tlp;
        tlp.kind = Kind::kCompletion;
        tlp.tag = tag;
        reads[tag].valid = false;
        deliver(tlp, 0, code, true);
    }

    void refuse(uint8_t tag) {
        Tlp tlp;
        tlp.kind = Kind::kCompletion;
        tlp.tag = tag;
        tlp.status = kUnsupportedRequest;
        deliver(tlp, 0, kBadStatus, true);
    }

    void deliver(const Tlp& tlp, unsigned address, ErrorCode code, bool done, bool foreign = false) {
        Packet packet = completion_packet(tlp, address, code, done);
        packet.foreign = foreign;
        rc_.send(std::move(packet));
    }

    // A completion as its last beat is on RC. A foreign one may meet a request that has its tag, but is not on RQ yet.
    void watch(const Packet& packet) {
        Read& read = reads[get(packet.words.data(), requester_completion::tag)];
        if (packet.foreign) read.foreign = cycle;
        if (packet.harmed || packet.foreign || cycle - read.cycle > late_after) disturbed_(read.tlp);
    }

    void drive() {
        rq_ready_ = transmit.size() < kTransmit && !random_.chance(stalls.rq);
        cc_ready_ = transmit.size() < kTransmit && !random_.chance(stalls.cc);
        if (!in_reset_) {
            cq_.drive(random_.chance(stalls.cq));
            rc_.drive(random_.chance(stalls.rc));
        }
        PIN(rq, tready) = rq_ready_;
        PIN(cc, tready) = cc_ready_;
        PIN(cq, tvalid) = cq_.valid;
        if (cq_.valid) {
            set_port(PIN(cq, tdata), cq_.beat.data);
            set_port(PIN(cq, tkeep), &cq_.beat.keep);
            PIN(cq, tlast) = cq_.beat.last;
            set_port(PIN(cq, tuser), cq_.beat.user);
        }
        PIN(rc, tvalid) = rc_.valid;
        if (rc_.valid) {
            set_port(PIN(rc, tdata), rc_.beat.data);
            set_port(PIN(rc, tkeep), &rc_.beat.keep);
            PIN(rc, tlast) = rc_.beat.last;
            set_port(PIN(rc, tuser), rc_.beat.user);
        }
        drive_configuration();
    }

    void drive_configuration() {
        PIN(cfg, cfg_max_payload) = log2_of(limits.max_payload / 128);
        PIN(cfg, cfg_max_read_req) = log2_of(limits.max_read / 128);
        PIN(cfg, cfg_function_status) = pins_.flr ? 0 : memory_enable << 1 | limits.bus_master << 2;
        PIN(cfg, cfg_flr_in_process) = pins_.flr;
        PIN(cfg, cfg_interrupt_msix_enable) = msix_enable;
        PIN(cfg, cfg_mgmt_read_write_done) = pins_.due == 1;
        PIN(cfg, cfg_mgmt_read_data) = pins_.due == 1 ? pins_.extended << kExtendedTagBit : 0;
    }

    static unsigned log2_of(unsigned value) { return 31u - static_cast<unsigned>(__builtin_clz(value)); }

    void sample() {
        Beat<kLanes, kUserWords> beat;
        std::memset(static_cast<void*>(&beat), 0, sizeof beat);
        rq_valid_ = PIN(rq, tvalid);
        if (rq_valid_) {
            get_port(PIN(rq, tdata), beat.data);
            get_port(PIN(rq, tkeep), &beat.keep);
            beat.last = PIN(rq, tlast);
            get_port(PIN(rq, tuser), beat.user);
            if (rq_ready_) ++rq_beats;
            if (rq_ready_ && moved) moved('q');
        }
        rq_.sample(rq_valid_, rq_ready_, beat, [&](const Packet& packet) { requested(packet); });
        std::memset(static_cast<void*>(&beat), 0, sizeof beat);
        cc_valid_ = PIN(cc, tvalid);
        if (cc_valid_) {
            get_port(PIN(cc, tdata), beat.data);
            get_port(PIN(cc, tkeep), &beat.keep);
            beat.last = PIN(cc, tlast);
            get_port(PIN(cc, tuser), beat.user);
            cc_beats += cc_ready_;
        }
        cc_.sample(cc_valid_, cc_ready_, beat, [&](const Packet& packet) {
            if (completed) completed(packet);
        });
        cq_taken_ = cq_.sample(PIN(cq, tready));
        rc_taken_ = rc_.sample(PIN(rc, tready));
        cq_beats += cq_taken_;
        rc_beats += rc_taken_;
        if (moved && cq_taken_) moved('c');
        if (moved && rc_taken_) moved('r');
        flr_done_ |= PIN(cfg, cfg_flr_done) & 1;
        if (pins_.due) {
            --pins_.due;
        } else if (PIN(cfg, cfg_mgmt_read)) {
            pins_.due = 4;
        }
    }

    void requested(const Packet& packet) {
        Tlp tlp = decode_request(packet);
        const bool refused = !limits.bus_master && without_master == WithoutMaster::kUnsupported;
        check_request(packet, tlp, {std::max(limits.max_payload, earlier.max_payload),
                                    std::max(limits.max_read, earlier.max_read), std::max(limits.tags, earlier.tags),
                                    limits.bus_master || earlier.bus_master || refused});
        tlp.requester = kCardId;
        if (refused) {
            if (disturbed_) disturbed_(tlp);
            if (tlp.kind == Kind::kRead) refuse(tlp.tag);
            return;
        }
        if (pins_.flr) {
            // Bus mastering has ended. The specification of the hard block does not say what becomes of a read.
            if (tlp.kind == Kind::kRead) terminate(tlp.tag, kFunctionReset);
            return;
        }
        if (tlp.kind == Kind::kRead) {
            Read& read = reads[tlp.tag];
            need(!read.valid || cycle - read.cycle >= reuse_after, "RQ, " + tlp.title(),
                 "the tag is in use by another request (2.2.6.2)");
            tlp.serial = read_requests + 1;
            if (disturbed_ && read.foreign && cycle - read.foreign < late_after) disturbed_(tlp);
            read.valid = true;
            read.tlp = tlp;
            read.cycle = cycle;
            ++tag_uses[tlp.tag];
            ++read_requests;
        } else {
            ++write_requests;
        }
        transmit.push_back(std::move(tlp));
    }

    static UserFields rq_fields() {
        return {{rq_user::first_be_0, rq_user::first_be_1}, {rq_user::last_be_0, rq_user::last_be_1}, {0, 0},
                rq_user::starts, {rq_user::start_0, rq_user::start_1}, rq_user::ends, {rq_user::end_0, rq_user::end_1},
                rq_user::discontinue, {0, 0}};
    }
    static UserFields cc_fields() { return {{}, {}, {0, 0}, {0, 0}, {}, {0, 0}, {}, cc_user::discontinue, {0, 0}}; }
    static UserFields rc_fields() {
        return {{}, {}, rc_user::byte_en, rc_user::starts, {rc_user::start_0, rc_user::start_1}, rc_user::ends,
                {rc_user::end_0, rc_user::end_1}, rc_user::discontinue, rc_user::first};
    }
    static UserFields cq_fields() {
        return {{cq_user::first_be_0, {}}, {cq_user::last_be_0, {}}, cq_user::byte_en, cq_user::starts,
                {cq_user::start_0, {}}, cq_user::ends, {cq_user::end_0, {}}, cq_user::discontinue, cq_user::first};
    }

    struct {
        unsigned flr, extended, due;
    } pins_;
    std::function<void(const Tlp&)> disturbed_;
    Vtop top_;
    Random random_;
    PacketSink<kLanes, kUserWords> rq_{"RQ", rq_fields(), kStraddle, kRequestDwords};
    PacketSink<kLanes, kUserWords> cc_{"CC", cc_fields(), false, kCompletionDwords};
    PacketSource<kLanes, kUserWords> cq_{cq_fields(), false}, rc_{rc_fields(), kStraddle};
    bool rq_ready_ = false, cc_ready_ = false, rq_valid_ = false, cc_valid_ = false, cq_taken_ = false;
    bool rc_taken_ = false, flr_done_ = false, in_reset_ = true;
};
