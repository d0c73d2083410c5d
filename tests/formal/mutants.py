# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs, each of which makes a proof fail: ``python -m tests.formal.mutants [name ...]``.

A copy of the sources under ``build/bugs`` gets one bug at a time, and the proof named with it runs there.
"""

import sys
from dataclasses import dataclass

from tests.changed_sources import chosen, run_changed

__all__ = ["MUTANTS", "Mutant", "is_found"]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A bug: ``old``, which occurs once in the file ``path``, becomes ``new``; then the test ``proof`` fails."""

    name: str
    path: str
    old: str
    new: str
    proof: str


def _stream(name, file, old, new, proof):
    return Mutant(name=name, path=f"hw/stream/{file}.py", old=old, new=new, proof=f"tests/formal/{proof}")


def _engine(name, file, old, new, proof):
    return Mutant(name=name, path=f"hw/dma_engine/{file}.py", old=old, new=new, proof=f"tests/formal/{proof}")


def _ace(name, file, old, new, proof):
    return Mutant(name=name, path=f"hw/ace/{file}.py", old=old, new=new, proof=f"tests/formal/{proof}")


def _pcie(name, file, old, new, proof):
    return Mutant(name=name, path=f"hw/pcie/requester/{file}.py", old=old, new=new, proof=f"tests/formal/{proof}")


