# SPDX-License-Identifier: Apache-2.0
"""The region table: bases, lengths and rights by region ID.

Scheduler -> RegionTable -> Legalizer.  Latency: 1 cycle.  Throughput: one source and one destination per cycle.  Both
are looked up for every segment; no other stage keeps a copy.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .layouts import Attributes
from .sizes import ADDR_WIDTH, DOMAIN_WIDTH, OFFSET_WIDTH, PAGE_ID_WIDTH, EngineSizes
from .sweep import SweepSignature
from .table import ram_of

__all__ = ["RegionEntry", "RegionTable"]


class RegionEntry(data.Struct):
    """One entry of the region table; bases are multiples of 4096, and 0 in paged regions."""

    base_page: ADDR_WIDTH - 12
    length: OFFSET_WIDTH + 1
    domain: DOMAIN_WIDTH
    readable: 1
    writable: 1
    valid: 1
    attributes: Attributes
    paged: 1
    large: 1
    first_page: PAGE_ID_WIDTH


class RegionTable(wiring.Component):
    """Two copies of the table, one for sources and one for destinations.

    The sweep after reset invalidates every entry.

    Parameters
    ----------
    config : DmaConfig
    lut_ram : bool
        Up to 32 regions are in LUT RAM, whose data arrives earlier in the cycle than that of block RAM.

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(1)``, write_id : ``In``, write_data : ``In(RegionEntry)``
        A lookup in the same cycle returns the old entry.
    src_id, dst_id : ``In``, src, dst : ``Out(RegionEntry)``
        Entries, one cycle after their IDs.
    """

    def __init__(self, config: EngineSizes, *, lut_ram: bool = False) -> None:
        self.config, self.lut_ram = config, lut_ram
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(1), "write_id": In(config.region_bits), "write_data": In(RegionEntry),
            "src_id": In(config.region_bits), "src": Out(RegionEntry),
            "dst_id": In(config.region_bits), "dst": Out(RegionEntry),
        })

    def elaborate(self, platform):
        m = Module()
        kind = ram_of(self.config.regions) if self.lut_ram else {"ram_style": "block"}
        for side in ("src", "dst"):
            m.submodules[f"{side}_table"] = table = memory.Memory(
                shape=RegionEntry, depth=self.config.regions, init=[], attrs=kind)
            write, read = table.write_port(), table.read_port()
            m.d.comb += [
                write.en.eq(self.write | self.init.active),
                write.addr.eq(Mux(self.init.active, self.init.address, self.write_id)),
                write.data.eq(Mux(self.init.active, 0, self.write_data.as_value())),
                read.addr.eq(getattr(self, f"{side}_id")),
                getattr(self, side).eq(read.data),
            ]
        return m
