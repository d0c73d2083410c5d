# SPDX-License-Identifier: Apache-2.0
"""The page table: addresses of the pages of paged regions.

Legalizer -> PageTable -> Legalizer.  Latency: 1 cycle.  Throughput: one source page with its successor, and one
destination page per cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sizes import OFFSET_WIDTH, SMALL_PAGE_BITS
from hw.common.sweep import SweepSignature
from hw.common.table import ram_of
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import PageWriteSignature
from hw.dma_engine.layouts import PageEntry
from hw.stream.storage import registered_address_read

__all__ = ["PAGE_NUMBER_WIDTH", "PageLookupSignature", "PageTable"]

PAGE_NUMBER_WIDTH = OFFSET_WIDTH + 1 - SMALL_PAGE_BITS
"""Width of a page number that may exceed the table."""


class PageLookupSignature(wiring.Signature):
    """The legalizer looks up pages.

    Members
    -------
    src_page, dst_page : ``Out``
        Page numbers; a number beyond the table denotes a page that is not present.
    src, next, dst : ``In(PageEntry)``
        Entries one cycle after their numbers; ``next`` belongs to the page after ``src_page``, if that one is present.
    """

    def __init__(self) -> None:
        super().__init__({"src_page": Out(PAGE_NUMBER_WIDTH), "dst_page": Out(PAGE_NUMBER_WIDTH),
                          "src": In(PageEntry), "next": In(PageEntry), "dst": In(PageEntry)})


class PageTable(wiring.Component):
    """Three copies of the table, one of them shifted by a row for the page after a source page.

    The sweep after reset marks all pages as not present. Page numbers beyond the table denote pages that are not
    present.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(PageWriteSignature)``
        Segments looked up earlier may be in flight to the old frame: see the quiesce rule in the documentation.
    lookup : ``In(PageLookupSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(PageWriteSignature(config)), "lookup": In(PageLookupSignature()),
        })

    def elaborate(self, platform):
        m = Module()
        bits = self.config.page_bits
        for name, number, row, known in (
            ("src", self.lookup.src_page, self.write.page, 1),
            ("next", self.lookup.src_page, self.write.page - 1, self.write.page != 0),
            ("dst", self.lookup.dst_page, self.write.page, 1),
        ):
            m.submodules[f"{name}_table"] = table = memory.Memory(
                shape=PageEntry, depth=self.config.pages, init=[], attrs=ram_of(self.config.pages))
            write, data = table.write_port(), registered_address_read(m, table, addr=number[:bits], en=1)
            beyond = Signal(name=f"{name}_beyond")
            m.d.sync += beyond.eq((number >> bits).any())
            entry = getattr(self.lookup, name)
            m.d.comb += [
                write.en.eq((self.write.valid & known) | self.init.active),
                write.addr.eq(Mux(self.init.active, self.init.address, row)),
                write.data.eq(Mux(self.init.active, 0, self.write.entry.as_value())),
                entry.frame.eq(data.frame), entry.present.eq(data.present & ~beyond),
            ]
        return m
