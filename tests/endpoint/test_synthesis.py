# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the endpoint's own blocks: no latch, no long timing path. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.endpoint.config import PRESETS
from hw.endpoint.doorbells import DoorbellSplit
from hw.endpoint.local_ticks import LocalTicks
from hw.endpoint.memory_port import MemoryPort
from hw.endpoint.put_receiver import PutReceiver
from hw.endpoint.put_sender import PutSender
from hw.triggers.unit import TriggerUnit

LEVELS = 8
"""Maximum of LUT6 levels between registers."""

MORE_LEVELS = {"TriggerUnit": {"tiny": 9, "wide": 12}}

BLOCKS = (MemoryPort, PutSender, PutReceiver, LocalTicks, DoorbellSplit, TriggerUnit)


@pytest.mark.synth
@pytest.mark.parametrize("preset", ["tiny", pytest.param("wide", marks=pytest.mark.soak)])
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
def test_block(block, preset, capsys):
    config = PRESETS[preset].triggers if block is TriggerUnit else PRESETS[preset]
    area, depth = measure(emit.verilog(block(config), name="block", assertions=False), top="block")
    with capsys.disabled():
        print(f"\n{block.__name__:13} {preset:5} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF "
              f"{area.block_ram} RAMB36  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert depth.levels <= MORE_LEVELS.get(block.__name__, {}).get(preset, LEVELS), depth.paths
