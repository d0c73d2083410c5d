# SPDX-License-Identifier: Apache-2.0
"""Read beats on R: those of direct requests as they arrive, others from the reorder buffer.

CompletionCheck, ReorderBuffer -> ReadDelivery -> R, ReorderBuffer, write path.  Latency: 1 cycle.  Throughput: one beat
per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp

from ..config import PcieConfig
from ..layouts import read_beat_layout, write_response_layout
from .read_layouts import StoreSignature, TagEvent, checked_layout, ordered_layout

__all__ = ["ReadDelivery"]


class ReadDelivery(wiring.Component):
    """Hold one beat until its target accepts it; repeat it, without data, for the remaining beats if it is an error.

    Beats of the reorder buffer have precedence over a direct one, unless that is on offer already.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    checked : ``In(stream.Signature(checked_layout))``
        ``ready`` depends on ``beats.ready``.
    ordered : ``In(stream.Signature(ordered_layout))``
    beats : ``Out(stream.Signature(read_beat_layout))``
        R: from registers, through two levels of logic.
    store : ``Out(StoreSignature)``
    flushed : ``Out(stream.Signature(write_response_layout))``
        ``ready`` is always 1.
    delivered : ``Out(TagEvent)``
        The request's last beat or the response of a flush was delivered. Registered.
    discard : ``In(1)``
        Drop all beats and responses.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "checked": In(stream.Signature(checked_layout(config))),
            "ordered": In(stream.Signature(ordered_layout(config))),
            "beats": Out(stream.Signature(read_beat_layout(config))), "store": Out(StoreSignature(config)),
            "flushed": Out(stream.Signature(write_response_layout(config))), "delivered": Out(TagEvent(config)),
            "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat, valid = Signal(checked_layout(self.config), reset_less=True), Signal()
        error, final, direct, stalled = Signal(), Signal(), Signal(), Signal()
        ordered, accepted, move = Signal(), Signal(), Signal()
        m.d.comb += [
            error.eq(beat.resp != Resp.OKAY), final.eq(beat.left == 1), direct.eq(valid & ~beat.stored & ~beat.flush),
            ordered.eq(self.ordered.valid & ~stalled), accepted.eq(self.beats.ready | self.discard),
            move.eq(valid & (beat.stored | ~ordered & (accepted | beat.flush))),
            self.checked.ready.eq(~valid | move & (final | ~error)),
            self.ordered.ready.eq(accepted & ~stalled),
        ]
        # A direct beat on offer must stay.
        m.d.sync += stalled.eq(direct & ~ordered & ~accepted)
        with m.If(self.checked.ready):
            m.d.sync += [valid.eq(self.checked.valid), beat.eq(self.checked.payload)]
        with m.Elif(move):
            m.d.sync += [beat.left.eq(beat.left - 1), beat.beat.eq(beat.beat + 1)]

        content = Mux(error, 0, beat.data)
        arriving = Signal(read_beat_layout(self.config))
        m.d.comb += [
            arriving.id.eq(beat.id), arriving.data.eq(content), arriving.resp.eq(beat.resp),
            arriving.last.eq(final & beat.ends_burst),
            self.beats.valid.eq((ordered | direct) & ~self.discard),
            self.beats.payload.eq(Mux(ordered, self.ordered.payload.beat, arriving)),
            self.flushed.valid.eq(move & beat.flush & ~self.discard), self.flushed.payload.id.eq(beat.id),
            self.flushed.payload.resp.eq(beat.resp),
            self.store.valid.eq(move & beat.stored), self.store.tag.eq(beat.tag), self.store.slot.eq(beat.slot),
            self.store.beat.eq(beat.beat), self.store.data.eq(content), self.store.resp.eq(beat.resp),
            self.store.final.eq(final),
        ]
        m.d.sync += [
            self.delivered.valid.eq(ordered & accepted & self.ordered.payload.final | move & ~beat.stored & final),
            self.delivered.tag.eq(Mux(ordered, self.ordered.payload.tag, beat.tag)),
        ]
        return m
