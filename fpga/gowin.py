# SPDX-License-Identifier: Apache-2.0
"""The flow of Gowin's GW1N and GW2A: constraints, nextpnr, gowin_pack. Engines have the oscillator's clock."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import tools
from .board.core import BoardConfig
from .board.top import PlainTop
from .flow import Pin

__all__ = ["GowinFlow"]

_FAMILIES = {"GW1NR-9C": "GW1N-9C", "GW2A-18C": "GW2A-18C"}
"""The board's family -> what nextpnr and gowin_pack call it."""


class GowinFlow:
    """From a design to a bitstream for a Gowin FPGA; as :class:`~fpga.ecp5.Ecp5Flow`."""

    synthesis = "synth_gowin"
    programs = ("nextpnr-himbaechel-gowin", "gowin_pack")
    constraints = "board.cst"
    results: tuple[str, ...] = ("board.fs", "board.cst")

    def __init__(self, platform: Any, clock_hz: int) -> None:
        self.platform, self.clock_hz = platform, clock_hz

    @property
    def part(self) -> str:
        part: str = self.platform.part
        return part

    def reachable(self, wanted_hz: int) -> int:
        if wanted_hz != self.clock_hz:
            raise ValueError(f"this board's engines run at the {self.clock_hz / 1e6:g} MHz of its oscillator, "
                             f"not at {wanted_hz / 1e6:g}")
        return self.clock_hz

    def top(self, config: BoardConfig, pins: Iterable[Pin]) -> tuple[PlainTop, int]:
        return PlainTop(config, inverted={pin.name for pin in pins if pin.inverted}), self.clock_hz

    def constrain(self, pins: Iterable[Pin]) -> str:
        lines = []
        for pin in pins:
            lines.append(f'IO_LOC "{pin.name}" {pin.site};')
            lines.append(f'IO_PORT "{pin.name}" {pin.settings};')
        return "\n".join(lines) + "\n"

    def options(self, clock_hz: int, seed: int) -> Sequence[str]:
        return ["--device", self.platform.part, "--vopt", f"family={self._family}", "--vopt",
                f"cst={self.constraints}", "--top", "board", "--seed", str(seed), "--freq", f"{clock_hz / 1e6:g}"]

    def pack(self, folder: Path) -> None:
        tools.run(tools.find("gowin_pack"), ["-d", self._family, "-o", "board.fs", "placed.json"], folder=folder,
                  log=folder / "pack.log")

    @staticmethod
    def site(bel: str) -> tuple[int, int] | None:
        found = re.match(r"X(\d+)Y(\d+)/", bel)
        return None if found is None else (int(found[1]), int(found[2]))

    @property
    def _family(self) -> str:
        return _FAMILIES[self.platform.family]
