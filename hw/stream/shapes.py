# SPDX-License-Identifier: Apache-2.0
"""Type of the ``shape`` argument of this package's components."""

from amaranth.hdl import Shape, ShapeCastable

__all__ = ["ShapeLike"]

ShapeLike = Shape | ShapeCastable | int | range | type
"""A layout, a number of bits, a range of numbers, or a class of Amaranth's ``Struct`` or ``Enum``."""
