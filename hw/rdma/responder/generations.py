# SPDX-License-Identifier: Apache-2.0
"""Numbers of the regions' changes: a region that changes between a check and its use is recognised.

Registers -> RegionGenerations -> AccessCheck, RegionRecheck, ReadIssue.  Latency: 1 cycle.  Throughput: one look-up
of each reader per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.sweep import SweepSignature

from ..config import RdmaConfig
from ..ports import RegionWrite
from .layouts import GENERATION_WIDTH
from .rows import RowRead, RowTable

__all__ = ["RegionGenerations"]


class RegionGenerations(wiring.Component):
    """Number the writes to the table of regions, modulo 2 ** ``GENERATION_WIDTH``, and keep the number of each region's
    last one.

    Parameters
    ----------
    config : RdmaConfig
    reads : int

    Members
    -------
    init : ``In(SweepSignature)``
    regions : ``In(RegionWrite)``
    read : array of ``In(RowRead)``
    """

    def __init__(self, config: RdmaConfig, reads: int) -> None:
        self.config, self.reads = config, reads
        super().__init__({
            "init": In(SweepSignature(config)), "regions": In(RegionWrite(config)),
            "read": In(RowRead(GENERATION_WIDTH, config.regions)).array(reads),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = RowTable(self.config, unsigned(GENERATION_WIDTH), depth=self.config.regions,
                                            reads=self.reads)
        newest = Signal(GENERATION_WIDTH)
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        m.d.comb += [rows.write.en.eq(self.regions.valid), rows.write.addr.eq(self.regions.region),
                     rows.write.data.eq(newest)]
        m.d.sync += newest.eq(newest + self.regions.valid)
        for ours, port in zip(self.read, rows.read, strict=True):
            m.d.comb += [port.addr.eq(ours.addr), port.en.eq(ours.en), ours.data.eq(port.data)]
        return m
