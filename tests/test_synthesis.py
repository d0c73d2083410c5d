# SPDX-License-Identifier: Apache-2.0
"""Yosys synthesises the emitted Verilog: no latch, no loop, every memory where it was meant, within the budgets.

``pytest -m synth -s`` prints the figures; ``--soak`` adds ``wide``, and ``base`` on ECP5.
"""

import pytest

from fpga.area import FAMILIES, Area, measure
from fpga.budgets import area_excess
from hw.common.regions import RegionEntry
from hw.dma_engine.completion.window_table import LUT_RAM_ENTRIES
from hw.dma_engine.config import PRESETS
from hw.dma_engine.engine import DmaEngine
from hw.dma_engine.layouts import InfoLayout, NativeLayout, segment_layout, write_beat_layout
from hw.errors import UserError
from hw.stream.storage import LUT_RAM_DEPTH
from sim.verilator.design import Design, verilog_of

pytestmark = pytest.mark.synth

# Bits in one column of the widest, shallowest form of a block: rows, then bits in a row.
WIDEST = {"RAMB36E2": (512, 72), "RAMB18E2": (512, 36), "DP16KD": (512, 36)}

# At the start of critical paths: LUT RAM up to this number of rows.
FAST = {"front_end.queues.ring": LUT_RAM_DEPTH, "front_end.pool.free": LUT_RAM_DEPTH,
        "mover.responses.origins": LUT_RAM_DEPTH, "completion.retire.window_table.rows": LUT_RAM_ENTRIES}

RUNS = [
    pytest.param("tiny", "ecp5", id="tiny-ecp5"),
    pytest.param("base", "ecp5", id="base-ecp5", marks=pytest.mark.soak),
    pytest.param("tiny", "xcup", id="tiny-xcup"),
    pytest.param("base", "xcup", id="base-xcup"),
    pytest.param("wide", "xcup", id="wide-xcup", marks=pytest.mark.soak),
]


def _block_memories(config):
    """Memory -> rows and bits of a row, of those that must be block RAM in every preset but for :data:`FAST`."""
    regions = {f"front_end.regions.{side}_table": (config.regions, RegionEntry.as_shape().size)
               for side in ("src", "dst")}
    return regions | {
        "front_end.queues.ring": (config.queues * config.queue_depth, NativeLayout.size),
        "mover.buffer.beats": (config.buffer_beats, config.data_width + 1),
        "mover.sequencer.contexts": (config.tags, 64),
        "mover.responses.origins": (config.tags, config.queue_bits + config.index_width + 2),
        "completion.retire.window_table.rows": (config.entries, 9),
        "completion.retire.window_table.infos": (config.entries, InfoLayout.size + config.block_bits + 1),
        "front_end.pool.free": (config.blocks, config.block_bits + 1),
    }


@pytest.mark.parametrize("preset, family", RUNS)
def test_dma_engine(preset, family, capsys):
    text = verilog_of(Design(DmaEngine, PRESETS[preset]), name="dma_engine", assertions=False)
    # Levels are of 6-input LUTs, whatever the family: once is enough.
    area, depth = measure(text, family=family, top="dma_engine", depth=family == "xcup")
    with capsys.disabled():
        print(f"\n{preset:5} {area.family:11} {area.lut:6} LUT {area.lut_ram:5} LUT-RAM {area.flip_flop:6} FF "
              f"{area.block_ram:5} block RAM" + (f"  {depth.levels} levels of LUT6" if depth else ""))
    assert area.latch == 0
    _check_memories(PRESETS[preset], family, area.memories)
    assert area_excess("dma_engine", preset, family, area, depth) == []


def _check_memories(config, family, memories):
    blocks = FAMILIES[family].block_ram
    meant = _block_memories(config)
    for name, (rows, bits) in meant.items():
        made_of = memories[name]
        if rows <= FAST.get(name, 0):
            assert not set(made_of) & set(blocks), f"{name} is made of {dict(made_of)}"
            continue
        assert set(made_of) <= set(blocks), f"{name} is made of {dict(made_of)}"
        # As many blocks as their widest form needs, and half as many again for one with an awkward width.
        needed = sum(-(-rows // WIDEST[kind][0]) * -(-bits // WIDEST[kind][1]) * count / made_of.total()
                     for kind, count in made_of.items())
        assert made_of.total() <= 1.5 * needed + 1, f"{name} takes {dict(made_of)}"
    # Nothing was broken up into flip-flops, and a memory read asynchronously did not become one of blocks.
    for name, made_of in memories.items():
        assert "flip-flops" not in made_of, f"{name} became flip-flops"
        if name.endswith(".memory"):
            assert not set(made_of) & set(blocks), f"{name} is made of {dict(made_of)}"
    # Queues are either, as their depth decides; a shallow one takes at most a LUT per bit of its width.
    widths = {"front_end.legalizer.segments.storage": segment_layout(config).size,
              "mover.aligner.out.storage": write_beat_layout(config).size}
    deep = [name for name, made_of in memories.items() if name.endswith(".storage")
            and sum(FAMILIES[family].lut_ram.get(kind, 0) * count for kind, count in made_of.items())
            > max(200, widths.get(name, 0) + 3)]
    assert deep == []


def test_excess_is_reported():
    area = Area(family="ECP5", lut=20_000, lut_ram=0, flip_flop=1, block_ram=30, latch=0, cells={}, memories={})
    assert area_excess("dma_engine", "tiny", "ecp5", area) == [
        f"dma_engine tiny takes {taken} on ecp5, beyond its budget of {limit}." for taken, limit in (
            ("20,000 lut", "10,300"), ("20,000 lut_with_ram", "13,400"), ("30 block_ram", "16"))]
    assert area_excess("dma_engine", "tiny", "ice40", area) is None


def test_loop_is_refused():
    loop = "module bad(input a, output y);\nwire x;\nassign x = ~(a & y);\nassign y = ~x | a;\nendmodule\n"
    with pytest.raises(UserError, match=r"^Yosys failed: .*found logic loop.*"):
        measure(loop, top="bad")


def test_latch_is_counted():
    latch = "module bad(input a, b, output reg y);\nalways @* if (a) y = b;\nendmodule\n"
    area, depth = measure(latch, top="bad")
    assert (area.latch, area.lut, depth.levels) == (1, 0, 0)


def test_depth_counts_levels_and_stops_at_registers():
    # 64 inputs take three levels of 6-input LUTs (6 ** 2 < 64); the register ends the way.
    text = "module wide_and(input clk, input [63:0] a, output reg y);\nalways @(posedge clk) y <= &a;\nendmodule\n"
    area, depth = measure(text, top="wide_and")
    assert (area.flip_flop, depth.levels) == (1, 3)
    assert list(depth.paths) == ["y"]


def test_memories_are_distinguished():
    text = """module two(input clk, we, input [8:0] wa, ra, input [31:0] d, output reg [31:0] q, output [7:0] p);
    (* ram_style = "block" *) reg [31:0] block [511:0];
    (* ram_style = "distributed" *) reg [7:0] lut [31:0];
    always @(posedge clk) begin
        if (we) begin block[wa] <= d; lut[wa[4:0]] <= d[7:0]; end
        q <= block[ra];
    end
    assign p = lut[ra[4:0]];
    endmodule\n"""
    area, depth = measure(text, top="two")
    assert {name: set(kinds) for name, kinds in area.memories.items()} == {"block": {"RAMB18E2"}, "lut": {"RAM32M16"}}
    assert (area.block_ram, area.lut_ram, depth.levels) == (0.5, 8, 1)
