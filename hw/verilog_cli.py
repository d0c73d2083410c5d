# SPDX-License-Identifier: Apache-2.0
"""``dmace verilog DESIGN``: the files that another project needs to integrate a design into its SoC."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hw.errors import UserError

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hw.regs import RegisterMap

    _Design = tuple[RegisterMap, Component, dict[str, str]]

__all__ = ["component", "configure", "run", "write"]

_PRESETS = ("tiny", "base", "wide")
"""Presets of all designs."""

_OWN = {"card": "card", "ultra": "ace"}
"""Presets of one design only."""


def _dma_engine(preset: str) -> "_Design":
    """Register map, top, and C headers by name."""
    from hw.dma_engine import DmaEngine
    from hw.dma_engine.config import PRESETS
    from hw.dma_engine.header import c_header
    from hw.dma_engine.registers import register_map

    config = PRESETS[preset]
    return register_map(config), DmaEngine(config), {"dmace.h": c_header(config)}


def _ace(preset: str) -> "_Design":
    """The same for the collectives accelerator, whose header includes that of the DMA engine."""
    from hw.ace.config import PRESETS
    from hw.ace.engine import AceEngine
    from hw.ace.header import c_header
    from hw.ace.registers import register_map
    from hw.dma_engine.config import PRESETS as DMA_PRESETS
    from hw.dma_engine.config import WIDE
    from hw.dma_engine.header import c_header as dma_header

    config = PRESETS[preset]
    return register_map(config), AceEngine(config), {
        "dmace_ace.h": c_header(config), "dmace.h": dma_header(DMA_PRESETS.get(preset, WIDE))}


def _endpoint(preset: str, *, rdma: bool = False) -> "_Design":
    """Both on one memory port, with all registers in one map; on request with a RoCEv2 unit."""
    from hw.ace.header import c_header as ace_header
    from hw.dma_engine.header import c_header as dma_header
    from hw.endpoint.config import PRESETS
    from hw.endpoint.engine import Endpoint
    from hw.endpoint.header import c_header
    from hw.endpoint.registers import whole_map
    from hw.rdma.config import PRESETS as RDMA_PRESETS

    config = PRESETS[preset].with_rdma(RDMA_PRESETS[preset]) if rdma else PRESETS[preset]
    return whole_map(config), Endpoint(config), {
        "dmace_endpoint.h": c_header(config), "dmace_ace.h": ace_header(config.ace),
        "dmace.h": dma_header(config.dma)}


def _card(preset: str, *, two_clocks: bool = False) -> "_Design":
    """An endpoint behind the PCIe adapter, with the registers in BAR 0."""
    from hw.ace.header import c_header as ace_header
    from hw.card.card import Card
    from hw.card.config import PRESETS
    from hw.dma_engine.header import c_header as dma_header
    from hw.endpoint.header import c_header
    from hw.endpoint.registers import whole_map
    from hw.pcie.registers import bar0_map

    config = PRESETS[preset].with_two_clocks() if two_clocks else PRESETS[preset]
    endpoint = config.endpoint
    return bar0_map(whole_map(endpoint), config.pcie), Card(config), {
        "dmace_endpoint.h": c_header(endpoint), "dmace_ace.h": ace_header(endpoint.ace),
        "dmace.h": dma_header(endpoint.dma)}


_DESIGNS: "dict[str, Callable[[str], _Design]]" = {
    "dma_engine": _dma_engine, "ace": _ace, "endpoint": _endpoint, "card": _card}


def component(design: str, preset: str) -> "Component":
    """The top of a design: ``dma_engine``, ``ace``, ``endpoint`` or ``card``."""
    return _DESIGNS[design](preset)[1]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("design", choices=tuple(_DESIGNS), metavar="DESIGN", help=f"one of {', '.join(_DESIGNS)}")
    parser.add_argument("--config", choices=(*_PRESETS, *_OWN), default="base", metavar="C",
                        help=f"preset: {', '.join(_PRESETS)}, "
                        f"{', '.join(f'for {design} also {name}' for name, design in _OWN.items())} (default: base)")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path,
                        help="folder to write to (default: DESIGN-CONFIG)")
    parser.add_argument("--two-clocks", action="store_true",
                        help="for card: a clock and a reset of its own for the endpoint")
    parser.add_argument("--rdma", action="store_true", help="for endpoint: with a RoCEv2 unit and its Ethernet port")
    parser.add_argument("--no-assertions", action="store_true",
                        help="omit the assertions, for tools that read only Verilog-2001")


def run(args: argparse.Namespace) -> int:
    if args.two_clocks and args.design != "card":
        raise UserError(f"--two-clocks is an option of card, not of {args.design}.")
    if args.rdma and args.design != "endpoint":
        raise UserError(f"--rdma is an option of endpoint, not of {args.design}.")
    if (owner := _OWN.get(args.config, args.design)) != args.design:
        has = (*_PRESETS, *(name for name, design in _OWN.items() if design == args.design))
        raise UserError(f"--config {args.config} is a preset of {owner}; {args.design} has {', '.join(has)}.")
    folder = args.output or Path(f"{args.design}-{args.config}")
    def status(step: str) -> None:
        print(f"{args.design}, {args.config}: {step}", file=sys.stderr, flush=True)

    for path in write(args.design, args.config, folder, assertions=not args.no_assertions,
                      two_clocks=args.two_clocks, rdma=args.rdma, status=status):
        print(path)
    return 0


def write(design: str, preset: str, folder: Path, *, assertions: bool = True, two_clocks: bool = False,
          rdma: bool = False, status: Callable[[str], object] = lambda step: None) -> list[Path]:
    """Write a design of ``preset`` to ``folder`` and return the paths. Only a card may have two clocks, and only an
    endpoint a RoCEv2 unit. ``status`` receives each step as it begins: of a large design, one takes many seconds."""
    from hw import emit
    from hw.regs import to_json, to_markdown, to_systemrdl

    # First: the Verilog takes long.
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    registers, engine, headers = (_card(preset, two_clocks=True) if two_clocks
                                  else _endpoint(preset, rdma=True) if rdma else _DESIGNS[design](preset))
    text = emit.verilog(engine, name=design, assertions=assertions, status=status)
    files = {
        f"{design}.v": text,
        "pins.json": json.dumps({"module": design, "config": preset, **emit.pins(engine, text=text)},
                                indent=1) + "\n",
        "registers.json": to_json(registers),
        "registers.md": to_markdown(registers),
        "registers.rdl": to_systemrdl(registers),
        **headers,
    }
    with _writing(folder):
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in files]


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make an error of the system a sentence about ``folder``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write to {error.filename or folder}: {error.strerror}.") from error
