# SPDX-License-Identifier: Apache-2.0
"""The flow of Lattice's ECP5: PLL, constraints, nextpnr-ecp5, ecppack."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import tools
from .board.core import BoardConfig
from .board.top import Ecp5Pll, Ecp5Top
from .flow import Pin

__all__ = ["Ecp5Flow"]

_DEVICES = {"LFE5U-12F": "--12k", "LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
            "LFE5UM-25F": "--um-25k", "LFE5UM-45F": "--um-45k", "LFE5UM-85F": "--um-85k",
            "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k", "LFE5UM5G-85F": "--um5g-85k"}
_PACKAGES = {"BG256": "CABGA256", "MG285": "CSFBGA285", "BG381": "CABGA381", "BG554": "CABGA554", "BG756": "CABGA756"}


_PLACING = ("--placer-heap-timingweight", "100")
"""Ten times nextpnr's default timing weight, because routing takes 80 % of the critical paths' delay."""


class Ecp5Flow:
    """From a design to a bitstream for an ECP5.

    Parameters
    ----------
    platform : amaranth_boards platform
        The board.
    clock_hz : int
        Of its oscillator.
    """

    synthesis = "synth_ecp5"
    programs = ("nextpnr-ecp5", "ecppack")
    constraints = "board.lpf"
    results: tuple[str, ...] = ("board.bit", "board.svf", "board.lpf")

    def __init__(self, platform: Any, clock_hz: int) -> None:
        self.platform, self.clock_hz = platform, clock_hz

    @property
    def part(self) -> str:
        """Device, speed grade and package, like ``LFE5U-85F-6 BG381``."""
        return f"{self.platform.device}-{self.platform.speed} {self.platform.package}"

    def reachable(self, wanted_hz: int) -> int:
        """The nearest clock to ``wanted_hz`` that is not faster. Raises ValueError where there is none."""
        return Ecp5Pll.find(self.clock_hz, wanted_hz).output_hz

    def top(self, config: BoardConfig, pins: Iterable[Pin]) -> tuple[Ecp5Top, int]:
        """Component with the board's pins as its ports, and its clock in Hz."""
        top = Ecp5Top(config, clock_hz=self.clock_hz, inverted={pin.name for pin in pins if pin.inverted})
        return top, top.pll.output_hz

    def constrain(self, pins: Iterable[Pin]) -> str:
        """Text of :attr:`constraints`: sites, attributes, the oscillator's clock."""
        lines = []
        for pin in pins:
            lines.append(f'LOCATE COMP "{pin.name}" SITE "{pin.site}";')
            lines.append(f'IOBUF PORT "{pin.name}" {pin.settings};')
        lines.append(f'FREQUENCY PORT "clk" {self.clock_hz / 1e6:g} MHZ;')
        return "\n".join(lines) + "\n"

    def options(self, clock_hz: int, seed: int) -> Sequence[str]:
        """Options of nextpnr for an engine with this clock."""
        return [_DEVICES[self.platform.device], "--package", _PACKAGES[self.platform.package], "--speed",
                self.platform.speed, "--seed", str(seed), "--freq", f"{clock_hz / 1e6:g}", "--lpf", self.constraints,
                "--textcfg", "board.config", *_PLACING]

    def pack(self, folder: Path) -> None:
        """``board.config`` to :attr:`results`."""
        tools.run(tools.find("ecppack"), ["board.config", "--compress", "--bit", "board.bit", "--svf", "board.svf"],
                  folder=folder, log=folder / "pack.log")

    @staticmethod
    def site(bel: str) -> tuple[int, int] | None:
        """Column and row of a placed cell, or None."""
        found = re.match(r"X(\d+)/Y(\d+)/", bel)
        return None if found is None else (int(found[1]), int(found[2]))
