# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the whole adapter within its budget: no latch, and no long timing path, also through the ports of its
stages. ``-s`` prints the figures; ``--soak`` adds the larger presets."""

import pytest

from fpga.area import measure
from fpga.budgets import area_excess
from hw import emit
from hw.card.config import PRESETS
from hw.pcie.adapter import PcieAdapter


@pytest.mark.synth
@pytest.mark.parametrize("preset", ["tiny", *(pytest.param(name, marks=pytest.mark.soak) for name in ("base", "wide"))])
def test_adapter(preset, capsys):
    area, depth = measure(emit.verilog(PcieAdapter(PRESETS[preset].pcie), name="pcie", assertions=False), top="pcie")
    with capsys.disabled():
        print(f"\nadapter of {preset}  {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} RAMB36  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert area_excess("pcie_adapter", preset, "xcup", area, depth) == [], depth.paths
