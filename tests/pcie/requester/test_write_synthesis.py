# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the write path: no latch, no long timing path. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from tests.pcie.requester.write_traffic import write_path

LEVELS = 8
"""Maximum of LUT6 levels between registers, for 250 MHz."""


@pytest.mark.synth
@pytest.mark.parametrize("width", [512, 128])
def test_write_path(width, capsys):
    area, depth = measure(emit.verilog(write_path(width), name="block", assertions=False), top="block")
    with capsys.disabled():
        print(f"\nWritePath {width} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF {area.block_ram} RAMB36  "
              f"{depth.levels} levels of LUT6")
    assert area.latch == 0
    assert depth.levels <= LEVELS, depth.paths
