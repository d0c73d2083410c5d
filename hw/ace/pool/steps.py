# SPDX-License-Identifier: Apache-2.0
"""Access of the FSMs to their programs: one word per cycle, its positions converted to beats.

Fsm -> ProgramSteps -> Programs -> ProgramSteps -> Fsm.  Latency: 4 cycles from a request to its word.  Throughput: one
step per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import PhaseLayout, SendLayout, through_layout
from hw.ace.programs.store import ProgramRead
from hw.stream import RoundRobin, selected

from .fsm_ports import FsmChunk, StepKind, StepPort, fetched_layout

__all__ = ["PhaseEntered", "ProgramSteps"]


class PhaseEntered(wiring.Signature):
    """The FSM that received the latest word, and the port of its phase: registered, for GRANTs that arrived before.

    Both are those of an FSM in the cycle in which it asserts ``entered``.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"fsm": Out(config.fsm_bits), "port": Out(config.port_bits)})


class ProgramSteps(wiring.Component):
    """Serve the FSMs' requests in turn: words of programs, and ends of chunks.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    requests : ``In(StepPort).array(fsms)``, held : ``In(FsmChunk).array(fsms)``
    program : ``Out(ProgramRead)``
    done : ``Out(stream.Signature(through_layout))``
        Slots whose chunk has completed its phases, or has only the last receive before it.
    entered : ``Out(PhaseEntered)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "requests": In(StepPort(config)).array(config.fsms), "held": In(FsmChunk(config)).array(config.fsms),
            "program": Out(ProgramRead(config)), "done": Out(stream.Signature(through_layout(config))),
            "entered": Out(PhaseEntered(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.turn = turn = RoundRobin(config.fsms, marks=True)
        kinds = Array(request.kind for request in self.requests)
        slots, pieces = (Array(getattr(held, name) for held in self.held) for name in ("slot", "piece_beats"))
        finishing, taken = Signal(), Signal()
        m.d.comb += [
            turn.requests.eq(Cat(request.valid for request in self.requests)),
            turn.marks.eq(Cat((request.kind == StepKind.FINISH) | (request.kind == StepKind.PART)
                              for request in self.requests)),
            finishing.eq(turn.marked),
            self.program.valid.eq(turn.valid & ~finishing),
            self.program.address.eq(selected(
                config.program_bits, turn.grant_onehot, [request.address for request in self.requests])),
            self.done.valid.eq(turn.valid & finishing),
            self.done.payload.slot.eq(slots[turn.grant]),
            self.done.payload.part.eq(kinds[turn.grant] == StepKind.PART),
            taken.eq(Mux(finishing, self.done.valid & self.done.ready, self.program.valid & self.program.ready)),
            turn.advance.eq(taken),
        ]

        # Read; the word; products; delivered.
        query = data.StructLayout({
            "fsm": config.fsm_bits, "is_send": 1, "slot": config.slot_bits, "piece": config.chunk_beat_bits + 1})
        valid = Signal(3)
        first, second, third = (Signal(query, name=name, reset_less=True) for name in ("first", "second", "third"))
        word = Signal(PhaseLayout.size, reset_less=True)
        phase, send = data.View(PhaseLayout, word), data.View(SendLayout, word[:SendLayout.size])
        fetched = Signal(fetched_layout(config), reset_less=True)
        m.d.sync += [
            valid.eq(Cat(taken & ~finishing, valid[:-1])),
            first.fsm.eq(turn.grant), first.is_send.eq(kinds[turn.grant] == StepKind.SEND),
            first.slot.eq(slots[turn.grant]), first.piece.eq(pieces[turn.grant]),
            second.eq(first), third.eq(second),
            word.eq(self.program.word),
            fetched.port.eq(phase.port), fetched.sends.eq(phase.sends), fetched.receives.eq(phase.receives),
            fetched.granted.eq(phase.granted), fetched.both.eq(phase.both), fetched.span.eq(phase.span * second.piece),
            fetched.source.eq((second.slot << config.chunk_beat_bits) + send.source * second.piece),
            fetched.target.eq(send.target * second.piece),
            fetched.need.eq(send.need), fetched.grants.eq(send.grants), fetched.reduce.eq(send.reduce),
            fetched.back.eq(send.back), fetched.local.eq(send.local),
            fetched.ahead.eq(send.next.any()), fetched.next.eq(send.next - 1), fetched.next_both.eq(send.next_both),
            self.entered.fsm.eq(third.fsm), self.entered.port.eq(fetched.port),
        ]
        for number, request in enumerate(self.requests):
            arrived = valid[2] & (third.fsm == number)
            m.d.comb += [
                request.ready.eq(taken & turn.grant_onehot[number]), request.fetched.eq(fetched),
                request.send_valid.eq(arrived & third.is_send), request.phase_valid.eq(arrived & ~third.is_send),
            ]
        return m
