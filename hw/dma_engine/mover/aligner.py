# SPDX-License-Identifier: Apache-2.0
"""Byte aligner: rotates beats from their position in the source to that in the destination.

WriteSequencer, BeatBuffer -> Aligner -> W.  Latency: 3 cycles from a step to WVALID.  Throughput: one beat
per cycle.  One rotator serves all segments.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi.lanes import rotate_up
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.control.epochs import EpochLookupSignature
from hw.dma_engine.layouts import write_beat_layout
from hw.stream import Queue

from .buffer import buffered_layout
from .port_drain import ChannelLevelSignature
from .sequencer import step_layout

__all__ = ["OUTPUT_DEPTH", "Aligner"]

OUTPUT_DEPTH = 4
"""Beats that may wait for W, in LUT RAM; this takes less area than a register at each input of a multiplexer."""


class Aligner(wiring.Component):
    """Rotate each beat, join it with the previous one, and clear the strobes outside the burst.

    A written beat takes its lanes from ``shift`` up from the beat just rotated, and those below from the previous one.
    After a beat with a read error, the strobes of its burst stay off. A beat of data or of a word whose epoch is
    outdated has no strobes either.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    steps : ``In(stream.Signature(step_layout))``
    beat : ``In(buffered_layout)``
        The beat of the step taken in the previous cycle.
    epoch : ``Out(EpochLookupSignature)``
    w : ``Out(stream.Signature(write_beat_layout))``
        From a queue, which separates WREADY from the earlier stages.
    w_level : ``Out(ChannelLevelSignature)``
        Beats whose strobes are final and that have not left.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "steps": In(stream.Signature(step_layout(config))),
            "beat": In(buffered_layout(config)),
            "epoch": Out(EpochLookupSignature(config)),
            "w": Out(stream.Signature(write_beat_layout(config))),
            "w_level": Out(ChannelLevelSignature(OUTPUT_DEPTH + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.beat_bytes
        m.submodules.out = out = Queue(write_beat_layout(config), depth=OUTPUT_DEPTH)
        wiring.connect(m, out.o, wiring.flipped(self.w))

        # -- Stage 1: the step, while its beat comes out of the buffer.
        step, step_valid = Signal(step_layout(config), name="step"), Signal(name="step_valid")
        opposite = Signal.like(step.shift)          # ``shift`` with every bit inverted
        advance = Signal()
        m.d.comb += self.steps.ready.eq(advance)
        with m.If(advance):
            m.d.sync += [step.eq(self.steps.payload), step_valid.eq(self.steps.valid),
                         opposite.eq(~self.steps.payload.shift)]

        # -- Stage 2: the rotated beat, the previous one, and masks.
        now, before = (Signal(config.data_width, reset_less=True, name=name) for name in ("now", "before"))
        below = Signal(lanes, reset_less=True)      # lanes taken from the beat before
        strobes = Signal(lanes, reset_less=True)
        emit, ends, failed = (Signal(name=name) for name in ("emit", "ends", "failed"))
        words = config.data_width // len(step.word)
        word, is_word, failing = Signal.like(step.word, name="word"), Signal(name="is_word"), Signal(name="failing")
        # The beats of block RAM are late-arriving: stage 3 applies the highest two bits of the shift.
        early = len(step.shift) - 2
        late, late_opposite, turned = Signal(2), Signal(2), Signal.like(now)
        m.d.comb += turned.eq(rotate_up(now, late, late_opposite, unit=1 << early))
        m.d.comb += self.epoch.queue.eq(step.queue)
        m.d.comb += failing.eq(
            (step.epoch != self.epoch.epoch) | (step.take & self.beat.error) | (~step.first & failed))
        with m.If(advance):
            m.d.sync += [emit.eq(step_valid & step.emit), ends.eq(step.ends),
                         word.eq(step.word), is_word.eq(step.completion)]
        with m.If(advance & step_valid):
            m.d.sync += [
                before.eq(turned), now.eq(rotate_up(self.beat.data, step.shift[:early], opposite[:early])),
                late.eq(step.shift[early:]), late_opposite.eq(opposite[early:]), failed.eq(failing),
            ]
            m.d.sync += [
                below[lane].eq(lane < step.shift)
                for lane in range(lanes)
            ]
            m.d.sync += [
                strobes[lane].eq(~failing & ~(step.starts & (lane < step.start_lane))
                                 & ~(step.ends & (lane > step.end_lane)))
                for lane in range(lanes)
            ]

        # -- Stage 3: joined, into the queue.
        m.d.comb += [
            out.i.valid.eq(emit),
            out.i.payload.data.eq(Mux(is_word, word.replicate(words), Cat(
                Mux(below[lane], before[8 * lane:8 * lane + 8], turned[8 * lane:8 * lane + 8])
                for lane in range(lanes)))),
            out.i.payload.strb.eq(strobes),
            out.i.payload.last.eq(ends),
            advance.eq(~emit | out.i.ready),
            self.w_level.level.eq(out.level + emit), self.w_level.taken.eq(self.w.valid & self.w.ready),
        ]
        return m
