"""A lane in an FPGA: no latch, within its budget, and no long way between registers. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.ace.alu import Lane

LEVELS = 12
"""LUT6 levels between registers, at most; between two stages of a lane there are fewer."""

BUDGETS = {False: (1_750, 1_000, 0), True: (2_640, 1_680, 4)}
"""Without products and with: LUTs, flip-flops and DSP slices as measured, and a tenth more of the former. LUTs used as
shift registers are counted."""


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
