# SPDX-License-Identifier: Apache-2.0
"""Read bursts cut into read requests.

AR -> ReadSplitter -> ReadIssue.  Latency: 1 cycle.  Throughput: one piece per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..attributes import tlp_attributes
from ..config import ATTRIBUTE_WIDTH, MIN_PAYLOAD_BYTES, PcieConfig
from ..layouts import read_burst_layout
from .order_rows import order_row
from .read_layouts import RowSignature, beat_bits, chunk_bits, read_piece_layout

__all__ = ["ReadSplitter"]


class ReadSplitter(wiring.Component):
    """Cut at each multiple of the longest request, and so at beats and at the read completion boundary.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bursts : ``In(stream.Signature(read_burst_layout))``
        ``ready`` depends on ``pieces.ready``.
    pieces : ``Out(stream.Signature(read_piece_layout))``
        From registers, through up to 6 levels of logic.
    row : ``Out(RowSignature)``
        Row of the accepted burst.
    max_read : ``In(3)``
        MRRS. A piece obeys the value of the cycle in which it leaves.
    discard : ``In(1)``
        Drop bursts, the current one too.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "bursts": In(stream.Signature(read_burst_layout(config))),
            "pieces": Out(stream.Signature(read_piece_layout(config))), "row": Out(RowSignature(config)),
            "max_read": In(3), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, burst, piece = self.config, self.bursts.payload, self.pieces.payload
        lane, dword_lane = config.lane_bits, config.dword_lane_bits
        busy = Signal()
        page = Signal(len(burst.addr) - 12)
        number = Signal(config.axi_id_width)
        beat = Signal(beat_bits(config))
        last = Signal.like(beat)
        offset = Signal(lane)
        row, attributes = Signal(config.order_bits), Signal(ATTRIBUTE_WIDTH)

        # A piece ends with the burst or before the next multiple of the longest request.
        mask = Signal(chunk_bits(config))
        sizes = range(len(mask) + lane - (MIN_PAYLOAD_BYTES - 1).bit_length() + 1)
        with m.Switch(self.max_read):
            for size in sizes[:-1]:
                with m.Case(size):
                    m.d.sync += mask.eq((MIN_PAYLOAD_BYTES << size) // config.beat_bytes - 1)
            with m.Default():
                m.d.sync += mask.eq(-1)
        final, end = Signal(), Signal.like(beat)
        beats = Signal.like(piece.left)
        m.d.comb += [
            final.eq(_same_chunk(beat, last, mask)),
            end.eq(Mux(final, last, beat | mask)),
            beats.eq((end[:len(mask)] - beat[:len(mask)])[:len(mask)] + 1),
        ]

        # Byte enables: of its first DW, an unaligned piece omits the bytes before the burst.
        single, enables = Signal(), Signal(4)
        m.d.comb += [
            enables.eq((0b1111 << offset[:2])[:4]),
            single.eq((beats == 1) & offset[2:].all()),
            piece.id.eq(number), piece.row.eq(row), piece.address.eq(Cat(offset[2:], beat, page)),
            piece.offset.eq(offset[:2]), piece.dwords.eq((beats << dword_lane) - offset[2:]),
            piece.first_be.eq(enables), piece.last_be.eq(Mux(single, 0, 0b1111)), piece.attributes.eq(attributes),
            piece.left.eq(beats), piece.ends_burst.eq(final),
            self.pieces.valid.eq(busy & ~self.discard),
        ]

        accept = Signal()
        m.d.comb += [
            self.bursts.ready.eq(~busy | self.discard | self.pieces.ready & final),
            accept.eq(self.bursts.valid & self.bursts.ready & ~self.discard),
            self.row.valid.eq(accept), self.row.row.eq(order_row(config, burst.id)),
        ]
        with m.If(self.pieces.ready):
            m.d.sync += [beat.eq(end + 1), offset.eq(0)]
        with m.If(self.bursts.ready):
            m.d.sync += [
                busy.eq(accept), page.eq(burst.addr[12:]), number.eq(burst.id), row.eq(self.row.row),
                beat.eq(burst.addr[lane:12]), last.eq(burst.addr[lane:12] + burst.len), offset.eq(burst.addr[:lane]),
                attributes.eq(tlp_attributes(burst)),
            ]
        return m


def _same_chunk(beat, last, mask):
    """Whether both beats are in one chunk of the longest request."""
    different = beat ^ last
    return ~((different[:len(mask)] & ~mask).any() | different[len(mask):].any())
