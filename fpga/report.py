# SPDX-License-Identifier: Apache-2.0
"""The page docs/area.md: area of the presets, compared with other open engines.

The presets' figures are in ``docs/area.json``, written by ``scripts/measure_area.py``.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["page"]

#: Engine; LUT, flip-flops, LUT-RAM and RAMB36 on UltraScale+; levels of LUT6; LUT4 and flip-flops on ECP5.
#: Measured by us with Yosys 0.70 at 512 bit, any alignment unless noted; commits in the page.
_PEERS = (
    ("iDMA, 3 in flight", "10,285", "3,467", "0", "0", "19 to 22", "13,555", "3,468"),
    ("iDMA, 16 in flight", "11,992", "6,892", "0", "0", "19 to 22", "16,798", "6,893"),
    ("iDMA, 64 in flight", "18,486", "19,376", "0", "0", "19 to 22", "27,849", "19,377"),
    ("iDMA, 64 in flight, 256 bit", "13,227", "18,229", "0", "0", "19 to 22", "", ""),
    ("iDMA, 256 in flight", "45,798", "69,156", "0", "0", "19 to 22", "", ""),
    ("iDMA, desc64 front end alone", "2,022", "3,534", "0", "0", "", "4,113", "3,535"),
    ("taxi dma_if_axi (half a copy)", "11,796", "7,479", "134", "0", "11 to 13", "17,298", "7,479"),
    ("verilog-pcie dma_if_pcie (half a copy)", "9,786", "4,597", "234", "0", "", "", ""),
    ("verilog-axi axi_cdma", "5,076", "1,630", "46", "0", "11 to 13", "6,890", "1,634"),
    ("verilog-axi axi_cdma, aligned only", "514", "1,089", "46", "0", "", "1,105", "1,089"),
    ("verilog-axi axi_dma", "11,532", "2,822", "88", "0", "11 to 13", "16,303", "2,826"),
    ("wb2axip axidma", "11,923", "2,984", "148", "0", "10", "17,326", "2,982"),
    ("ADI axi_dmac, aligned only", "281", "527", "0", "7.5", "", "895", "1,578"),
)

_HEAD = """<!-- Written by scripts/generate_docs.py from docs/area.json; do not edit. -->

# Area

Yosys {yosys} (`synth_xilinx -family xcup`, `synth_ecp5`), after technology mapping, before placement: for trends and
budgets, not for timing. LUT-RAM is counted in LUTs, separately from the LUT column; block RAM in RAMB36 and DP16KD;
levels in 6-input LUTs between registers, counted as for [the card](pcie.md#clock-frequency). Those of other engines
are from an earlier count (`synth -lut 6`, with slower adders), which finds more.

| engine | LUT | FF | LUT-RAM | RAMB36 | levels | ECP5 LUT4 | FF | LUT-RAM | DP16KD |
|---|---|---|---|---|---|---|---|---|---|
"""

_TAIL = """
The budget of `wide` on UltraScale+ is 18,000 LUT, 19,000 FF, 48 RAMB36 and 10 levels; of `base` 13,200 LUT and 18,200
FF; of `base` and `tiny` 8 levels. The budgets, with those of ECP5, are in `fpga/budgets.toml`;
`tests/test_synthesis.py` checks them, those of `wide`, and of `base` on ECP5, with `--soak`.

Logic and LUT-RAM together, in LUTs on UltraScale+: {sums}.

## Comparison with other open engines

512 bit, any alignment, unless noted. None of them has queues, protection or completion words in memory; only desc64
has a doorbell.

| engine | LUT | FF | LUT-RAM | RAMB36 | levels | ECP5 LUT4 | FF |
|---|---|---|---|---|---|---|---|
"""

_SOURCES = """
Commits: pulp-platform/iDMA 2e0b0fe, fpganinja/taxi 2f2fe72; alexforencich/verilog-axi and verilog-pcie,
ZipCPU/wb2axip and analogdevicesinc/hdl at their state of autumn 2026. All with Yosys 0.70 and the same commands.

iDMA keeps the state of transfers in flight in flip-flops, and its area grows with their number. Here this state is in
block RAM and LUT-RAM: `wide` has 1,024 segments in flight, 64 queues and 256 regions.

## Measuring

`scripts/measure_area.py --config base --family xcup` measures one row and stores it in `docs/area.json`; without
options it measures all. `scripts/generate_docs.py` writes this page. `wide` takes many minutes and some GiB.

`scripts/list_levels.py dma_engine --over 8` lists every register, memory and port of a card's DMA engine where paths of
more than 8 levels end, with all registers where they start; all timing options are on.
"""


def page(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Markdown of ``{config: {family: figures}}``."""
    rows = [f"| dmace {name} | {_cells(families.get('xcup'), levels=True)} | {_cells(families.get('ecp5'))} |"
            for name, families in figures.items()]
    yosys = sorted({row["yosys"] for families in figures.values() for row in families.values()})
    peers = [f"| {' | '.join(cells)} |" for cells in _PEERS]
    sums = ", ".join(f"{name} {row['lut'] + row['lut_ram']:,}" for name, families in figures.items()
                     if (row := families.get("xcup")))
    return (_HEAD.format(yosys=", ".join(yosys)) + "\n".join(rows) + "\n" + _TAIL.format(sums=sums)
            + "\n".join(peers) + "\n" + _SOURCES)


def _cells(row: Mapping[str, Any] | None, *, levels: bool = False) -> str:
    if row is None:
        return " | ".join([""] * (5 if levels else 4))
    cells = [f"{row['lut']:,}", f"{row['flip_flop']:,}", f"{row['lut_ram']:,}", f"{row['block_ram']:g}"]
    return " | ".join([*cells, *([str(row["levels"])] if levels else [])])
