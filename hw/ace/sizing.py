# SPDX-License-Identifier: Apache-2.0
"""How many FSMs, slots and entries of link buffers an accelerator needs, for a shape, links and memory.

Little's law: a chunk is on the links for as long as its program takes, and chunks follow each other as fast as the
busiest link, or the memory port, allows. So the quotient of both times is the number of chunks on the links at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from .config import (
    AHEAD_BEATS,
    LINK_SEQUENCE_WIDTH,
    MOST_FSMS,
    MOST_LINK_BEATS,
    MOST_SLOTS,
    WIRE_HEADER_BYTES,
    AceConfig,
)

__all__ = ["HOP_CYCLES", "Needs", "needs", "one_way", "sized", "wire_beats"]

HOP_CYCLES = 28
"""Most cycles of a hop besides the link's latency and the packet: with all timing options."""

PORT_CYCLES = 24
"""Cycles from a packet that leaves a link's receive buffer to its credit at the sender, besides the link's latency."""

MOVER_CYCLES = 120
"""Cycles to fill and to drain a chunk, besides memory and payload."""

FEW_FSMS = 16
"""FSMs that shorter chunks are worth."""

SHORT_BEATS = 128
"""Beats of the shortest chunk."""

SHORT_PACKET_BEATS = 16
"""Beats of the shortest packets: by simulation, a ring of 4 is not faster with shorter ones."""

MARGIN = 1.5
"""Chunks on the links, relative to evenly spaced ones: they leave in the order of their age, in messages."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Sizes at which links of a rate and a latency are kept busy; see :class:`AceConfig` for the fields.

    Attributes
    ----------
    pipes, fsms, slots, chunk_bytes, packet_bytes, link_beats, replay_beats : int
        Powers of two.
    sustained : bool
        They suffice. Otherwise a field is at its maximum, and links or memory are idle some of the time.
    """

    pipes: int
    fsms: int
    slots: int
    chunk_bytes: int
    packet_bytes: int
    link_beats: int
    replay_beats: int
    sustained: bool


def needs(config: AceConfig, shape: Sequence[int], *, link_rate: float, link_latency: int, memory_latency: int,
          chunk_bytes: int | None = None) -> Needs:
    """Sizes for an all-reduce of many chunks.

    Parameters
    ----------
    config : AceConfig
        Width, packets, and the chunk: shorter ones, if :data:`FEW_FSMS` suffice, because a message ends with the hops
        of its last chunk; and longer ones if :data:`~hw.ace.config.MOST_FSMS` do not suffice. On a ring whose links
        are idle some of the time, because memory is the bottleneck, shorter packets, for the same reason.
    shape : sequence of int
        Ranks along each dimension of the torus.
    link_rate : float
        Beats per cycle in each direction of a link, headers included.
    link_latency, memory_latency : int
        Cycles.
    chunk_bytes : int, optional
        Chunks of this length, whatever it takes, and packets as ``config`` has them.
    """
    sizes = [size for size in shape if size > 1]
    wanted = chunk_bytes
    chunk_bytes = wanted or min(config.chunk_bytes, _shortest(config, sizes))
    if not wanted:
        config = replace(config, packet_bytes=_packet_bytes(config, sizes, link_rate))
    while True:
        beats = chunk_bytes // config.beat_bytes
        time, interval = _on_links(config, sizes, beats, link_rate, link_latency), _interval(
            config, sizes, beats, link_rate)
        fsms = ceil(MARGIN * time / interval) + 1
        enough = FEW_FSMS if chunk_bytes < config.chunk_bytes else MOST_FSMS
        if wanted or fsms <= enough or chunk_bytes == config.most_chunk_bytes:
            break
        chunk_bytes *= 2
    moving = 2 * (beats + memory_latency) + MOVER_CYCLES
    slots = _power(fsms, 2, MOST_FSMS) + ceil(moving / interval)
    packet = config.packet_beats + WIRE_HEADER_BYTES / config.beat_bytes
    turn = 2 * link_latency + PORT_CYCLES + 3 * packet / link_rate
    link_beats = ceil(link_rate * turn) + config.packet_beats
    replay_beats = link_beats + AHEAD_BEATS + config.packet_beats
    window = (1 << LINK_SEQUENCE_WIDTH - 1) * packet / link_rate
    return Needs(
        pipes=_pipes(config, sizes, link_rate), fsms=_power(fsms, 2, MOST_FSMS),
        slots=_power(slots, 2, MOST_SLOTS), chunk_bytes=chunk_bytes, packet_bytes=config.packet_bytes,
        link_beats=_power(link_beats, 2 * config.packet_beats, MOST_LINK_BEATS),
        replay_beats=_power(replay_beats, 4 * config.packet_beats, MOST_LINK_BEATS),
        sustained=fsms <= MOST_FSMS and slots <= MOST_SLOTS and replay_beats <= MOST_LINK_BEATS and window >= turn)


