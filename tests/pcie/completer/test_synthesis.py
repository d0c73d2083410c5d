# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the completer and of MSI-X: no latch, no long timing path. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.pcie.completer import Completer
from hw.pcie.config import PcieConfig
from hw.pcie.interrupts import Msix

LEVELS = 8
"""Maximum of LUT6 levels between registers."""

SIZES = {"axi_id_width": 8, "doorbell_addr_width": 20, "vectors": 64}


@pytest.mark.synth
@pytest.mark.parametrize(("block", "width"), [
    (Completer, 512), pytest.param(Completer, 256, marks=pytest.mark.soak),
    pytest.param(Completer, 128, marks=pytest.mark.soak), (Msix, 512)])
def test_block(block, width, capsys):
    part = block(PcieConfig(data_width=width, **SIZES))
    area, depth = measure(emit.verilog(part, name="block", assertions=False), top="block")
    with capsys.disabled():
        print(f"\n{block.__name__:9} {width} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} RAMB36  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert depth.levels <= LEVELS, depth.paths
