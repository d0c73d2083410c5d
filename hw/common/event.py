# SPDX-License-Identifier: Apache-2.0
"""Events: strobes with a payload, for receivers that can always take them."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.stream.shapes import ShapeLike

__all__ = ["EventSignature"]


class EventSignature(wiring.Signature):
    """Something that happens in this cycle.

    The source asserts ``valid`` for one cycle per event, with ``payload`` beside it. There is no back-pressure: the
    receiver takes every event in the cycle in which it is signalled.

    Parameters
    ----------
    payload : shape-like

    Members
    -------
    valid : ``Out(1)``
    payload : ``Out(payload)``
    """

    def __init__(self, payload: ShapeLike) -> None:
        super().__init__({"valid": Out(1), "payload": Out(payload)})
