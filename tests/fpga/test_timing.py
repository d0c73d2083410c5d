# SPDX-License-Identifier: Apache-2.0
"""Figures of a build are read from nextpnr's report, in names of the source."""

import json

import pytest

from fpga.timing import read_report, source_name, summary


@pytest.mark.parametrize(("cell", "name"), [
    ("core.engine0.legalizer.left_LUT4_Z_3_D_PFUMX_Z_ALUT", "engine0.legalizer.left"),
    ("core.engine0.buffer.data.0.12", "engine0.buffer.data.0.12"),
    ("core.engine0.shares.owed_CCU2C_S0_2_COUT[4]", "engine0.shares.owed"),
    ("core.bridge.header$12_TRELLIS_FF_Q_4", "bridge.header"),
])
def test_source_name(cell, name):
    assert source_name(cell) == name


def _step(kind, delay, net=None):
    step = {"type": kind, "delay": delay, "from": {"cell": "core.a_TRELLIS_FF_Q", "port": "Q"},
            "to": {"cell": "core.b_LUT4_Z", "port": "A"}}
    return step if net is None else {**step, "net": net}


def test_report(tmp_path):
    clock = "posedge $glbnet$clock"
    path = tmp_path / "timing.json"
    path.write_text(json.dumps({
        "fmax": {"$glbnet$clock": {"achieved": 62.5, "constraint": 80.0}, "clk": {"achieved": 900.0, "constraint": 25}},
        "critical_paths": [
            {"from": "async", "to": clock, "path": [_step("routing", 99.0, "core.rx")]},
            {"from": clock, "to": clock, "path": [
                _step("clk-to-q", 0.5), _step("routing", 1.5, "core.a"), _step("logic", 0.25),
                _step("routing", 13.5, "core.b_LUT4_Z"), _step("setup", 0.25)]}],
        "utilization": {"TRELLIS_COMB": {"used": 10, "available": 40}, "IOLOGIC": {"used": 0, "available": 1}},
    }))
    report = read_report(path, wanted_hz=80_000_000)
    assert (report["mhz"], report["wanted_mhz"], report["met"]) == (62.5, 80.0, False)
    assert (report["logic_ns"], report["routing_ns"], report["levels"]) == (1.0, 15.0, 1)
    assert report["critical"] == [("b", 0.5), ("a", 2.0), ("b", 16.0)]
    assert summary(report) == ["62.5 MHz reached, 80.0 MHz requested", "LUT4: 10 of 40 (25 %)"]
