# SPDX-License-Identifier: Apache-2.0
"""No path of a card at 250 MHz has more than 8 levels of 6-input LUTs. ``--soak`` adds the preset ``card`` itself,
whose engine takes minutes."""

import pytest

from fpga.area import measure_endpoints
from hw import emit
from hw.card import PRESET_NAMES
from hw.card.config import PRESETS
from hw.dma_engine import DmaEngine
from hw.pcie.adapter import PcieAdapter

LEVELS = 8


@pytest.mark.synth
@pytest.mark.parametrize("preset", ["tiny", pytest.param("card", marks=pytest.mark.soak)])
@pytest.mark.parametrize("part", ["engine", "adapter"])
def test_levels(part, preset):
    config = PRESETS[preset]
    top = DmaEngine(config.endpoint.dma) if part == "engine" else PcieAdapter(config.pcie)
    text = emit.verilog(top, name="top_of_part", assertions=False)
    assert measure_endpoints(text, top="top_of_part", over=LEVELS) == []


def test_names_of_presets():
    assert tuple(PRESETS) == PRESET_NAMES
