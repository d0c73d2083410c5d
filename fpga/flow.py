# SPDX-License-Identifier: Apache-2.0
"""The interface of an FPGA family's tools: from a design and its pins to a bitstream."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .board.core import BoardConfig
from .board.top import Ecp5Top, PlainTop

__all__ = ["Flow", "Pin"]


@dataclass(frozen=True)
class Pin:
    """A pin of the part: site, what it is called in the design, and its attributes."""

    name: str
    site: str
    inverted: bool
    attributes: dict[str, str]

    @property
    def settings(self) -> str:
        """Its attributes as constraint files have them, like ``IO_TYPE=LVCMOS33 PULL_MODE=UP``."""
        return " ".join(f"{name}={value}" for name, value in sorted(self.attributes.items()))


class Flow(Protocol):
    """The tools of an FPGA family, and how they are called: :class:`~fpga.ecp5.Ecp5Flow` describes the members."""

    synthesis: str
    programs: tuple[str, str]
    constraints: str
    results: tuple[str, ...]

    @property
    def part(self) -> str:
        ...

    def reachable(self, wanted_hz: int) -> int:
        ...

    def top(self, config: BoardConfig, pins: Iterable[Pin]) -> tuple[Ecp5Top | PlainTop, int]:
        ...

    def constrain(self, pins: Iterable[Pin]) -> str:
        ...

    def options(self, clock_hz: int, seed: int) -> Sequence[str]:
        ...

    def pack(self, folder: Path) -> None:
        ...

    def site(self, bel: str) -> tuple[int, int] | None:
        ...
