# SPDX-License-Identifier: Apache-2.0
"""The CRC of a packet, beat by beat: of the 12 bytes of the header, then of the payload if the kind has one."""

from amaranth import *

from hw.ace.layouts import PAYLOAD_KINDS
from hw.common.crc import CRC_WIDTH, continued

__all__ = ["HEADER_BITS", "packet_crc"]

HEADER_BITS = 96
"""Width of the header on the wire; unused bits are 0."""


def packet_crc(m, beat, before):
    """CRC up to and including ``beat``, of ``link_layout``; ``before`` is that of the previous beats. Combinational."""
    header, payload = Value.cast(beat.header), Value.cast(beat.data)
    alone, begun, after = Signal(CRC_WIDTH), Signal(CRC_WIDTH), Signal(CRC_WIDTH)
    kind, long = beat.header.packet.kind, Signal()
    m.d.comb += [
        alone.eq(continued(m, header, zeros=HEADER_BITS - len(header))),
        begun.eq(Mux(beat.first, alone, before)), after.eq(continued(m, payload, begun)),
        long.eq(~beat.first | Cat(kind == one for one in PAYLOAD_KINDS).any()),
    ]
    return Mux(long, after, begun)
