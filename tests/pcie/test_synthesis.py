# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the whole adapter: no latch, and no long timing path, also through the ports of its stages."""

import pytest

from fpga.area import measure
from hw import emit
from hw.card.config import PRESETS
from hw.pcie.adapter import PcieAdapter

LEVELS = 8
"""Maximum of LUT6 levels between registers: 250 MHz on UltraScale+."""


@pytest.mark.synth
@pytest.mark.soak
@pytest.mark.parametrize("preset", ["wide", "base", "tiny"])
def test_adapter(preset, capsys):
    area, depth = measure(emit.verilog(PcieAdapter(PRESETS[preset].pcie), name="pcie", assertions=False), top="pcie")
    with capsys.disabled():
        print(f"\nadapter of {preset}  {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} RAMB36  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert depth.levels <= LEVELS, depth.paths
