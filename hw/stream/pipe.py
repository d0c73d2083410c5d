# SPDX-License-Identifier: Apache-2.0
"""Connect stages in a row, each one's output to the next one's input, refusing unequal payloads."""

from itertools import pairwise

from amaranth.hdl import Shape, ShapeCastable
from amaranth.lib.wiring import connect

__all__ = ["pipe"]


def pipe(m, *stages):
    """Connect ``o`` of each stage to ``i`` of the next.

    ``connect()`` compares widths only, so a stream of ``{data, last}`` would go into one of
    ``{data, first}``; here the payload shapes must be equal.

    Parameters
    ----------
    m : :class:`Module`
        Gets the connections. Adding the stages as submodules is up to the caller, who names them.
    *stages : component or stream
        Two or more. The first may be a stream to read from and the last one to write to, such as
        ``flipped(self.i)`` and ``flipped(self.o)``.

    Raises
    ------
    TypeError
        If two payload shapes differ.
    """
    for number, (stage, after) in enumerate(pairwise(stages)):
        source = getattr(stage, "o", stage)
        sink = getattr(after, "i", after)
        offered, wanted = (_comparable(end.signature.members["payload"].shape) for end in (source, sink))
        if offered != wanted:
            raise TypeError(
                f"Stage {number} ({type(stage).__name__}) offers payloads of {offered!r}, "
                f"but stage {number + 1} ({type(after).__name__}) takes {wanted!r}")
        connect(m, source, sink)


def _comparable(shape):
    """``8`` and ``unsigned(8)`` are the same; layouts and enumerations are compared as they are."""
    return shape if isinstance(shape, ShapeCastable) else Shape.cast(shape)
