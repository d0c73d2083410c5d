# SPDX-License-Identifier: Apache-2.0
"""GRANTs, ABORTs and counts of the pipes, for stages that take one at a time.

Receive -> PipeMerge -> FSM pool, supervision, counters.  Latency: none for GRANTs, 1 cycle for ABORTs and counts.
Throughput: one GRANT and one ABORT per cycle; the other pipes stall.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.stream import RoundRobin, selected

from .config import AceConfig
from .layouts import abort_layout
from .receive import ReceiveCounts, received_grant_layout
from .watchdog import ProgressSignature

__all__ = ["AbortReceived", "GrantReceived", "PipeMerge"]


class GrantReceived(EventSignature):
    """A GRANT of the current epoch was received at ``payload.port``. Driven by PipeMerge for the pool."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(received_grant_layout(config))


class AbortReceived(EventSignature):
    """An ABORT of the current epoch was received: registered by PipeMerge, for Faults."""

    def __init__(self) -> None:
        super().__init__(abort_layout())


class PipeMerge(wiring.Component):
    """GRANTs and ABORTs of the pipes in turn, so that each pipe waits for at most one of every other; counts are added.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    grants : ``In(stream.Signature(received_grant_layout)).array(pipes)``, grant : ``Out(GrantReceived)``
    aborts : ``In(stream.Signature(abort_layout)).array(pipes)``, abort : ``Out(AbortReceived)``
    progresses : ``In(ProgressSignature).array(pipes)``, progress : ``Out(ProgressSignature)``
    counts : ``In(ReceiveCounts).array(pipes)``, total : ``Out(ReceiveCounts(pipes))``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        pipes = config.pipes
        super().__init__({
            "grants": In(stream.Signature(received_grant_layout(config))).array(pipes),
            "grant": Out(GrantReceived(config)),
            "aborts": In(stream.Signature(abort_layout())).array(pipes), "abort": Out(AbortReceived()),
            "progresses": In(ProgressSignature(config)).array(pipes), "progress": Out(ProgressSignature(config)),
            "counts": In(ReceiveCounts()).array(pipes), "total": Out(ReceiveCounts(pipes)),
        })

    def elaborate(self, platform):
        m = Module()
        self._choose(m, "grant_turn", self.grants, m.d.comb, self.grant)
        self._choose(m, "abort_turn", self.aborts, m.d.sync, self.abort)
        communicators = 0
        for progress in self.progresses:
            communicators |= progress.communicators
        m.d.comb += self.progress.communicators.eq(communicators)
        for name in self.total.signature.members:
            m.d.sync += getattr(self.total, name).eq(sum(getattr(count, name) for count in self.counts))
        return m

    def _choose(self, m, name, pipes, domain, event):
        m.submodules[name] = turn = RoundRobin(self.config.pipes)
        m.d.comb += [turn.requests.eq(Cat(pipe.valid for pipe in pipes)), turn.advance.eq(1),
                     *(pipe.ready.eq(one) for pipe, one in zip(pipes, turn.grant_onehot, strict=True))]
        domain += [event.valid.eq(turn.valid), event.payload.eq(selected(
            event.payload.shape(), turn.grant_onehot, [pipe.payload for pipe in pipes]))]
