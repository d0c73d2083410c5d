# SPDX-License-Identifier: Apache-2.0
"""Pending firings: a queue of counters for each block.

TriggerTable -> PendingFirings -> TriggerTable.  Latency: 1 cycle.  Throughput: one firing per cycle,
blocks in turn.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue, RoundRobin

from .config import COUNTERS_PER_BLOCK, PAGE_WIDTH, TriggerConfig
from .layouts import due_layout
from .ports import DueSignature, LeaveSignature, TriggerSettings

__all__ = ["PagesSignature", "PendingFirings"]


class PagesSignature(wiring.Signature):
    """For a page of a block: whether the block may post to it, and whether its queue has free entries. Combinational.

    Members
    -------
    block : ``Out(range(blocks))``, page : ``Out(PAGE_WIDTH)``
    allowed, free : ``In(1)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        super().__init__({"block": Out(config.block_bits), "page": Out(PAGE_WIDTH), "allowed": In(1), "free": In(1)})


class PendingFirings(wiring.Component):
    """Choose among the blocks whose oldest firing can leave.

    A block's firings leave in order, so only its own firings wait for a queue that is full. A firing to a page that
    the block may not use leaves at once, to be refused. A counter is queued at most once, so no queue overflows.
    Whether a firing can leave is looked up a cycle before: one that follows another one of its block, or new pages of
    its block, waits for a cycle.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    due : ``In(DueSignature)``
    resetting : ``In(blocks)``
        The firings of these blocks are discarded.
    settings : ``In(TriggerSettings)``
        New pages of a block; the rest is unused.
    pages : ``Out(PagesSignature).array(blocks + 1)``
        Look-ups of the page of each block's oldest firing, and of ``due``.
    ready : ``In(1)``
        A firing may leave in this cycle.
    leave : ``Out(LeaveSignature)``
    requeue : ``In(1)``
        The counter has another firing: it is queued again, as the last one. Never in the cycle of a ``due``. With
        ``pipelined`` it follows ``leave`` after ``config.read_latency`` cycles, and ``due`` shows block and payload.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "due": In(DueSignature(config)), "resetting": In(config.blocks),
            "settings": In(TriggerSettings(config)),
            "pages": Out(PagesSignature(config)).array(config.blocks + 1),
            "ready": In(1), "leave": Out(LeaveSignature(config)), "requeue": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        *heads, due = self.pages
        eligible, allowed = Signal(config.blocks), Signal(config.blocks)
        m.submodules.choice = choice = RoundRobin(config.blocks)
        m.d.comb += [
            self.leave.valid.eq(choice.valid & self.ready), choice.advance.eq(self.leave.valid),
            self.leave.allowed.eq((choice.grant_onehot & allowed).any()),
            due.block.eq(self.due.block), due.page.eq(self.due.payload.page),
        ]
        for block, head in enumerate(heads):
            # One entry more than counters: the last one can be queued again while it leaves.
            queue = Queue(due_layout(config), depth=COUNTERS_PER_BLOCK + 1, ram="lut", output_register=True)
            m.submodules[f"queue_{block}"] = ResetInserter(self.resetting[block])(queue)
            leaves = choice.grant_onehot[block] & choice.advance
            m.d.comb += [
                head.block.eq(block), head.page.eq(queue.o.payload.page),
                choice.requests[block].eq(eligible[block] & ~self.resetting[block]),
                queue.o.ready.eq(leaves), *self._enter(queue.i, queue.o.payload, leaves, self.due.block == block),
            ]
            with m.If(~queue.o.valid):
                m.d.sync += [eligible[block].eq(queue.i.valid & (due.free | ~due.allowed)),
                             allowed[block].eq(due.allowed)]
            with m.Else():
                m.d.sync += [eligible[block].eq(~leaves & (head.free | ~head.allowed)), allowed[block].eq(head.allowed)]
            changes = self.settings.pages_valid & (self.settings.pages_block == block)
            with m.If(self.resetting[block] | changes):
                m.d.sync += eligible[block].eq(0)
            with m.If(choice.grant_onehot[block]):
                m.d.comb += self.leave.counter.eq(Cat(queue.o.payload.index, C(block, config.block_bits)))
        return m

    def _enter(self, i, oldest, leaves, due_here):
        if self.config.pipelined:
            return [i.valid.eq((self.due.valid | self.requeue) & due_here), i.payload.eq(self.due.payload)]
        return [i.valid.eq(Mux(leaves, self.requeue, self.due.valid & due_here)),
                i.payload.eq(Mux(leaves, oldest, self.due.payload))]
