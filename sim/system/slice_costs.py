# SPDX-License-Identifier: Apache-2.0
"""Costs of a slice that a request moves: from the end of its computation until a thread at the target sees it.

Two kinds of engines. Those of ARK (NSDI'23) have costs in seconds: shares of the one-way latencies of its ping-pong
test, 4.3 us with the hardware engine; 9.1 times that with a CPU-driven one, and 2.6 times with a software engine: 39 us
and 11.2 us, half of each at either end. They contain the memory's latency and PCIe. An endpoint beside the memory has
costs in clock cycles, and the simulator adds the memory's latency to them.
"""

from dataclasses import dataclass, fields, replace

from hw.endpoint.config import WIDE, EndpointConfig
from hw.errors import UserError

__all__ = ["DMA_ENGINES", "SliceCosts", "costs_of", "trigger_costs"]



@dataclass(frozen=True, kw_only=True)
class SliceCosts:
    """Costs of one slice beside the bytes on links and in memory. Cycles are those of ``clock_hz`` of the machine.

    Parameters
    ----------
    post_s : float
        Seconds from a thread's wish until the engine has the request.
    complete_s : float
        Seconds from the last byte's arrival until a thread at the target sees it.
    serial : bool
        A request begins when the one before of the same rank has completed.
    from_memory : bool
        The latency of the memory is added to reads, writes and the flag; False: the seconds contain it.
    tick_cycles : float
        From the store of a slice's last tick until its request is in the engine.
    request_cycles : float
        From there until the request's first read, and any other constant latency between source and target memory.
    interval_cycles : float
        Between the first reads of two requests of a rank, at least.
    engine_cycles : float
        For which a request occupies the rank's reads of memory, besides its beats.
    beat_cycles : float
        For each beat of a packet at each link port that receives it: a packet is forwarded when it is complete.
    notify_cycles : float
        From the memory's response to the last byte until the flag's write is issued.
    acknowledge_cycles : float
        From an acknowledgement's arrival until the segment's credit is free again, and any other cycles in which the
        segment has the credit; only with ``segment_bytes``.
    poll_cycles : float
        From the flag in memory until a thread sees it: half of the period of its poll, and the latency of its load.
    segment_bytes : int or None
        Bytes of a write, for which the neighbour sends one acknowledgement: a header on the link in the other
        direction. None: no acknowledgements and no limits; the following limits apply only with segments.
    in_flight : int or None
        Segments of a rank between their first read and their acknowledgement. None for no limit.
    queues : int
        Queues of the engine, whose segments are read in turn. A request is in the queue of the port through which it
        leaves, modulo their number; requests of a queue are read one after the other.
    window : int or None
        Segments of a queue between their first read and their retirement, in order. None for no limit.
    buffer_bytes : int or None
        Buffer for data that is not in a send queue yet. None for no limit.
    buffer_cycles : float
        From a segment's last beat until its part of the buffer is free.
    port_packets : int or None
        Packets in the send queue of a port. None for no limit.
    source : str
        Origin of the values.
    """

    post_s: float = 0.0
    complete_s: float = 0.0
    serial: bool = False
    from_memory: bool = False
    tick_cycles: float = 0.0
    request_cycles: float = 0.0
    interval_cycles: float = 0.0
    engine_cycles: float = 0.0
    beat_cycles: float = 0.0
    notify_cycles: float = 0.0
    acknowledge_cycles: float = 0.0
    poll_cycles: float = 0.0
    segment_bytes: int | None = None
    in_flight: int | None = None
    queues: int = 1
    window: int | None = None
    buffer_bytes: int | None = None
    buffer_cycles: float = 0.0
    port_packets: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name.endswith(("_s", "_cycles")) and not (isinstance(value, int | float)
                                                             and 0 <= value < float("inf")):
                raise UserError(f"{one.name} of a slice must be 0 or more, not {value!r}.")
        for name in ("segment_bytes", "in_flight", "queues", "window", "buffer_bytes", "port_packets"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UserError(f"{name} of a slice must be an integer from 1, not {value!r}.")
        if self.buffer_bytes is not None and self.segment_bytes is not None and self.buffer_bytes < self.segment_bytes:
            raise UserError(f"buffer_bytes of a slice must hold a segment of {self.segment_bytes:,} bytes, not "
                            f"{self.buffer_bytes:,}.")

    def without_latency(self) -> "SliceCosts":
        """Costs without what delays a slice but occupies nothing: posting, pipeline, notification and memory."""
        return replace(self, post_s=0.0 if not self.serial else self.post_s,
                       complete_s=0.0 if not self.serial else self.complete_s, from_memory=False, tick_cycles=0.0,
                       request_cycles=0.0, beat_cycles=0.0, notify_cycles=0.0, poll_cycles=0.0)

    def without_occupancy(self) -> "SliceCosts":
        """Costs without those that grow with the number of slices: intervals, acknowledgements, limits, one at a
        time."""
        return replace(self, serial=False, interval_cycles=0.0, engine_cycles=0.0,
                       segment_bytes=None)



def trigger_costs(config: EndpointConfig, *, queues: int = 1) -> SliceCosts:
    """Costs of requests that the trigger counters of an endpoint post, from the table of single puts in
    docs/endpoint.md, Performance (preset ``tiny``).

    A put of 64 bytes takes 48 cycles more than its bound, one of 256 bytes or more 120. A packet is stored completely
    at the sender, at the link port and at the receiver: 3 times 8, and 3 times 32 beats. 24 cycles remain: 7 are the
    port's (``transmit_cycles`` of the simulator's calibration), 17 are ``request_cycles``. They begin with a doorbell's
    store; the request of a last tick is 3 cycles later (docs/triggers.md, Latency): ``tick_cycles``. An SC word is in
    memory 24 cycles later than its bound: ``notify_cycles``, also for the receiver's flag. ``poll_cycles`` is 0: a
    slice is complete when its flag is in memory. Consecutive puts of 64 bytes have 0.581 of a link: 16 segments in 220
    cycles, of which ``acknowledge_cycles`` are those beyond the simulator's round trip. Memories of 100 cycles limit
    long puts to 0.90: a segment's part of the buffer is in use for 142 cycles, 10 more than the memory and the beats
    take (``buffer_cycles``). Sizes of segments and buffers are those of ``config``; cycles are the same for every
    preset. ``tests/sim/fused/test_calibration.py`` compares predictions with runs in RTL.

    Parameters
    ----------
    config : EndpointConfig
    queues : int
        Queues of the engine that triggers use.
    """
    return SliceCosts(
        from_memory=True, tick_cycles=3, request_cycles=17, beat_cycles=1, notify_cycles=24, acknowledge_cycles=30,
        segment_bytes=config.dma.segment_bytes, in_flight=config.dma.tags, queues=queues,
        window=config.dma.default_limit, buffer_bytes=config.dma.buffer_beats * config.beat_bytes, buffer_cycles=10,
        port_packets=config.ace.replay_beats // config.packet_beats,
        source="docs/endpoint.md, Performance: puts of the preset tiny; docs/triggers.md, Latency")


_ARK = "ARK, NSDI'23: half of the one-way latency of its ping-pong test, at either end"

DMA_ENGINES = {
    "cpu": SliceCosts(post_s=19.5e-6, complete_s=19.5e-6, source=_ARK),
    "software": SliceCosts(post_s=5.6e-6, complete_s=5.6e-6, serial=True, source=_ARK),
    "hardware": SliceCosts(post_s=2.15e-6, complete_s=2.15e-6, source=_ARK),
    "triggers": trigger_costs(WIDE),
}
"""Engines by name. ``hardware``: a GPU's store across PCIe is a request, or a tick. ``triggers``: counters of an
endpoint beside the memory, of the preset ``wide``."""


def costs_of(engine: str | SliceCosts) -> SliceCosts:
    """Costs of an engine by its name in :data:`DMA_ENGINES`, or these costs."""
    if isinstance(engine, SliceCosts):
        return engine
    if engine not in DMA_ENGINES:
        raise UserError(f"the engine must be one of {', '.join(DMA_ENGINES)}, not {engine!r}.")
    return DMA_ENGINES[engine]
