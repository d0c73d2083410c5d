# SPDX-License-Identifier: Apache-2.0
"""The parts of a chunk that a rank sends: the accelerator's step tables, cut into the grains that are simulated."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from hw.ace.config import COLUMN_BYTES
from hw.ace.programs.program import Phase, Program
from hw.ace.programs.schedule import plan
from hw.ace.words import Collective, SendWord
from hw.errors import UserError

from . import switched
from .configuration import MAX_RANKS, MachineConfig
from .grains import Grain, Leg, Route, packets_of
from .rings import symbolic

__all__ = ["Grain", "Leg", "Route", "piece_bytes", "program", "route"]


def program(config: MachineConfig, collective: Collective, shape: tuple[int, ...], dimensions: tuple[int, ...],
            coordinates: tuple[int, ...], *, up: bool, role: tuple[int, ...] | None = None) -> Program:
    """Program of a rank: :func:`hw.ace.programs.schedule.plan` makes it or, for other algorithms,
    :func:`.rings.symbolic`."""
    if switched.without_forwarding(config, collective, dimensions):
        return switched.Direct(**vars(symbolic("hierarchical", collective, shape, dimensions, up=up)))
    if config.algorithm == "hierarchical" and not config.blocking:
        made: Program = plan(collective, shape, dimensions, coordinates, up=up, role=role, max_ranks=MAX_RANKS)
        return made
    return symbolic(config.algorithm, collective, shape, dimensions, up=up)


def piece_bytes(config: MachineConfig, made: Program) -> int:
    """Bytes of a chunk in each position."""
    piece = config.chunk_bytes // made.positions
    if config.kind.engine != "sram":
        return max(1, piece)
    unit = max(COLUMN_BYTES, config.beat_bytes)
    if piece < unit:
        raise UserError(f"{made.positions} positions of {unit} bytes do not fit in a chunk of "
                        f"{config.chunk_bytes:,} bytes; chunk_bytes must be at least {made.positions * unit:,}.")
    return piece // unit * unit


def route(config: MachineConfig, made: Program, piece: int) -> Route:
    """The :class:`Route` of a program for a chunk with ``piece`` bytes in each position. An accelerator sends whole
    beats."""
    if config.kind.engine == "sram" and config.beat_bytes > COLUMN_BYTES:
        piece = -(-piece // config.beat_bytes) * config.beat_bytes
    # Messages of a coarse chunk are longer, too: as many as another chunk has.
    scale = 1 if config.most_chunks is None else max(1, piece // piece_bytes(config, made))
    legs = tuple(
        switched.leg(config, made, phase, piece, scale) if isinstance(made, switched.Direct) and
        switched.applies(config, phase.port // 2) else _leg(config, phase, piece, scale) for phase in made.phases)
    fills, drains = ([run.count for run in runs] for runs in (made.fills, made.drains))
    if not config.whole_packets:
        return Route(sum(fills), sum(drains), legs)
    marks = tuple(end for end, run in zip(accumulate(fills), made.fills, strict=True) if run.mark)
    if not made.parts:
        return Route(sum(fills), sum(drains), legs, marks)
    rest = sum(grain.send == len(made.phases[-1].sends) - 1 for grain in legs[-1].grains)
    return Route(sum(fills), sum(drains), legs, marks, sum(drains[:-1]), rest)


def _leg(config: MachineConfig, phase: Phase, piece: int, scale: int) -> Leg:
    size = phase.span * piece
    sends = phase.sends
    groups = [[send] for send in range(len(sends))] if config.whole_packets or config.blocking else _steps(sends)
    limit = config.packet_bytes if config.whole_packets else config.message_bytes * scale
    cut: list[tuple[int, int, int]] = []      # first byte, end, and last send of each grain
    ends: list[int] = []                      # bytes sent up to the end of each grain
    for group in groups:
        first, total = group[0] * size, len(group) * size
        parts = -(-total // limit)
        cuts = [min(limit * part, total) for part in range(parts + 1)] if config.whole_packets else \
            [total * part // parts for part in range(parts + 1)]
        for low, high in pairwise(cuts):
            ends.append(first + high)
            cut.append((first + low, first + high, group[-1]))
    made: list[Grain] = []
    had = 0
    for number, (low, high, last) in enumerate(cut):
        send = min((high - 1) // size, len(sends) - 1) if size else last
        bytes_needed = _needed(config, sends, size, send, high, last)
        while had < len(ends) and (0 if not had else ends[had - 1]) < bytes_needed:
            had += 1
        need = had if bytes_needed else 0
        if config.blocking:
            need = max(need, number)
        ended = high == (send + 1) * size
        one, offset = sends[send], low - send * size
        made.append(Grain(high - low, _packets(config, low, high, size), need, send, ended, bool(one.reduce),
                          one.grants if ended and config.whole_packets else 0,
                          one.source * piece + offset, one.target * piece + offset))
    comes = len(made) if phase.receives == len(sends) else _count(config, phase.receives, size, scale)
    granted = phase.granted if config.whole_packets else phase.receives
    return Leg(phase.port, tuple(made), comes, granted, any(send.next for send in sends))


def _needed(config: MachineConfig, sends: Sequence[SendWord], size: int, send: int, high: int, last: int) -> int:
    """Bytes that must have been received before the grain that ends at byte ``high`` may be sent."""
    if not config.cut_through:
        return sends[last].need * size
    need = sends[send].need
    return (need - 1) * size + min(high - send * size, size) if need else 0


def _steps(sends: Sequence[SendWord]) -> list[list[int]]:
    """Groups of consecutive sends that do not depend on each other: the steps of the ring."""
    groups: list[list[int]] = []
    first = 0
    for number, send in enumerate(sends):
        if number and send.need > first:
            first = number
        if first == number:
            groups.append([])
        groups[-1].append(number)
    return groups


def _packets(config: MachineConfig, low: int, high: int, size: int) -> int:
    """Packets between two byte positions; no packet crosses the end of a send's ``size`` bytes."""
    count = 0
    while low < high:
        end = min(high, (low // size + 1) * size)
        count += packets_of(config, end - low)
        low = end
    return count


def _count(config: MachineConfig, receives: int, size: int, scale: int) -> int:
    """Grains of ``receives`` receives that differ from this rank's own sends: those of a chain."""
    limit = config.packet_bytes if config.whole_packets else config.message_bytes * scale
    return receives * -(-size // limit)

