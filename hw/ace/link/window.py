# SPDX-License-Identifier: Apache-2.0
"""The unacknowledged packets of a link: their numbers, and where they are stored."""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import Out

from hw.ace.config import LINK_HIGH_WIDTH, LINK_SEQUENCE_WIDTH, AceConfig
from hw.stream.storage import NO_COLLISION

__all__ = ["Acknowledged", "LinkWindow"]


class Acknowledged(wiring.Signature):
    """The peer's last acknowledgement, from registers: ``ack``, the bits that are sent; ``high``, those above them."""

    def __init__(self) -> None:
        super().__init__({"ack": Out(LINK_SEQUENCE_WIDTH), "high": Out(LINK_HIGH_WIDTH)})


class LinkWindow(Elaboratable):
    """Numbers of packets, and the source and beats of each unacknowledged one.

    ``acked`` <= ``next`` <= ``end``, modulo 2 ** 9: the oldest stored packet, the next to send, the first that was
    never sent. The peer's acknowledgement may be ahead of ``acked``, by packets that remain to be released, and even of
    ``next``, when a replay sends packets that the peer already had: then the window rewinds to continue after them. The
    acknowledgement never decreases: an earlier one is stale. One beyond ``end`` is a violation: there was no such
    packet.

    Only the acknowledgement has all bits. Those of ``next`` follow from it, because a packet starts at most a window
    ahead.
    """

    def __init__(self, config: AceConfig, sources: int) -> None:
        self.config, self.sources = config, sources
        number = LINK_SEQUENCE_WIDTH
        self.reset, self.rewind, self.draining = Signal(), Signal(), Signal()
        self.received_valid, self.ack = Signal(), Signal(number)
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
        # A row is used only later than its write: its packet must first be acknowledged or replayed.
        m.submodules.rows = rows = memory.Memory(shape=row, depth=depth, init=[], attrs=NO_COLLISION)
        write, oldest, upcoming, later = rows.write_port(), rows.read_port(), rows.read_port(), rows.read_port()
        acked, end = (Signal(LINK_SEQUENCE_WIDTH, name=name) for name in ("acked", "end"))
        peer = self.peer
        acked_next, number_next, number = Signal.like(acked), Signal.like(acked), self.sequence

        # The end of a packet.
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

        # The release of a packet.
        releasing, domain = Signal(), "sync" if self.config.timing.registered_release else "comb"
        m.d.comb += [
            releasing.eq(_differ(acked, peer) & (_differ(acked, number) | self.draining)),
            acked_next.eq(Mux(releasing, acked + 1, acked)), self.some.eq(_differ(acked, end)),
            number_next.eq(Mux(self.rewind, acked, Mux(done, number + 1, number))), oldest.addr.eq(acked_next[:bits]),
        ]
        m.d[domain] += [self.release.eq(Mux(releasing, oldest.data.source, 0)),
                        self.release_beats.eq(oldest.data.beats)]
        m.d.comb += self.settled.eq(~_differ(acked, peer) & ~(self.release.any() if domain == "sync" else 0))
        # The upcoming packet's source is registered, and the row after it is prefetched, because block RAM has a cycle
        # of latency; two rows, because ``done`` arrives late: it selects one in the next cycle. The source is 0 for a
        # cycle after ``rewind``, and undefined while nothing is to be replayed.
        kept, advanced = Signal(), Signal()
        m.d.comb += [upcoming.addr.eq(Mux(self.rewind, acked, number + 1)[:bits]), later.addr.eq((number + 2)[:bits])]
        m.d.sync += advanced.eq(done)
        with m.If(done | ~kept):
            m.d.sync += self.source.eq(Mux(advanced, later.data.source, upcoming.data.source))
        with m.If(self.rewind):
            m.d.sync += self.source.eq(0)
        m.d.sync += [
            kept.eq(~self.rewind),
            acked.eq(acked_next), number.eq(number_next), self.unacknowledged.eq(end - acked),
            self.window.eq(_distance(end, acked) < depth - 2),
        ]
        beyond, advance = Signal(), Signal(LINK_SEQUENCE_WIDTH)
        m.d.comb += [self.overtaken.eq(_less(_distance(number, acked), _distance(peer, acked)) & ~self.draining),
                     advance.eq(_distance(self.ack, acked)), beyond.eq(_less(_distance(end, acked), advance)),
                     self.recent.eq(~_less(advance, _distance(peer, acked))),
                     self.sequence_high.eq(Mux(number < peer, self.high + 1, self.high))]
        m.d.sync += [self.progress.eq(self.received_valid & self.recent & ~beyond & _differ(self.ack, peer)),
                     self.violated.eq(self.received_valid & beyond)]
        with m.If(self.received_valid & self.recent & ~beyond):
            m.d.sync += peer.eq(self.ack)
            with m.If(self.ack < peer):
                m.d.sync += self.high.eq(self.high + 1)
        with m.If(self.reset):
            m.d.sync += [acked.eq(0), peer.eq(0), number.eq(0), end.eq(0), beats.eq(0), self.high.eq(0),
                         self.unacknowledged.eq(0), self.window.eq(1), self.violated.eq(0)]
        return m


def _distance(number, before):
    """Distance of ``number`` from ``before``, modulo the range."""
    return (number - before)[:LINK_SEQUENCE_WIDTH]


def _less(one, other):
    """``<``, as the sign of a difference: one carry chain, behind those of the operands."""
    return (one - other)[LINK_SEQUENCE_WIDTH]


def _differ(one, other):
    """``!=``, where synthesis would otherwise reuse the carry chain of a difference of the same operands."""
    return (one ^ other).any()
