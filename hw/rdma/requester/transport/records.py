# SPDX-License-Identifier: Apache-2.0
"""Records of the stored packets, and the links between those of a queue pair.

Posting -> PacketRecords -> Sender, Retirement.  Latency: 1 cycle.  Throughput: one look-up per cycle and reader.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from hw.common.table import data_bits, ram_of

from ...config import RdmaConfig
from .layouts import record_layout
from .ports import LinkWrite, RecordLookup, RecordWrite

__all__ = ["PacketRecords"]


class PacketRecords(wiring.Component):
    """Two memories of ``packets`` rows with registered reads. A row read while it is written is either value.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    record : ``In(RecordWrite)``, link : ``In(LinkWrite)``
    lookups : ``In(RecordLookup).array(2)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({"record": In(RecordWrite(config)), "link": In(LinkWrite(config)),
                          "lookups": In(RecordLookup(config)).array(2)})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        for name, width, write, value in (
                ("records", Shape.cast(record_layout(config)).width, self.record, self.record.record),
                ("links", config.packet_bits, self.link, self.link.next)):
            m.submodules[name] = rows = memory.Memory(shape=unsigned(width), depth=config.packets, init=[],
                                                      attrs=ram_of(config.packets))
            port = rows.write_port()
            m.d.comb += [port.en.eq(write.valid), port.addr.eq(write.index), port.data.eq(data_bits(value))]
            for lookup in self.lookups:
                read = rows.read_port()
                m.d.comb += [read.addr.eq(lookup.index),
                             data_bits(lookup.record if name == "records" else lookup.next).eq(read.data)]
        return m
