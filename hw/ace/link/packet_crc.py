# SPDX-License-Identifier: Apache-2.0
"""The CRC of a packet, beat by beat: of the 12 bytes of the header, then of the payload if the kind has one."""

from amaranth import *

from hw.ace.layouts import PAYLOAD_KINDS
from hw.common.crc import CRC_WIDTH, continued

__all__ = ["HEADER_BITS", "header_crc", "packet_crc"]

HEADER_BITS = 96
"""Width of the header on the wire; unused bits are 0."""


def header_crc(m, header):
    """CRC of ``header``, of ``link_header_layout``. Combinational."""
    header = Value.cast(header)
    return continued(m, header, zeros=HEADER_BITS - len(header))


def packet_crc(m, beat, before, alone):
    """CRC up to and including ``beat``, of ``link_layout``; ``before`` is that of the previous beats, ``alone`` that of
    the beat's header. Combinational."""
    begun, after, long = Signal(CRC_WIDTH), Signal(CRC_WIDTH), Signal()
    kind = beat.header.packet.kind
    m.d.comb += [
        begun.eq(Mux(beat.first, alone, before)), after.eq(continued(m, Value.cast(beat.data), begun)),
        long.eq(~beat.first | Cat(kind == one for one in PAYLOAD_KINDS).any()),
    ]
    return Mux(long, after, begun)
