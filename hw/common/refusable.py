# SPDX-License-Identifier: Apache-2.0
"""Refusable streams: the receiver takes each item, and accepts or refuses it."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.shapes import ShapeLike

__all__ = ["RefusableSignature"]


class RefusableSignature(wiring.Signature):
    """A stream with a verdict on each item.

    Parameters
    ----------
    payload : shape-like

    Members
    -------
    valid : ``Out(1)``, ready : ``In(1)``, payload : ``Out(payload)``
        As in ``stream.Signature``.
    refused : ``In(1)``
        The item is refused; valid in the cycle of the transfer, combinational.
    """

    def __init__(self, payload: ShapeLike) -> None:
        super().__init__({"valid": Out(1), "ready": In(1), "payload": Out(payload), "refused": In(1)})
