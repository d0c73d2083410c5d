# SPDX-License-Identifier: Apache-2.0
"""A passive monitor that asserts the rules of a stream; for simulation and formal proofs."""

from amaranth import *
from amaranth.hdl import Assert, Format
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.stream.shapes import ShapeLike

__all__ = ["StreamChecker"]


class StreamChecker(wiring.Component):
    """Assert that an offered item stays on offer, unchanged, until it is accepted.

    Failing assertions stop a simulation; the message starts with ``name``. Nothing is checked in
    reset.

    Parameters
    ----------
    shape : shape-like
        Payload shape.
    name : str
        What messages call the stream.

    Members
    -------
    payload : ``In(shape)``, valid : ``In(1)``, ready : ``In(1)``
        The stream watched; :meth:`observe` connects them.
    """

    def __init__(self, shape: ShapeLike, *, name: str = "stream") -> None:
        self.shape = shape
        self.name = name
        super().__init__({
            "payload": In(shape),
            "valid": In(1),
            "ready": In(1),
        })

    def observe(self, watched):
        """Statements for ``m.d.comb`` that connect the stream ``watched``, from either of its ends."""
        return [
            Value.cast(self.payload).eq(Value.cast(watched.payload)),
            self.valid.eq(watched.valid),
            self.ready.eq(watched.ready),
        ]

    def elaborate(self, platform):
        m = Module()

        payload = Value.cast(self.payload)
        stalled = Signal()
        offered = Signal(len(payload), reset_less=True)
        m.d.sync += [stalled.eq(self.valid & ~self.ready), offered.eq(payload)]

        with m.If(stalled & ~ResetSignal(allow_reset_less=True)):
            m.d.sync += Assert(self.valid, Format(f"{_literal(self.name)}: valid fell before the transfer"))
            with m.If(self.valid):
                m.d.sync += Assert(payload == offered, Format(
                    f"{_literal(self.name)}: payload changed from {{:#x}} to {{:#x}} before the transfer",
                    offered, payload))

        return m


def _literal(text: str) -> str:
    """``text`` as it must stand in a format string."""
    return text.replace("{", "{{").replace("}", "}}")