MUTANTS = [
    _stream("skid-lost-item", "skid", "            m.d.sync += spare_free.eq(0)",
            "            m.d.sync += spare_free.eq(1)",
            "test_delivery.py::test_skid[skid-True-skid_invariant-2]"),
    _stream("skid-spare-follows", "skid", "m.d.sync += spare_free.eq(self.o.ready | ~self.o.valid)",
            "m.d.sync += spare_free.eq(self.o.ready)",
            "test_delivery.py::test_skid[skid-ready-False-slice_invariant-1]"),
    _stream("queue-one-more", "queue", "full.eq(self.level == self.depth - 1)", "full.eq(self.level == self.depth)",
            "test_delivery.py::test_queue[lut-kind0-3]"),
    _stream("queue-wrap", "queue", "Mux(row == self.depth - 1, 0, row + 1)", "row + 1",
            "test_delivery.py::test_queue[block-kind2-3]"),
    _stream("queue-bypass-overtakes", "queue", "(self.o.ready & ~(held & shown.valid) | ~self.o.valid)",
            "(self.o.ready | ~self.o.valid)", "test_delivery.py::test_queue[block-bypass-kind3-8]"),
    _stream("queue-register-late", "queue", "past.eq(load & ~some)", "past.eq(load)",
            "test_delivery.py::test_queue[lut-register-kind1-8]"),
    _stream("output-register-valid", "skid", "[valid.eq(self.i.valid | ~spare_free)", "[valid.eq(self.i.valid)",
            "test_delivery.py::test_block_queue_with_output_register"),
    _stream("pacer-lost-item", "pacer", "self.i.ready.eq(self.o.ready & free)", "self.i.ready.eq(self.o.ready)",
            "test_delivery.py::test_pacer"),
    _stream("commit-keeps-dropped", "commit_queue", "row.eq(Mux(self.first, good, written))", "row.eq(written)",
            "test_stores.py::test_commit_queue[lut-kind0]"),
    _stream("commit-block-ahead", "commit_queue", "reading != good)", "reading != written)",
            "test_stores.py::test_commit_queue[block-kind1]"),
    _stream("replay-from-newest", "replay_queue", "m.d.sync += taken.eq(oldest)", "m.d.sync += taken.eq(written)",
            "test_stores.py::test_replay_queue[lut-kind0]"),
    _stream("replay-shows-old", "replay_queue", "m.d.sync += [reading.eq(oldest), loaded.eq(0)]",
            "m.d.sync += [reading.eq(oldest)]", "test_stores.py::test_replay_queue[block-kind1]"),
    _stream("fork-any", "route", "self.i.ready.eq(taken.all())", "self.i.ready.eq(taken.any())",
            "test_routes.py::test_fork"),
    _stream("join-early", "route", "i.ready.eq(self.o.valid & self.o.ready)", "i.ready.eq(self.o.ready)",
            "test_routes.py::test_join"),
    _stream("demux-nowhere", "route", "number == index if index < self.n - 1 else number >= index", "number == index",
            "test_routes.py::test_demux"),
    _stream("merge-changes-choice", "route", "Mux(self.o.valid & ~self.o.ready, arbiter.grant_onehot, -1)", "-1",
            "test_routes.py::test_merge[3-False]"),
    _stream("merge-choice-invalid", "route", "self.o.valid.eq((some & choice).any())", "self.o.valid.eq(some.any())",
            "test_routes.py::test_merge[3-True]"),
    _stream("arbiter-same-again", "arbiter", "m.d.sync += mask.eq(after)", "m.d.sync += mask.eq(-1)",
            "test_routes.py::test_round_robin[9]"),
    _stream("arbiter-pointer", "arbiter", "first.eq(_number(Cat(self.grant_onehot[-1], self.grant_onehot[:-1])))",
            "first.eq(_number(self.grant_onehot))", "test_routes.py::test_round_robin[3]"),
    _engine("legalizer-bounds-off-by-one", "frontend/legalizer", "b.bad[CHECKS.index(Status.DST_BOUNDS)].eq("
            "a.dst_end > a.dst_length)", "b.bad[CHECKS.index(Status.DST_BOUNDS)].eq(a.dst_end > a.dst_length + 1)",
            "test_legalizer.py::test_legalizer"),
    _engine("legalizer-long-requests", "frontend/legalizer", '"src_advance": REQUEST_LENGTH_WIDTH', '"src_advance": 28',
            "test_legalizer.py::test_legalizer"),
    _engine("legalizer-next-page", "frontend/legalizer", "| (segment.jumps & ~pages.next.present)", "| 0",
            "test_legalizer.py::test_legalizer"),
    _engine("legalizer-one-domain", "frontend/legalizer",
            "b.bad[CHECKS.index(Status.DST_DOMAIN)].eq(a.dst_differs.any())",
            "b.bad[CHECKS.index(Status.DST_DOMAIN)].eq(a.dst_differs[:-1].any())", "test_legalizer.py::test_legalizer"),
    _engine("read-without-slots", "mover/read", "enough.eq(credit.available >= segment.src_beats)", "enough.eq(1)",
            "test_read.py::test_read_issue"),
    _engine("read-credit-early", "mover/read", "credit.take_stb.eq(begin)", "credit.take_stb.eq(second)",
            "test_read.py::test_read_issue"),
    _engine("read-same-page-again", "mover/read", "(addr[12:] + 1)[:ADDR_WIDTH - 12]", "addr[12:]",
            "test_read.py::test_read_issue"),
    _engine("write-last-lane", "mover/sequencer", "write.data.end_lane.eq(end[:lanes])",
            "write.data.end_lane.eq(segment.size[:lanes])", "test_write.py::test_sequencer"),
    _engine("write-announcement-lost", "mover/sequencer", "self.arrived.ready.eq(~ready | begin)",
            "self.arrived.ready.eq(1)", "test_write.py::test_sequencer"),
    _engine("write-lane-off-by-one", "mover/aligner", "(lane > step.end_lane)", "(lane > step.end_lane + 1)",
            "test_write.py::test_aligner"),
    _engine("write-outdated-epoch", "mover/aligner", "(step.epoch != self.epoch.epoch) | (step.take", "(step.take",
            "test_write.py::test_aligner"),
    Mutant(name="registers-response-early", path="hw/regs/bank.py",
           old="write_en.eq(addr_full & data_full & (~bus.bvalid | bus.bready))",
           new="write_en.eq(addr_full & (~bus.bvalid | bus.bready))",
           proof="tests/formal/test_axi_ports.py::test_register_port"),
    _stream("credit-lost", "credit", "self.available - self.take + self.give, self.available + self.give",
            "self.available - self.take, self.available + self.give", "test_credits.py::test_credits_add_up[5-3-2]"),
    _engine("port-strobes-of-neighbour", "mover/axi_port", "bus.wstrb.eq(w.payload.strb)", "bus.wstrb.eq(-1)",
            "test_memory_ports.py::test_manager_rules[DmaWrites-8]"),
    _engine("port-read-crosses", "mover/read",
            "length.eq(Mux(segment.crosses, segment.first_beats, segment.src_beats) - 1)",
            "length.eq(segment.src_beats - 1)", "test_memory_ports.py::test_manager_rules[DmaReads-14]"),
    _ace("port-fill-withdrawn", "fill", "with m.Elif(self.memory.arready):", "with m.Else():",
         "test_memory_ports.py::test_manager_rules[AceReads-14]"),
    _ace("port-drain-length", "drain", "self.memory.awlen.eq(Mux(first, 0, burst.len))",
         "self.memory.awlen.eq(burst.len)", "test_memory_ports.py::test_manager_rules[AceWrites-10]"),
    _engine("response-any-tag", "mover/responses", "known.eq((begun.read[0].data.begun ^ before[0]) &", "known.eq(1 &",
            "test_completion.py::test_ends"),
    _engine("response-tag-truncated", "mover/responses", " & ~number[config.tag_bits:-1].any()),", "),",
            "test_completion.py::test_ends"),
    _engine("retire-skips-oldest", "completion/retire", "marked & (oldest == index) & ~one_valid",
            "marked & ~one_valid",
            "test_completion.py::test_counts"),
    _engine("retire-counts-segments", "completion/retire", "ends.eq(hit & entry.last)", "ends.eq(hit)",
            "test_completion.py::test_counts"),
    _engine("retire-word-of-before", "completion/retire",
            "word.eq(Mux(words.write.en & (three.queue == two_queue), now, words.read[0].data))",
            "word.eq(words.read[0].data)", "test_completion.py::test_counts"),
    _engine("writer-two-in-flight", "completion/writer", 'changed["rc"] & ~flying["rc"], changed["sc"]',
            'changed["rc"], changed["sc"]', "test_completion.py::test_words"),
    _engine("writer-epoch-of-departure", "completion/writer", "self.epoch.epoch - (chosen & epoch_ended)",
            "self.epoch.epoch", "test_completion.py::test_words"),
    _engine("writer-old-word", "completion/writer", "words[kind].write.en.eq(getattr(self.publish, kind))",
            "words[kind].write.en.eq(getattr(self.publish, kind) & ~self.pending[0])",
            "test_completion.py::test_words"),
    _engine("record-next-area", "rings/pointers", "Mux(mask[bit], number[bit], base[low + bit])",
            "Mux(mask[bit], number[bit], number[bit])", "test_words.py::test_containment[Recorded]"),
    _engine("flag-of-sender", "completion/ark_flags", "Mux(is_sc, sender.base, receiver)", "sender.base",
            "test_words.py::test_containment[Flagged]"),
    _engine("drain-without-stage", "mover/aligner", "self.w_level.level.eq(out.level + emit)",
            "self.w_level.level.eq(out.level)", "test_words.py::test_containment[Drained]"),
    _engine("word-all-lanes", "mover/sequencer", "step.end_lane.eq(lane | Mux(self.words.payload.half, 3, 7))",
            "step.end_lane.eq(lane | 7)", "test_write.py::test_sequencer"),
    _engine("scheduler-repeats", "frontend/scheduler", "remaining.write.data.behind.eq(behind - 1)",
            "remaining.write.data.behind.eq(behind)", "test_interfaces.py::test_interface[Numbered]"),
    _engine("announced-again", "mover/buffer", "progress.write.data.quiet.eq(~announce & (first | was.quiet))",
            "progress.write.data.quiet.eq(first | was.quiet)", "test_interfaces.py::test_interface[Announced]"),
    _engine("slot-freed-twice", "mover/sequencer", "m.d.sync += [ended.eq(0), follows.eq(0), kept.eq(linked)]",
            "m.d.sync += [ended.eq(0), kept.eq(linked)]", "test_interfaces.py::test_interface[Freed]"),
    _engine("reset-with-segments", "control/control",
            "& ~bit(occupancy.ready | occupancy.more) & ~in_flight & ~pending)",
            "& ~bit(occupancy.ready | occupancy.more) & ~pending)", "test_control.py::test_reset"),
    _engine("reset-runs", "control/control",
            "states.enabled[index].eq(0), states.running[index].eq(0), states.resetting[index].eq(1)",
            "states.enabled[index].eq(0), states.resetting[index].eq(1)", "test_control.py::test_reset"),
    _ace("link-ack-beyond", "link/window", "beyond.eq(_less(_distance(end, acked), advance))", "beyond.eq(0)",
         "test_link.py::test_window"),
    _ace("link-not-overtaken", "link/window", "_less(_distance(number, acked), _distance(peer, acked))",
         "_less(_distance(end, acked), _distance(peer, acked))",
         "test_link.py::test_window"),
    _ace("link-short-crc", "link/receiver", "ours.eq(self._accepts & ~differs &", "ours.eq(self._accepts &",
         "test_link.py::test_receiver"),
    _ace("link-without-first-beat", "link/receiver", "some.eq(valid & (beat.first | inside))", "some.eq(valid)",
         "test_link.py::test_receiver"),
    _ace("link-any-number", "link/receiver", "due.eq(~(low ^ header.sequence).any() & ~credit", "due.eq(~credit",
         "test_link.py::test_channel"),
    _ace("link-init-by-any-session", "link/state", "known.eq(~(received.session ^ commands.peer).any()),",
         "known.eq(1),", "test_handshake.py::test_handshake"),
    _ace("fsm-grant-back-lost", "pool/fsm", "now & (whole | news)", "more & (whole | news)", "test_fsm.py::test_fsm"),
    _ace("fsm-ahead-of-the-fill", "pool/fsm", "| later & whole)", "| later)",
         "test_fsm.py::test_fsm"),
    _ace("fsm-ahead-of-two-phases", "pool/fsm", "& (unread == 0) & ~now & ~later",
         "& (unread == 0) & ~now", "test_fsm.py::test_fsm"),
    _ace("fsm-mark-kept", "pool/fsm", "Mux(self.start.valid, 0, more_marks | news & ~self.signals.ready)",
         "more_marks | news & ~self.signals.ready", "test_fsm.py::test_fsm"),
    _ace("fsm-last-packet", "pool/fsm", "may & there & (left != 0) & ~packets.taken", "may & there & (left > length) & "
         "~packets.taken", "test_fsm.py::test_fsm"),
    _ace("pool-message-endless", "pool/sends", "~(open_ & higher).any() & (packets != config.message_packets)",
         "~(open_ & higher).any()", "test_pool.py::test_sends[1]"),
    _ace("pool-send-lost", "pool/sends", "taken.eq(Mux(free, chosen, 0))", "taken.eq(chosen)",
         "test_pool.py::test_sends[1]"),
    _ace("pool-send-without-credit", "pool/sends", "o.free.bit_select(offer.port, 1) & ~(valid &",
         "o.free.bit_select(offer.port, 1) & ~(o.ready &", "test_pool.py::test_sends[2]"),
    _ace("pool-youngest-of-all", "age_arbiter", "older.eq(~self.outranked[one])", "older.eq(1)",
         "test_pool.py::test_sends[2]"),
    _ace("pool-grant-lost", "pool/signals", "fsm.ready.eq(free & granted)", "fsm.ready.eq(granted)",
         "test_pool.py::test_signals"),
    _ace("pool-grant-same-again", "pool/signals", "turn.advance.eq(free)", "turn.advance.eq(~free)",
         "test_pool.py::test_signals"),
    _ace("pool-grant-without-credit", "pool/signals", "fsm.valid & self.o.free.bit_select(fsm.payload.port, 1)",
         "fsm.valid & self.o.free.any()", "test_pool.py::test_signals"),
    _ace("pool-end-lost", "pool/steps", "self.done.valid & self.done.ready", "self.done.valid",
         "test_pool.py::test_steps"),
    _ace("pool-word-to-next-fsm", "pool/steps", "valid[2] & (third.fsm == number)", "valid[2] & (second.fsm == number)",
         "test_pool.py::test_steps"),
    _ace("pool-step-out-of-turn", "pool/steps", "turn.advance.eq(taken)", "turn.advance.eq(self.program.ready)",
         "test_pool.py::test_steps"),
    _ace("command-without-a-row", "command_queues", "(free | foreign)):", "(free | ~foreign)):",
         "test_admission.py::test_admission"),
    _ace("command-of-another-domain", "command_queues", "foreign.eq(~(exists & owned))", "foreign.eq(~exists)",
         "test_admission.py::test_admission"),
    _ace("command-without-an-entry", "operations", "(held_in < ACTIVE)", "(held_in <= ACTIVE)",
         "test_admission.py::test_admission"),
    _ace("chunk-in-a-used-slot", "chunker", "m.If(taken.bit_select(mine, 1)):", "m.If(blocked.bit_select(number, 1)):",
         "test_chunker.py::test_slots"),
    _ace("chunk-starts-again", "chunker", "m.d.sync += waiting[candidate].eq(0)",
         "m.d.sync += waiting[candidate].eq(stopped)", "test_chunker.py::test_slots"),
    _ace("chunk-of-another-slot", "chunker", "starts.read[0].addr.eq(slot), name.addr.eq(slot),",
         "starts.read[0].addr.eq(slot), name.addr.eq(sequence),", "test_chunker.py::test_slots"),
    _ace("grants-of-any-phase-cleared", "pool/grants", "Mux(known[back] & enters, 1 << (found ^ back), 0)",
         "Mux(enters, 1 << (found ^ back), 0)", "test_grants.py::test_grants"),
    _ace("grants-before-the-phase", "pool/grants", "valid & phase.inside & (number == index)",
         "valid & (number == index)", "test_grants.py::test_grants"),
    _ace("grants-old-count", "pool/grants", "entered & known[0] & ~newer)", "entered & known[0])",
         "test_grants.py::test_grants"),
    _pcie("pcie-read-longer-than-mrrs", "read_splitter", "(MIN_PAYLOAD_BYTES << size) //",
          "(MIN_PAYLOAD_BYTES << size + (size == 1)) //", "test_pcie_reads.py::test_read_requests[128]"),
    _pcie("pcie-read-last-enables", "read_splitter", "single.eq((beats == 1) & offset[2:].all())",
          "single.eq(offset[2:].all())", "test_pcie_reads.py::test_read_requests[512]"),
    _pcie("pcie-tag-lost", "event_pair", "m.d.sync += self.later[0].valid.eq(1)",
          "m.d.sync += self.later[0].valid.eq(0)", "test_pcie_tags.py::test_pool[32]"),
    _pcie("pcie-tag-twice", "event_pair", "event.valid & (bits[0].data ^ bits[1].data)", "event.valid",
          "test_pcie_tags.py::test_pool[32]"),
    _pcie("pcie-tag-not-delayed", "tag_pool", "delayed.o.ready.eq(~pair.later[0].valid)", "delayed.o.ready.eq(1)",
          "test_pcie_tags.py::test_pool[64]"),
    _pcie("pcie-tag-changes", "tag_pool", "with m.If(~self.hold):", "with m.If(1):",
          "test_pcie_tags.py::test_pool[64]"),
    _pcie("pcie-tag-before-expiry", "completion_check", "(kind == Termination.EXPIRED) | (kind == Termination.REFUSED)",
          "(kind != Termination.NONE)", "test_pcie_completions.py::test_completions[32]"),
    _pcie("pcie-tag-completes-twice", "completion_finder", "state.waiting.eq(updates.state.waiting & exists)",
          "state.waiting.eq(exists)", "test_pcie_completions.py::test_completions[32]"),
    _pcie("pcie-tag-of-torn-completion", "completion_check", "m.d.sync += ignoring.eq(1)",
          "m.d.sync += ignoring.eq(ignoring)", "test_pcie_completions.py::test_completions[32]"),
    _pcie("pcie-write-longer-than-mps", "write_intake", "self.settings.max_payload >= number",
          "self.settings.max_payload + 1 >= number", "test_pcie_writes.py::test_write_requests[128]"),
    _pcie("pcie-write-first-enables", "write_headers", " & Mux(single, _up_to(last[:2]), 0b1111)", "",
          "test_pcie_writes.py::test_write_requests[128]"),
    _pcie("pcie-write-last-enables", "write_headers", "Mux(single, 0, _up_to(last[:2]))", "_up_to(last[:2])",
          "test_pcie_writes.py::test_write_requests[512]"),
    _pcie("pcie-write-gap", "write_splitter", "(bottom | begun) | bottom & begun & ~joined", "(bottom | begun)",
          "test_pcie_writes.py::test_write_requests[128]"),
    _pcie("pcie-response-to-untaken", "write_queue", "self.oldest.valid.eq(made != sent)",
          "self.oldest.valid.eq(taken != sent)", "test_pcie_order.py::test_responses"),
    _pcie("pcie-flush-before-write", "write_responses", "sent & (oldest.flush | merge.i[0].ready)",
          "oldest.flush | sent & merge.i[0].ready", "test_pcie_order.py::test_responses"),
    _pcie("pcie-data-before-commit", "write_buffer", "reading != good", "reading != written",
          "test_pcie_order.py::test_payload"),
    _pcie("pcie-data-dropped", "write_buffer", "Mux(self.write.drop, good, after)", "after",
          "test_pcie_order.py::test_payload"),
    _pcie("pcie-packet-sent-early", "rq", "Mux(rq.tvalid & rq.tready, beats.payload.writes, 0)",
          "Mux(rq.tvalid, beats.payload.writes, 0)", "test_pcie_packets.py::test_packets"),
    _pcie("pcie-packet-without-load", "rq_schedule", "placed.loads.eq(end[:bits] >= table(lane, limits))",
          "placed.loads.eq(end[:bits] > table(lane, limits))", "test_pcie_packets.py::test_packets"),
    _pcie("pcie-packet-interrupted", "rq_schedule", "read_low.eq(~self.busy & can_read & ~write_low)",
          "read_low.eq(can_read & ~write_low)", "test_pcie_packets.py::test_packets"),
]


def is_found(mutant):
    """Whether the proof fails with the bug; raises RuntimeError if it could not run.

    Parameters
    ----------
    mutant : Mutant
    """
    result = run_changed(mutant.name, mutant.path, mutant.old, mutant.new, mutant.proof)
    found = result.returncode == 1 and "Assert failed" in result.stdout
    if not found and not (result.returncode == 0 and " passed" in result.stdout):
        raise RuntimeError(f"The proof of {mutant.name} did not run:\n{result.stdout[-3000:]}")
    return found


def main(names):
    """Run the mutants of these names, or all; returns the number of those that no proof found."""
    missed = 0
    for mutant in chosen(MUTANTS, names):
        found = is_found(mutant)
        missed += not found
        print(f"{mutant.name:28} {'found' if found else 'NOT FOUND':10} {mutant.proof}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
