"""The part of docs/area.md about the collectives accelerator, block by block.

The figures are in ``docs/area_ace.json``, written by ``scripts/measure_area_ace.py``.
"""

__all__ = ["section"]

_COLUMNS = ("lut", "shift", "flip_flop", "lut_ram", "block_ram", "dsp")

_HEAD = """
## The collectives accelerator

`scripts/measure_area_ace.py` synthesises one block after the other (`synth_xilinx -family xcup`) and notes it in
`docs/area_ace.json`: below are the blocks measured so far, not yet the whole accelerator. *Shift*: LUTs used as shift
registers.
"""

_TABLE = """
| {config} | LUT | shift | FF | LUT-RAM | RAMB36 | DSP | levels |
|---|---|---|---|---|---|---|---|
"""

_SRAM = """
The SRAM of slots of `{config}` is {bits:,} bits, {blocks:,} RAMB36 of 32 Kbit; it is counted, not synthesised.
"""

_TAIL = """
A lane, which combines 32 bits per cycle, takes 1,554 LUT, 41 more as shift registers, and 910 FF without products; with
them 2,349, 55 and 1,524, and four DSP48E2 (Yosys maps `$mul` of 16 by 16 bits to DSP slices on Xilinx, and on ECP5 to
MULT18X18D); 10 levels of LUT6 both. `tiny` has 2, `base` 8, `wide` 16. Dividing a word takes 855 LUT, 128 more as shift
registers, and 499 FF. `pytest -m synth -s tests/ace/test_synthesis.py tests/ace/test_divide.py` prints these figures
and holds them to budgets.

The authors of ACE (ISCA'21) have more than 95 % of its area at 28 nm in 4 MB of SRAM; `wide` has as much SRAM.
"""


def section(figures):
    """Markdown of ``{config: {"sram_bits": ..., "blocks": {name: figures}}}``."""
    return _HEAD + "".join(_preset(name, found) for name, found in figures.items()) + _TAIL


def _preset(config, found):
    blocks = sorted(found["blocks"].items(), key=lambda item: -item[1]["count"] * item[1]["lut"])
    lines = [_row(name if row["count"] == 1 else f"{name}, {row['count']} times",
                  {column: row["count"] * row[column] for column in _COLUMNS}, row["levels"]) for name, row in blocks]
    bits = found["sram_bits"]
    return (_TABLE.format(config=config) + "\n".join(lines) + "\n"
            + _SRAM.format(config=config, bits=bits, blocks=bits // 32_768))


def _row(name, figures, levels):
    return f"| {name} | {' | '.join(f'{figures[column]:,g}' for column in _COLUMNS)} | {levels} |"
