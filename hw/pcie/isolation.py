# SPDX-License-Identifier: Apache-2.0
"""Responses in place of a subordinate that is in reset, so that its manager never waits for those that are lost.

Adapter -> RegisterIsolation, DoorbellIsolation -> crossings to the engine.  Latency: 0, combinational.  Throughput: an
access per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature, Resp

__all__ = ["DoorbellIsolation", "RegisterIsolation"]


class RegisterIsolation(wiring.Component):
    """AXI4-Lite with at most one read and one write at a time, such as from :class:`RegisterWindow`.

    Parameters
    ----------
    signature : AxiLiteSignature

    Members
    -------
    bus : ``In(signature)``
        From the manager.
    part : ``Out(signature)``
        To the subordinate.
    isolate : ``In(1)``
        The subordinate is in reset: it gets nothing, and accesses get SLVERR, those in progress too. Falls only while
        no access is in progress.
    """

    def __init__(self, signature: AxiLiteSignature) -> None:
        super().__init__({"bus": In(signature), "part": Out(signature), "isolate": In(1)})

    def elaborate(self, platform):
        m = Module()
        bus, part = self.bus, self.part
        _pass(m, bus, part, ("aw", "w", "ar"), ("b", "r"))
        taken = {channel: Signal(name=f"{channel}_taken") for channel in ("aw", "w", "ar")}
        for channel, flag in taken.items():
            response = "r" if channel == "ar" else "b"
            with m.If(_moves(bus, response)):
                m.d.sync += flag.eq(0)
            with m.Elif(_moves(bus, channel)):
                m.d.sync += flag.eq(1)
        with m.If(self.isolate):
            _isolate(m, bus, part, ("aw", "w", "ar"), ("b", "r"))
            m.d.comb += [bus.rvalid.eq(taken["ar"]), bus.rresp.eq(Resp.SLVERR),
                         bus.bvalid.eq(taken["aw"] & taken["w"]), bus.bresp.eq(Resp.SLVERR)]
        return m


class DoorbellIsolation(wiring.Component):
    """AXI4 with writes only, from a manager that always accepts responses, such as :class:`DoorbellWriter`.

    Parameters
    ----------
    signature : AxiSignature
    bursts : int
        Most bursts whose response is outstanding.

    Members
    -------
    bus : ``In(signature)``
        From the manager.
    part : ``Out(signature)``
        To the subordinate. Nothing is read.
    isolate : ``In(1)``
        The subordinate is in reset: bursts are dropped. Each burst gets SLVERR, and so does each whose response was
        outstanding. Falls only while nothing is in progress.
    """

    def __init__(self, signature: AxiSignature, *, bursts: int) -> None:
        self.bursts = bursts
        super().__init__({"bus": In(signature), "part": Out(signature), "isolate": In(1)})

    def elaborate(self, platform):
        m = Module()
        bus, part = self.bus, self.part
        _pass(m, bus, part, ("aw", "w", "ar"), ("b", "r"))
        outstanding = Signal(range(self.bursts + 1))
        m.d.sync += outstanding.eq(outstanding + _moves(bus, "aw") - (bus.bvalid & (outstanding != 0)))
        with m.If(self.isolate):
            _isolate(m, bus, part, ("aw", "w", "ar"), ("b", "r"))
            m.d.comb += [bus.rvalid.eq(0), bus.bvalid.eq(outstanding != 0), bus.bresp.eq(Resp.SLVERR)]
        return m


def _moves(bus, channel):
    return getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready")


def _pass(m, bus, part, requests, responses):
    """Connect both ends."""
    for channels, source, sink in ((requests, bus, part), (responses, part, bus)):
        for channel in channels:
            ready = f"{channel}ready"
            m.d.comb += getattr(source, ready).eq(getattr(sink, ready))
            m.d.comb += [getattr(sink, name).eq(getattr(source, name)) for name in bus.signature.members
                         if _channel(name) == channel and name != ready]


def _isolate(m, bus, part, requests, responses):
    """Accept everything from both ends."""
    for channel in requests:
        m.d.comb += [getattr(bus, f"{channel}ready").eq(1), getattr(part, f"{channel}valid").eq(0)]
    m.d.comb += [getattr(part, f"{channel}ready").eq(1) for channel in responses]


def _channel(name):
    """Channel of a pin."""
    return name[:2] if name.startswith("a") else name[:1]
