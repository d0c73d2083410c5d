# SPDX-License-Identifier: Apache-2.0
"""Packets that are to be sent and wait for the line.

Sender -> SendBuffer -> buffers.  Latency: 1 cycle.  Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature

from ...config import RdmaConfig
from ...layouts import send_layout
from .ports import IndexLookup

__all__ = ["SendBuffer"]

_DEPTH, _STAGES = 8, 3


class SendBuffer(wiring.Component):
    """A queue in registers that can be searched, so that no packet retires before it has been sent.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    i : ``In(EventSignature(send_layout))``
        At most three packets follow a cycle in which ``go`` is clear.
    go : ``Out(1)``
    o : ``Out(stream.Signature(send_layout))``
    lookup : ``In(IndexLookup)``
        A packet is found from the cycle after it came until it has left.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        send = send_layout(config)
        super().__init__({"i": In(EventSignature(send)), "go": Out(1), "o": Out(stream.Signature(send)),
                          "lookup": In(IndexLookup(config))})

    def elaborate(self, platform):
        m = Module()
        layout = send_layout(self.config)
        rows = [Signal(layout, name=f"row_{number}", reset_less=True) for number in range(_DEPTH)]
        valid = Signal(_DEPTH)
        taken, free = Signal(), Signal(range(_DEPTH + 1), init=_DEPTH)
        m.d.comb += [
            self.o.valid.eq(valid[0]), self.o.payload.eq(rows[0]), taken.eq(valid[0] & self.o.ready),
            self.lookup.found.eq(Cat(one & (row.index == self.lookup.index)
                                     for one, row in zip(valid, rows, strict=True)).any()),
        ]
        # The rows move towards row 0; a new one goes to the first that is then free.
        for number, row in enumerate(rows):
            here, before = valid[number], valid[number - 1] if number else C(1, 1)
            after = valid[number + 1] if number + 1 < _DEPTH else C(0, 1)
            with m.If(taken):
                m.d.sync += valid[number].eq(after | (here & self.i.valid))
                m.d.sync += Value.cast(row).eq(Mux(after, Value.cast(rows[min(number + 1, _DEPTH - 1)]),
                                                   Value.cast(self.i.payload)))
            with m.Elif(self.i.valid & before & ~here):
                m.d.sync += [valid[number].eq(1), row.eq(self.i.payload)]
        # As of the cycle before: a packet that comes now and those of three visits that have begun must fit.
        with m.If(self.i.valid & ~taken):
            m.d.sync += free.eq(free - 1)
        with m.Elif(taken & ~self.i.valid):
            m.d.sync += free.eq(free + 1)
        m.d.sync += self.go.eq(free > _STAGES + 1)
        return m
