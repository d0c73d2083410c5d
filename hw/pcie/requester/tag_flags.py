# SPDX-License-Identifier: Apache-2.0
"""A flag per tag in LUT RAM, with a port that sets and one that clears.

Latency: reads 0 cycles, a change is seen in the next cycle.  Throughput: one set and one clear per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ..config import PcieConfig
from .read_layouts import TagEvent, TagQuery

__all__ = ["TagFlags"]


class TagFlags(wiring.Component):
    """Two tables with a bit per tag, each written by one port: the flag is set while the bits differ.

    Parameters
    ----------
    config : PcieConfig
    reads : int
        Read ports.

    Members
    -------
    init : ``In(SweepSignature)``
        Clears all flags.
    set : ``In(TagEvent)``, clear : ``In(TagEvent)``
        Of a flag that is already set or clear: no effect. If both name one tag, a flag that is set is cleared, and one
        that is clear is set.
    read : array of ``In(TagQuery)``
    """

    def __init__(self, config: PcieConfig, *, reads: int = 1) -> None:
        self.config, self.reads = config, reads
        super().__init__({
            "init": In(SweepSignature(config)), "set": In(TagEvent(config)), "clear": In(TagEvent(config)),
            "read": In(TagQuery(config)).array(reads),
        })

    def elaborate(self, platform):
        m = Module()
        tables = [Table(1, depth=self.config.tags, reads=self.reads + 1, init=SweepSignature(self.config))
                  for _ in range(2)]
        m.submodules.raised, m.submodules.lowered = raised, lowered = tables
        for table, other, event, invert in ((raised, lowered, self.set, 1), (lowered, raised, self.clear, 0)):
            wiring.connect(m, wiring.flipped(self.init), table.init)
            m.d.comb += [
                other.read[-1].addr.eq(event.tag), table.write.en.eq(event.valid), table.write.addr.eq(event.tag),
                table.write.data.eq(other.read[-1].data ^ invert),
            ]
        for number, query in enumerate(self.read):
            m.d.comb += [table.read[number].addr.eq(query.tag) for table in tables]
            m.d.comb += query.value.eq(raised.read[number].data ^ lowered.read[number].data)
        return m
