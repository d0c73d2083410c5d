"""Communicators that have work and do not get on with it.

Operations, pool, receive, chunker -> Watchdog -> Faults.  Latency: from once to twice the set time.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Watchdog"]


class Watchdog(wiring.Component):
    """Look from time to time who has work and has made no progress since the last look.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    cycles : ``In(32)``
        From one look to the next; 0 for never.
    work : ``In(communicators)``, progress : ``In(communicators)``
    late : ``Out(communicators)``
        Until there is no work, or some progress.
    """

    def __init__(self, config):
        count = config.communicators
        super().__init__({"cycles": In(32), "work": In(count), "progress": In(count), "late": Out(count)})

    def elaborate(self, platform):
        m = Module()
        left, idle = Signal(32), Signal(len(self.work))     # without progress since the last look
        look = Signal()
        m.d.comb += look.eq(left == 0)
        m.d.sync += [
            left.eq(Mux(look, self.cycles, left) - (self.cycles != 0)),
            idle.eq(Mux(look, ~0, idle) & self.work & ~self.progress),
            self.late.eq((self.late | Mux(look & (self.cycles != 0), idle, 0)) & self.work & ~self.progress),
        ]
        return m
