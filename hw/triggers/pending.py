# SPDX-License-Identifier: Apache-2.0
"""Pending firings: a queue of counters for each block.

TriggerTable -> PendingFirings -> TriggerTable.  Latency: 1 cycle.  Throughput: one firing per cycle,
blocks in turn.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue, RoundRobin

from .config import COUNTERS_PER_BLOCK, TriggerConfig
from .layouts import due_layout
from .ports import DueSignature, LeaveSignature

__all__ = ["PagesSignature", "PendingFirings"]


class PagesSignature(wiring.Signature):
    """For the page of each block's oldest firing: whether the block may post to it, and whether its queue has free
    entries. Combinational.

    Members
    -------
    page : array of ``Out(PAGE_WIDTH)``
    allowed, free : ``In(blocks)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"page": Out(due_layout(config)["page"].shape).array(config.blocks),
                          "allowed": In(config.blocks), "free": In(config.blocks)})


class PendingFirings(wiring.Component):
    """Choose among the blocks whose oldest firing can leave.

    A block's firings leave in order, so only its own firings wait for a queue that is full. A firing to a page that
    the block may not use leaves at once, to be refused. A counter is queued at most once, so no queue overflows.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    due : ``In(DueSignature)``
    resetting : ``In(blocks)``
        The firings of these blocks are discarded.
    pages : ``Out(PagesSignature)``
    ready : ``In(1)``
        A firing may leave in this cycle.
    leave : ``Out(LeaveSignature)``
    requeue : ``In(1)``
        The counter has another firing: it is queued again, as the last one.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "due": In(DueSignature(config)), "resetting": In(config.blocks), "pages": Out(PagesSignature(config)),
            "ready": In(1), "leave": Out(LeaveSignature(config)), "requeue": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.choice = choice = RoundRobin(config.blocks)
        m.d.comb += [
            self.leave.valid.eq(choice.valid & self.ready), choice.advance.eq(self.leave.valid),
            self.leave.allowed.eq((choice.grant_onehot & self.pages.allowed).any()),
        ]
        for block in range(config.blocks):
            queue = Queue(due_layout(config), depth=COUNTERS_PER_BLOCK + 1, ram="lut")     # a full one can requeue
            m.submodules[f"queue_{block}"] = ResetInserter(self.resetting[block])(queue)
            leaves = choice.grant_onehot[block] & choice.advance
            m.d.comb += [
                self.pages.page[block].eq(queue.o.payload.page),
                choice.requests[block].eq(queue.o.valid & ~self.resetting[block]
                                          & (self.pages.free[block] | ~self.pages.allowed[block])),
                queue.o.ready.eq(leaves),
                # A due counter and one that is queued again never come in the same cycle.
                queue.i.valid.eq(Mux(leaves, self.requeue, self.due.valid & (self.due.block == block))),
                queue.i.payload.eq(Mux(leaves, queue.o.payload, self.due.payload)),
            ]
            with m.If(choice.grant_onehot[block]):
                m.d.comb += self.leave.counter.eq(Cat(queue.o.payload.index, C(block, config.block_bits)))
        return m
