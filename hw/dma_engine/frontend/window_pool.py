# SPDX-License-Identifier: Apache-2.0
"""The pool of window entries that all queues share.

Retire (retired segments) -> WindowPool -> Scheduler.  Latency: 2 cycles from the last segment of a block to the offer.
Throughput: one block out and one in per cycle.

A queue always holds the block of its next segment, and takes the next block together with the last entry of the
present one. It returns a block when the block's last segment retires. The generation bit of a block changes with each
use, so that entries need no clearing: a use covers all entries of a block.

Each queue may take blocks up to its guaranteed part, ``window`` entries. The blocks besides the guaranteed parts of all
queues are spare, and any queue may take them. So a queue that may take a block finds one.
"""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import ram_of
from hw.dma_engine.config import BLOCK_ENTRIES, DmaConfig
from hw.dma_engine.layouts import PLACE_BITS, block_layout
from hw.dma_engine.strobes import RetiredSignature
from hw.stream.storage import NO_COLLISION

__all__ = ["WindowPool", "WindowPoolSignature"]

RESERVE_BITS = 2
"""A few spare blocks, ``2**RESERVE_BITS - 1``, are not offered: two may have been taken since the last count."""


class WindowPoolSignature(wiring.Signature):
    """The scheduler takes blocks.

    Members
    -------
    block : ``In(block_layout)``, valid : ``In(1)``
        A free block. While a block is free, ``valid`` is low for at most one cycle.
    spare : ``In(1)``
        It may be taken by any queue, and not only by one that holds less than its guaranteed part.
    take : ``Out(1)``
    borrows, returns : ``Out(1)``
        In the previous cycle a queue took a spare block, or returned one. A queue that holds more than its guaranteed
        part returns a spare block.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"block": In(block_layout(config)), "valid": In(1), "spare": In(1), "take": Out(1),
                          "borrows": Out(1), "returns": Out(1)})


class WindowPool(wiring.Component):
    """Keep the free blocks, first in, first out.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
        After it, block n belongs to queue n, and all further blocks are free.
    retired : ``In(RetiredSignature)``
    scheduler : ``In(WindowPoolSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "retired": In(RetiredSignature(config)),
            "scheduler": In(WindowPoolSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, index, block = self.config, self.retired.index, Signal(block_layout(self.config))
        # There are more rows than free blocks, so the ends of the list are equal only if it is empty.
        m.submodules.free = free = memory.Memory(
            shape=block_layout(config), depth=config.blocks, init=[], attrs=NO_COLLISION | ram_of(config.blocks))
        write, read = free.write_port(), free.read_port()
        head, tail = (Signal(config.block_bits, init=config.queues, name=name) for name in ("head", "tail"))
        push, load = Signal(), Signal()
        with m.If(self.init.active):
            m.d.comb += [push.eq(tail != 0), block.number.eq(tail)]
        with m.Else():
            m.d.comb += [
                push.eq(self.retired.valid & index[:PLACE_BITS].all()),
                block.number.eq(index[PLACE_BITS:config.entry_bits]),
                block.generation.eq(~index[config.entry_bits]),
            ]
        m.d.comb += [
            write.addr.eq(tail), write.data.eq(block), write.en.eq(push),
            load.eq((head != tail) & (~self.scheduler.valid | self.scheduler.take)),
            read.addr.eq(head), read.en.eq(load), self.scheduler.block.eq(read.data),
        ]
        m.d.sync += [
            tail.eq(tail + push), head.eq(head + load),
            self.scheduler.valid.eq(load | (self.scheduler.valid & ~self.scheduler.take)),
        ]

        spares = config.blocks - config.queues * (config.window // BLOCK_ENTRIES)
        left = Signal(range(spares + 1), init=spares)
        m.d.sync += [
            left.eq(left - self.scheduler.borrows + self.scheduler.returns),
            self.scheduler.spare.eq((left >> RESERVE_BITS).any()),
        ]
        return m
