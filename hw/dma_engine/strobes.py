# SPDX-License-Identifier: Apache-2.0
"""Strobes with several receivers: events of a segment, a request or a queue in this cycle.

One driver, any number of receivers, no back-pressure: every receiver takes a strobe in the cycle in which ``valid`` is
high. The other members are undefined while it is low.
"""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from .config import TARGETS, DmaConfig
from .layouts import (
    STATUS_WIDTH,
    done_layout,
    launch_layout,
    log_layout,
    scheduled_layout,
    word_id_layout,
)

__all__ = ["DoneSignature", "LaunchSignature", "OutcomeSignature", "QueueStrobeSignature", "RejectionSignature",
           "RetiredSignature", "ReturnedSignature", "ScheduledSignature", "WrittenSignature"]


class QueueStrobeSignature(wiring.Signature):
    """An event of one queue; the port that carries the strobe defines the event."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits)})


class ScheduledSignature(wiring.Signature):
    """The scheduler issues a segment, at most one per cycle: it gets a number in its queue's window and enters the
    pipeline.

    Members
    -------
    valid : ``Out(1)``, segment : ``Out(scheduled_layout)``
    beats : ``Out``, beyond : ``Out(1)``
        Destination beats less one, and whether the source has one beat more than the destination.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "segment": Out(scheduled_layout(config)),
                          "beats": Out(range(config.segment_beats)), "beyond": Out(1)})


class LaunchSignature(wiring.Signature):
    """Read issue gives a segment a tag, at most one per cycle.

    Members
    -------
    read : ``Out(1)``
        Its read is in flight: buffer slots for all its beats are reserved.
    signal : ``Out(1)``
        It is a signal, which reads nothing. Never together with ``read``.
    payload : ``Out(launch_layout)``
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"read": Out(1), "signal": Out(1), "payload": Out(launch_layout(config))})


class RejectionSignature(wiring.Signature):
    """A segment that failed its checks ends without a tag."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "index": Out(config.index_width),
                          "status": Out(STATUS_WIDTH)})


class DoneSignature(wiring.Signature):
    """Memory has responded to a segment's write; ``tag`` is free from now on."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "tag": Out(config.tag_bits), "payload": Out(done_layout(config))})


class WrittenSignature(wiring.Signature):
    """Memory has responded to the write of a completion word, record, flag or signal word; ``id`` is its AXI ID."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "id": Out(word_id_layout(config)), "failed": Out(1)})


class ReturnedSignature(wiring.Signature):
    """A segment leaves the pipeline, whatever its epoch: each scheduled segment returns once, with the size in bytes
    less one, the target and the phase with which it entered.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "size": Out(config.segment_bits),
                          "target": Out(range(TARGETS)), "phase": Out(1)})


class RetiredSignature(wiring.Signature):
    """A queue's window advances past its oldest segment, the queue's segment ``number``, which had the entry ``index``.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "number": Out(config.flight_width),
                          "index": Out(config.index_width)})


class OutcomeSignature(wiring.Signature):
    """Effects of the last stage of retirement on ``queue``.

    Members
    -------
    ended : ``Out(1)``
        A request was counted.
    failed : ``Out(1)``, log : ``Out(log_layout)``
        A request or the queue failed; the entry for the error log.
    interrupt : ``Out(1)``
        A request with the IRQ flag succeeded.
    reset : ``Out(1)``
        The queue's reset is complete; it has nothing in flight.
    queue : ``Out``
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"ended": Out(1), "failed": Out(1), "interrupt": Out(1), "reset": Out(1),
                          "queue": Out(config.queue_bits), "log": Out(log_layout(config))})
