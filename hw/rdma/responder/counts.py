# SPDX-License-Identifier: Apache-2.0
"""Event strobes of the responder, for the registers.

PacketOrder, Replies, Completion, ReadResponses -> CountStrobes -> registers.  Latency: 0.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .order import OrderCounts

__all__ = ["CountStrobes", "ResponderCounts"]


class ResponderCounts(wiring.Signature):
    """Strobes: a request was executed, was a duplicate, was beyond a gap, had a wrong key, range or right, was invalid,
    or met a full ring of records; a packet was sent; a response of memory without a request was dropped."""

    def __init__(self) -> None:
        super().__init__({**OrderCounts().members, "sent": Out(1), "unexpected": Out(1)})


class CountStrobes(wiring.Component):
    """Collect the strobes.

    Members
    -------
    order : ``In(OrderCounts)``
    sent, responses, beats : ``In(1)``
        A packet was sent; a response, or a beat, of memory was dropped. Two of these in one cycle count as one.
    counts : ``Out(ResponderCounts)``
    """

    def __init__(self) -> None:
        super().__init__({"order": In(OrderCounts()), "sent": In(1), "responses": In(1), "beats": In(1),
                          "counts": Out(ResponderCounts())})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            *(getattr(self.counts, name).eq(getattr(self.order, name)) for name in OrderCounts().members),
            self.counts.sent.eq(self.sent), self.counts.unexpected.eq(self.responses | self.beats),
        ]
        return m
