# SPDX-License-Identifier: Apache-2.0
"""Cycles at the pins: the latency of one request, and the utilisation of W by many.

``pytest tests/dma_engine/test_latency.py -s`` prints the figures that docs/dma_engine.md quotes.
"""

import json
import os
import re
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from hw.dma_engine.config import PRESETS
from hw.dma_engine.words import RequestFlag
from tests.dma_engine.bench import Bench, session_seed
from tests.dma_engine.jobs import Job
from tests.dma_engine.pins import Pins

pytestmark = pytest.mark.rtl

LATENCY = 100
BYTES = 64

DOCS = Path(__file__).resolve().parents[2] / "docs" / "dma_engine.md"


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Figures of a simulation that runs once."""
    return {"file": tmp_path_factory.mktemp("latency") / "figures.json"}


def _measure(engine, figures, preset):
    if preset not in figures:
        engine(preset, "one_request", file=figures["file"])
        figures[preset] = json.loads(figures["file"].read_text())
        print(preset, json.dumps(figures[preset]))
    return figures[preset]


@pytest.mark.parametrize("preset", ["tiny", pytest.param("base", marks=pytest.mark.long)])
def test_one_request(engine, figures, preset):
    """From the doorbell's W to the first ARVALID, to the last B of the data, and to the first completion word."""
    found = _measure(engine, figures, preset)
    assert found["first_arvalid"] <= 8
    assert found["data_done"] <= 2 * LATENCY + BYTES // PRESETS[preset].beat_bytes + 16
    assert found["data_done"] < found["completion_awvalid"] <= found["data_done"] + 10


@pytest.mark.parametrize("preset, column", [("tiny", 2), pytest.param("base", 1, marks=pytest.mark.long)])
def test_documented_figures(engine, figures, preset, column):
    """docs/dma_engine.md quotes the measured figures."""
    found = _measure(engine, figures, preset)
    text = DOCS.read_text(encoding="utf-8")
    table = text[text.index("| from the doorbell to |"):]
    for row, name in (("first ARVALID", "first_arvalid"), ("last B of the data", "data_done"),
                      ("AWVALID of the first completion word", "completion_awvalid")):
        quoted = re.search(rf"^\| {re.escape(row)} \| ([^ |]+) \| ([^ |]+) \|", table, re.MULTILINE)
        assert quoted, f"no row {row!r} in {DOCS.name}"
        assert quoted[column] == str(found[name]), (
            f"{row}: {DOCS.name} says {quoted[column]} for {preset}, measured {found[name]} cycles")


@cocotb.test()
async def one_request(dut):
    """A single aligned copy with SC and RC in an idle engine."""
    bench = Bench(dut, seed=session_seed("latency"), latency=LATENCY)
    words = await bench.lay_out([Job(BYTES, 0, 0)])
    await bench.wait(300)
    pins = Pins(bench)
    await bench.post(3, words[0]._replace(flags=int(RequestFlag.SC | RequestFlag.RC)))
    await bench.end()

    completion = 1 << (bench.config.axi_id_width - 1)
    doorbell, = (transfer.cycle for transfer in pins.seen["db"])
    data_aw, rc_aw, sc_aw = pins.seen["aw"]
    assert [bool(transfer.fields[0] & completion) for transfer in pins.seen["aw"]] == [False, True, True]
    assert [transfer.fields[1] for transfer in (rc_aw, sc_aw)] == list(reversed(bench.words_of(3)))
    ar, = pins.seen["ar"]
    beats = BYTES // bench.config.beat_bytes
    assert len(pins.seen["r"]) == beats and len(pins.seen["w"]) == beats + 2
    last_w = pins.seen["w"][beats - 1]
    data_b, = (transfer for transfer in pins.seen["b"] if transfer.fields[0] == data_aw.fields[0])

    # Memory responds after exactly its latency, and no channel stalls.
    assert pins.seen["r"][0].cycle - ar.cycle == LATENCY, f"{pins.seen['r'][0].cycle - ar.cycle} cycles to the first R"
    assert data_b.cycle - last_w.cycle == LATENCY, f"{data_b.cycle - last_w.cycle} cycles to B"
    assert not any(pins.stalled.values()), f"{dict(pins.stalled)} cycles of stall"

    completion_aw = min(cycle for cycle in pins.raised["aw"] if cycle > data_b.cycle)
    result = {
        "bytes": BYTES, "memory_latency": LATENCY,
        "first_arvalid": pins.raised["ar"][0] - doorbell,
        "read": pins.seen["r"][-1].cycle - ar.cycle,
        "last_r_to_first_w": pins.seen["w"][0].cycle - pins.seen["r"][-1].cycle,
        "last_w_to_b": data_b.cycle - last_w.cycle,
        "data_done": data_b.cycle - doorbell,
        "completion_awvalid": completion_aw - doorbell,
        "second_completion_awvalid": sc_aw.cycle - doorbell,
    }
    Path(os.environ["DMACE_TEST_FILE"]).write_text(json.dumps(result))


@pytest.mark.long
def test_write_throughput(engine, tmp_path):
    engine("base", "keeps_w_busy", file=tmp_path / "figures.json")
    print((tmp_path / "figures.json").read_text())


@cocotb.test()
async def keeps_w_busy(dut):
    """16 queues of 1 KiB messages, memory 100 cycles away: a beat on W in 9 of 10 cycles."""
    bench = Bench(dut, seed=session_seed("throughput"), latency=LATENCY)
    queues, each = bench.config.queues, 60
    words = await bench.lay_out([Job(1024, 0, 0)] * (queues * each))
    # Aligned to segments and pages, so that throughput does not depend on the segmentation.
    words = [word._replace(dst_offset=1024 * index, flags=int(RequestFlag.SC | RequestFlag.RC) if index % 4 == 3 else 0)
             for index, word in enumerate(words)]
    shares = [words[queue * each:][:each] for queue in range(queues)]

    async def agent(queue, words):
        while words:
            await bench.wait_for_free_entries(queue, 4)
            await bench.post(queue, *words[:4])
            del words[:4]

    pins = Pins(bench)
    tasks = [cocotb.start_soon(agent(queue, share)) for queue, share in enumerate(shares)]
    await ClockCycles(dut.clk, 2000)
    start = bench.cycle
    for task in tasks:
        await task
    stop = bench.cycle
    beats = sum(start <= transfer.cycle < stop for transfer in pins.seen["w"])
    Path(os.environ["DMACE_TEST_FILE"]).write_text(json.dumps({
        "config": "base", "bytes": 1024, "queues": queues, "memory_latency": LATENCY, "cycles": stop - start,
        "w_beats": beats}))
    assert stop - start > 5000, f"only {stop - start} cycles of steady state"
    assert beats >= 0.9 * (stop - start), f"W carried a beat in {beats} of {stop - start} cycles"
    await bench.end()
