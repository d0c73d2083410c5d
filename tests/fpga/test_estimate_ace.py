# SPDX-License-Identifier: Apache-2.0
"""The estimate of an accelerator's transistors: that of presets that were measured is what was measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fpga.estimate_ace import estimate
from fpga.gates import SRAM_TRANSISTORS
from fpga.report_ace import section
from hw.ace.config import BASE, ULTRA, WIDE

FIGURES = json.loads((Path(__file__).parents[2] / "docs" / "area_ace.json").read_text(encoding="utf-8"))


def _measured(name):
    rows = FIGURES[name]["blocks"].values()
    logic = sum(row["count"] * row["transistors"] for row in rows)
    return logic, SRAM_TRANSISTORS * (FIGURES[name]["sram_bits"] + sum(
        row["count"] * row["memory_bits"] for row in rows))


@pytest.mark.parametrize("name, config, off", [("wide", WIDE, 0.001), ("base", BASE, 0.15)])
def test_measured_presets(name, config, off):
    """Small blocks of ``base``, with fewer queues and regions, are those of ``wide``."""
    logic, memory = _measured(name)
    found = estimate(replace(config, pipes=1), FIGURES)
    assert found.receive + found.logic == pytest.approx(logic, rel=off)
    assert found.slots + found.memories == pytest.approx(memory, rel=off)
    assert found.all == found.slots + found.memories + found.receive + found.logic


def test_what_each_size_adds():
    whole = estimate(ULTRA, FIGURES)
    half = estimate(replace(ULTRA, data_width=512, lanes=16), FIGURES)
    assert 1.9 < whole.receive / half.receive < 2.1 and whole.slots == half.slots
    two = estimate(replace(ULTRA, pipes=2), FIGURES)
    assert whole.receive == 2 * two.receive and whole.logic > two.logic
    assert estimate(replace(ULTRA, slots=64), FIGURES).slots == 2 * whole.slots
    assert estimate(replace(ULTRA, link_beats=512, replay_beats=1024), FIGURES).memories > 1.5 * whole.memories
    assert estimate(replace(ULTRA, fsms=16), FIGURES).logic < whole.logic


def test_ultra_beside_its_measurement():
    """In which lanes, links and memories are twice those of ``wide``."""
    found, row = estimate(ULTRA, FIGURES), FIGURES["ultra"]
    rows = {**row["blocks"], **row["pipes_4"]}.values()
    logic = sum(row["count"] * row["transistors"] for row in rows)
    memory = SRAM_TRANSISTORS * (row["sram_bits"] + sum(row["count"] * row["memory_bits"] for row in rows))
    assert found.receive + found.logic == pytest.approx(logic, rel=0.15)
    assert found.slots + found.memories == pytest.approx(memory, rel=0.15)


def test_the_page_has_both():
    rows = [line for line in section(FIGURES).splitlines() if line.startswith("| ultra")]
    assert [row.count("|") for row in rows] == [11, 8, 8]
    measured, estimated = ([float(cell) for cell in row.split("|")[2:6]] for row in rows[1:])
    assert measured != estimated and measured[0] == estimated[0]
