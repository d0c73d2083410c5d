"""Byte aligner: from beats as they were read to beats as they are written.

WriteSequencer, BeatBuffer -> Aligner -> W.  Latency: 3 cycles from a step to WVALID.  Throughput: one beat
per cycle.  One rotator for the whole engine, whatever is in flight.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Skid

from .buffer import buffered_layout
from .sequencer import step_layout

__all__ = ["Aligner", "write_beat_layout"]


def write_beat_layout(config):
    """One beat of W."""
    return data.StructLayout({"data": config.data_width, "strb": config.beat_bytes, "last": 1})


class Aligner(wiring.Component):
    """Rotate each beat, join it with the one before it, and switch off the lanes outside the burst.

    Beat ``k`` written takes its lanes from ``shift`` up from the beat just rotated and those below from
    the one before. Once a beat came with a read error, or in a void
    burst, the strobes stay off.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    steps : ``In(stream.Signature(step_layout))``
    beat : ``In(buffered_layout)``
        The beat of the step taken in the cycle before.
    o : ``Out(stream.Signature(write_beat_layout))``
        Registered on both sides.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "steps": In(stream.Signature(step_layout(config))),
            "beat": In(buffered_layout(config)),
            "o": Out(stream.Signature(write_beat_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.beat_bytes
        m.submodules.out = out = Skid(write_beat_layout(config))
        wiring.connect(m, out.o, wiring.flipped(self.o))

        # -- Stage 1: the step, while its beat comes out of the buffer.
        step, step_valid = Signal(step_layout(config)), Signal()
        advance = Signal()
        m.d.comb += self.steps.ready.eq(advance)
        with m.If(advance):
            m.d.sync += [step.eq(self.steps.payload), step_valid.eq(self.steps.valid)]

        # -- Stage 2: the beat rotated, the one before it, and masks.
        now, before = (Signal(config.data_width, reset_less=True, name=name) for name in ("now", "before"))
        below = Signal(lanes, reset_less=True)      # lanes taken from the beat before
        strobes = Signal(lanes, reset_less=True)
        emit, ends, failed = Signal(), Signal(), Signal()
        words = config.data_width // len(step.word)
        failing = Signal()
        m.d.comb += failing.eq(step.void | (step.take & self.beat.error) | (~step.first & failed))
        with m.If(advance):
            m.d.sync += [emit.eq(step_valid & step.emit), ends.eq(step.ends)]
        with m.If(advance & step_valid):
            m.d.sync += [
                before.eq(now),
                now.eq(Mux(step.completion, step.word.replicate(words),
                           _rotate_up(self.beat.data, step.shift))),
                failed.eq(failing),
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

        # -- Stage 3: joined, into the output's register.
        m.d.comb += [
            out.i.valid.eq(emit),
            out.i.payload.data.eq(Cat(
                Mux(below[lane], before[8 * lane:8 * lane + 8], now[8 * lane:8 * lane + 8])
                for lane in range(lanes))),
            out.i.payload.strb.eq(strobes),
            out.i.payload.last.eq(ends),
            advance.eq(~emit | out.i.ready),
        ]
        return m


def _rotate_up(beat, lanes):
    """``beat`` with every byte moved up by ``lanes`` places, round the end."""
    for bit in range(len(lanes)):
        by = 8 << bit
        beat = Mux(lanes[bit], Cat(beat[-by:], beat[:-by]), beat)
    return beat
