# SPDX-License-Identifier: Apache-2.0
"""Two events per tag, in any order: which is the later one.

Latency: 1 cycle.  Throughput: one event of each kind per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ..config import PcieConfig
from .read_layouts import TagEvent

__all__ = ["EventPair"]


class EventPair(wiring.Component):
    """Each event toggles the tag's bit in a table of its kind; the bits differ between the two events.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
    events : ``In(TagEvent).array(2)``
        Each kind occurs once per use of a tag.
    later : ``Out(TagEvent).array(2)``
        The event of this kind was the later one. If both events of a tag are in one cycle, kind 0 is. Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "events": In(TagEvent(config)).array(2),
            "later": Out(TagEvent(config)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        tables = [Table(1, depth=self.config.tags, reads=2, init=SweepSignature(self.config)) for _ in range(2)]
        m.submodules.first, m.submodules.second = tables
        for number, (table, event) in enumerate(zip(tables, self.events, strict=True)):
            wiring.connect(m, wiring.flipped(self.init), table.init)
            bits = [kind.read[number] for kind in tables]
            m.d.comb += [
                *(port.addr.eq(event.tag) for port in bits),
                table.write.en.eq(event.valid), table.write.addr.eq(event.tag), table.write.data.eq(~bits[number].data),
            ]
            m.d.sync += [self.later[number].valid.eq(event.valid & (bits[0].data ^ bits[1].data)),
                         self.later[number].tag.eq(event.tag)]
        one, other = self.events
        with m.If(one.valid & other.valid & (one.tag == other.tag)):
            m.d.sync += self.later[0].valid.eq(1)
        return m
