# SPDX-License-Identifier: Apache-2.0
"""Phases over a switch without forwarding: each rank sends to each other one, or to the switch, which adds."""

from hw.ace.collectives import Collective
from hw.ace.programs.program import Phase, Program

from .configuration import MachineConfig
from .grains import Grain, Leg, packets_of

__all__ = ["Direct", "applies", "leg", "without_forwarding"]

C = Collective


class Direct(Program):
    """A program with phases of :func:`leg` in the dimensions where it :func:`applies`."""


def applies(config: MachineConfig, dimension: int) -> bool:
    """A dimension has a switch, and the endpoint does not use it as a ring."""
    return config.dimension_links[dimension].switched and config.kind.switched != "ring"


def without_forwarding(config: MachineConfig, collective: Collective, dimensions: tuple[int, ...]) -> bool:
    """A collective has such phases: it has one for which :func:`leg` is defined, in such a dimension."""
    return collective in (C.ALL_REDUCE, C.REDUCE_SCATTER, C.ALL_GATHER, C.ALL_TO_ALL) and any(
        applies(config, dimension) for dimension in dimensions)


def leg(config: MachineConfig, made: Direct, phase: Phase, piece: int, scale: int = 1) -> Leg:
    """A phase of a program by :func:`.rings.symbolic`, for a chunk with ``piece`` bytes in each position and messages
    that are ``scale`` times as long as configured."""
    limit = config.message_bytes * scale
    dimension = phase.port // 2
    ranks, part = config.shape[dimension], phase.span * piece
    scatter, gather = any(send.reduce for send in phase.sends), any(not send.reduce for send in phase.sends)
    exchange = not made.split and made.fills == made.drains
    if config.dimension_links[dimension].reduces and config.kind.switched == "in-network" and not exchange:
        grains = _in_network(config, ranks, part, limit, scatter=scatter, gather=gather)
    else:
        grains = _direct(config, ranks, part, limit, scatter=scatter, gather=gather)
    return Leg(phase.port, grains, comes=len(grains), granted=len(grains))


def _direct(config: MachineConfig, ranks: int, part: int, limit: int, *, scatter: bool,
            gather: bool) -> tuple[Grain, ...]:
    """A part to each other rank, which adds it to its own; then the sum to each other rank. An all-to-all is as the
    second."""
    sizes = _cut(part, limit)
    made: list[Grain] = []
    for reduce, whether in ((True, scatter), (False, gather)):
        need = len(made)
        for hop in range(1, ranks) if whether else ():
            for size in sizes:
                made.append(Grain(size, packets_of(config, size), need, len(made), ends=True, reduce=reduce, grants=0,
                                  hop=hop))
    return tuple(made)


def _in_network(config: MachineConfig, ranks: int, part: int, limit: int, *, scatter: bool,
                gather: bool) -> tuple[Grain, ...]:
    """Each grain goes up from every rank at the same time. All-reduce: the sum comes down to all. Reduce-scatter: a
    grain has equal shares for all ranks, each of which gets the sum of its own. All-gather: all grains come down to
    all."""
    up, down = (1, 1) if scatter and gather else (ranks, 1) if scatter else (1, ranks)
    unit = ranks * part if scatter and gather else part
    sizes = _cut(unit, max(1, limit // max(up, down)))
    return tuple(Grain(size * up, packets_of(config, size * up), 0, number, ends=True, reduce=False, grants=0, hop=0,
                       down=size * down) for number, size in enumerate(sizes))


def _cut(size: int, limit: int) -> list[int]:
    """Nearly equal sizes of up to ``limit`` bytes."""
    parts = -(-size // limit)
    return [size * (number + 1) // parts - size * number // parts for number in range(parts)]
