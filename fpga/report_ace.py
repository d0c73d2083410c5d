# SPDX-License-Identifier: Apache-2.0
"""The part of docs/area.md about the collectives accelerator, block by block.

The figures are in ``docs/area_ace.json``, written by ``scripts/measure_area_ace.py``.
"""

from collections.abc import Mapping
from typing import Any

from hw.ace.config import PRESETS, AceConfig

from .estimate_ace import estimate
from .gates import SRAM_TRANSISTORS

__all__ = ["section"]

_COLUMNS = ("lut", "shift", "flip_flop", "lut_ram", "block_ram", "dsp")

_HEAD = """
## The collectives accelerator

`scripts/measure_area_ace.py` synthesises one block after the other (`synth_xilinx -family xcup`) and stores the results
in `docs/area_ace.json`. *Shift*: LUTs used as shift registers.
*Transistors*: logic and flip-flops in thousands, by Yosys's mapping to small gates (`fpga/gates.py`), without memories,
whose bits are in the last column.
"""

_TABLE = """
| {config} | LUT | shift | FF | LUT-RAM | RAMB36 | DSP | levels | transistors | memory, Kibit |
|---|---|---|---|---|---|---|---|---|---|
"""

_WHOLE = """
In one piece, with the SRAM of slots, `{config}` takes {lut:,} LUT, {flip_flop:,} FF, {lut_ram:,} LUT-RAM, {block_ram:g}
RAMB36 and {dsp} DSP, and has {levels} levels (`--whole`).
"""

_PIPES = """
**Pipes.** Each has its own `receive` with lanes and its own `transmit`; `pool`, SRAM (here without its memory) and the
stages that merge and split grow, everything else is shared (`--pipes 2`, `--pipes 4`). LUTs, and for all blocks LUTs
and flip-flops also relative to one pipe:

| | pipes | receive and transmit | pool | SRAM's banks | merge, split | all LUT | | all FF | | levels |
|---|---|---|---|---|---|---|---|---|---|---|
"""

_PIPED = {"receive": "ports", "transmit": "ports", "pool": "pool", "sram": "sram", "pipe_merge": "turns",
          "pipe_split": "turns"}
"""Blocks that several pipes change, by column."""

_SPLIT = """
**SRAM against logic.** The authors of ACE (ISCA'21) give, at 28 nm, 5,113,696 um2 for 4 MB of SRAM, 159,803 for
control, 16,112 for ALUs and 1,084 for the switch: 96.7 % of it is SRAM. This table is in millions of transistors,
{sram} for a bit of memory; `wide` has as much SRAM as theirs. `ultra` counts its four pipes, the others one. The
estimate (`fpga/estimate_ace.py`) is that of `scripts/sweep_accelerators.py` for sizes that were not synthesised: by the
straight line through `base` and `wide` for the width, and in proportion to FSMs, pipes and buffers.

| | SRAM of slots | other memories | receive, with the lanes | other logic | SRAM of slots, share | all memory, share |
|---|---|---|---|---|---|---|
"""

_SPLIT_TAIL = """
Their links are lossless and have no buffers in these figures. Here each of six ports has a replay buffer, a receive
buffer and two CRC-32 of a beat per cycle, and the lanes multiply, too. In `tiny` and `base` the SRAM is small: 32 and
256 KiB.
"""

_TAIL = """
A lane, which combines 32 bits per cycle, takes 1,554 LUT, 41 more as shift registers, and 910 FF without products; with
them 2,349, 55 and 1,524, and four DSP48E2 (Yosys maps `$mul` of 16 by 16 bits to DSP slices on Xilinx, and on ECP5 to
MULT18X18D); 10 levels of LUT6 in both cases. `tiny` has 2 lanes, `base` 8, `wide` 16. A divider of one word takes 855
LUT, 128 more as shift registers, and 499 FF.
`pytest -m synth -s tests/ace/test_synthesis.py tests/ace/numerics/test_divide.py` prints these figures and checks them
against budgets; the budgets of the blocks of `tiny` are in `fpga/budgets.toml`; all but the decoder's need `--soak`.
"""


