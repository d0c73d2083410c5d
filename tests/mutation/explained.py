# SPDX-License-Identifier: Apache-2.0
"""Mutants that survive the fast set, and why.

An entry names the file, the text of the source line, and the change, so that it remains valid when lines move. Reasons
are ``equivalent``: no input of the engine makes a difference, which the proof of the module alone does not see;
``performance``: the same results, later; ``unseen``: no run of the fast set has the case, and which other test has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.operators import Mutant

__all__ = ["EXPLAINED", "Explained", "explanation", "line_of"]

ROOT = Path(__file__).resolve().parents[2]

REASONS = ("equivalent", "performance", "unseen")


@dataclass(frozen=True)
class Explained:
    """A survivor: ``code`` is part of its source line, ``change`` is :attr:`Mutant.change`."""

    file: str
    code: str
    change: str
    reason: str
    why: str


EXPLAINED = [
    Explained("hw/dma_engine/control/totals.py", "turn, at = Signal", "no reset of $signal", "equivalent",
              "The rotation may begin anywhere, and the row at hand is replaced in each cycle."),
    Explained("hw/dma_engine/rings/expand.py", "began, outside, sums = Signal()", "no reset of $signal", "equivalent",
              "`began` is assigned in every cycle, and no descriptor arrives in the first one after a reset."),
    Explained("hw/dma_engine/frontend/scheduler.py", "self.scheduled.beyond.eq(", "and bit 0 of 1 stuck at 1",
              "performance", "`shares` charges a queue with a beat too many or too few for an unaligned segment."),
    Explained("hw/dma_engine/frontend/scheduler.py", "~(ahead[-1] & segment.first) & ~segment.request.signal",
              "not bit 0 of 1 stuck at 1", "performance",
              "`shares` charges a queue with a beat too many for a signal."),
    Explained("hw/dma_engine/rings/records.py", "~end | ~self.o.valid | self.o.ready", "not bit 0 of 1 stuck at 0",
              "performance", "A notice without a record waits for the record before it."),
    Explained("hw/dma_engine/instruments/histogram.py", "now = Signal(TIME_WIDTH)", "register bit 31 of 32 stuck at 0",
              "unseen", "The bit is set after 2^31 cycles."),
    Explained("hw/dma_engine/completion/retire.py", "two_kind, two_status = Signal", "no reset of op_status",
              "equivalent",
              "A status is read only with an operation."),
    Explained("hw/dma_engine/completion/writer.py", "queue = Signal(config.queue_bits)", "no reset of queue",
              "equivalent", "Assigned in every cycle without a chosen word, and read only with one."),
    Explained("hw/dma_engine/control/control.py", "stopped = Signal()", "no reset of stopped", "equivalent",
              "Assigned in the first cycle after a reset, and read two cycles later."),
    Explained("hw/dma_engine/control/epochs.py", "outstanding, started, walking, clean", "no reset of $signal",
              "equivalent", "`outstanding` is assigned by the first scan, which precedes every request to abandon."),
    Explained("hw/dma_engine/control/moderation.py", "waiting, waited = Signal", "no reset of waited", "equivalent",
              "Assigned in every cycle; no event can have arrived in the first one, and both limits are 0 then."),
    Explained("hw/dma_engine/control/moderation.py", "less = Signal", "no reset of an unnamed signal", "equivalent",
              "`less` is assigned in every cycle, and nothing waits in the first one."),
    Explained("hw/dma_engine/control/quiesce.py", "requested, changed, draining", "no reset of $signal", "equivalent",
              "A change of the phase directly after a reset, while nothing is in flight: each phase is as good."),
    Explained("hw/dma_engine/frontend/shares.py", "charged, queue = Signal()", "no reset of scheduled__valid",
              "equivalent",
              "A charge in the first cycle after a reset: the sweep writes the row instead, and all queues are fresh."),
    Explained("hw/dma_engine/mover/aligner.py", "opposite = Signal.like(step.shift)", "no reset of opposite",
              "equivalent", "Assigned with each step, and read only with one."),
    Explained("hw/dma_engine/mover/sequencer.py", "behind, ends = Signal", "no reset of behind", "equivalent",
              "Assigned when a segment begins, and read only while one is active."),
    Explained("hw/dma_engine/rings/buffer.py", '"several": In(config.extended)', "no reset of rows__several",
              "equivalent",
              "Assigned in every cycle, and no descriptor can have arrived in the first one."),
    Explained("hw/dma_engine/rings/buffer.py", "count.eq(Mux(taken, after - 1, after))", "mux bit 5 of 6 stuck at 0",
              "equivalent", "`count` has five bits: the sixth is discarded."),
    Explained("hw/dma_engine/rings/expand.py", "left = Signal(range(VISIT))", "no reset of left", "equivalent",
              "Assigned when a descriptor is read, before words of it are emitted."),
    Explained("hw/dma_engine/rings/expand.py", "now, after, kept = Signal", "no reset of kept", "equivalent",
              "Read only if `began`, which is set together with it."),
    Explained("hw/ace/drain.py", "taken = responses.valid & responses.ready", "and inverted", "equivalent",
              "That of `words.done`, which the engine does not read."),
    Explained("hw/ace/link/sender.py", "m.d.sync += self.signals.free.eq(signals.level < SIGNALS - 2)", "lt 30 -> 31",
              "performance", "A GRANT may wait for an entry at the link instead of in its FSM."),
    Explained("hw/ace/decoder.py", "behind[number].eq(coordinate < where), ahead", "lt -> le", "equivalent",
              "The role of an equal coordinate depends on `same` alone."),
    Explained("hw/ace/faults.py", "super().__init__({", "no reset of shown__state", "equivalent",
              "Assigned within two cycles, long before software can read it."),
    Explained("hw/ace/pool/grants.py", "came, valid = Signal(grant_layout", "no reset of grant__valid", "equivalent",
              "A GRANT that is stored then is cleared when the communicator of its FSM is opened."),
    Explained("hw/ace/pool/signals.py", "free.eq(~valid | self.o.ready)", "not bit 0 of 1 stuck at 0", "performance",
              "A GRANT leaves its FSM only when the link accepts one, although the register is empty."),
    Explained("hw/ace/chunker.py", "downward = Signal(config.communicators)", "no reset of downward", "equivalent",
              "Cleared at the first chunk of each collective."),
    Explained("hw/ace/pool/signals.py", "signal, valid, free = Signal(", "register bit 50 of 51 stuck at 1",
              "equivalent", "`reduce` of the header, which has no meaning in a GRANT."),
    Explained("hw/ace/link/receiver.py", "valid = Signal()", "no reset of rx__valid", "unseen",
              "The last beat before `rst` counts again, as that of a duplicate would: no run has traffic on a link "
              "in the cycle of `rst`."),
    Explained("hw/ace/communicator_status.py", "kept.ports[number].eq(write.mode.ports), kept", "$signal: 0 -> 1",
              "equivalent", "The status of an open communicator is not read; its end replaces it."),
    Explained("hw/axi/signature.py", '"rid": In(id_width)', "no reset of bus__rid", "equivalent",
              "Assigned together with `rvalid`."),
    Explained("hw/ace/chunker.py", "mine = Signal(config.slot_bits)", "mine: 0 -> 1", "equivalent",
              "Read only in the state that assigns it."),
    Explained("hw/ace/communicators.py", "share.slot_first + (sequence &", "add bit 16 of 17 stuck at 1",
              "equivalent", "The sum is cut to the bits of a slot."),
    Explained("hw/ace/decoder.py", "header = Signal(HeaderLayout", "register bit 42 of 43 stuck at 0", "equivalent",
              "A field that only the chunk path reads."),
    Explained("hw/ace/link/sender.py", "first_choice = offered & may", "and bit 1 of 2 stuck at 0", "equivalent",
              "Only the other bit of this result is read."),
]


def line_of(mutant: Mutant) -> str:
    """The source line of a mutant, without indentation; an empty string if the file has no such line."""
    path, _, number = mutant.source.rpartition(":")
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""


def explanation(mutant: Mutant, entries: Iterable[Explained] | None = None) -> Explained | None:
    """The entry of a mutant, or None."""
    code = line_of(mutant)
    for entry in EXPLAINED if entries is None else entries:
        if entry.file == mutant.file and entry.code in code and entry.change == mutant.change:
            return entry
    return None
