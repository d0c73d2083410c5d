# SPDX-License-Identifier: Apache-2.0
"""The communicators of a mover's chunks (fill or drain), in the order of the moves.

Chunker -> MoverQueue -> Watchdog, Transfers.  Latency: 1 cycle from a job to ``holder`` and ``stop``.  Throughput: one
job per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.stream import Queue

from .config import AceConfig
from .layouts import done_layout

__all__ = ["MoverDone", "MoverQueue", "MoverStatus"]


class MoverDone(EventSignature):
    """A mover has moved the last byte of a chunk: driven by Fill and by Drain, once per job, in order of the jobs."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(done_layout(config))


class MoverStatus(wiring.Signature):
    """The communicator that holds a mover, and those that wait for it: levels, driven by Chunker for Watchdog.

    Members
    -------
    holder : ``Out(communicators)``
        The communicator of the oldest chunk in the mover, one-hot.
    blocked : ``Out(communicators)``
        Communicators that wait for the mover while another open one holds it.
    moved : ``Out(1)``
        The oldest chunk leaves the mover in this cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "holder": Out(config.communicators), "blocked": Out(config.communicators), "moved": Out(1)})


class MoverQueue(wiring.Component):
    """A mover processes jobs in order: the communicator of its oldest job holds it, and all others wait.

    Parameters
    ----------
    config : AceConfig
    depth : int, optional
        Most jobs in the mover; by default one for each slot.

    Members
    -------
    begins : ``In(communicators)``
        Communicator whose job the mover's address generator accepts in this cycle, one-hot.
    moved : ``In(1)``
        The oldest job is done.
    waiting : ``In(communicators)``
        Communicators with a chunk that waits for the mover, or is in it.
    stopped : ``In(communicators)``
        Communicators that are ending or revoked: they do not block others in the sense of the watchdog.
    stop : ``Out(1)``
        The current job of the address generator is of a stopped communicator.
    mover : ``Out(MoverStatus)``
    """

    def __init__(self, config: AceConfig, *, depth: int | None = None) -> None:
        self.config, self.depth = config, config.slots if depth is None else depth
        count = config.communicators
        super().__init__({
            "begins": In(count), "moved": In(1), "waiting": In(count), "stopped": In(count),
            "stop": Out(1), "mover": Out(MoverStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, mover = self.config, self.mover
        m.submodules.jobs = jobs = Queue(config.communicators, depth=self.depth, ram="lut")
        latest = Signal(config.communicators)
        m.d.comb += [
            jobs.i.payload.eq(self.begins), jobs.i.valid.eq(self.begins.any()), jobs.o.ready.eq(self.moved),
            mover.holder.eq(Mux(jobs.o.valid, jobs.o.payload, 0)), mover.moved.eq(self.moved),
            mover.blocked.eq(self.waiting & ~mover.holder
                             & (mover.holder & ~self.stopped).any().replicate(config.communicators)),
            self.stop.eq((latest & self.stopped).any()),
        ]
        with m.If(jobs.i.valid):
            m.d.sync += latest.eq(self.begins)
        return m
