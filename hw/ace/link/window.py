# SPDX-License-Identifier: Apache-2.0
"""The packets of a link that are not acknowledged: their numbers, and where they are kept."""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import Out

from hw.ace.config import LINK_HIGH_WIDTH, LINK_SEQUENCE_WIDTH
from hw.stream.storage import NO_COLLISION

__all__ = ["Acknowledged", "LinkWindow"]


class Acknowledged(wiring.Signature):
    """The peer's last acknowledgement, from registers: ``ack``, its bits that travel; ``high``, those above them."""

    def __init__(self):
        super().__init__({"ack": Out(LINK_SEQUENCE_WIDTH), "high": Out(LINK_HIGH_WIDTH)})


class LinkWindow(Elaboratable):
    """Numbers of packets, and of each that is not acknowledged from which source it came and its beats.

    ``acked`` <= ``next`` <= ``end``, modulo 2 ** 9: the oldest that is kept, the one to be sent, the first that never
    was. The peer's acknowledgement may be ahead of ``acked``, by packets that are still to be released, and even of
    ``next``, when packets are sent again that it had: then all begin again behind it. It never goes back: what tells of
    an earlier one is old. One that is beyond ``end`` is a violation: there was no such packet.

    All bits are kept of the acknowledgement only. Those of ``next`` follow from them, as it is at most a window ahead
    when a packet begins.
    """

    def __init__(self, config, sources):
        self.config, self.sources = config, sources
        number = LINK_SEQUENCE_WIDTH
        self.reset, self.rewind, self.draining = Signal(), Signal(), Signal()
        self.heard_valid, self.ack = Signal(), Signal(number)
        self.beat, self.last, self.chosen = Signal(), Signal(), Signal(sources)
        self.sequence, self.unacknowledged = Signal(number), Signal(number)
        self.replaying, self.window, self.overtaken, self.settled = Signal(), Signal(), Signal(), Signal()
        self.some, self.progress, self.recent, self.violated = Signal(), Signal(), Signal(), Signal()
        self.peer, self.high, self.sequence_high = Signal(number), Signal(LINK_HIGH_WIDTH), Signal(LINK_HIGH_WIDTH)
        self.source, self.release, self.release_beats = Signal(sources), Signal(sources), Signal(8)

    def elaborate(self, platform):
        m = Module()
        depth = self.config.link_window
        bits = (depth - 1).bit_length()
        row = data.StructLayout({"source": self.sources, "beats": 8})
        # A row that is written is looked at later: its packet has to be answered, or to be sent once more.
        m.submodules.rows = rows = memory.Memory(shape=row, depth=depth, init=[], attrs=NO_COLLISION)
        write, oldest, upcoming = rows.write_port(), rows.read_port(), rows.read_port()
        acked, end = (Signal(LINK_SEQUENCE_WIDTH, name=name) for name in ("acked", "end"))
        peer = self.peer
        acked_next, number_next, number = Signal.like(acked), Signal.like(acked), self.sequence

        # A packet has ended.
        beats, done = Signal(8), Signal()
        m.d.comb += [
            done.eq(self.beat & self.last), self.replaying.eq(number != end),
            write.addr.eq(end[:bits]), write.data.source.eq(self.chosen), write.data.beats.eq(beats + 1),
            write.en.eq(done & ~self.replaying),
        ]
        with m.If(self.beat):
            m.d.sync += beats.eq(Mux(self.last, 0, beats + 1))
        with m.If(write.en):
            m.d.sync += end.eq(end + 1)

        # One is released.
        releasing, domain = Signal(), "sync" if self.config.timing.registered_release else "comb"
        m.d.comb += [
            releasing.eq(_differ(acked, peer) & (_differ(acked, number) | self.draining)),
            acked_next.eq(Mux(releasing, acked + 1, acked)), self.some.eq(_differ(acked, end)),
            number_next.eq(Mux(self.rewind, acked, Mux(done, number + 1, number))), oldest.addr.eq(acked_next[:bits]),
        ]
        m.d[domain] += [self.release.eq(Mux(releasing, oldest.data.source, 0)),
                        self.release_beats.eq(oldest.data.beats)]
        m.d.comb += self.settled.eq(~_differ(acked, peer) & ~(self.release.any() if domain == "sync" else 0))
        # The upcoming packet's source is kept, and the row behind it read ahead: block RAM shows it late. It is 0 for a
        # cycle after ``rewind``, and anything while nothing is to be sent again.
        kept = Signal()
        m.d.comb += upcoming.addr.eq(Mux(self.rewind, acked, Mux(done & kept, number + 2, number + 1))[:bits])
        with m.If(done | ~kept):
            m.d.sync += self.source.eq(upcoming.data.source)
        with m.If(self.rewind):
            m.d.sync += self.source.eq(0)
        m.d.sync += [
            kept.eq(~self.rewind),
            acked.eq(acked_next), number.eq(number_next), self.unacknowledged.eq(end - acked),
            self.window.eq(_ahead(end, acked) < depth - 2),
        ]
        m.d.comb += self.overtaken.eq((_ahead(peer, acked) > _ahead(number, acked)) & ~self.draining)
        beyond = Signal()
        told = _ahead(self.ack, acked)
        m.d.comb += [beyond.eq(told > _ahead(end, acked)), self.recent.eq(told >= _ahead(peer, acked)),
                     self.sequence_high.eq(Mux(number < peer, self.high + 1, self.high))]
        m.d.sync += [self.progress.eq(self.heard_valid & self.recent & ~beyond & _differ(self.ack, peer)),
                     self.violated.eq(self.heard_valid & beyond)]
        with m.If(self.heard_valid & self.recent & ~beyond):
            m.d.sync += peer.eq(self.ack)
            with m.If(self.ack < peer):
                m.d.sync += self.high.eq(self.high + 1)
        with m.If(self.reset):
            m.d.sync += [acked.eq(0), peer.eq(0), number.eq(0), end.eq(0), beats.eq(0), self.high.eq(0),
                         self.unacknowledged.eq(0), self.window.eq(1), self.violated.eq(0)]
        return m


def _ahead(number, before):
    """By how much, as numbers wrap."""
    return (number - before)[:LINK_SEQUENCE_WIDTH]


def _differ(one, other):
    """As ``!=``, which synthesis would make of a difference that is wanted as well, with its carries."""
    return (one ^ other).any()
