# SPDX-License-Identifier: Apache-2.0
"""AXI4 and AXI4-Lite between two clock domains: a queue per channel.

Endpoint in its clock domain -> AxiCrossing -> adapter in the hard block's, and AxiLiteCrossing in the other direction:
see :class:`.engine_crossing.EngineCrossing`.
Latency: that of :class:`AsyncQueue` for each channel: 1 cycle of the sender's clock, then 3 to 4 of the receiver's.
Throughput: a beat per cycle of the slower clock on each channel.  All outputs are registered.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.stream import AsyncQueue

__all__ = ["AxiCrossing", "AxiLiteCrossing"]

TO_SUBORDINATE, TO_MANAGER = ("aw", "w", "ar"), ("b", "r")
"""Channels by their direction."""


class _Crossing(wiring.Component):
    """A queue per channel of ``signature``."""

    def __init__(self, signature: AxiSignature | AxiLiteSignature, *, manager_domain: str, subordinate_domain: str,
                 depth: int = 16, stages: int = 2, reads: bool = True) -> None:
        self.bus, self.depth, self.stages, self.reads = signature, depth, stages, reads
        self.manager_domain, self.subordinate_domain = manager_domain, subordinate_domain
        super().__init__({"manager": In(signature), "subordinate": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        from_manager = {"write_domain": self.manager_domain, "read_domain": self.subordinate_domain}
        from_subordinate = {"write_domain": self.subordinate_domain, "read_domain": self.manager_domain}
        for channel in (*TO_SUBORDINATE, *TO_MANAGER):
            source, sink, domains = self.manager, self.subordinate, from_manager
            if channel in TO_MANAGER:
                source, sink, domains = sink, source, from_subordinate
            layout = _layout(self.bus, channel)
            if channel in ("ar", "r") and not self.reads:
                m.d.comb += [getattr(source, f"{channel}ready").eq(0), getattr(sink, f"{channel}valid").eq(0),
                             *(getattr(sink, channel + name).eq(0) for name, _ in layout)]
                continue
            m.submodules[channel] = queue = AsyncQueue(layout, depth=self.depth, stages=self.stages, **domains)
            m.d.comb += [
                queue.i.valid.eq(getattr(source, f"{channel}valid")),
                getattr(source, f"{channel}ready").eq(queue.i.ready),
                getattr(sink, f"{channel}valid").eq(queue.o.valid),
                queue.o.ready.eq(getattr(sink, f"{channel}ready")),
            ]
            for name, _ in layout:
                m.d.comb += [queue.i.payload[name].eq(getattr(source, channel + name)),
                             getattr(sink, channel + name).eq(queue.o.payload[name])]
        return m


class AxiCrossing(_Crossing):
    """Carry an AXI4 bus from the manager's clock domain to the subordinate's.

    Resets are those of :class:`AsyncQueue`. Each drops transactions in flight, so that a manager or a subordinate would
    wait for responses or data without end: reset both domains, with an overlap. Then no channel carries anything from
    before to after the resets, and ready stays 0 until both clocks run and both resets have ended.

    Parameters
    ----------
    signature : AxiSignature
    manager_domain, subordinate_domain : str
        Clock domains of both ends.
    depth : int
        Transfers that each channel holds; power of two, 4 to 64. Full rate takes 16.
    stages : int
        Flip-flops of each synchroniser, 2 or 3.
    reads : bool
        False for a manager that never reads: without queues for AR and R.

    Members
    -------
    manager : ``In(signature)``
        From the manager.
    subordinate : ``Out(signature)``
        To the subordinate.
    """


class AxiLiteCrossing(_Crossing):
    """Carry an AXI4-Lite bus; as :class:`AxiCrossing`.

    Parameters
    ----------
    signature : AxiLiteSignature
    manager_domain, subordinate_domain : str
        Clock domains of both ends.
    depth : int
        Transfers that each channel holds; power of two, 4 to 64.
    stages : int
        Flip-flops of each synchroniser, 2 or 3.
    reads : bool
        As in :class:`AxiCrossing`.

    Members
    -------
    manager : ``In(signature)``
    subordinate : ``Out(signature)``
    """


def _layout(signature: AxiSignature | AxiLiteSignature, channel: str) -> data.StructLayout:
    """Payload of a channel: its pins without their prefix."""
    return data.StructLayout({
        name.removeprefix(channel): member.shape for name, member in signature.members.items()
        if name.startswith(channel) and name not in (f"{channel}valid", f"{channel}ready")})
