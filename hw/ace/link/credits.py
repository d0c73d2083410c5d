# SPDX-License-Identifier: Apache-2.0
"""Room at the other end of a link, and what that end has not been told."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import LINK_CREDIT_WIDTH, LINK_SEQUENCE_WIDTH

__all__ = ["PATIENCE", "PROMPT", "Room", "Told"]

PATIENCE = 32
"""Cycles after which the peer is told of anything at all, where nothing else goes over the link."""

PROMPT = 4
"""Packets of which it is told at once."""


class Room(wiring.Component):
    """Beats that one channel's buffer at the peer has room for.

    Latency: 2 cycles from ``credits`` to ``free``.

    Members
    -------
    reset : ``In(1)``
        All of it is free.
    valid, credits : ``In``
        The peer has taken out so many beats, modulo 2 ** 13. Not older than what was known by more than ``link_beats``:
        where nothing came to the peer in between, it has not taken out more.
    take : ``In(1)``
        A beat is sent.
    free : ``Out(range(link_beats + 1))``
    fits : ``Out(1)``
        There is room for the longest packet.
    violated : ``Out(1)``
        More was taken out than was sent.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "reset": In(1), "valid": In(1), "credits": In(LINK_CREDIT_WIDTH), "take": In(1),
            "free": Out(range(config.link_beats + 1), init=config.link_beats), "fits": Out(1), "violated": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit = self.config.link_beats
        bits = limit.bit_length() - 1
        known, gain, given = Signal(LINK_CREDIT_WIDTH), Signal(bits + 1), Signal(LINK_CREDIT_WIDTH)
        # One bit more: both at their largest.
        free = Signal(bits + 2, init=limit)
        more, before, wrong = Signal(), Signal(), Signal()
        m.d.comb += [
            given.eq(self.credits - known), more.eq(given <= limit), before.eq(given[bits:].all()),
            self.free.eq(free), self.fits.eq(free >= self.config.packet_beats),
            self.violated.eq(wrong | (free > limit)),
        ]
        m.d.sync += [gain.eq(0), free.eq(free + gain - self.take), wrong.eq(self.valid & ~more & ~before)]
        with m.If(self.valid & more):
            m.d.sync += [known.eq(self.credits), gain.eq(given)]
        with m.If(self.reset):
            m.d.sync += [known.eq(0), gain.eq(0), free.eq(limit), wrong.eq(0)]
        return m


class Told(wiring.Component):
    """When the peer should be told of packets that came, and of beats that were taken out.

    Members
    -------
    reset : ``In(1)``
    expected, taken : ``In``
        What there is to be told.
    tell : ``In(1)``
        It is told.
    due : ``Out(1)``
        It should be, even if it takes a packet of its own.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "reset": In(1), "expected": In(LINK_SEQUENCE_WIDTH),
            "taken": In(LINK_CREDIT_WIDTH).array(config.link_channels), "tell": In(1), "due": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit = self.config.link_beats
        number, packets = Signal(LINK_SEQUENCE_WIDTH), Signal(LINK_SEQUENCE_WIDTH)
        m.d.comb += packets.eq(self.expected - number)
        # Whether there is some, not by the differences, whose carries would come late.
        some, much = [(self.expected ^ number).any()], [packets >= PROMPT]
        with m.If(self.tell):
            m.d.sync += number.eq(self.expected)
        with m.If(self.reset):
            m.d.sync += number.eq(0)
        for channel, taken in enumerate(self.taken):
            known, beats = (Signal(LINK_CREDIT_WIDTH, name=f"{name}_{channel}") for name in ("known", "beats"))
            m.d.comb += beats.eq(taken - known)
            some.append((taken ^ known).any())
            much.append(beats >= limit // 4)
            with m.If(self.tell):
                m.d.sync += known.eq(taken)
            with m.If(self.reset):
                m.d.sync += known.eq(0)
        waited = Signal(range(PATIENCE))
        m.d.sync += self.due.eq((Cat(much).any() | (waited == PATIENCE - 1)) & ~self.tell)
        with m.If(self.tell | ~Cat(some).any()):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != PATIENCE - 1):
            m.d.sync += waited.eq(waited + 1)
        return m
