# SPDX-License-Identifier: Apache-2.0
"""Proofs of the queue between clock domains, for all clocks and resets: in a step, each domain has an edge or not.

They end before the handshake after a reset does; what follows it is simulated, in ``test_async_queue.py``.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cover, DomainRenamer, EnableInserter, Format, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.stream import AsyncQueue
from tests.harness.formal import prove

pytestmark = [pytest.mark.formal, pytest.mark.soak]

START = 16
"""Steps with an edge in both domains until the handshake at the start is complete; what follows is free."""


class Marked(wiring.Component):
    """One item, chosen freely, has a mark: it comes out at most once, and not after a reset of both sides.

    ``reached`` states that it may arrive.
    """

    valid: In(1)
    mark: In(1)
    ready: In(1)
    edges: In(2)
    resets: In(2)

    def __init__(self, queue, *, reached=False):
        self.queue, self.reached = queue, reached
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        queue, (write, read) = self.queue, self.edges
        domains = DomainRenamer({"write": "sync", "read": "sync"})
        m.submodules.queue = domains(EnableInserter({"write": write, "read": read})(
            ResetInserter({"write": self.resets[0], "read": self.resets[1]})(queue)))
        sent, arrived, ended = (Signal(name=name) for name in ("sent", "arrived", "ended"))
        in_reset, start = Signal(2, name="in_reset"), Signal(range(START + 1), name="start")
        m.d.sync += Assume(self.edges.any())
        with m.If(start != START):
            m.d.sync += [start.eq(start + 1), Assume(self.edges.all() & ~self.resets.any() & ~self.valid)]
        push, pop = Signal(name="push"), Signal(name="pop")
        m.d.comb += [
            queue.i.valid.eq(self.valid), queue.i.payload.eq(self.mark & ~sent), queue.o.ready.eq(self.ready),
            push.eq(write & queue.i.valid & queue.i.ready), pop.eq(read & queue.o.valid & queue.o.ready),
        ]
        # A domain is in reset from an edge in reset to one that is not.
        for domain, edge in enumerate((write, read)):
            with m.If(edge):
                m.d.sync += in_reset[domain].eq(self.resets[domain])
        with m.If(push & queue.i.payload):
            m.d.sync += sent.eq(1)
        with m.If(in_reset.all() & sent):
            m.d.sync += ended.eq(1)
        with m.If(pop & queue.o.payload):
            m.d.sync += [
                arrived.eq(1), Assert(sent, Format("an item is from nowhere")),
                Assert(~arrived, Format("an item came out twice")),
                Assert(~ended, Format("an item is from before the resets")),
            ]
        if self.reached:
            with m.If(arrived):
                m.d.sync += Cover(sent)
        return m


def test_marked_item():
    prove(Marked(AsyncQueue(1, depth=4)), name="async-queue", depth=START + 15)


def test_marked_item_arrives():
    prove(Marked(AsyncQueue(1, depth=4), reached=True), name="async-queue-reached", depth=START + 10, mode="cover")
