# SPDX-License-Identifier: Apache-2.0
"""Delivers the data of READ responses as read beats.

transport, Retirement, ReadCutter -> Delivery -> DMA engine.  Latency: 3 cycles.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.axi.lanes import rotate_up
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import read_beat_layout, returned_layout
from hw.stream import Skid

from .packet_table import EntryLookup
from .packets import failure_layout, returned_entry_layout

__all__ = ["Delivery"]


class Delivery(wiring.Component):
    """Rotate payload from lane 0 to the lane of the READ's address, and insert the error beats of failed READs.

    Error beats take the same path, so that they stay behind data of their burst that was returned before. Bytes of a
    beat that the READ did not name are 0.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    returned : ``In(stream.Signature(returned_layout))``
        The beats of a response are consecutive.
    failures : ``In(stream.Signature(failure_layout))``
        Between two responses, in turn with them.
    lookup : ``Out(EntryLookup)``
    beats : ``Out(stream.Signature(read_beat_layout))``
        Registered.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "returned": In(stream.Signature(returned_layout(config))),
            "failures": In(stream.Signature(failure_layout(config))),
            "lookup": Out(EntryLookup(config, returned_entry_layout(config))),
            "beats": Out(stream.Signature(read_beat_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes, width = self.config, self.config.lane_bits, self.config.beat_bytes
        m.submodules.out = out = Skid(read_beat_layout(config))
        wiring.connect(m, out.o, wiring.flipped(self.beats))
        returned, failure, entry = self.returned.payload, self.failures.payload, self.lookup.entry

        # Stage 1: a beat of a response, its entry looked up; or an error beat.
        taken, failing, inside, turn = Signal(), Signal(), Signal(), Signal()
        counted = Signal.like(failure.beats)
        valid, is_error = Signal(), Signal()
        beat = Signal(data.StructLayout({"data": config.data_width, "first": 1, "last": 1}))
        error = Signal(data.StructLayout({"id": config.id_width, "resp": Resp, "last": 1}))
        shown, move = Signal(), Signal()
        final = counted == failure.beats
        m.d.comb += [
            move.eq(~valid | shown),
            # ``counted`` is not 0 between the beats of a failed READ.
            failing.eq(self.failures.valid & ~inside & (counted.any() | turn | ~self.returned.valid)),
            taken.eq(self.returned.valid & ~failing & move),
            self.returned.ready.eq(move & ~failing), self.failures.ready.eq(move & failing & final),
            self.lookup.en.eq(taken & returned.first), self.lookup.index.eq(returned.index),
        ]
        with m.If(move):
            m.d.sync += [
                valid.eq(taken | failing), is_error.eq(failing), beat.data.eq(returned.data),
                beat.first.eq(returned.first), beat.last.eq(returned.last),
                error.id.eq(failure.id), error.resp.eq(failure.resp), error.last.eq(failure.ends & final),
            ]
            with m.If(failing):
                m.d.sync += [counted.eq(Mux(final, 0, counted + 1)), turn.eq(0)]
        with m.If(taken):
            m.d.sync += [inside.eq(~returned.last), turn.eq(returned.last)]

        # Stage 2: rotated by the lower bits of the lane. A response whose end wraps to a lane below its start has
        # another beat, with bytes of the last one only.
        now, before, turned = (Signal(config.data_width, reset_less=True, name=name)
                               for name in ("now", "before", "turned"))
        below, masked = Signal(width, reset_less=True), Signal(width, reset_less=True)
        filled, late, opposite = Signal(), Signal(2), Signal(2)
        result = Signal(data.StructLayout({"id": config.id_width, "resp": Resp, "last": 1}))
        early = lanes - 2
        extra, flushing, ends, advance = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            extra.eq(~is_error & beat.last & (entry.end_lane < entry.lane) & ~flushing),
            ends.eq(beat.last & ~extra), shown.eq(advance & ~extra), advance.eq(~filled | out.i.ready),
        ]
        with m.If(advance):
            m.d.sync += [filled.eq(valid), flushing.eq(valid & extra)]
        with m.If(advance & valid):
            m.d.sync += [
                now.eq(rotate_up(beat.data, entry.lane[:early], ~entry.lane[:early])), before.eq(turned),
                late.eq(entry.lane[early:]), opposite.eq(~entry.lane[early:]),
                result.id.eq(entry.id), result.resp.eq(Resp.OKAY), result.last.eq(ends & entry.ends),
            ]
            m.d.sync += [below[lane].eq(lane < entry.lane) for lane in range(width)]
            m.d.sync += [masked[lane].eq(is_error | (beat.first & ~flushing & (lane < entry.lane))
                                         | (ends & (lane > entry.end_lane))) for lane in range(width)]
            with m.If(is_error):
                m.d.sync += result.eq(error)

        # Stage 3: joined with the beat before.
        m.d.comb += [
            turned.eq(rotate_up(now, late, opposite, unit=1 << early)),
            out.i.valid.eq(filled), out.i.payload.id.eq(result.id), out.i.payload.resp.eq(result.resp),
            out.i.payload.last.eq(result.last),
            out.i.payload.data.eq(Cat(
                Mux(masked[lane], 0, Mux(below[lane], before[8 * lane:8 * lane + 8], turned[8 * lane:8 * lane + 8]))
                for lane in range(width))),
        ]
        return m
