# SPDX-License-Identifier: Apache-2.0
"""``beat.h`` for the C++ sources that have links: sizes, and the positions of a beat's fields."""

from typing import Any

from amaranth.hdl import Shape

from hw.ace.config import WIRE_HEADER_BYTES, AceConfig
from hw.ace.layouts import PAYLOAD_KINDS, link_layout

__all__ = ["beat_header"]


def beat_header(config: AceConfig, id_bits: int) -> str:
    """Text of ``beat.h`` for an accelerator of these sizes, with the ID bits of its memory port."""
    layout = link_layout(config)
    whole, crc, header = _place(layout, "header"), _place(layout, "crc"), _place(layout, "header", "packet")
    kind = _place(layout, "header", "packet", "kind")
    values = {
        "PORTS": config.ports, "ID_BITS": id_bits,
        "DATA_BYTES": config.beat_bytes, "BEAT_HEADER_BYTES": WIRE_HEADER_BYTES,
        "BEAT_FIRST": _place(layout, "first").start, "BEAT_LAST": _place(layout, "last").start,
        "BEAT_KIND": kind.start, "BEAT_KIND_WIDTH": len(kind),
        "BEAT_PAYLOAD_KINDS": sum(1 << kind.value for kind in PAYLOAD_KINDS),
        "BEAT_HEADER": header.start, "BEAT_HEADER_WIDTH": len(header),
        "BEAT_LINK_HEADER": whole.start, "BEAT_LINK_HEADER_WIDTH": len(whole),
        "BEAT_CRC": crc.start, "BEAT_CRC_WIDTH": len(crc), "BEAT_DATA": _place(layout, "data").start,
    }
    return "".join(f"#define ACE_{name} {value}\n" for name, value in values.items())


def _place(layout: Any, *path: str) -> range:
    """Bits of a field of a field, as a range."""
    start = 0
    for name in path:
        start, layout = start + layout[name].offset, layout[name].shape
    return range(start, start + Shape.cast(layout).width)
