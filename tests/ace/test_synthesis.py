# SPDX-License-Identifier: Apache-2.0
"""The accelerator's blocks in an FPGA: no latches, areas within their budgets, and short critical paths. ``-s`` prints
the figures."""

import json
from pathlib import Path

import pytest

from fpga.area import measure
from fpga.budgets import area_excess
from hw import emit
from hw.ace.chunker import Chunker
from hw.ace.config import TINY
from hw.ace.decoder import Decoder
from hw.ace.drain import Drain
from hw.ace.fill import Fill
from hw.ace.link.port import LinkPort
from hw.ace.numerics.alu import Lane
from hw.ace.pool.pool import FsmPool
from hw.ace.receive import Receive
from hw.ace.transfers import Transfers
from hw.ace.transmit import Transmit

LEVELS, STORED_LEVELS = 8, 10
"""Maximum LUT6 levels between the registers of a lane; of any block in docs/area_ace.json."""

BUDGETS = {False: (1_750, 1_000, 0), True: (2_640, 1_680, 4)}
"""Without products and with: LUTs, flip-flops and DSP slices as measured, plus a tenth of the LUTs and flip-flops. LUTs
used as shift registers are counted."""


@pytest.mark.synth
@pytest.mark.parametrize("products", BUDGETS)
def test_lane(products, capsys):
    luts, flip_flops, dsp = BUDGETS[products]
    area, depth = measure(emit.verilog(Lane(products=products), name="lane", assertions=False), top="lane")
    shift = sum(count for cell, count in area.cells.items() if cell.startswith("SRL"))
    with capsys.disabled():
        name = "lane with products" if products else "lane"
        print(f"\n{name}  {area.family} {area.lut} LUT {shift} LUT as shift registers {area.flip_flop} FF  "
              f"{depth.levels} levels of LUT6")
    assert (area.latch, area.block_ram, area.lut_ram) == (0, 0, 0)
    assert area.lut + shift <= luts
    assert area.flip_flop <= flip_flops
    assert sum(count for cell, count in area.cells.items() if cell.startswith("DSP")) == dsp
    assert depth.levels <= LEVELS, depth.paths


@pytest.mark.synth
@pytest.mark.parametrize("block", [
    Decoder, *(pytest.param(block, marks=pytest.mark.soak) for block in (
        Chunker, Drain, Fill, FsmPool, LinkPort, Receive, Transfers, Transmit))])
def test_block(block, capsys):
    name = {FsmPool: "pool", LinkPort: "link"}.get(block, block.__name__.lower())
    area, depth = measure(emit.verilog(block(TINY), name=name, assertions=False), top=name)
    with capsys.disabled():
        print(f"\n{name} of tiny  {area.family} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} block RAM  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert area_excess(f"ace_{name}", "tiny", "xcup", area, depth) == []


def test_no_preset_has_a_longer_path():
    """The measured figures of docs/area.md."""
    figures = json.loads((Path(__file__).parents[2] / "docs" / "area_ace.json").read_text(encoding="utf-8"))
    levels = {f"{name} of {preset}, {kind}": one["levels"] for preset, found in figures.items()
              for kind in ("blocks", "pipes_2", "pipes_4") for name, one in found.get(kind, {}).items()}
    assert {"pool of wide, blocks", "receive of base, blocks", "pool of tiny, pipes_4"} <= levels.keys()
    assert {name: count for name, count in levels.items() if count > STORED_LEVELS} == {}
