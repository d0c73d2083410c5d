# SPDX-License-Identifier: Apache-2.0
"""Which queue pairs accept requests, and which send responses.

registers, PacketOrder, RegionRecheck, Completion, Replies -> QueuePairStates -> all stages that drop.  Latency: 1
cycle.  Throughput: one event of each kind per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import RdmaConfig
from ..ports import ConnectionWrite, MarkSignature, StopSignature

__all__ = ["QueuePairStates", "StateRead"]


class StateRead(wiring.Signature):
    """A bit of queue pair ``qp``, of the reader: in the same cycle."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": Out(config.qp_bits), "bit": In(1)})


class QueuePairStates(wiring.Component):
    """Bits in registers, cleared by ``rst``.

    A queue pair accepts requests and sends responses from ``opened``, unless it was closed or stopped meanwhile. It
    accepts no more from the first error, and sends no more when the NAK of this error has left. Both end when it is
    closed or stopped.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    connections : ``In(ConnectionWrite)``, stop : ``In(StopSignature)``
    opened : ``In(MarkSignature)``
        The opening has passed all earlier requests.
    errors : ``In(MarkSignature).array(3)``
        A request is refused.
    failed : ``In(MarkSignature)``
        The NAK of an error has left.
    accepting : ``In(StateRead)``, active : ``In(StateRead).array(3)``
    opening : ``In(StateRead)``, settled : ``In(MarkSignature)``
        The opening is in progress, until ``settled``.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "connections": In(ConnectionWrite(config)), "stop": In(StopSignature(config)),
            "opened": In(MarkSignature(config)), "errors": In(MarkSignature(config)).array(3),
            "failed": In(MarkSignature(config)), "settled": In(MarkSignature(config)),
            "accepting": In(StateRead(config)), "active": In(StateRead(config)).array(3),
            "opening": In(StateRead(config)),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.queue_pairs
        accepting, active, wanted, opening = (Signal(count, name=name)
                                              for name in ("accepting", "active", "wanted", "opening"))
        # Later statements take precedence: a close over an opening.
        with m.If(self.opened.valid):
            on = wanted.bit_select(self.opened.qp, 1)
            m.d.sync += [accepting.bit_select(self.opened.qp, 1).eq(on), active.bit_select(self.opened.qp, 1).eq(on)]
        for event in (*self.errors, self.failed, self.stop):
            with m.If(event.valid):
                m.d.sync += accepting.bit_select(event.qp, 1).eq(0)
        for event in (self.failed, self.stop):
            with m.If(event.valid):
                m.d.sync += [active.bit_select(event.qp, 1).eq(0), wanted.bit_select(event.qp, 1).eq(0)]
        with m.If(self.settled.valid):
            m.d.sync += opening.bit_select(self.settled.qp, 1).eq(0)
        with m.If(self.connections.valid):
            at = self.connections.qp
            m.d.sync += wanted.bit_select(at, 1).eq(self.connections.entry.open)
            with m.If(self.connections.entry.open):
                m.d.sync += opening.bit_select(at, 1).eq(1)
            with m.Else():
                m.d.sync += [accepting.bit_select(at, 1).eq(0), active.bit_select(at, 1).eq(0)]
        for bits, readers in ((accepting, (self.accepting,)), (active, self.active), (opening, (self.opening,))):
            for reader in readers:
                m.d.comb += reader.bit.eq(bits.bit_select(reader.qp, 1))
        return m
