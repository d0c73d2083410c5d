# SPDX-License-Identifier: Apache-2.0
"""FPGA boards that a bitstream can be built for: part, pins, clock, and what fits.

Pins come from ``amaranth-boards`` (BSD licence), which follows the vendors' own constraint files.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hw.errors import UserError

from .board.core import BoardConfig
from .ecp5 import Ecp5Flow
from .flow import Flow, Pin
from .gowin import GowinFlow

__all__ = ["TARGETS", "Pin", "Target"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A board.

    Parameters
    ----------
    title : str
        The manufacturer's name.
    module, platform : str
        Module and class of ``amaranth-boards``.
    clock : str
        Resource of the oscillator.
    lights : tuple
        ``(resource, number, subsignal or None)`` of the idle, busy and error LEDs.
    designs : dict
        Design -> :class:`BoardConfig`, with the default clock of a build.
    loader : str
        openFPGALoader's name of the board.
    family : str
        ``ecp5`` or ``gowin``.
    """

    title: str
    module: str
    platform: str
    clock: str
    lights: tuple[tuple[str, int, str | None], ...]
    designs: dict[str, BoardConfig]
    loader: str
    family: str = "ecp5"

    def _platform(self) -> Any:
        if find_spec("amaranth_boards") is None:
            raise UserError("The boards' pins are in the package amaranth-boards; "
                            "`pip install -e .[fpga]` installs it, and the tools.")
        return getattr(import_module(f"amaranth_boards.{self.module}"), self.platform)()

    @property
    def flow(self) -> Flow:
        """How a bitstream is made: :class:`~fpga.ecp5.Ecp5Flow` or :class:`~fpga.gowin.GowinFlow`."""
        kind = GowinFlow if self.family == "gowin" else Ecp5Flow
        return kind(self._platform(), self.clock_hz)

    @property
    def clock_hz(self) -> int:
        """Frequency of the oscillator."""
        resource = _resource(self._platform(), self.clock)
        return int(resource.clock.frequency)

    def pins(self) -> list[Pin]:
        """List of :class:`Pin`: ``clk``, ``rx``, ``tx``, ``idle``, ``busy``, ``error``."""
        platform = self._platform()
        found = [_pin("clk", _resource(platform, self.clock), None),
                 *(_pin(name, _resource(platform, "uart"), name) for name in ("rx", "tx"))]
        for name, (resource, number, part) in zip(("idle", "busy", "error"), self.lights, strict=True):
            found.append(_pin(name, _resource(platform, resource, number), part))
        return found


def _resource(platform: Any, name: str, number: int = 0) -> Any:
    return platform.resources[name, number]


def _pin(name: str, resource: Any, part: str | None) -> Pin:
    """The one pin of a resource, or of its subsignal ``part``, with the attributes of both."""
    attributes, ios = dict(resource.attrs), resource.ios[0]
    if part is not None:
        subsignal = next(io for io in resource.ios if getattr(io, "name", None) == part)
        attributes |= subsignal.attrs
        ios = subsignal.ios[0]
    return Pin(name, ios.names[0], ios.invert, attributes)


def _leds(*numbers: int) -> tuple[tuple[str, int, str | None], ...]:
    return tuple(("led", number, None) for number in numbers)


def _dma(mhz: float, memory: int) -> BoardConfig:
    return BoardConfig(design="dma", memory=memory, clock_hz=int(mhz * 1e6))


def _probe(mhz: float, memory: int) -> BoardConfig:
    return BoardConfig(design="probe", memory=memory, clock_hz=int(mhz * 1e6))


def _ace(mhz: float, memory: int) -> BoardConfig:
    return BoardConfig(design="ace", endpoints=2, memory=memory, clock_hz=int(mhz * 1e6))


def _endpoint(mhz: float, memory: int) -> BoardConfig:
    return BoardConfig(design="endpoint", memory=memory, clock_hz=int(mhz * 1e6))


_LARGE = {"dma": _dma(25, 1 << 16), "ace": _ace(25, 1 << 15), "endpoint": _endpoint(25, 1 << 16),
          "probe": _probe(50, 1 << 16)}


TARGETS = {
    "ulx3s-85f": Target(
        title="ULX3S, 85F", module="ulx3s", platform="ULX3S_85F_Platform", clock="clk25", lights=_leds(0, 1, 2),
        designs=_LARGE, loader="ulx3s"),
    "ulx3s-25f": Target(
        title="ULX3S, 25F", module="ulx3s", platform="ULX3S_25F_Platform", clock="clk25", lights=_leds(0, 1, 2),
        designs={"dma": _dma(25, 1 << 15), "probe": _probe(50, 1 << 15)}, loader="ulx3s"),
    "ecpix5-85f": Target(
        title="ECPIX-5, 85F", module="ecpix5", platform="ECPIX585Platform", clock="clk100",
        lights=(("rgb_led", 0, "g"), ("rgb_led", 1, "b"), ("rgb_led", 2, "r")),
        designs=_LARGE, loader="ecpix5"),
    "tang-nano-9k": Target(
        title="Tang Nano 9K", module="tang_nano_9k", platform="TangNano9kPlatform", clock="clk27",
        lights=_leds(0, 1, 2), designs={"probe": _probe(27, 1 << 15)}, loader="tangnano9k", family="gowin"),
}
"""Boards by the name that ``dmace fpga build --target`` takes."""
