# SPDX-License-Identifier: Apache-2.0
"""The region table: bases, lengths and rights by region ID.

Scheduler -> RegionTable -> Legalizer; in the accelerator, Decoder -> RegionTable -> Decoder.  Latency: 1 cycle.
Throughput: one source and one destination per cycle.  No other stage keeps a copy.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from .layouts import Attributes
from .sizes import ADDR_WIDTH, DOMAIN_WIDTH, OFFSET_WIDTH, PAGE_ID_WIDTH, EngineSizes
from .sweep import SweepSignature
from .table import ram_of

__all__ = [
    "RegionEntriesSignature", "RegionEntry", "RegionLookupSignature", "RegionTable", "RegionWriteSignature",
    "ends_beyond",
]

def ends_beyond(base: Value, length: Value, address_width: int) -> Value:
    """Whether a region of ``length`` bytes from ``base`` on, without its low 12 bits, ends beyond the address space of
    ``address_width`` bits; higher bits of ``base`` do not count."""
    low = min(len(length), address_width)
    return ((Cat(C(0, 12), base[12:low]) + length > 1 << low)
            & (base[low:address_width].all() if low < address_width else 1))


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


class RegionWriteSignature(wiring.Signature):
    """Software commits an entry of the region table: in the cycle of ``valid``, without back-pressure.

    A look-up in the same cycle returns the old entry.
    """

    def __init__(self, config: EngineSizes) -> None:
        super().__init__({"valid": Out(1), "region": Out(config.region_bits), "entry": Out(RegionEntry)})


class RegionLookupSignature(wiring.Signature):
    """Source and destination region to look up in this cycle."""

    def __init__(self, config: EngineSizes) -> None:
        super().__init__({"src": Out(config.region_bits), "dst": Out(config.region_bits)})


class RegionEntriesSignature(wiring.Signature):
    """Entries of the two regions that were looked up in the previous cycle."""

    def __init__(self) -> None:
        super().__init__({"src": Out(RegionEntry), "dst": Out(RegionEntry)})


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
    write : ``In(RegionWriteSignature)``
    lookup : ``In(RegionLookupSignature)``, entries : ``Out(RegionEntriesSignature)``
    """

    def __init__(self, config: EngineSizes, *, lut_ram: bool = False) -> None:
        self.config, self.lut_ram = config, lut_ram
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(RegionWriteSignature(config)),
            "lookup": In(RegionLookupSignature(config)), "entries": Out(RegionEntriesSignature()),
        })

    def elaborate(self, platform):
        m = Module()
        kind = ram_of(self.config.regions) if self.lut_ram else {"ram_style": "block"}
        for side in ("src", "dst"):
            m.submodules[f"{side}_table"] = table = memory.Memory(
                shape=RegionEntry, depth=self.config.regions, init=[], attrs=kind)
            write, read = table.write_port(), table.read_port()
            m.d.comb += [
                write.en.eq(self.write.valid | self.init.active),
                write.addr.eq(Mux(self.init.active, self.init.address, self.write.region)),
                write.data.eq(Mux(self.init.active, 0, self.write.entry.as_value())),
                read.addr.eq(getattr(self.lookup, side)),
                getattr(self.entries, side).eq(read.data),
            ]
        return m
