# SPDX-License-Identifier: Apache-2.0
"""Descriptor expander: converts lists into their words, and 2-D copies into one word per row.

RingBuffer -> RingExpand -> QueueStore.  Latency: 4 cycles from a stored descriptor to its first word.  Throughput:
one word per cycle from one ring, 8 words in 9 cycles from several rings.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import OFFSET_WIDTH
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.descriptors import LIST_WORDS, STRIDE_WIDTH, DescriptorFlag, DescriptorKind
from hw.dma_engine.layouts import Check, ring_word_layout
from hw.dma_engine.strobes import QueueStrobeSignature
from hw.dma_engine.words import RequestFlag
from hw.stream import RoundRobin

from .buffer import RingStatesSignature, RowReadSignature

__all__ = ["RingExpand"]

VISIT = 8
"""Maximum of consecutive words of one ring while another ring waits."""


class RingExpand(wiring.Component):
    """Generate words from descriptors, limited by the credits of their queues.

    After ``VISIT`` words another ring that has descriptors is granted, even within a descriptor: the progress in a 2-D
    copy or a list is saved, and the descriptor is read again later.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    states : ``In(RingStatesSignature)``
    rows : ``Out(RowReadSignature)``
    rows_freed : ``Out(extended)``
        A row of the descriptor buffer was freed.
    consumed : ``In(QueueStrobeSignature)``
        A queue has scheduled all segments of a word.
    words : ``Out(stream.Signature(ring_word_layout))``
        The receiver accepts each word eventually. A word is withdrawn when its ring is disabled.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "states": In(RingStatesSignature(config)),
            "rows": Out(RowReadSignature(config)), "rows_freed": Out(config.extended),
            "consumed": In(QueueStrobeSignature(config)),
            "words": Out(stream.Signature(ring_word_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, rings = self.config, self.config.extended
        ring, loaded, reading = Signal(config.extended_bits), Signal(), Signal()
        levels = Array(Signal(range(config.queue_depth + 1), name=f"level_{index}") for index in range(rings))
        full = Cat(level[-1] for level in levels)
        m.d.comb += [
            self.rows.ring.eq(ring),
            self.rows_freed.eq(Cat(self.rows.take & (self.rows.ring == index) for index in range(rings))),
        ]

        emit, last = Signal(), Signal()
        self._words(m, ring, reading, emit, last)

        # -- The granted ring emits words while its queue has credits, up to its limit of consecutive words.
        open_, finish, spent = Signal(), Signal(), Signal()
        free, withdrawn, taken = Signal(), Signal(), Signal()
        left = Signal(range(VISIT))
        m.submodules.choice = choice = RoundRobin(rings)
        m.d.comb += [
            open_.eq((self.states.enabled & ~full).bit_select(ring, 1)),
            withdrawn.eq(~self.states.enabled.bit_select(self.words.payload.ring, 1)),
            free.eq(~taken | self.words.ready | withdrawn),
            self.words.valid.eq(taken & ~withdrawn),
            emit.eq(loaded & open_ & free),
            finish.eq(emit & last),
            self.rows.take.eq(finish),
            spent.eq(emit & (left == 0)),
            choice.requests.eq(self.rows.some & self.states.enabled & ~full & ~Mux(loaded, 1 << ring, 0)),
        ]
        with m.If(emit):
            m.d.sync += [taken.eq(1), left.eq(left - 1)]
        with m.Elif(free):
            m.d.sync += taken.eq(0)
        with m.If(reading):
            m.d.sync += left.eq(VISIT - 1)

        # -- The ring's next descriptor is read while the last word of the current one is emitted.
        following, leave, continues = Signal(), Signal(), Signal()
        m.d.comb += [
            # ``last`` is late-arriving and is added in ``following``.
            continues.eq(loaded & open_ & free & self.rows.several.bit_select(ring, 1) & ~((left == 0) & choice.valid)),
            following.eq(continues & last),
            leave.eq(Mux(loaded, (finish & ~following) | ((spent | ~open_) & choice.valid), ~reading)),
            # Re-read the descriptor while it is in use: the choice of the next one is late-arriving.
            self.rows.read.eq(reading | loaded),
            self.rows.behind.eq(following),
            choice.advance.eq(leave),
        ]
        with m.If(leave):
            m.d.sync += [loaded.eq(0), reading.eq(choice.valid), ring.eq(choice.grant)]
        with m.Elif(reading):
            m.d.sync += [loaded.eq(1), reading.eq(0)]
        with m.Elif(loaded & ~self.states.enabled.bit_select(ring, 1)):
            m.d.sync += loaded.eq(0)

        for index, level in enumerate(levels):
            consumed = Signal(name=f"consumed_{index}")
            m.d.sync += consumed.eq(self.consumed.valid & (self.consumed.queue == index) & ~self.states.discard[index])
            with m.If(self.states.discard[index]):
                m.d.sync += level.eq(0)
            with m.Else():
                m.d.sync += level.eq(level + (emit & (ring == index)) - consumed)
        return m

    def _words(self, m, ring, reading, emit, last):
        """Next word of the descriptor, and ``last`` if it is the descriptor's last word."""
        rings = self.config.extended
        descriptor = self.rows.row
        header, row, shape = descriptor.header, descriptor.body.copy_2d.row, descriptor.body.copy_2d
        progress_layout = data.StructLayout({
            "rows": 32,
            # The bits of a sum beyond an offset are checked in the next row only.
            "src_offset": OFFSET_WIDTH, "src_beyond": 2, "dst_offset": OFFSET_WIDTH, "dst_beyond": 2, "outside": 1})
        m.submodules.progress = progress = Table(progress_layout, depth=rings, reads=1, init=None)
        midway = Signal(rings)          # rows of a 2-D copy have been emitted
        amid, final = Signal(rings), Signal(rings)      # words of a descriptor have been emitted; one word remains
        indices = Array(Signal(2, name=f"index_{number}") for number in range(rings))

        # -- Format errors of the descriptor that the buffer does not detect.
        verdict = descriptor.verdict
        is_list, bad, records, no_record = Signal(), Signal(), Signal(), Signal()
        index = Signal(2)
        m.d.comb += [
            index.eq(indices[ring]), records.eq(self.states.records.bit_select(ring, 1)),
            is_list.eq(header.kind == DescriptorKind.LIST),
            no_record.eq(header.flags[_bit(DescriptorFlag.RECORD)] & ~records),
            bad.eq(verdict.bad | no_record),
        ]

        # -- The current row of a 2-D copy, and the next one.
        now, after, kept = Signal(progress_layout), Signal(progress_layout), Signal(progress_layout)
        began, outside, sums = Signal(), Signal(), {}
        m.d.comb += [
            progress.read[0].addr.eq(ring), progress.write.addr.eq(ring), progress.write.data.eq(after),
            progress.write.en.eq(emit),
        ]
        with m.If(emit):
            m.d.sync += [kept.eq(after), began.eq(~is_list & ~last)]
        with m.Else():
            m.d.sync += began.eq(midway.bit_select(ring, 1))
        with m.If(reading):
            m.d.sync += kept.eq(progress.read[0].data)
        with m.If(began):
            m.d.comb += now.eq(kept)
        with m.Else():
            m.d.comb += [now.rows.eq(shape.rows), now.src_offset.eq(row.src_offset),
                         now.dst_offset.eq(row.dst_offset)]
        for side in ("src", "dst"):
            sums[side] = Signal(signed(OFFSET_WIDTH + 2), name=f"{side}_sum")
            m.d.comb += [sums[side].eq(now[f"{side}_offset"] + shape[f"{side}_stride"][:STRIDE_WIDTH].as_signed()),
                         after[f"{side}_offset"].eq(sums[side]),
                         after[f"{side}_beyond"].eq(sums[side][OFFSET_WIDTH:])]
        m.d.comb += [
            after.rows.eq(now.rows - 1),
            outside.eq(now.outside | now.src_beyond.any() | now.dst_beyond.any()), after.outside.eq(outside),
        ]

        # -- The word.
        failed, first = verdict.failed, Signal()
        word, out = Signal(row.shape()), self.words.payload
        extra = Signal(8)
        m.d.comb += [
            first.eq(~amid.bit_select(ring, 1)),
            # A format error is reported with the first word, so it affects ``last`` only there.
            last.eq((first & verdict.sole) | (first & ~records & header.flags[_bit(DescriptorFlag.RECORD)])
                    | (~first & final.bit_select(ring, 1))),
            extra.eq(Cat(flag & condition for flag, condition in (
                (header.flags[_bit(RequestFlag.SC)], last), (header.flags[_bit(RequestFlag.RC)], last),
                (header.flags[_bit(RequestFlag.FENCE)], first), (header.flags[_bit(RequestFlag.IRQ)], last)))),
        ]
        with m.Switch(index):
            for number in range(LIST_WORDS):
                with m.Case(number):
                    m.d.comb += word.eq(descriptor.body.words[number])
        with m.If(emit):
            m.d.sync += [
                out.ring.eq(ring), out.word.eq(word), out.word.flags.eq(word.flags | extra),
                out.note.ring.tag.eq(header.tag), out.check.eq(Check.OK),
                out.note.ring.closes.eq(last),
                out.note.ring.end.eq(last & header.flags[_bit(DescriptorFlag.RECORD)] & records),
            ]
            with m.If(~is_list):
                m.d.sync += [out.word.src_offset.eq(now.src_offset), out.word.dst_offset.eq(now.dst_offset)]
            with m.If(failed):
                m.d.sync += [out.check.eq(Check.FETCH_ERROR), out.note.ring.tag.eq(0), out.note.ring.end.eq(records)]
            with m.Elif(bad | outside):
                m.d.sync += out.check.eq(Check.MALFORMED)
        for number in range(rings):
            with m.If(self.states.discard[number] | (emit & last & (ring == number))):
                m.d.sync += [midway[number].eq(0), indices[number].eq(0), amid[number].eq(0)]
            with m.Elif(emit & (ring == number)):
                m.d.sync += [midway[number].eq(~is_list), indices[number].eq(index + is_list), amid[number].eq(1)]
            with m.If(emit & (ring == number)):
                m.d.sync += final[number].eq(Mux(is_list, (index + 2)[:2] == header.count, now.rows == 2))


def _bit(flag):
    return int(flag).bit_length() - 1
