# SPDX-License-Identifier: Apache-2.0
"""Cut bursts into TLPs, and check that each writes one range of bytes.

WriteIntake -> WriteSplitter -> WriteBuffer, WriteHeaders.  Latency: 1 cycle; to the buffer 0.  Throughput: one beat per
cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature

from ..config import ADDR_WIDTH, ATTRIBUTE_WIDTH, PcieConfig
from .write_buffer import BufferSignature
from .write_intake import PAGE_BITS, payload_index_bits, taken_beat_layout
from .write_strobes import StrobeSummary

__all__ = ["WriteSplitter", "cut_beat_layout"]


def cut_beat_layout(config: PcieConfig) -> data.StructLayout:
    """A beat without its data.

    ``any``, ``first``, ``last``: whether it has strobed bytes, and their positions. ``cut``: it is the last beat of its
    TLP, which is ``sent``, ``refused``, or neither if it has no strobed byte. ``end``: last beat of the burst.
    """
    return data.StructLayout({
        "id": config.axi_id_width, "page": ADDR_WIDTH - PAGE_BITS, "index": PAGE_BITS - config.lane_bits,
        "offset": config.dword_lane_bits, "attributes": ATTRIBUTE_WIDTH, "flush": 1, "denied": 1, "message": 1,
        "end": 1, "cut": 1, "sent": 1, "refused": 1, "any": 1, "first": config.lane_bits, "last": config.lane_bits,
    })


class WriteSplitter(wiring.Component):
    """Cut where the next address is a multiple of the maximum payload size (MPS), and at the end of the burst.

    Beats without a strobed byte are not stored. PCIe has byte enables for the first and the last DW only: a TLP with
    more than one range of strobed bytes is refused, and its data is dropped.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    i : ``In(EventSignature(taken_beat_layout))``
    payload : ``Out(BufferSignature)``
        Combinational.
    o : ``Out(EventSignature(cut_beat_layout))``
        Registered.
    refused : ``Out(1)``
        Event strobe: a TLP is refused. Registered.
    idle : ``Out(1)``
    discard : ``In(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(EventSignature(taken_beat_layout(config))), "payload": Out(BufferSignature(config)),
            "o": Out(EventSignature(cut_beat_layout(config))), "refused": Out(1), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat, taken = self.i.payload, self.o.payload
        strobes = StrobeSummary(beat.strobes)
        # The TLP up to the beat before: it has a strobed byte, its latest byte is one, it has several ranges.
        begun, joined, several = (Signal(name=name) for name in ("begun", "joined", "several"))
        cut, another, wrong, live = Signal(), Signal(), Signal(), Signal()
        bottom = beat.strobes.bottom
        m.d.comb += [
            cut.eq(beat.last | (beat.index[:payload_index_bits(self.config)] | ~beat.mask).all()),
            another.eq(strobes.starts | strobes.start & (bottom | begun) | bottom & begun & ~joined),
            wrong.eq(several | another), live.eq(self.i.valid & ~beat.denied),
            self.payload.data.eq(beat.data), self.payload.push.eq(live & strobes.any),
            self.payload.commit.eq(live & cut & (begun | strobes.any) & ~wrong),
            self.payload.drop.eq(live & cut & wrong),
            self.refused.eq(self.o.valid & taken.refused), self.idle.eq(~self.o.valid),
        ]
        with m.If(self.i.valid):
            m.d.sync += [begun.eq(~cut & (begun | strobes.any)), joined.eq(~cut & beat.strobes.top),
                         several.eq(~cut & wrong)]
        m.d.sync += [
            self.o.valid.eq(self.i.valid), taken.end.eq(beat.last), taken.cut.eq(cut),
            taken.sent.eq(self.payload.commit), taken.refused.eq(self.payload.drop),
            taken.any.eq(strobes.any), taken.first.eq(strobes.first), taken.last.eq(strobes.last),
            *(taken[name].eq(beat[name]) for name in (
                "id", "page", "index", "offset", "attributes", "flush", "denied", "message")),
        ]
        return ResetInserter(self.discard)(m)
