# SPDX-License-Identifier: Apache-2.0
"""The accelerator's timing options: refused values, and the effect of each on its stage."""

import re
from dataclasses import replace
from functools import cache

import pytest

from hw.ace.bursts import Bursts
from hw.ace.chunker import Chunker
from hw.ace.config import PRESETS, TINY
from hw.ace.decoder import Decoder
from hw.ace.drain import Drain
from hw.ace.fill import Fill
from hw.ace.link.port import LinkPort
from hw.ace.receive import Receive
from hw.ace.sram import Sram
from hw.ace.timing import AceTimingOptions
from hw.ace.transfers import Transfers
from hw.ace.transmit import Transmit
from hw.common.regions import RegionTable
from hw.emit import verilog
from sim.ace.compare import compare
from sim.ace.shared_library import build_library
from tests.ace.timing import each_alone

SMALL = replace(TINY, lanes=1, prod=False, fp8=False, avg=False, widen=False, varying=False, dimensions=1, fsms=2,
                slots=4)

STAGES = {
    "sram_output_register": Sram, "sram_word_register": Sram, "replay_output_register": LinkPort,
    "receive_output_register": LinkPort, "registered_header_crc": LinkPort, "receive_skid": Receive,
    "registered_release": LinkPort, "registered_root": Decoder, "registered_compare": Decoder,
    "lut_ram_tables": lambda config: RegionTable(config, lut_ram=config.timing.lut_ram_tables),
    "registered_move_address": Transfers, "registered_move_limit": Transfers, "burst_skid": Bursts,
    "fill_output_registers": Fill, "registered_read_credits": Fill, "registered_drain_credits": Drain,
    "response_output_register": Drain, "registered_drain_requests": Chunker, "registered_abort_requests": Transmit,
    "speculative_port_credits": Transmit,
}


def test_each_has_a_stage():
    assert tuple(STAGES) == AceTimingOptions.names()


@pytest.mark.parametrize("name", STAGES)
def test_each_changes_its_stage(name):
    config, = each_alone(SMALL, name).values()
    assert verilog(STAGES[name](config), name="stage") != _without(STAGES[name])


@cache
def _without(stage):
    return verilog(stage(SMALL), name="stage")


def test_presets_have_none():
    assert all(config.timing == AceTimingOptions() for config in PRESETS.values())


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_wrong_values(value):
    message = f"Timing option burst_skid must be True or False, not {value!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceTimingOptions(burst_skid=value)


@pytest.mark.soak
@pytest.mark.rtl
@pytest.mark.parametrize("name", STAGES)
def test_each_alone_against_the_model(name, seed):
    config, = each_alone(SMALL, name).values()
    found = compare(config, collectives=40, seed=seed, faults=True, library=build_library(config), shapes=((2,), (3,)))
    assert found["collectives"] >= 40
    assert (found["mismatches"], found["hangs"]) == (0, 0), found["first_mismatches"]
