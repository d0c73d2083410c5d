# SPDX-License-Identifier: Apache-2.0
"""Payloads between the managers of the memory port and the port itself, sized by the configuration."""

from amaranth import *
from amaranth.lib import data

from hw.ace.layouts import PacketKind
from hw.axi.streams import read_beat_layout as axi_read_beat_layout
from hw.axi.streams import read_burst_layout, write_beat_layout, write_response_layout
from hw.triggers.config import INDEX_WIDTH

from .config import ADDR_WIDTH, EXPORT_WIDTH, REMOTE_BIT, REMOTE_EXPORT_LSB, REMOTE_OFFSET_WIDTH, REMOTE_PORT_LSB

__all__ = [
    "DONE_WIDTH",
    "RemoteLayout",
    "done_layout",
    "export_layout",
    "header_view",
    "put_layout",
    "read_beat_layout",
    "read_layout",
    "response_layout",
    "write_layout",
]

DONE_WIDTH = 8
"""Bits of the number of writes that one PUT_DONE packet completes."""


def read_layout(config):
    """A read burst."""
    return read_burst_layout(addr_width=ADDR_WIDTH, id_width=config.source_id_width)


def read_beat_layout(config):
    """A beat of read data."""
    return axi_read_beat_layout(data_width=config.data_width, id_width=config.source_id_width)


def write_layout(config):
    """A beat to be written; the first of a burst carries the address as well."""
    return write_beat_layout(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=config.source_id_width)


def response_layout(config):
    """The response to a write burst."""
    return write_response_layout(id_width=config.source_id_width)


RemoteLayout = data.StructLayout({
    "offset": REMOTE_OFFSET_WIDTH, "zero": REMOTE_EXPORT_LSB - REMOTE_OFFSET_WIDTH,
    "export": REMOTE_PORT_LSB - REMOTE_EXPORT_LSB, "port": REMOTE_BIT - REMOTE_PORT_LSB, "remote": 1,
})
"""An address; the other fields have no meaning while ``remote`` is 0."""


def put_layout(config):
    """Header of a PUT packet.

    ``export``: number of the span. ``offset``: offset of the first byte in the span. ``end_lane``: byte lane of the
    last byte. ``ends``: last packet of its write, which gets a result. ``void``: the packet writes nothing.
    """
    return data.StructLayout({
        "kind": PacketKind, "export": EXPORT_WIDTH, "offset": REMOTE_OFFSET_WIDTH, "end_lane": config.lane_bits,
        "ends": 1, "void": 1})


def done_layout(config):
    """Header of a PUT_DONE packet: the ``puts`` oldest writes are complete; if ``failed``, the last of them failed."""
    return data.StructLayout({"kind": PacketKind, "puts": DONE_WIDTH, "failed": 1})


def header_view(layout, flit):
    """A flit's header, seen as ``layout``."""
    return data.View(layout, Value.cast(flit.header)[:layout.size])


def export_layout():
    """A span that neighbours at some ports may write; its base is a multiple of 4096.

    ``counts``: puts to it count in trigger counters of ``block``, from ``first`` on, one for each 2 ** ``shift`` bytes.
    """
    return data.StructLayout({
        "base_page": ADDR_WIDTH - 12, "length": REMOTE_OFFSET_WIDTH + 1, "ports": 6, "counts": 1, "block": 3,
        "first": INDEX_WIDTH, "shift": 5})
