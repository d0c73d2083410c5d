# SPDX-License-Identifier: Apache-2.0
"""Queue pairs that wait for service, each once, in the order of their requests for it.

Latency: 2 cycles.  Throughput: one addition and one removal per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue

from ..config import RdmaConfig

__all__ = ["QueuePairList"]


class QueuePairList(wiring.Component):
    """A queue pair that is added while it is listed is not listed twice.

    Parameters
    ----------
    config : RdmaConfig
    sources : int
        Inputs, the first of which has priority.

    Members
    -------
    add : ``In(stream.Signature(qp)).array(sources)``
    o : ``Out(stream.Signature(qp))``
    """

    def __init__(self, config: RdmaConfig, sources: int) -> None:
        self.config, self.sources = config, sources
        shape = stream.Signature(unsigned(config.qp_bits))
        super().__init__({"add": In(shape).array(sources), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        count = self.config.queue_pairs
        m.submodules.queue = queue = Queue(unsigned(self.config.qp_bits), depth=2 * count, empty_bypass=True)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        # The chosen addition waits in a register, so that the look-up of its bit starts there.
        listed, chosen, valid, leaves = Signal(count), Signal(self.config.qp_bits), Signal(), Signal()
        m.d.comb += leaves.eq(self.o.valid & self.o.ready)
        m.d.sync += valid.eq(Cat(one.valid for one in self.add).any())
        taken = C(0, 1)
        for one in self.add:
            m.d.comb += one.ready.eq(~taken)
            with m.If(one.valid & ~taken):
                m.d.sync += chosen.eq(one.payload)
            taken = taken | one.valid
        m.d.comb += [
            queue.i.payload.eq(chosen),
            queue.i.valid.eq(valid & (~listed.bit_select(chosen, 1) | (leaves & (self.o.payload == chosen)))),
        ]
        with m.If(leaves):
            m.d.sync += listed.bit_select(self.o.payload, 1).eq(0)
        with m.If(valid):
            m.d.sync += listed.bit_select(chosen, 1).eq(1)
        return m
