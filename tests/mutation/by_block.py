# SPDX-License-Identifier: Apache-2.0
"""Mutants that survive the fast set, and that a test of the block finds: ``python -m tests.mutation --blocks``.

Such a test simulates one block in Amaranth, so that it cannot run on the mutated netlist of the engine. The same change
is made in a copy of the source instead, and the test must fail there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.changed_sources import run_changed
from tests.mutation.by_block_ace import ACE
from tests.mutation.explained import line_of
from tests.mutation.operators import Mutant

__all__ = ["BLOCKS", "ByBlock", "block_test", "finds"]

SEED = "1"


@dataclass(frozen=True)
class ByBlock:
    """A mutant: ``code`` is part of its source line, ``change`` is :attr:`Mutant.change`. With ``new`` instead of
    ``old``, which occurs once in the file, the test, ``FILE::NAME``, fails. ``changed``: that file, if the line of the
    mutant is of another one, such as a declaration."""

    file: str
    code: str
    change: str
    old: str
    new: str
    test: str
    changed: str = ""


_STREAM, _COMPLETION, _RINGS = (
    "tests/stream", "tests/dma_engine/completion", "tests/dma_engine/rings/test_lifecycle.py")

BLOCKS: list[ByBlock] = [
    ByBlock("hw/common/doorbell.py", "burst_refused.eq(refused & ~beat.last)", "not bit 0 of 1 stuck at 0",
            "burst_refused.eq(refused & ~beat.last)", "burst_refused.eq(0)",
            "tests/common/test_doorbell.py::test_each_word_of_a_burst_refused"),
    ByBlock("hw/stream/arbiter.py", "position.eq(_either(Mux(selected", "values of a Mux exchanged",
            "Mux(selected, _number(chosen[at:at + self._GROUP]), 0)",
            "Mux(selected, 0, _number(chosen[at:at + self._GROUP]))",
            f"{_STREAM}/test_arbiter.py::test_grant"),
    ByBlock("hw/stream/arbiter.py", "with m.If(self.advance & self.valid):", "and inverted",
            "with m.If(self.advance & self.valid):\n            m.d.sync += first",
            "with m.If(~(self.advance & self.valid)):\n            m.d.sync += first",
            f"{_STREAM}/test_arbiter.py::test_grant"),
    ByBlock("hw/stream/queue.py", "full = Signal()", "register bit 0 of 1 stuck at 0",
            "full.eq(self.level == self.depth - 1)]", "full.eq(0)]", f"{_STREAM}/test_queue.py::test_depth_and_level"),
    ByBlock("hw/stream/queue.py", "with m.Elif(pop & ~push):", "and inverted",
            "with m.Elif(pop & ~push):\n            m.d.sync += some.eq(self.level != 1)",
            "with m.Elif(~(pop & ~push)):\n            m.d.sync += some.eq(self.level != 1)",
            f"{_STREAM}/test_queue.py::test_order"),
    ByBlock("hw/stream/route.py", "arbiter.requests.eq(some & ~choice)", "not bit 0 of 4 stuck at 1",
            "arbiter.requests.eq(some & ~choice)", "arbiter.requests.eq(some & (~choice | 1))",
            f"{_STREAM}/test_route.py::test_merge"),
    ByBlock("hw/stream/skid.py", "payload = Signal(self.shape, reset_less=True)", "register bit 60 of 61 stuck at 1",
            "self.o.payload.eq(payload)]\n        # The output entry",
            "self.o.payload.eq(Value.cast(payload) | 1 << len(Value.cast(payload)) - 1)]\n        # The output entry",
            f"{_STREAM}/test_skid.py::test_order"),
    ByBlock("hw/dma_engine/completion/notices.py", "sends, ends = Signal(", "register bit 0 of 1 stuck at 0",
            "sends.eq(merge.o.valid & merge.o.ready & sent.top & sent.notice & (sent.queue == queue))", "sends.eq(0)",
            f"{_COMPLETION}/test_notices.py::test_outstanding_words"),
    ByBlock("hw/dma_engine/completion/notices.py", "for write in self.writes).any()),", "reduce_or -> reduce_and",
            "for write in self.writes).any()),", "for write in self.writes).all()),",
            f"{_COMPLETION}/test_notices.py::test_inside_and_discard"),
    ByBlock("hw/dma_engine/completion/notices.py", "(self.discard.queue == queue)):", "eq bit 0 of 1 stuck at 1",
            "with m.If(self.discard.valid & (self.discard.queue == queue)):", "with m.If(self.discard.valid):",
            f"{_COMPLETION}/test_notices.py::test_inside_and_discard"),
    ByBlock("hw/dma_engine/completion/retire.py", "two_op & (two_kind == OpKind.EVENT) & (two_status", "eq 5 -> 6",
            "(two_status == Status.TIMEOUT)", "(two_status == Status.TIMEOUT + 1)",
            f"{_COMPLETION}/test_retire.py::test_random"),
    ByBlock("hw/dma_engine/completion/retire.py", "(one_onehot & open_).any()", "and -> or",
            "(one_onehot & open_).any()", "(one_onehot | open_).any()",
            f"{_COMPLETION}/test_retire.py::test_a_run_stops"),
    ByBlock("hw/dma_engine/completion/retire.py", "tries[index].eq(0)", "tries: 0 -> 1",
            "m.d.sync += tries[index].eq(0)", "m.d.sync += tries[index].eq(1)",
            f"{_COMPLETION}/test_retire.py::test_order"),
    ByBlock("hw/dma_engine/completion/retire.py", "three.counts.eq((ends & ~holds & ~resetting)",
            "not bit 0 of 1 stuck at 1",
            "three.counts.eq((ends & ~holds & ~resetting)", "three.counts.eq((ends & ~holds)",
            f"{_COMPLETION}/test_retire.py::test_random"),
    ByBlock("hw/dma_engine/completion/retire.py", "three = Signal(data.StructLayout({",
            "register bit 87 of 88 stuck at 0", "notice.info.eq(three.info)",
            "notice.info.eq(three.info.as_value() & ~(1 << len(three.info.as_value()) - 1))",
            f"{_COMPLETION}/test_retire.py::test_random"),
    ByBlock("hw/dma_engine/completion/retire.py", "self.publish.record.eq(", "and inverted",
            "self.publish.record.eq(three.notice & (three.settings.mode == QueueMode.RING)",
            "self.publish.record.eq(~(three.notice & (three.settings.mode == QueueMode.RING))",
            f"{_COMPLETION}/test_retire.py::test_random"),
    ByBlock("hw/dma_engine/completion/word_responses.py", "waits.eq(extended & Cat(count != 0", "ne -> eq",
            "Cat(count != 0 for", "Cat(count == 0 for", f"{_COMPLETION}/test_word_responses.py::test_responses"),
    ByBlock("hw/dma_engine/completion/word_responses.py", "abandoned_rows[index].eq(0)", "abandoned_rows: 0 -> 1",
            "m.d.sync += abandoned_rows[index].eq(0)", "m.d.sync += abandoned_rows[index].eq(1)",
            f"{_COMPLETION}/test_word_responses.py::test_responses"),
    ByBlock("hw/dma_engine/completion/word_responses.py", "status.abandoned.eq((was.as_value()", "or inverted",
            "status.abandoned.eq((was.as_value() != 0) | has_abandoned)",
            "status.abandoned.eq(~((was.as_value() != 0) | has_abandoned))",
            f"{_COMPLETION}/test_word_responses.py::test_responses"),
    ByBlock("hw/dma_engine/completion/word_responses.py", "ids, opened, closed = Signal(", "no reset of $signal",
            "Signal(range(2 * config.queues + config.extended + 1)), Signal(2)",
            "Signal(range(2 * config.queues + config.extended + 1), init=-1), Signal(2)",
            f"{_COMPLETION}/test_word_responses.py::test_responses"),
    ByBlock("hw/dma_engine/completion/writer.py", "open_rc, open_sc =", "and -> or",
            'changed["sc"] & ~flying["sc"]', '(changed["sc"] | ~flying["sc"])',
            f"{_COMPLETION}/test_writer.py::test_no_word_outlives_its_epoch"),
    ByBlock("hw/dma_engine/control/epochs.py", "refused.eq(now.used.all() | hold | stale)", "or bit 0 of 1 stuck at 0",
            "refused.eq(now.used.all() | hold | stale)", "refused.eq(stale)",
            "tests/dma_engine/test_epochs.py::test_epochs_are_not_used_twice"),
    ByBlock("hw/dma_engine/control/epochs.py", "Mux(taken, window.tail, tail)", "values of a Mux exchanged",
            "Mux(taken, window.tail, tail), C(1", "Mux(taken, tail, window.tail), C(1",
            "tests/dma_engine/test_epochs.py::test_segments_end_one_after_the_other"),
    ByBlock("hw/dma_engine/frontend/queues.py", "(arrival.word.opcode == Opcode.SIGNAL) & ", "and -> or",
            "(arrival.word.opcode == Opcode.SIGNAL) & (arrival.word.length == SIGNAL_BYTES)",
            "((arrival.word.opcode == Opcode.SIGNAL) | (arrival.word.length == SIGNAL_BYTES))",
            "tests/dma_engine/frontend/test_queues.py::test_formats"),
    ByBlock("hw/dma_engine/frontend/queues.py", "extra.length_high.any()", "reduce_or -> reduce_and",
            "extra.length_high.any()", "extra.length_high.all()",
            "tests/dma_engine/frontend/test_queues.py::test_formats"),
    ByBlock("hw/dma_engine/frontend/scheduler.py", "aborting[index].eq(0)]",
            "branch of aborting taken if not a condition",
            "generations[index].eq(~generations[index]), aborting[index].eq(0)]\n",
            "generations[index].eq(~generations[index])]\n"
            "            with m.If(~((queue_heads.consume & here) | flushed)):\n"
            "                m.d.sync += aborting[index].eq(0)\n"
            "            with m.If((queue_heads.consume & here) | flushed):\n                pass\n",
            "tests/dma_engine/frontend/test_scheduler.py::test_random"),
    ByBlock("hw/dma_engine/frontend/shares.py", "charged & (queue == index) & now[-1]", "eq 1 -> 2",
            "(queue == index) & now", "(queue == (2 if index == 1 else index)) & now",
            "tests/dma_engine/test_shares.py::test_every_cost_counts"),
    ByBlock("hw/dma_engine/frontend/shares.py", "fresh[index].eq(0)", "fresh: 0 -> 1",
            "fresh[index].eq(0)", "fresh[index].eq(index == 3)",
            "tests/dma_engine/test_shares.py::test_every_cost_counts"),
    ByBlock("hw/dma_engine/instruments/counters.py", "fresh.eq(~holds)]", "not left out",
            "fresh.eq(~holds)]", "fresh.eq(holds)]", "tests/dma_engine/test_tally.py::test_tally"),
    ByBlock("hw/dma_engine/instruments/histogram.py", "~(valid & (item.queue == following))", "and -> or",
            "& (item.queue == following))\n                             & ~(writes",
            "& (item.queue == following))\n                             | ~(writes",
            "tests/dma_engine/test_tally.py::test_histogram"),
    ByBlock("hw/dma_engine/instruments/histogram.py", "& ~(writes & (had.queue == following))),",
            "not bit 0 of 1 stuck at 1", "\n                             & ~(writes & (had.queue == following))", "",
            "tests/dma_engine/test_tally.py::test_histogram"),
    ByBlock("hw/dma_engine/mover/aligner.py", "step, step_valid = Signal(", "register bit 0 of 83 stuck at 0",
            "opposite.eq(~self.steps.payload.shift)]", "opposite.eq(~self.steps.payload.shift), step.take.eq(0)]",
            "tests/dma_engine/mover/test_aligner.py::test_alignments"),
    ByBlock("hw/dma_engine/mover/aligner.py", "self.w_level.taken.eq(self.w.valid & self.w.ready)", "and inverted",
            "self.w_level.taken.eq(self.w.valid & self.w.ready)",
            "self.w_level.taken.eq(~(self.w.valid & self.w.ready))",
            "tests/dma_engine/mover/test_aligner.py::test_alignments"),
    ByBlock("hw/dma_engine/mover/sequencer.py", "self.words.urgent & between", "and inverted",
            "(self.words.urgent & between)", "~(self.words.urgent & between)",
            "tests/dma_engine/mover/test_sequencer.py::test_words_between_segments"),
    ByBlock("hw/dma_engine/rings/pointers.py", "(size > bit) | (bit < low)", "gt inverted",
            "(size > bit) |", "((size > bit) ^ (bit == 7)) |", "tests/dma_engine/rings/test_pointers.py::test_entries"),
    ByBlock("hw/regs/bank.py", "partial.eq(Cat(pulses).any() & ~strb.all())", "and bit 0 of 1 stuck at 1",
            "partial.eq(Cat(pulses).any() & ~strb.all())", "partial.eq(1)",
            "tests/regs/test_bank.py::test_write_and_read_back"),
    ByBlock("hw/common/doorbell.py", "tails.valid.eq(offers & is_tail)", "and inverted",
            "tails.valid.eq(offers & is_tail)", "tails.valid.eq(~(offers & is_tail))",
            "tests/common/test_doorbell.py::test_random"),
    ByBlock("hw/dma_engine/completion/notices.py", "- (behind.o.valid & behind.o.ready & behind.o.payload.urgent))",
            "and -> or", "- (behind.o.valid & behind.o.ready & behind.o.payload.urgent))",
            "- ((behind.o.valid & behind.o.ready) | behind.o.payload.urgent))",
            f"{_COMPLETION}/test_notices.py::test_urgent"),
    ByBlock("hw/dma_engine/rings/lifecycle.py", '"driven": Out(rings)', "no reset of driven",
            '"driven": Out(rings),', '"driven": Out(rings, init=3),',
            f"{_RINGS}::test_a_ring_drives_its_queue_until_reset"),
    ByBlock("hw/dma_engine/rings/lifecycle.py", "expected.eq(self.awaited.some", "and -> or",
            "bit_select(ring, 1) & ~beat", "bit_select(ring, 1) | ~beat",
            f"{_RINGS}::test_beats_of_expected_descriptors_pass"),
    ByBlock("hw/dma_engine/completion/retire.py", "& ~tries.bit_select(done.queue, 1)", "shift bit 0 of 1 stuck at 0",
            "& ~self.ablation.every_word & ~tries.bit_select(done.queue, 1)", "& ~self.ablation.every_word",
            f"{_COMPLETION}/test_retire.py::test_random"),
    ByBlock("hw/dma_engine/rings/buffer.py", "rows.several[index].eq(Mux(taken, after > 2", "values of a Mux exchanged",
            "Mux(taken, after > 2, after > 1)", "Mux(taken, after > 1, after > 2)",
            "tests/dma_engine/rings/test_buffer.py::test_rows"),
    ByBlock("hw/dma_engine/control/frontpanel.py", '"waiting": self.occupancy.ready', "or -> and",
            "self.occupancy.ready | self.occupancy.more", "self.occupancy.ready & self.occupancy.more",
            "tests/dma_engine/test_control.py::test_queue_control"),
    ByBlock("hw/ace/decoder.py", "status.eq(found)", "branch of status taken if not a condition",
            "with m.If(uses[side] & checked[side] & (found != Status.OK)):",
            "with m.If(~(uses[side] & checked[side] & (found != Status.OK))):",
            "tests/ace/command_path/test_refusals.py::test_refusals"),
    ByBlock("hw/ace/decoder.py", "where = (word.root >> shifts[number])", "gt inverted",
            "Cat(width > bit for bit in range(len(word.root)))",
            "Cat((width > bit) ^ (bit == 1) for bit in range(len(word.root)))",
            "tests/ace/command_path/test_decoder.py::test_collectives"),
    ByBlock("hw/ace/decoder.py", "beyond.eq(first_row + shape.ranks", "add -> sub",
            "beyond.eq(first_row + shape.ranks > config", "beyond.eq(first_row - shape.ranks > config",
            "tests/ace/command_path/test_refusals.py::test_refusals"),
    ByBlock("hw/ace/link/state.py", "state.eq(LinkState.START)", "session__state: 1 -> 2",
            "m.d.sync += state.eq(LinkState.START)", "m.d.sync += state.eq(LinkState.START.value + 1)",
            "tests/ace/link/test_sessions.py::test_a_port_that_software_starts_is_down_before"),
    ByBlock("hw/ace/link/window.py", "self.progress.eq(self.received_valid", "and inverted",
            "self.progress.eq(self.received_valid & self.recent & ~beyond & _differ(self.ack, peer))",
            "self.progress.eq(~(self.received_valid & self.recent & ~beyond & _differ(self.ack, peer)))",
            "tests/formal/test_link.py::test_window"),
    ByBlock("hw/ace/transmit.py", "inside.eq(~known.last)", "not left out",
            "inside.eq(~known.last)", "inside.eq(known.last)", "tests/ace/test_transmit.py::test_transmit"),
    *(ByBlock(*entry) for entry in ACE),
]


def block_test(mutant: Mutant, entries: Iterable[ByBlock] | None = None) -> ByBlock | None:
    """The entry of a mutant, or None."""
    code = line_of(mutant)
    for entry in BLOCKS if entries is None else entries:
        if entry.file == mutant.file and entry.code in code and entry.change == mutant.change:
            return entry
    return None


def finds(entry: ByBlock) -> bool:
    """Whether the test fails with the change. Raises RuntimeError if it could not run."""
    result = run_changed("mutant", entry.changed or entry.file, entry.old, entry.new, entry.test, "--seed", SEED)
    if result.returncode not in (0, 1):
        raise RuntimeError(f"{entry.test} did not run with the change of {entry.code!r}:\n{result.stdout[-3000:]}")
    return result.returncode == 1
