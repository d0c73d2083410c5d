# SPDX-License-Identifier: Apache-2.0
"""READs whose responses are outstanding: a ring of 16 for each queue pair.

Sender -> PendingReads -> Acknowledgements.  Latency: 1 cycle.  Throughput: one look-up per cycle.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.table import data_bits, ram_of

from ...config import RdmaConfig
from .layouts import pending_read_layout
from .ports import PendingReadWrite

__all__ = ["PendingReadLookup", "PendingReads"]

_NUMBER_BITS = 4


class PendingReadLookup(wiring.Signature):
    """READ number ``number``, modulo 16, of queue pair ``qp``; a cycle later."""

    def __init__(self, config: RdmaConfig) -> None:
        super().__init__({"qp": Out(config.qp_bits), "number": Out(_NUMBER_BITS),
                          "read": In(pending_read_layout(config))})


class PendingReads(wiring.Component):
    """A memory with a registered read. A row read while it is written is either value.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    write : ``In(PendingReadWrite)``, lookup : ``In(PendingReadLookup)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({"write": In(PendingReadWrite(config)), "lookup": In(PendingReadLookup(config))})

    def elaborate(self, platform):
        m = Module()
        depth = self.config.queue_pairs << _NUMBER_BITS
        m.submodules.rows = rows = memory.Memory(
            shape=unsigned(Shape.cast(pending_read_layout(self.config)).width), depth=depth, init=[],
            attrs=ram_of(depth))
        write, read = rows.write_port(), rows.read_port()
        m.d.comb += [
            write.en.eq(self.write.valid), write.addr.eq(Cat(self.write.number, self.write.qp)),
            write.data.eq(data_bits(self.write.read)),
            read.addr.eq(Cat(self.lookup.number, self.lookup.qp)), data_bits(self.lookup.read).eq(read.data),
        ]
        return m
