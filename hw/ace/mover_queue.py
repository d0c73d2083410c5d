# SPDX-License-Identifier: Apache-2.0
"""Whose chunks a mover (fill or drain) has, in the order in which it moves them.

Chunker -> MoverQueue -> Watchdog, Transfers.  Latency: 1 cycle from a job to ``holder`` and ``stop``.  Throughput: one
job per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.stream import Queue

from .layouts import done_layout

__all__ = ["MoverDone", "MoverQueue", "MoverStatus"]


class MoverDone(EventSignature):
    """A mover has moved the last byte of a chunk: driven by Fill and by Drain, once per job, in order of the jobs."""

    def __init__(self, config):
        super().__init__(done_layout(config))


class MoverStatus(wiring.Signature):
    """Who holds a mover and who waits for it: levels, driven by Chunker for Watchdog, without handshake.

    Members
    -------
    holder : ``Out(communicators)``
        The communicator whose chunk is the oldest in the mover, as one bit of all.
    blocked : ``Out(communicators)``
        Communicators that wait for the mover while another one that is open holds it.
    moved : ``Out(1)``
        The oldest chunk leaves the mover in this cycle.
    """

    def __init__(self, config):
        super().__init__({
            "holder": Out(config.communicators), "blocked": Out(config.communicators), "moved": Out(1)})


class MoverQueue(wiring.Component):
    """Jobs of a mover are done in order: its oldest job's communicator holds it, and all others wait.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    begins : ``In(communicators)``
        Whose job the mover's address generator takes in this cycle, as one bit of all.
    moved : ``In(1)``
        The oldest job is over.
    waiting : ``In(communicators)``
        Those with a chunk that is to be moved, or is being moved.
    stopped : ``In(communicators)``
        Those that are ending, or revoked: waiting for what one of them does not let go is no excuse.
    stop : ``Out(1)``
        The job that the address generator has is of one that is stopped.
    mover : ``Out(MoverStatus)``
    """

    def __init__(self, config):
        self.config = config
        count = config.communicators
        super().__init__({
            "begins": In(count), "moved": In(1), "waiting": In(count), "stopped": In(count),
            "stop": Out(1), "mover": Out(MoverStatus(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, mover = self.config, self.mover
        m.submodules.jobs = jobs = Queue(config.communicators, depth=config.slots, ram="lut")
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
