# SPDX-License-Identifier: Apache-2.0
"""Sizes of the machine are refused with the value and the rule."""

from dataclasses import replace

import pytest

from hw.errors import UserError
from sim.cache.config import CacheSizes, DramSizes, MachineConfig, Predictor, Units


@pytest.mark.parametrize("make, sentence", [
    (lambda: CacheSizes(sets=0), "cache.sets must be an integer from 1 to 65,536, not 0."),
    (lambda: CacheSizes(ways=65), "cache.ways must be an integer from 1 to 64, not 65."),
    (lambda: CacheSizes(ways=1.5), "cache.ways must be an integer from 1 to 64, not 1.5."),
    (lambda: CacheSizes(line=96), "cache.line must be a power of two, not 96."),
    (lambda: CacheSizes(sector=24), "cache.sector must be a power of two, not 24."),
    (lambda: CacheSizes(sector=128), "cache.sector must be from 4 to the 64 bytes of a line, not 128."),
    (lambda: CacheSizes(line=256, sector=8), "cache.sector must be from 16 to the 256 bytes of a line, not 8."),
    (lambda: DramSizes(banks=1), "dram.banks must be an integer from 2 to 64, not 1."),
    (lambda: DramSizes(banks=12), "dram.banks must be a power of two, not 12."),
    (lambda: DramSizes(cas=-1), "dram.cas must be an integer from 0 to 10,000, not -1."),
    (lambda: DramSizes(high=129), "dram.high must be above dram.low and at most dram.writes, but the three are 129, "
                                  "32 and 128."),
    (lambda: DramSizes(low=96), "dram.high must be above dram.low and at most dram.writes, but the three are 96, 96 "
                                "and 128."),
    (lambda: Units(units=0), "units.units must be an integer from 1 to 256, not 0."),
    (lambda: Predictor(counter=0), "predictor.counter must be an integer from 1 to 255, not 0."),
    (lambda: MachineConfig(cache=CacheSizes(line=256, sector=32), dram=DramSizes(interleave=128)),
     "dram.interleave must be a multiple of the 256 bytes of a line, not 128."),
    (lambda: MachineConfig(dram=DramSizes(row=1000)),
     "dram.row must be a multiple of the 64 bytes of a line, not 1000."),
])
def test_refused(make, sentence):
    with pytest.raises(UserError) as refused:
        make()
    assert str(refused.value) == sentence


def test_inputs_name_every_field():
    inputs = MachineConfig().inputs()
    assert inputs["cache.sets"] == 256 and inputs["dram.turnaround"] == 8 and inputs["predictor.sampled"] == 32
    assert len(inputs) == 8 + 16 + 3 + 4


def test_arguments_carry_all_sizes():
    machine = replace(MachineConfig(), cache=CacheSizes(sets=8))
    words = machine.arguments(groups=3, policy={"rinse": 1})
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert "sets=8," in options["--cache"] and options["--units"].endswith("groups=3")
    assert options["--policy"].endswith("rinse=1") and "sampled=32" in options["--policy"]
    assert (CacheSizes().bytes, DramSizes().bytes_per_cycle) == (256 << 10, 32)
