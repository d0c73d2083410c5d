"""A lane in an FPGA: no latch, within its budget, and no long way between registers. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.ace.alu import Lane

LEVELS = 12
"""LUT6 levels between registers, at most; between two stages of a lane there are fewer."""

LUTS, FLIP_FLOPS = 1_750, 1_000
"""As measured, and a tenth more. LUTs used as shift registers are counted."""


@pytest.mark.synth
def test_lane(capsys):
    area, depth = measure(emit.verilog(Lane(), name="lane", assertions=False), top="lane")
    shift = sum(count for cell, count in area.cells.items() if cell.startswith("SRL"))
    with capsys.disabled():
        print(f"\nlane  {area.family} {area.lut} LUT {shift} LUT as shift registers {area.flip_flop} FF  "
              f"{depth.levels} levels of LUT6")
    assert (area.latch, area.block_ram, area.lut_ram) == (0, 0, 0)
    assert area.lut + shift <= LUTS
    assert area.flip_flop <= FLIP_FLOPS
    assert depth.levels <= LEVELS, depth.paths
