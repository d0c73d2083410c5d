# SPDX-License-Identifier: Apache-2.0
"""Which packets of each window the peer has received beyond a gap; for selective repeat.

Acknowledgements -> SelectiveMarks -> Sender.  Latency: 1 cycle.  Throughput: one look-up per cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from hw.common.table import ram_of
from hw.stream import Queue

from ...config import RdmaConfig
from .ports import SelectiveLookup, WindowStrobe

__all__ = ["SelectiveMarks"]

_PENDING = 4


class SelectiveMarks(wiring.Component):
    """One bit for each entry of each window. A bit read while it is written is either value.

    ``clear`` has priority over ``mark``. A mark that finds the queue full is lost: its packet may be repeated.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    clear, mark : ``In(WindowStrobe)``
    lookup : ``In(SelectiveLookup)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({"clear": In(WindowStrobe(config)), "mark": In(WindowStrobe(config)),
                          "lookup": In(SelectiveLookup(config))})

    def elaborate(self, platform):
        m = Module()
        depth = self.config.queue_pairs * self.config.window
        m.submodules.bits = bits = memory.Memory(shape=unsigned(1), depth=depth, init=[], attrs=ram_of(depth))
        write, read = bits.write_port(), bits.read_port()
        entry = Cat(self.mark.psn, self.mark.qp)
        m.submodules.pending = pending = Queue(unsigned(len(entry)), depth=_PENDING, ram="lut")
        m.d.comb += [
            pending.i.valid.eq(self.mark.valid), pending.i.payload.eq(entry), pending.o.ready.eq(~self.clear.valid),
            write.en.eq(self.clear.valid | pending.o.valid), write.data.eq(~self.clear.valid),
            write.addr.eq(Mux(self.clear.valid, Cat(self.clear.psn, self.clear.qp), pending.o.payload)),
            read.addr.eq(Cat(self.lookup.psn, self.lookup.qp)), self.lookup.found.eq(read.data),
        ]
        return m