def section(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown of ``{config: {"sram_bits": ..., "blocks": {name: figures}, "whole": figures}}``."""
    measured = {name: found for name, found in figures.items() if "pipes_2" in found}
    return (_HEAD + "".join(_preset(name, found) for name, found in figures.items())
            + _PIPES + "".join(_pipes(name, found) for name, found in measured.items())
            + _SPLIT.format(sram=SRAM_TRANSISTORS) + "\n".join(_split(*item) for item in figures.items()) + "\n"
            + _estimated("ultra", PRESETS["ultra"], figures)
            + _SPLIT_TAIL + _TAIL)


def _blocks(found: Mapping[str, Any]) -> dict[str, Any]:
    """Those of one pipe; of a preset that was measured only as it is, with the blocks of its four pipes."""
    blocks = found["blocks"]
    return dict(blocks) if "receive" in blocks else {**blocks, **found["pipes_4"]}


def _preset(config: str, found: Mapping[str, Any]) -> str:
    blocks = sorted(_blocks(found).items(), key=lambda item: -item[1]["count"] * item[1]["lut"])
    rows = {name if row["count"] == 1 else f"{name}, {row['count']} times": {
        **{column: row["count"] * row[column] for column in (*_COLUMNS, "transistors", "memory_bits")},
        "levels": row["levels"]} for name, row in blocks}
    total = {column: sum(row[column] for row in rows.values()) for column in (*_COLUMNS, "transistors", "memory_bits")}
    total["levels"] = max(row["levels"] for row in rows.values())
    slots = {**dict.fromkeys((*_COLUMNS, "transistors"), 0), "memory_bits": found["sram_bits"],
             "block_ram": found["sram_bits"] // 32_768, "levels": 0}
    lines = [_row(*item) for item in rows.items()]
    lines += [_row("**all blocks**", total), _row("SRAM of slots, in 32 Kbit", slots)]
    whole = found.get("whole")
    return (_TABLE.format(config=config) + "\n".join(lines) + "\n"
            + (_WHOLE.format(config=config, **whole) if whole else ""))


def _pipes(config: str, found: Mapping[str, Any]) -> str:
    """A row for each number of pipes that was measured."""
    one, lines = found["blocks"], []
    for pipes in (1, 2, 4):
        own = found.get(f"pipes_{pipes}", {}) if pipes > 1 else {}
        if pipes > 1 and not own:
            continue
        blocks = {**{name: row for name, row in one.items() if not own or name not in _PIPED}, **own}
        columns = dict.fromkeys(_PIPED.values(), 0)
        for name, row in blocks.items():
            # A pipe's blocks are called "receive of 2 ports".
            if column := _PIPED.get(name.partition(" ")[0]):
                columns[column] += row["count"] * row["lut"]
        totals = [(_total(blocks, kind), _total(blocks, kind) / _total(one, kind)) for kind in ("lut", "flip_flop")]
        lines.append(f"| {config} | {pipes} | {' | '.join(f'{value:,}' for value in columns.values())} | "
                     + " | ".join(f"{value:,} | {ratio:.2f}" for value, ratio in totals)
                     + f" | {max(row['levels'] for row in blocks.values())} |\n")
    return "".join(lines)


def _total(blocks: Mapping[str, Any], kind: str) -> int:
    return sum(row["count"] * row[kind] for row in blocks.values())


def _row(name: str, figures: Mapping[str, Any]) -> str:
    return (f"| {name} | {' | '.join(f'{figures[column]:,g}' for column in _COLUMNS)} | {figures['levels'] or ''} | "
            f"{figures['transistors'] / 1000:,.0f} | {figures['memory_bits'] / 1024:,.1f} |")


def _split(config: str, found: Mapping[str, Any]) -> str:
    rows = _blocks(found)
    logic = sum(row["count"] * row["transistors"] for row in rows.values())
    memory = SRAM_TRANSISTORS * sum(row["count"] * row["memory_bits"] for row in rows.values())
    slots = SRAM_TRANSISTORS * found["sram_bits"]
    receive = sum(row["count"] * row["transistors"] for name, row in rows.items() if name.startswith("receive"))
    return _parts(config, slots, memory, receive, logic - receive)


def _estimated(name: str, config: AceConfig, figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The row of what is estimated from the figures of other presets."""
    return _parts(f"{name}, estimated", *estimate(config, figures)) + "\n"


def _parts(name: str, slots: float, memory: float, receive: float, logic: float) -> str:
    all_ = slots + memory + receive + logic
    return (f"| {name} | {' | '.join(f'{part / 1e6:,.2f}' for part in (slots, memory, receive, logic))} | "
            f"{slots / all_:.1%} | {(slots + memory) / all_:.1%} |")
