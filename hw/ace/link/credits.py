# SPDX-License-Identifier: Apache-2.0
"""Credits of a link: free entries of the peer's buffer, and when to report ours to the peer."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import (
    LINK_CREDIT_WIDTH,
    LINK_REPORT_CYCLES,
    LINK_REPORT_PACKETS,
    LINK_SEQUENCE_WIDTH,
    AceConfig,
)

__all__ = ["PeerCredits", "ReportedCredits"]


class PeerCredits(wiring.Component):
    """Free entries of one channel's buffer at the peer, in beats.

    Latency: 2 cycles from ``credits`` to ``free`` and ``fits``, which are registered.

    Members
    -------
    reset : ``In(1)``
        All entries are free.
    valid, credits : ``In``
        The peer has read ``credits`` beats from its buffer, modulo 2 ** 13. The value is at most ``link_beats`` older
        than the known one: the peer can read no more if it has received nothing in between.
    take : ``In(1)``
        A beat is sent.
    free : ``Out(range(link_beats + 1))``
    fits : ``Out(1)``
        The longest packet fits.
    violated : ``Out(1)``
        The peer has read more than was sent.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "reset": In(1), "valid": In(1), "credits": In(LINK_CREDIT_WIDTH), "take": In(1),
            "free": Out(range(config.link_beats + 1), init=config.link_beats), "fits": Out(1, init=1),
            "violated": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit, packet = self.config.link_beats, self.config.packet_beats
        bits = limit.bit_length() - 1
        known, gain, granted = Signal(LINK_CREDIT_WIDTH), Signal(bits + 1), Signal(LINK_CREDIT_WIDTH)
        # One more bit, for both at their maximum.
        free, held = Signal(bits + 2, init=limit), Signal(bits + 2)
        more, before, wrong = Signal(), Signal(), Signal()
        m.d.comb += [
            granted.eq(self.credits - known), more.eq(granted <= limit), before.eq(granted[bits:].all()),
            self.free.eq(free), self.violated.eq(wrong | (free > limit)),
        ]
        # ``take`` arrives late: it only selects between two comparisons.
        m.d.comb += held.eq(free + gain)
        m.d.sync += [gain.eq(0), free.eq(held - self.take), self.fits.eq(Mux(self.take, held > packet, held >= packet)),
                     wrong.eq(self.valid & ~more & ~before)]
        with m.If(self.valid & more):
            m.d.sync += [known.eq(self.credits), gain.eq(granted)]
        with m.If(self.reset):
            m.d.sync += [known.eq(0), gain.eq(0), free.eq(limit), self.fits.eq(1), wrong.eq(0)]
        return m


class ReportedCredits(wiring.Component):
    """When to report received packets and freed beats to the peer.

    Members
    -------
    reset : ``In(1)``
    expected, taken : ``In``
        The counts to report.
    report : ``In(1)``
        They are reported now.
    due : ``Out(1)``
        A report is due, even in a packet of its own.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "reset": In(1), "expected": In(LINK_SEQUENCE_WIDTH),
            "taken": In(LINK_CREDIT_WIDTH).array(config.link_channels), "report": In(1), "due": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit = self.config.link_beats
        number, packets = Signal(LINK_SEQUENCE_WIDTH), Signal(LINK_SEQUENCE_WIDTH)
        m.d.comb += packets.eq(self.expected - number)
        # Compared by XOR: the carries of the differences would arrive late.
        some, much = [(self.expected ^ number).any()], [packets >= LINK_REPORT_PACKETS]
        with m.If(self.report):
            m.d.sync += number.eq(self.expected)
        with m.If(self.reset):
            m.d.sync += number.eq(0)
        for channel, taken in enumerate(self.taken):
            known, beats = (Signal(LINK_CREDIT_WIDTH, name=f"{name}_{channel}") for name in ("known", "beats"))
            m.d.comb += beats.eq(taken - known)
            some.append((taken ^ known).any())
            much.append(beats >= limit // 4)
            with m.If(self.report):
                m.d.sync += known.eq(taken)
            with m.If(self.reset):
                m.d.sync += known.eq(0)
        waited = Signal(range(LINK_REPORT_CYCLES))
        m.d.sync += self.due.eq((Cat(much).any() | (waited == LINK_REPORT_CYCLES - 1)) & ~self.report)
        with m.If(self.report | ~Cat(some).any()):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != LINK_REPORT_CYCLES - 1):
            m.d.sync += waited.eq(waited + 1)
        return m
