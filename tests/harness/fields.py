# SPDX-License-Identifier: Apache-2.0
"""Structures as integers: quicker in Amaranth's simulator than its constants, for benches that drive many cycles."""

from amaranth import Shape
from amaranth.lib import data

__all__ = ["Fields"]


class Fields:
    """The fields of a structure layout, those of inner structures as ``outer.inner``.

    ``positions`` has each field's lowest bit and width. ``pack`` makes an integer of the named fields, all others 0;
    ``mask`` has the bits of the named fields set.
    """

    def __init__(self, layout):
        self.positions = {}
        self.width = Shape.cast(layout).width
        self._add(layout, "", 0)

    def _add(self, layout, prefix, base):
        for name, field in layout:
            path, shape = prefix + name, field.shape
            self.positions[path] = base + field.offset, Shape.cast(shape).width
            inner = shape if isinstance(shape, data.Layout) else getattr(shape, "as_shape", lambda: None)()
            if isinstance(inner, data.Layout):
                self._add(inner, f"{path}.", base + field.offset)

    def pack(self, fields):
        value = 0
        for name, bits in fields.items():
            offset, width = self.positions[name]
            value |= (int(bits) & ((1 << width) - 1)) << offset
        return value

    def mask(self, fields):
        return sum(((1 << width) - 1) << offset for offset, width in map(self.positions.get, fields))

    def unpack(self, value, name):
        offset, width = self.positions[name]
        return value >> offset & ((1 << width) - 1)
