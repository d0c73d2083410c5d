# SPDX-License-Identifier: Apache-2.0
"""Operating points at which the simulator is compared with the RTL."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hw.ace.config import PRESETS, AceConfig
from hw.ace.sizing import sized
from sim.ace.bench.runner import MEMORY_LATENCY

__all__ = ["LONG", "POINTS", "Point", "operating_point"]

SIZED_FOR = 100
"""Links of a lower latency have an accelerator with sizes for this one."""


@dataclass(frozen=True)
class Point:
    """An all-reduce on accelerators of a preset.

    Parameters
    ----------
    shape : tuple of int
    size : int
        Bytes of each rank.
    link_rate : float
        Beats per cycle.
    link_latency : int
        Cycles.
    by_rule : bool
        Pipes, FSMs, slots, chunks and link buffers are those of :func:`hw.ace.sizing.sized`, instead of the preset's.
    preset : str
    sums : bool
        Without what an all-reduce of FP32 sums does not need (:meth:`AceConfig.for_sums`).
    """

    shape: tuple[int, ...]
    size: int
    link_rate: float = 0.25
    link_latency: int = 100
    by_rule: bool = False
    preset: str = "tiny"
    sums: bool = False

    @property
    def config(self) -> AceConfig:
        config = PRESETS[self.preset].for_sums() if self.sums else PRESETS[self.preset]
        if not self.by_rule:
            return config
        return sized(config, self.shape, link_rate=self.link_rate, link_latency=max(SIZED_FOR, self.link_latency),
                     memory_latency=MEMORY_LATENCY)

    def __str__(self) -> str:
        links = f"rate {self.link_rate:g}, latency {self.link_latency}"
        preset = "" if self.preset == "tiny" else f"{self.preset}, "
        preset += "sums only, " if self.sums else ""
        return f"{preset}{'x'.join(map(str, self.shape))} ALL_REDUCE {self.size:,} B, {links}"


def operating_point(shape: tuple[int, ...], size: int, latency: int | None, preset: str | None = None, *,
                    sums: bool = False) -> Point:
    """With a latency, links of a beat per cycle, otherwise of a quarter. The sizes are those of the ``preset``; without
    one, those of ``tiny`` or, with a latency, by the rule."""
    if latency is None:
        return Point(shape, size, preset=preset or "tiny", sums=sums)
    return Point(shape, size, 1.0, latency, by_rule=preset is None, preset=preset or "tiny", sums=sums)


def _quarter(*sizes: int) -> Iterator[Point]:
    for size, shape in product(sizes, ((2,), (4,), (8,), (16,), (4, 2, 2))):
        yield operating_point(shape, size, None)


def _full(shapes: tuple[tuple[int, ...], ...], sizes: tuple[int, ...], latencies: tuple[int, ...]) -> Iterator[Point]:
    for shape, size, latency in product(shapes, sizes, latencies):
        yield operating_point(shape, size, latency)


_KIB, _RINGS = 1 << 10, ((4,), (8,), (16,))

POINTS = (*_quarter(64 * _KIB, 256 * _KIB), *_full(_RINGS, (256 * _KIB,), (20, 100)),
          *_full(((2, 2, 2),), (256 * _KIB,), (100,)))
"""Some minutes, of which half builds the RTL of four sizes."""

LONG = (*_quarter(1024 * _KIB), *_full(_RINGS, (256 * _KIB,), (500,)), *_full(_RINGS, (1024 * _KIB,), (20, 100, 500)),
        *_full(((2, 2, 2),), (1024 * _KIB,), (100,)), *_full(((4, 2, 2),), (256 * _KIB, 1024 * _KIB), (100,)),
        *_full(((4, 4, 4),), (256 * _KIB,), (100,)))
"""Longer all-reduces, larger tori and longer links."""
