# SPDX-License-Identifier: Apache-2.0
"""Boards with an UltraScale+ PCIe hard block: their FPGAs, pins and settings, each with its source."""

from dataclasses import dataclass

__all__ = ["BOARDS", "Board"]


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board in a PCIe slot.

    Parameters
    ----------
    title : str
    part : str
        FPGA with package, speed grade and temperature range.
    preset : str
        The card that fits the board's link.
    refclk : tuple of str
        Package pins of the slot's reference clock of 100 MHz: positive, negative.
    perst : tuple of str
        Package pin of PERST#, and its I/O standard.
    rxp, rxn, txp, txn : str
        Package pins of the lanes, from lane 0 on, separated by spaces.
    properties : tuple of tuple of str
        Properties of the design for the board's configuration memory and voltages.
    power : int
        Power budget of the FPGA in W for Vivado's report, 0 for none.
    sources : tuple of str
        Where pins and settings are from.
    """

    title: str
    part: str
    preset: str
    refclk: tuple[str, str]
    perst: tuple[str, str]
    rxp: str
    rxn: str
    txp: str
    txn: str
    properties: tuple[tuple[str, str], ...] = ()
    power: int = 0
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        assert {len(pins) for pins in self.pins.values()} == {self.lanes}, self.title

    @property
    def pins(self) -> dict[str, list[str]]:
        """Package pins of each port of lanes, from lane 0 on."""
        return {"pcie_rxp": self.rxp.split(), "pcie_rxn": self.rxn.split(),
                "pcie_txp": self.txp.split(), "pcie_txn": self.txn.split()}

    @property
    def lanes(self) -> int:
        return len(self.rxp.split())


_SPI_X4 = (("CFGBVS", "GND"), ("CONFIG_VOLTAGE", "1.8"), ("BITSTREAM.GENERAL.COMPRESS", "TRUE"),
           ("BITSTREAM.CONFIG.CONFIGFALLBACK", "ENABLE"), ("BITSTREAM.CONFIG.EXTMASTERCCLK_EN", "DISABLE"),
           ("BITSTREAM.CONFIG.CONFIGRATE", "63.8"), ("BITSTREAM.CONFIG.SPI_32BIT_ADDR", "YES"),
           ("BITSTREAM.CONFIG.SPI_BUSWIDTH", "4"), ("BITSTREAM.CONFIG.SPI_FALL_EDGE", "YES"),
           ("BITSTREAM.CONFIG.UNUSEDPIN", "PULLUP"), ("BITSTREAM.CONFIG.OVERTEMPSHUTDOWN", "ENABLE"))
_SPI_X8 = (("CFGBVS", "GND"), ("CONFIG_VOLTAGE", "1.8"), ("BITSTREAM.GENERAL.COMPRESS", "TRUE"),
           ("BITSTREAM.CONFIG.EXTMASTERCCLK_EN", "DIV-1"), ("BITSTREAM.CONFIG.SPI_32BIT_ADDR", "YES"),
           ("BITSTREAM.CONFIG.SPI_BUSWIDTH", "8"), ("BITSTREAM.CONFIG.SPI_FALL_EDGE", "YES"),
           ("BITSTREAM.CONFIG.OVERTEMPSHUTDOWN", "ENABLE"))

BOARDS = {
    # Lanes 0 to 15 are in the quads 227 to 224, the reference clock in 226. The satellite controller needs no pin of
    # the design: its UART (BA19, BB19) and GPIO (AR20, AM20, AM21, AN21; AMD PG348) are unused, and pulled up.
    "alveo-u250": Board(
        title="AMD Alveo U250", part="xcu250-figd2104-2L-e", preset="card", refclk=("AM11", "AM10"),
        perst=("BD21", "LVCMOS12"), power=160, properties=_SPI_X4,
        rxp="AF2 AG4 AH2 AJ4 AK2 AL4 AM2 AN4 AP2 AR4 AT2 AU4 AV2 AW4 BA2 BC2",
        rxn="AF1 AG3 AH1 AJ3 AK1 AL3 AM1 AN3 AP1 AR3 AT1 AU3 AV1 AW3 BA1 BC1",
        txp="AF7 AG9 AH7 AJ9 AK7 AL9 AM7 AN9 AP7 AR9 AT7 AU9 AV7 BB5 BD5 BF5",
        txn="AF6 AG8 AH6 AJ8 AK6 AL8 AM6 AN8 AP6 AR8 AT6 AU8 AV6 BB4 BD4 BF4",
        sources=("Corundum, fpga/lib/pcie/example/AU250/fpga/fpga.xdc: pins, properties, power budget",
                 "taxi, src/cndm/board/Alveo/fpga/syn/AU200/fpga.xdc: properties",
                 "litex-boards, litex_boards/platforms/xilinx_alveo_u250.py: part, pins",
                 "fpga_sio, U200/constraints/pcie.xdc, after AMD's alveo-u250-xdc.xdc: reference clock, PERST#")),
    # Lanes 0 to 15 are in the quads 227 to 224, the reference clock in 225, as for x16 in the sources.
    "vcu118": Board(
        title="AMD VCU118", part="xcvu9p-flga2104-2L-e", preset="card", refclk=("AL9", "AL8"),
        perst=("AM17", "LVCMOS18"), properties=_SPI_X8,
        rxp="AA4 AB2 AC4 AD2 AE4 AF2 AG4 AH2 AJ4 AK2 AM2 AP2 AT2 AV2 AY2 BB2",
        rxn="AA3 AB1 AC3 AD1 AE3 AF1 AG3 AH1 AJ3 AK1 AM1 AP1 AT1 AV1 AY1 BB1",
        txp="Y7 AB7 AD7 AF7 AH7 AK7 AM7 AN5 AP7 AR5 AT7 AU5 AW5 BA5 BC5 BE5",
        txn="Y6 AB6 AD6 AF6 AH6 AK6 AM6 AN4 AP6 AR4 AT6 AU4 AW4 BA4 BC4 BE4",
        sources=("Corundum, fpga/mqnic/VCU118/fpga_100g/fpga.xdc: part, pins, properties",
                 "taxi, src/cndm/board/VCU118/fpga/syn/pcie.xdc: pins",
                 "litex-boards, litex_boards/platforms/xilinx_vcu118.py: lanes")),
    # Lanes 0 to 7 are in the quads 225 and 224, the reference clock in 225. Properties of the board's configuration
    # memory were in no source, so that the defaults are used.
    "kcu116": Board(
        title="AMD KCU116", part="xcku5p-ffvb676-2-e", preset="base", refclk=("V7", "V6"), perst=("T19", "LVCMOS18"),
        rxp="P2 T2 V2 Y2 AB2 AD2 AE4 AF2", rxn="P1 T1 V1 Y1 AB1 AD1 AE3 AF1",
        txp="R5 U5 W5 AA5 AC5 AD7 AE9 AF7", txn="R4 U4 W4 AA4 AC4 AD6 AE8 AF6",
        sources=("litex-boards, litex_boards/platforms/xilinx_kcu116.py: part, pins",
                 "taxi, src/cndm/board/RK_XCKU5P_F/fpga/syn/pcie.xdc, another board with this FPGA: quad 224, PERST#",
                 "fpga_sio, XCKU5P_DUAL_QSFP/constraints/pcie.xdc, another board with this FPGA: lanes, PERST#")),
}
"""Boards by their name as ``--target``. No board has been loaded, and no Vivado has checked the pins."""
