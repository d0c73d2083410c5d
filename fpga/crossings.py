# SPDX-License-Identifier: Apache-2.0
"""Clock-domain crossings of a design: all of them are known components, and Vivado's constraints for these.

No Vivado has run the constraints: commands follow AMD's UG903, names of cells the emitted Verilog.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import Fragment
from amaranth.lib import wiring

from hw.stream.async_queue import AsyncQueue
from hw.stream.level_crossing import LevelCrossing

from .clock_domains import Crossing

__all__ = ["Known", "illegal", "known_crossings", "xdc"]


@dataclass(frozen=True)
class Known:
    """A component that may carry data from one clock domain to another.

    ``path``: names of submodules from the top. ``part``: :class:`LevelCrossing` or :class:`AsyncQueue`.
    """

    path: tuple[str, ...]
    part: LevelCrossing | AsyncQueue

    def name(self, register: str) -> str:
        """Name of one of its registers in the flat netlist."""
        return ".".join((*self.path, register))


def known_crossings(component: wiring.Component) -> list[Known]:
    """Crossings of a design by their path. The component is elaborated once more."""
    return list(_walk(Fragment.get(component, None), ()))


def _walk(fragment: Fragment, path: tuple[str, ...]) -> Iterator[Known]:
    for origin in fragment.origins or ():
        if isinstance(origin, LevelCrossing | AsyncQueue):
            yield Known(path, origin)
    for index, (inner, name, _) in enumerate(fragment.subfragments):
        yield from _walk(inner, (*path, name or f"U${index}"))


def illegal(found: list[Crossing], known: list[Known]) -> list[Crossing]:
    """Crossings outside the known components, or in one of them with logic in front of a synchroniser."""
    levels = {(one.name("source"), one.name("stage0")) for one in known if isinstance(one.part, LevelCrossing)}
    rows = {(one.name("rows.storage"), one.name("rows.payload")) for one in known if isinstance(one.part, AsyncQueue)}
    return [path for path in found
            if (path.source, path.target) not in rows
            and not ((path.source, path.target) in levels and path.direct)]


def xdc(known: list[Known], *, below: str = "") -> str:
    """Constraints of the crossings of a design.

    Each path is bounded by the shorter period of its two clocks, and so is the skew between the bits of a counter: two
    changes in consecutive cycles never arrive in reverse order. Clocks are those that reach the registers.

    Parameters
    ----------
    known : list of Known
    below : str
        Path of the design's cell in the project, ending in a slash; the default is the top.
    """
    lines = ["# Written by dmace: paths between clock domains. No Vivado has run this.",
             "# set_clock_groups and set_false_path between these clocks would override it."]
    for one in known:
        path = below + "/".join(one.path)
        if isinstance(one.part, LevelCrossing):
            lines += _level_xdc(path, one.part)
        else:
            lines += _queue_xdc(path, one.part)
    return "\n".join(lines) + "\n"


def _level_xdc(path: str, part: LevelCrossing) -> list[str]:
    source, first = _register(path, "source", part.width), _register(path, "stage0", part.width)
    return [
        f"# {path}",
        *_periods(_one(path, "source", part.width), _one(path, "stage0", part.width)),
        f"set_max_delay -datapath_only -from [get_cells {{{source}}}] -to [get_cells {{{first}}}] $bound",
        *([f"set_bus_skew -from [get_cells {{{source}}}] -to [get_cells {{{first}}}] $bound"] if part.width > 1
          else ()),
        *(f"set_property ASYNC_REG TRUE [get_cells {{{_register(path, f'stage{stage}', part.width)}}}]"
          for stage in range(part.stages)),
    ]


def _queue_xdc(path: str, part: AsyncQueue) -> list[str]:
    """The rows. Their cells' names are the tool's, so that paths start from the writer's clock."""
    captured = _register(f"{path}/rows", "payload", part.width)
    return [
        f"# {path}/rows",
        *_periods(f"{path}/written/source_reg[0]", _one(f"{path}/rows", "payload", part.width)),
        "set_max_delay -datapath_only -from $source_clock "
        f"-to [get_cells {{{captured}}}] $bound",
    ]


def _periods(source: str, target: str) -> list[str]:
    return [
        f"set source_clock [get_clocks -of_objects [get_pins {{{source}/C}}]]",
        f"set target_clock [get_clocks -of_objects [get_pins {{{target}/C}}]]",
        "set bound [expr min([get_property -min PERIOD $source_clock], [get_property -min PERIOD $target_clock])]",
    ]


def _register(path: str, name: str, width: int) -> str:
    """Vivado's names of a register's cells."""
    return f"{path}/{name}_reg[*]" if width > 1 else f"{path}/{name}_reg"


def _one(path: str, name: str, width: int) -> str:
    return f"{path}/{name}_reg[0]" if width > 1 else f"{path}/{name}_reg"
