# SPDX-License-Identifier: Apache-2.0
"""Faults of links in a simulation: their rates, and the times at which a link is cut."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hw.errors import UserError

__all__ = ["FAULT_COUNTS", "HELP", "Cut", "Faults", "counted", "parse"]

FAULT_COUNTS = ("lost", "corrupted", "duplicated", "delayed", "late", "reordered", "cut")
"""Counters of a link's statistics, in packets."""

HELP = ("faults of links, as loss=1e-3,corrupt=1e-3,dup=1e-4,delay=1e-3:200,late=1e-3:30000,reorder=1e-3:200,"
        "down=3:+0@5000-9000: shares of packets that are dropped, corrupted, duplicated, delayed by up to 200 cycles "
        "together with those behind them, duplicated with the copy up to 30000 cycles later, or delayed by up to 200 "
        "cycles while others pass them; and the link at rank 3 to the side of rising coordinates of dimension 0 "
        "(-0: the other side) is cut from cycle 5000 after the start to 9000, or permanently without an end. "
        "down may be given several times")

LONGEST = 1_000_000
_RATES = ("loss", "corrupt", "dup", "delay", "late", "reorder")
_TIMED = {"delay": "A delay", "late": "The delay of a late copy", "reorder": "The delay of a reordered packet"}
"""Names of the cycles of those that have some."""


@dataclass(frozen=True)
class Cut:
    """A link that carries nothing, in both directions, from cycle ``begin`` until before ``end``, or permanently."""

    rank: int
    port: int
    begin: int
    end: int | None = None


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults of all links alike: shares of packets, and cuts.

    ``delay`` keeps the order of packets: a delayed one stalls those behind it. ``late`` delays a copy of a packet,
    ``reorder`` the packet itself; other packets may pass it.
    """

    loss: float = 0
    corrupt: float = 0
    dup: float = 0
    delay: float = 0
    delay_cycles: int = 200
    late: float = 0
    late_cycles: int = 30_000
    reorder: float = 0
    reorder_cycles: int = 200
    cuts: tuple[Cut, ...] = ()

    def __post_init__(self) -> None:
        for name in _RATES:
            if not 0 <= getattr(self, name) <= 0.5:
                raise UserError(f"A share of packets must be from 0 to 0.5, but {name} is {getattr(self, name):g}.")
        for name, what in _TIMED.items():
            if not 1 <= (cycles := getattr(self, f"{name}_cycles")) <= LONGEST:
                raise UserError(f"{what} must be from 1 to {LONGEST:,} cycles, not {cycles:,}.")

    def check(self, shape: Sequence[int]) -> None:
        """Raise :class:`UserError` if a cut is at no link of such a torus."""
        for cut in self.cuts:
            ranks = int(np.prod(shape))
            if cut.rank >= ranks:
                raise UserError(f"There is no rank {cut.rank} among {ranks}, so none of its links can be down.")
            if cut.port // 2 >= len(shape) or shape[cut.port // 2] < 2:
                raise UserError(f"There is no link in dimension {cut.port // 2} of a torus of "
                                f"{'x'.join(map(str, shape))}, so none can be down.")

    @classmethod
    def random(cls, rng: random.Random, shape: Sequence[int]) -> Self:
        """Some of every kind, up to 3 of 100 packets, and occasionally a link that is cut for a time."""
        def rate() -> float:
            return rng.choice((0, 1e-3, 1e-2, 3e-2))

        ports = [port for port in range(2 * len(shape)) if shape[port // 2] > 1]
        begins = [rng.randrange(20_000) for _ in range(rng.choice((0, 0, 1, 3)))]
        cuts = tuple(Cut(rng.randrange(int(np.prod(shape))), rng.choice(ports), begin, begin + rng.randint(1, 2000))
                     for begin in begins)
        return cls(loss=rate(), corrupt=rate(), dup=rate(), delay=rate(), delay_cycles=rng.choice((10, 300)),
                   late=rate(), late_cycles=rng.choice((1000, 30_000)), reorder=rate(),
                   reorder_cycles=rng.choice((10, 300)), cuts=cuts)


def counted(statistics: Mapping[str, Any]) -> dict[str, int]:
    """Packets with each fault, over all links, of :meth:`sim.ace.endpoints.Endpoints.statistics`."""
    return {name: sum(link[name] for link in statistics["links"]) for name in FAULT_COUNTS}


def parse(text: str) -> Faults:
    """:class:`Faults` from text as :data:`HELP` has it."""
    found: dict[str, Any] = {}
    cuts: list[Cut] = []
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name == "down":
            cuts.append(_cut(value))
        elif name not in _RATES:
            raise UserError(f"--faults knows {', '.join(_RATES)} and down, not {name!r}.")
        elif name in found:
            raise UserError(f"--faults has {name} twice.")
        else:
            value, _, cycles = value.partition(":")
            try:
                found[name] = float(value)
            except ValueError:
                raise UserError(f"--faults: {name} must be a share of packets, like 1e-3, not {value!r}.") from None
            if cycles and (name not in _TIMED or not cycles.isdecimal()):
                raise UserError(f"--faults: {part.strip()!r} must be like loss=1e-3, or delay=1e-3:200 with cycles.")
            if cycles:
                found[f"{name}_cycles"] = int(cycles)
    return Faults(**found, cuts=tuple(cuts))


def _cut(value: str) -> Cut:
    match = re.fullmatch(r"(\d+):([+-])(\d+)@(\d+)(?:-(\d+))?", value)
    if not match:
        raise UserError(f"--faults: down must be like 3:+0@5000 or 3:-1@5000-9000, not {value!r}.")
    rank, side, dimension, begin, end = match.groups()
    if end is not None and int(end) <= int(begin):
        raise UserError(f"--faults: a link that is down from cycle {begin} must come up later than that, not at {end}.")
    return Cut(int(rank), 2 * int(dimension) + (side == "-"), int(begin), None if end is None else int(end))
