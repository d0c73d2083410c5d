"""The page table: where the pages of paged regions are.

Legalizer -> PageTable -> Legalizer.  Latency: 1 cycle.  Throughput: one source page, the page behind it, and one
destination page per cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import OFFSET_WIDTH, SMALL_PAGE_BITS
from hw.common.sweep import SweepSignature
from hw.common.table import ram_of
from hw.stream.storage import read_late

from .layouts import PageEntry

__all__ = ["PAGE_NUMBER_WIDTH", "PageTable"]

PAGE_NUMBER_WIDTH = OFFSET_WIDTH + 1 - SMALL_PAGE_BITS
"""Bits of a page number before it is known to be in the table."""


class PageTable(wiring.Component):
    """Three copies of the table, one of them shifted by a row: for pages behind others.

    The sweep after reset leaves no page present. Numbers beyond the table are of pages that are not present.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(1)``, write_id : ``In``, write_data : ``In(PageEntry)``
        Segments looked up before may be under way to the old frame: see the quiesce rule in the documentation.
    src_page, dst_page : ``In``, src, next, dst : ``Out(PageEntry)``
        Entries one cycle after their numbers; ``next`` is of the page behind ``src_page``, where that is present.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(1), "write_id": In(config.page_bits), "write_data": In(PageEntry),
            "src_page": In(PAGE_NUMBER_WIDTH), "dst_page": In(PAGE_NUMBER_WIDTH),
            "src": Out(PageEntry), "next": Out(PageEntry), "dst": Out(PageEntry),
        })

    def elaborate(self, platform):
        m = Module()
        bits = self.config.page_bits
        for name, number, row, known in (
            ("src", self.src_page, self.write_id, 1),
            ("next", self.src_page, self.write_id - 1, self.write_id != 0),
            ("dst", self.dst_page, self.write_id, 1),
        ):
            m.submodules[f"{name}_table"] = table = memory.Memory(
                shape=PageEntry, depth=self.config.pages, init=[], attrs=ram_of(self.config.pages))
            write, data = table.write_port(), read_late(m, table, addr=number[:bits], en=1)
            beyond = Signal(name=f"{name}_beyond")
            m.d.sync += beyond.eq((number >> bits).any())
            entry = getattr(self, name)
            m.d.comb += [
                write.en.eq((self.write & known) | self.init.active),
                write.addr.eq(Mux(self.init.active, self.init.address, row)),
                write.data.eq(Mux(self.init.active, 0, self.write_data.as_value())),
                entry.frame.eq(data.frame), entry.present.eq(data.present & ~beyond),
            ]
        return m
