# SPDX-License-Identifier: Apache-2.0
"""The sender of messages: requests of interrupts become pending, and one pending vector at a time is sent.

requests -> MessageSender -> write path.  Latency: 4 cycles.  Throughput: one message per 3 cycles.
Source: PCI Local Bus 3.0, 6.8.2.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import RoundRobin

from ..config import PcieConfig
from ..layouts import MessageLayout

__all__ = ["MessageSender"]


class MessageSender(wiring.Component):
    """Choose among pending vectors, round robin. Requests of a pending vector coalesce.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    requests : ``In(config.vectors)``
        Strobes. Dropped while ``enable`` is 0, as are the pending ones.
    enable, function_mask : ``In(1)``
        MSI-X enable and function mask.
    masked, withheld : ``In(config.vectors)``
        Vectors that stay pending.
    pending : ``Out(config.vectors)``
    start, sending : ``Out(1)``, vector : ``Out(range(config.vectors))``
        The message that is sent, for :class:`MsixTable` and :class:`Moderation`.
    message : ``In(MessageLayout)``
        Entry ``vector`` of the table, combinational.
    messages : ``Out(stream.Signature(MessageLayout))``
        Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.vectors = config.vectors
        super().__init__({
            "requests": In(self.vectors), "enable": In(1), "function_mask": In(1),
            "masked": In(self.vectors), "withheld": In(self.vectors), "pending": Out(self.vectors),
            "start": Out(1), "sending": Out(1), "vector": Out(range(self.vectors)), "message": In(MessageLayout),
            "messages": Out(stream.Signature(MessageLayout)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = RoundRobin(self.vectors)
        ready, sent = Signal(self.vectors), Signal(self.vectors)
        idle = Signal()
        m.d.sync += [
            ready.eq(self.pending & ~self.masked & ~self.withheld & (self.enable & ~self.function_mask).replicate(
                self.vectors)),
            self.pending.eq((self.pending & ~sent | self.requests) & self.enable.replicate(self.vectors)),
        ]
        # `ready` is a cycle old: the vector that is sent has left it before the next choice.
        m.d.comb += [
            idle.eq(~self.start & ~self.sending), choice.requests.eq(ready), choice.advance.eq(idle),
            sent.eq(Mux(idle, choice.grant_onehot, 0)), self.messages.valid.eq(self.sending),
        ]
        m.d.sync += self.start.eq(idle & choice.valid)
        with m.If(idle):
            m.d.sync += self.vector.eq(choice.grant)
        with m.If(self.start):
            m.d.sync += [self.sending.eq(1), self.messages.payload.eq(self.message)]
        with m.Elif(self.messages.ready):
            m.d.sync += self.sending.eq(0)
        return m
