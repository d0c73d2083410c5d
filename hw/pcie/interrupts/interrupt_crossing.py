# SPDX-License-Identifier: Apache-2.0
"""Interrupts of queues from the engine's clock domain to that of the adapter.

Endpoint -> InterruptCrossing -> InterruptVectors.  Latency: 2 cycles of the engine's clock, then that of
:class:`AsyncQueue`.  Throughput: a queue per cycle of the slower clock and strobe, less if that is below a quarter of
the other one; until then, requests wait.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.interrupts import QueueInterruptsSignature
from hw.stream import AsyncQueue, RoundRobin

__all__ = ["InterruptCrossing", "QueueCrossing"]

DEPTH = 4


class QueueCrossing(wiring.Component):
    """One strobe with the number of a queue.

    A queue waits until its number has left for the other domain. Strobes of a queue that waits coalesce with the one
    that it waits for; each other strobe appears on the other side, whatever the clocks.

    Parameters
    ----------
    queue_bits : int
    i_domain, o_domain : str
        Clock domains.

    Members
    -------
    valid : ``In(1)``, queue : ``In(queue_bits)``
        In ``i_domain``: strobe.
    o_valid : ``Out(1)``, o_queue : ``Out(queue_bits)``
        In ``o_domain``: strobe. Registered.
    """

    def __init__(self, queue_bits: int, *, i_domain: str, o_domain: str) -> None:
        self.queue_bits, self.i_domain, self.o_domain = queue_bits, i_domain, o_domain
        super().__init__({
            "valid": In(1), "queue": In(queue_bits), "o_valid": Out(1), "o_queue": Out(queue_bits),
        })

    def elaborate(self, platform):
        m = Module()
        choice = RoundRobin(1 << self.queue_bits)
        m.submodules.choice = DomainRenamer(self.i_domain)(choice)
        m.submodules.numbers = numbers = AsyncQueue(
            self.queue_bits, depth=DEPTH, write_domain=self.i_domain, read_domain=self.o_domain)
        waiting, added = Signal(1 << self.queue_bits), Signal(1 << self.queue_bits)
        held, number, free = Signal(), Signal(self.queue_bits), Signal()
        m.d.comb += [
            added.eq(self.valid << self.queue), free.eq(~held | numbers.i.ready),
            choice.requests.eq(waiting), choice.advance.eq(free),
            numbers.i.valid.eq(held), numbers.i.payload.eq(number),
            self.o_valid.eq(numbers.o.valid), self.o_queue.eq(numbers.o.payload), numbers.o.ready.eq(1),
        ]
        m.d[self.i_domain] += waiting.eq(waiting & ~Mux(free, choice.grant_onehot, 0) | added)
        with m.If(free):
            m.d[self.i_domain] += [held.eq(choice.valid), number.eq(choice.grant)]
        return m


class InterruptCrossing(wiring.Component):
    """Both strobes of :class:`QueueInterruptsSignature`, each by a :class:`QueueCrossing`.

    Parameters
    ----------
    queue_bits : int
    i_domain, o_domain : str
        Clock domains.

    Members
    -------
    i : ``In(QueueInterruptsSignature)``, o : ``Out(QueueInterruptsSignature)``
    """

    def __init__(self, queue_bits: int, *, i_domain: str, o_domain: str) -> None:
        self.queue_bits, self.i_domain, self.o_domain = queue_bits, i_domain, o_domain
        signature = QueueInterruptsSignature(queue_bits)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        for name in ("written", "completed"):
            m.submodules[name] = part = QueueCrossing(self.queue_bits, i_domain=self.i_domain, o_domain=self.o_domain)
            source, sink = getattr(self.i, name), getattr(self.o, name)
            m.d.comb += [part.valid.eq(source.valid), part.queue.eq(source.queue),
                         sink.valid.eq(part.o_valid), sink.queue.eq(part.o_queue)]
        return m