def sized(config: AceConfig, shape: Sequence[int], *, link_rate: float, link_latency: int,
          memory_latency: int) -> AceConfig:
    """``config`` with what :func:`needs` says."""
    found = needs(config, shape, link_rate=link_rate, link_latency=link_latency, memory_latency=memory_latency)
    return replace(config, pipes=found.pipes, fsms=found.fsms, slots=found.slots, chunk_bytes=found.chunk_bytes,
                   message_bytes=min(config.message_bytes, found.chunk_bytes), packet_bytes=found.packet_bytes,
                   link_beats=found.link_beats, replay_beats=found.replay_beats)


def one_way(shape: Sequence[int]) -> list[float]:
    """Share of an all-reduce's buffer that each direction of a rank's links carries, by dimension.

    The first dimension of more than one rank scatters, and at last gathers, the whole buffer; each other one
    all-reduces a rank's own part of it.
    """
    first = next((dimension for dimension, ranks in enumerate(shape) if ranks > 1), 0)
    return [(ranks - 1) / ranks / (1 if dimension == first else shape[first])
            for dimension, ranks in enumerate(shape)]


def wire_beats(config: AceConfig) -> float:
    """Beats on a link for each beat of payload, in packets as long as they may be."""
    return (config.packet_bytes + WIRE_HEADER_BYTES) / config.packet_bytes


def _shortest(config: AceConfig, sizes: Sequence[int]) -> int:
    """Bytes of a chunk whose pieces fill packets, and that takes longer to move than stages take to begin one."""
    return max(1 << (config.packet_bytes * prod(sizes) - 1).bit_length(), SHORT_BEATS * config.beat_bytes)


def _packet_bytes(config: AceConfig, sizes: Sequence[int], link_rate: float) -> int:
    """Bytes of the packets that an accelerator should have: a hop takes as long as a packet, so on a ring the shortest
    ones whose headers the links have time for while memory moves the buffer."""
    size = config.packet_bytes
    while len(sizes) == 1 and size // 2 >= max(64, SHORT_PACKET_BEATS * config.beat_bytes):
        shorter = replace(config, packet_bytes=size // 2)
        if max(one_way(sizes)) * wire_beats(shorter) / link_rate > 1:
            break
        size //= 2
    return size


def _interval(config: AceConfig, sizes: Sequence[int], beats: int, link_rate: float) -> float:
    """Cycles from one chunk to the next, at the rate of the memory port or of the busiest dimension's links."""
    return max([beats, *(wire_beats(config) / link_rate * beats * share for share in one_way(sizes))])


def _on_links(config: AceConfig, sizes: Sequence[int], beats: int, link_rate: float, link_latency: int) -> float:
    """Cycles of a chunk's program: all hops one after the other, each at least as long as the payload of its step."""
    wire = wire_beats(config) / link_rate
    total, packet = 0.0, min(config.packet_beats, max(1.0, beats / prod(sizes)))
    for number, size in enumerate(sizes):
        # Beats of a step: the first dimension moves a block of the chunk, the others of the rank's own block.
        step = beats / size if number == 0 else beats / sizes[0] / size
        hop = link_latency + HOP_CYCLES + packet / link_rate
        total += 2 * (size - 1) * max(hop, wire * step) + wire * step
        if number:
            total += link_latency + HOP_CYCLES      # the GRANT of a further phase
    return total


def _pipes(config: AceConfig, sizes: Sequence[int], link_rate: float) -> int:
    """Pipes for the beats per cycle that arrive: those of the whole buffer twice while it passes the memory port, or
    those of the links if they are slower."""
    beats = config.chunk_beats
    arriving = 2 * sum(one_way(sizes)) * beats / _interval(config, sizes, beats, link_rate)
    wanted = 1 if arriving <= 0.9 else 2 if len(sizes) == 1 else 4
    return min(wanted, config.dimensions * 2)


def _power(value: int, low: int, high: int) -> int:
    """The power of two from ``low`` to ``high`` that is at least ``value``, or ``high``."""
    return min(high, max(low, 1 << (value - 1).bit_length()))
