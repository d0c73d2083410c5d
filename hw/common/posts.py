# SPDX-License-Identifier: Apache-2.0
"""Words that other parts of an endpoint post to an engine's queues, as if they were stored to the doorbell."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .refusable import RefusableSignature

__all__ = ["WORD_BITS", "PostPortSignature", "post_layout"]

WORD_BITS = 128


def post_layout(pages: int) -> data.StructLayout:
    """A word for the page of queue ``queue`` of an engine with ``pages`` pages."""
    return data.StructLayout({"queue": range(pages), "data": WORD_BITS})


class PostPortSignature(wiring.Signature):
    """Words for an engine with ``pages`` doorbell pages.

    Members
    -------
    words : ``Out(RefusableSignature(post_layout))``
    free : ``In(pages)``
        Queues that have no word behind their head entry, or are driven by a ring. They can accept at least four words
        more than those posted up to two cycles before.
    """

    def __init__(self, pages: int) -> None:
        super().__init__({"words": Out(RefusableSignature(post_layout(pages))), "free": In(pages)})
