# SPDX-License-Identifier: Apache-2.0
"""Verilator's data, source lines of branches, bins, and the page."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw import emit
from hw.dma_engine.config import TINY
from sim.verilator.program import build_program
from tests.coverage import runs
from tests.coverage.__main__ import main
from tests.coverage.bins import CROSSES, Tally, collective_bins, failure_bins, request_bins
from tests.coverage.branches import line_map, with_branch_sources, with_few_toggles
from tests.coverage.dat import Point, read, total
from tests.coverage.observed import BINS, STALLS
from tests.coverage.page import files_of, page, summary


class Choice(wiring.Component):
    """A chain of conditions, and a switch."""

    sel: In(2)
    a: In(4)
    o: Out(4)
    p: Out(4)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.sel[0]):
            m.d.comb += self.o.eq(self.a + 1)
        with m.Elif(self.sel[1]):
            m.d.comb += self.o.eq(self.a + 2)
        with m.Else():
            m.d.comb += self.o.eq(3)
        with m.Switch(self.sel):
            with m.Case(0, 1):
                m.d.sync += self.p.eq(self.a)
            with m.Case(2):
                with m.If(self.a[0]):
                    m.d.sync += self.p.eq(self.p + 1)
        return m


@pytest.fixture(scope="module")
def verilog():
    return emit.verilog_of(with_branch_sources(emit.netlist(Choice(), name="choice", sources=True)), sources=True)


def _code(source):
    path, _, number = source.rpartition(":")
    assert path == "tests/coverage/test_coverage.py"
    return Path(__file__).read_text(encoding="utf-8").splitlines()[int(number) - 1].strip()


def test_each_branch_has_the_line_of_its_assignment(verilog):
    lines, text = line_map(verilog), verilog.splitlines()

    def at(pattern):
        number, = (number for number, line in enumerate(text, 1) if re.search(pattern, line))
        return _code(lines[number])

    assert at(r"^    if \(sel\[0\]\) begin") == "m.d.comb += self.o.eq(self.a + 1)"
    assert at(r"end else if \(sel\[1\]\) begin") == "m.d.comb += self.o.eq(self.a + 2)"
    assert at(r"o = 4'h3;") == at(r"end else begin") == "m.d.comb += self.o.eq(3)"
    assert at(r"2'h0, 2'h1:") == "m.d.sync += self.p.eq(self.a)"
    assert at(r"if \(a\[0\]\) begin") == "m.d.sync += self.p.eq(self.p + 1)"
    assert at(r"^  output \[3:0\] o;") == "o: Out(4)"
    assert at(r"assign .* = a \+ .* 2'h2;") == "m.d.comb += self.o.eq(self.a + 2)"


def test_toggles_of_registers_alone(verilog):
    few = with_few_toggles(verilog)
    assert len(few.splitlines()) == len(verilog.splitlines())
    counted = {line.split()[-1].rstrip(";") for line in few.splitlines()
               if re.match(r"  (input|output|wire|reg) ", line) and "=" not in line}
    assert counted == {"o", "p"}
    assert "  /*verilator coverage_off*/ input [3:0] a; /*verilator coverage_on*/" in few


def _dat(tmp_path, *points, first="# SystemC::Coverage-3"):
    rows = [first]
    for count, fields in points:
        text = "".join(f"\1{key}\2{value}" for key, value in fields.items())
        rows.append(f"C '{text}' {count}")
    path = tmp_path / "coverage.dat"
    path.write_text("\n".join(rows) + "\n")
    return path


def _fields(kind, line, what, lines=None, column=5):
    found = {"f": "choice.v", "l": line, "n": column, "t": kind, "page": f"v_{kind}/choice", "o": what,
             "h": "TOP.choice"}
    return {**found, "S": lines} if lines else found


def test_points(tmp_path):
    path = _dat(tmp_path, (7, _fields("line", 40, "elsif", "40-41,44")), (2, _fields("line", 40, "elsif", "40-41,44")),
                (0, _fields("toggle", 8, "__0241[3]:0->1")), (5, _fields("branch", 37, "else")),
                (1, _fields("branch", 3, "__024auto__024verilog_backend__02ecc")))
    assert read(path) == {
        Point("line", "choice", 40, 5, "elsif", (40, 41, 44)): 9, Point("toggle", "choice", 8, 5, "$1[3]:0->1"): 0,
        Point("branch", "choice", 37, 5, "else"): 5}
    twice = total([read(path), read(path)])
    assert twice[Point("branch", "choice", 37, 5, "else")] == 10
    assert twice[Point("toggle", "choice", 8, 5, "$1[3]:0->1")] == 0


def test_other_files_are_refused(tmp_path):
    path = _dat(tmp_path, first="nothing")
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is no coverage data of Verilator.$"):
        read(path)
    path.write_text("# SystemC::Coverage-3\nC x\n")
    with pytest.raises(ValueError, match=f"^Line 2 of {re.escape(str(path))} is no point of coverage: 'C x'$"):
        read(path)


def test_files_and_page(tmp_path):
    here = "tests/coverage/test_coverage.py"
    lines = {40: f"{here}:10", 41: f"{here}:10", 42: f"{here}:11", 8: f"{here}:12", 50: "elsewhere/x.py:1"}
    counts = read(_dat(tmp_path, (3, _fields("line", 40, "elsif", "40-41")), (0, _fields("line", 42, "if", "42")),
                       (4, _fields("toggle", 8, "o:0->1")), (0, _fields("toggle", 8, "o:1->0")),
                       (0, _fields("branch", 40, "else", column=6)), (1, _fields("line", 50, "block", "50"))))
    files = files_of(counts, lines, prefixes=["tests/"])
    assert list(files) == [here]
    assert [str(share) for share in files[here].shares()] == ["50.0 %", "33.3 %", "50.0 %"]
    assert files[here].gaps(11) == ["branch if never taken (1 of it)"]
    assert files[here].gaps(12) == ["never toggled in both directions: o"]
    tally = Tally()
    tally.add(collective_bins(name="BARRIER", count=0, dtype="FP32", operation="SUM", combines=False, stalls=True,
                              faults=False))
    text = page({"engine": files}, tally, CROSSES, title="Coverage", runs={"engine": ["a run"]})
    assert "33.3 % <span" in text and "branch if never taken" in text and "a barrier has no elements" in text
    assert "| engine | 50.0 % of 2 | 33.3 % of 3 | 50.0 % of 2 |" in summary({"engine": files}, tally, CROSSES)


@pytest.mark.parametrize(("length", "source", "destination", "size", "alignment"), [
    (1, 0, 0, "1 byte", "both aligned"), (7, 3, 0, "below a beat", "source unaligned"),
    (8, 0, 4, "up to a segment", "destination unaligned"), (256, 1, 1, "up to a segment", "both unaligned"),
    (257, 8, 16, "up to 4 KiB", "both aligned"), (4097, 0, 0, "above 4 KiB", "both aligned"),
])
def test_bins_of_requests(length, source, destination, size, alignment):
    found = request_bins(length=length, source=source, destination=destination, beat_bytes=8, segment_bytes=256,
                         path="ring", stalls=False)
    assert found == {CROSSES[0].name: (size, alignment, "ring", "no stalls"), CROSSES[1].name: ("OK", "ring")}


def test_bins_are_kept(tmp_path):
    tally, again = Tally(), Tally()
    tally.add(failure_bins(status="MALFORMED", path="ARK"))
    tally.store(tmp_path / "bins.json")
    again.load(tmp_path / "bins.json")
    assert again.counts == tally.counts
    cross = CROSSES[1]
    assert ("MALFORMED", "ARK") not in again.empty(cross)
    assert len(again.empty(cross)) == len([one for one in cross.bins() if not cross.impossible(one)]) - 1


@pytest.mark.rtl
def test_requests_of_every_bin(tmp_path, seed):
    """No bin of requests is empty, unless it is explained."""
    from sim.dma.checked import CheckedDma
    from sim.verilator.build import Design, build

    simulator, tally = build(Design(CheckedDma, TINY), name="dma_tiny"), Tally()
    bins = tmp_path / "bins.json"
    for stalls in ("none", "random"):
        options = {"seed": seed, "stalls": stalls, "latency": 20}
        simulator.run("tests.coverage.observed", testcase="requests", seed=seed, env={
            "DMACE_RUN": json.dumps(options), BINS: str(bins), STALLS: str(int(stalls != "none"))})
    tally.load(bins)
    assert [one for cross in CROSSES if cross.engine == "dma" for one in tally.empty(cross)] == []
    assert not [one for cross in CROSSES for one in tally.counts[cross.name] if cross.impossible(one)]


_MAIN = """
#include <cstdlib>
#include <memory>
#include <vector>
#include "Vtop.h"
int main(int, char** arguments) {
    std::vector<std::unique_ptr<Vtop>> models(std::atoi(arguments[1]));
    for (auto& top : models) {
        top = std::make_unique<Vtop>();
        for (int cycle = 0; cycle < 20; ++cycle) {
            top->a = cycle;
            top->sel = cycle & 1;
            top->rst = cycle < 2;
            for (int level : {0, 1}) {
                top->clk = level;
                top->eval();
            }
        }
    }
    for (auto& top : models) {
        top->final();
        top.reset();
    }
}
"""


@pytest.mark.long
def test_a_simulation(tmp_path):
    """The second bit of `sel` is never set. Two models in one simulation count twice as much, also if one is deleted
    before the other one ends."""
    verilog = runs._verilog(emit.netlist(Choice(), name="choice", sources=True), "choice")
    (tmp_path / "main.cpp").write_text(_MAIN)
    made = build_program(with_few_toggles(verilog), name="choice", main=tmp_path / "main.cpp", coverage=True)
    counts = {}
    for models in (1, 2):
        (folder := tmp_path / str(models)).mkdir()
        subprocess.run([made.path, str(models)], env={**os.environ, runs.FOLDER: str(folder)}, check=True)
        counts[models] = total(read(path) for path in folder.glob("*.dat"))
    assert counts[2] == {point: 2 * count for point, count in counts[1].items()}
    file, = files_of(counts[1], line_map(verilog), prefixes=["tests/"]).values()
    gaps = {_code(f"{file.path}:{number}"): gap for number in range(200) if (gap := file.gaps(number))}
    assert gaps == {"m.d.comb += self.o.eq(self.a + 2)": ["branch if never taken (1 of it)"],
                    "m.d.sync += self.p.eq(self.p + 1)": gaps["m.d.sync += self.p.eq(self.p + 1)"]}


def test_wrong_arguments():
    with pytest.raises(SystemExit, match="2"):
        main(["--engine", "gpu"])
