# SPDX-License-Identifier: Apache-2.0
"""Interrupts of queues: strobes with the number of a queue."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

__all__ = ["QueueInterruptsSignature"]


class QueueInterruptsSignature(wiring.Signature):
    """Requests of interrupts, by queue. Both may come in one cycle, for one queue or for two.

    Members
    -------
    written : ``valid`` and ``queue``
        Strobe: memory has responded to a word that reports a request with an interrupt.
    completed : ``valid`` and ``queue``
        Strobe: a request with an interrupt has completed, and no word reports it.
    """

    def __init__(self, queue_bits: int) -> None:
        strobe = wiring.Signature({"valid": Out(1), "queue": Out(queue_bits)})
        super().__init__({"written": Out(strobe), "completed": Out(strobe)})
