# SPDX-License-Identifier: Apache-2.0
"""The engine's timing options: what is refused, and that each changes the stage that it names."""

import json
import re
from dataclasses import replace
from functools import cache

import pytest

from hw.dma_engine.completion.notices import Notices
from hw.dma_engine.completion.retire import Retire
from hw.dma_engine.config import PRESETS, TINY
from hw.dma_engine.control.operations import Operations
from hw.dma_engine.frontend.arrivals import Arrivals
from hw.dma_engine.frontend.legalizer import Legalizer
from hw.dma_engine.frontend.scheduler import Scheduler
from hw.dma_engine.frontend.segment_credit import SegmentCredit
from hw.dma_engine.mover.sequencer import WriteSequencer
from hw.dma_engine.timing import DmaTimingOptions
from hw.emit import verilog
from sim.dma.checked import CheckedDma
from sim.verilator.build import build
from tests.dma_engine.timing_alone import each_alone

STAGES = {
    "registered_arrivals": Arrivals, "registered_doorbells": Scheduler, "grouped_fetch": Scheduler,
    "registered_entitlement": Scheduler, "registered_credits": SegmentCredit, "legalizer_output_register": Legalizer,
    "precomputed_takes": WriteSequencer,
    "registered_operations": Operations, "carry_chain_increment": Retire, "registered_words": Notices,
    "word_output_register": Notices,
}


def test_each_has_a_stage():
    assert tuple(STAGES) == DmaTimingOptions.names()


@pytest.mark.parametrize("name", STAGES)
def test_each_changes_its_stage(name):
    stage = STAGES[name]
    assert verilog(stage(each_alone()[f"tiny+{name}"]), name="stage") != _without(stage)


@cache
def _without(stage):
    return verilog(stage(replace(TINY, timing=DmaTimingOptions())), name="stage")


def test_presets():
    assert {name: config.timing for name, config in PRESETS.items()} == {
        "tiny": DmaTimingOptions.all(), "base": DmaTimingOptions(), "wide": DmaTimingOptions()}


@pytest.mark.parametrize("value", [0, None, "no"])
def test_wrong_values(value):
    message = f"Timing option registered_words must be True or False, not {value!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DmaTimingOptions(registered_words=value)


def test_wrong_options():
    with pytest.raises(ValueError, match=r"^Timing must be DmaTimingOptions, not True$"):
        replace(TINY, timing=True)


@pytest.mark.soak
@pytest.mark.rtl
@pytest.mark.parametrize("name", [*STAGES, None])
def test_each_alone_against_the_model(name, seed, tmp_path):
    config = each_alone()[f"tiny+{name}"] if name else replace(TINY, timing=DmaTimingOptions())
    path = tmp_path / "result.json"
    options = {"requests": 2000, "stalls": "random", "latency": 20, "config": f"tiny+{name}" if name else "tiny",
               "seed": seed, "result": str(path)}
    build(CheckedDma(config), name="dma_timing").run(
        "tests.dma_engine.timing_alone", env={"DMACE_RUN": json.dumps(options)}, seed=seed % (1 << 31))
    result = json.loads(path.read_text(encoding="utf-8"))
    assert not result["mismatches"], result["first_mismatches"]
    assert result["requests"] >= 2000
