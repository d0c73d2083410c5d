# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the crossings: no latch, synchronisers of flip-flops, short timing paths. ``-s`` prints the figures."""

import pytest

from fpga.area import measure
from hw import emit
from hw.axi import AxiSignature
from hw.pcie.crossing import AxiCrossing
from hw.stream import AsyncQueue, PulseCrossing, ValueCrossing

LEVELS = 4
"""Maximum of LUT6 levels between registers and ports."""

DOMAINS = {"i_domain": "engine", "o_domain": "pcie"}
BUS = AxiSignature(addr_width=64, data_width=128, id_width=8)

PARTS = {
    "queue": lambda: AsyncQueue(64), "deep queue": lambda: AsyncQueue(64, depth=64, stages=3),
    "pulse": lambda: PulseCrossing(**DOMAINS), "value": lambda: ValueCrossing(8, **DOMAINS),
    "AXI": lambda: AxiCrossing(BUS, manager_domain="engine", subordinate_domain="pcie"),
}


@pytest.mark.synth
@pytest.mark.parametrize("name", PARTS)
def test_part(name, capsys):
    area, depth = measure(emit.verilog(PARTS[name](), name="part", assertions=False), top="part")
    with capsys.disabled():
        print(f"\n{name:10} {area.lut} LUT {area.lut_ram} LUT-RAM {area.flip_flop} FF  {depth.levels} levels of LUT6")
    assert area.latch == 0
    assert not any(cell.startswith("SRL") for cell in area.cells)
    assert depth.levels <= LEVELS, depth.paths
