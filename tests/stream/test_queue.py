# SPDX-License-Identifier: Apache-2.0
import json
import random

import pytest
from amaranth.hdl import signed
from amaranth.lib import data
from amaranth.sim import Simulator

from hw.emit import verilog
from hw.stream import Queue
from tests.stream.bench import exercise

REGISTER, BLOCK_REGISTER = {"output_register": True}, {"ram": "block", "output_register": True}
BYPASS = {"ram": "block", "empty_bypass": True}
STALLS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.6)]


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("kind", [{}, {"ram": "block"}, REGISTER, BLOCK_REGISTER, BYPASS])
@pytest.mark.parametrize("depth", [2, 5, 8])
def test_order(depth, kind, stalls):
    items = [random.Random(depth).randrange(1 << 16) for _ in range(150)]
    dut = Queue(16, depth=depth, **kind)
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items), stalls=stalls)
    assert [payload for _, payload in sent] == items
    assert [payload for _, payload in got] == items


@pytest.mark.parametrize("depth, kind, latency", [
    (2, {}, 1), (32, {}, 1), (33, {}, 2), (3, {"ram": "block"}, 2), (40, {"ram": "lut"}, 1), (2, REGISTER, 1),
    (5, REGISTER, 1), (4, BLOCK_REGISTER, 3), (33, REGISTER, 3),
    (2, BYPASS, 1), (3, BYPASS, 1), (33, {"empty_bypass": True}, 1), (32, {"empty_bypass": True}, 1),
])
def test_latency_and_throughput(depth, kind, latency):
    dut = Queue(16, depth=depth, **kind)
    assert dut.latency == latency
    items = list(range(100))
    sent, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items))
    assert [cycle for cycle, _ in sent] == list(range(100))
    assert [cycle for cycle, _ in got] == list(range(latency, latency + 100))


@pytest.mark.parametrize("depth, kind", [
    *((depth, {"ram": "lut"}) for depth in (2, 3, 4, 7)), *((depth, {"ram": "block"}) for depth in (3, 4, 7)),
    *((depth, REGISTER) for depth in (2, 3, 4, 7)),
    *((depth, BLOCK_REGISTER) for depth in (4, 7)), *((depth, BYPASS) for depth in (2, 3, 4, 7)),
])
def test_depth_and_level(depth, kind):
    dut = Queue(8, depth=depth, **kind)

    async def testbench(ctx):
        # With a stalled output, exactly `depth` items are accepted, and each is counted in the next cycle's level.
        ctx.set(dut.i.valid, 1)
        for held in range(depth):
            assert ctx.get(dut.level) == held
            assert ctx.get(dut.i.ready)
            ctx.set(dut.i.payload, held)
            await ctx.tick()
        for _ in range(3):
            assert ctx.get(dut.level) == depth
            assert not ctx.get(dut.i.ready)
            await ctx.tick()
        # A full queue moves an item per cycle: one leaves, one enters a cycle later.
        ctx.set(dut.o.ready, 1)
        for number in range(20):
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload) == number % 256 if number < depth else True
            await ctx.tick()
            assert ctx.get(dut.level) in (depth - 1, depth)
        # Drain.
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(depth + 2)
        assert ctx.get(dut.level) == 0
        assert not ctx.get(dut.o.valid)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize("kind", [{"ram": "lut"}, {"ram": "block"}, REGISTER, BLOCK_REGISTER,
                                  BYPASS])
def test_struct_payload(kind):
    shape = data.StructLayout({"tag": 5, "offset": signed(6)})
    items = [shape.const({"tag": tag, "offset": -tag}) for tag in range(20)]
    dut = Queue(shape, depth=4, **kind)
    _, got = exercise(dut, [(dut.i, items)], [dut.o], expect=len(items), stalls=(0.3, 0.3))
    assert [payload for _, payload in got] == items


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("depth", [2, 3, 4, 9])
def test_empty_bypass_is_as_fast_as_lut_ram(depth, stalls):
    found = [exercise(dut, [(dut.i, list(range(300)))], [dut.o], expect=300, stalls=stalls)
             for dut in (Queue(9, depth=depth, ram="lut"), Queue(9, depth=depth, **BYPASS))]
    assert found[0] == found[1]


def test_both_options_are_refused():
    with pytest.raises(ValueError, match=r"^A Queue has either output_register or empty_bypass, not both$"):
        Queue(8, depth=4, output_register=True, empty_bypass=True)


@pytest.mark.parametrize("depth", [1, 0, -1, "4", 2.0])
def test_depth_wrong(depth):
    with pytest.raises(ValueError, match=rf"^Queue depth must be an integer of at least 2, not {depth!r}$"):
        Queue(8, depth=depth)


def test_ram_wrong():
    with pytest.raises(ValueError, match=r'^Queue memory must be "lut", "block" or None, not \'ultra\'$'):
        Queue(8, depth=4, ram="ultra")


def cells(component, command, tmp_path):
    """Number of cells of each type after synthesis."""
    libyosys = pytest.importorskip("pyosys.libyosys")
    source, report = tmp_path / "top.v", tmp_path / "stat.json"
    source.write_text(verilog(component, name="top"))
    design = libyosys.Design()
    for step in (f"tee -q read_verilog {source}", f"tee -q {command}", f"tee -q -o {report} stat -json"):
        libyosys.run_pass(step, design)
    text = report.read_text()
    return json.loads(text[text.index("{"):])["design"]["num_cells_by_type"]


@pytest.mark.synth
@pytest.mark.parametrize("command, block, lut_ram", [
    ("synth_ecp5 -noabc9", {"DP16KD": 2}, "TRELLIS_DPR16X4"),
    ("synth_xilinx -family xcup -noiopad", {"RAMB36E2": 1}, "RAM32M16"),
])
def test_memory_cells(command, block, lut_ram, tmp_path):
    deep = cells(Queue(64, depth=512), f"{command} -top top", tmp_path)
    assert {cell: number for cell, number in deep.items() if cell.startswith(("DP16", "RAM"))} == block
    assert not any(cell.startswith(("RAM32", "RAM64", "TRELLIS_DPR")) for cell in deep)
    # The memory's own output register is used: no copy of the word in flip-flops.
    assert sum(number for cell, number in deep.items() if cell.startswith(("FD", "TRELLIS_FF"))) < 64
    shallow = cells(Queue(64, depth=32), f"{command} -top top", tmp_path)
    assert lut_ram in shallow
    assert not set(block) & set(shallow)
