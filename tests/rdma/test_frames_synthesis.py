# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the frame codec: no latch, no long timing path. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.rdma.config import PRESETS
from hw.rdma.frames.frame_builder import FrameBuilder
from hw.rdma.frames.frame_parser import FrameParser
from hw.rdma.frames.receive_dispatch import ReceiveDispatch
from hw.rdma.frames.transmit_merge import TransmitMerge

LEVELS = 8
"""Maximum of LUT6 levels between registers, for 250 MHz on UltraScale+."""


@pytest.mark.synth
@pytest.mark.parametrize("preset", ["tiny", pytest.param("wide", marks=pytest.mark.soak)])
@pytest.mark.parametrize("block", [FrameBuilder, FrameParser, ReceiveDispatch, TransmitMerge],
                         ids=lambda block: block.__name__)
def test_block(block, preset, capsys):
    area, depth = measure(emit.verilog(block(PRESETS[preset]), name="block", assertions=False), top="block")
    with capsys.disabled():
        print(f"\n{block.__name__:15} {preset:5} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} RAMB36  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert depth.levels <= LEVELS, depth.paths
