# SPDX-License-Identifier: Apache-2.0
"""READs that wait for their responses, in a queue for each queue pair.

Progress -> ReadQueues -> ReadIssue.  Latency: 3 cycles.  Throughput: one READ per 2 cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature

from ..config import RdmaConfig
from .layouts import read_job_layout
from .order import reads_width
from .progress import read_push_layout
from .queue_pair_list import QueuePairList
from .rows import RowRead, RowTable

__all__ = ["ReadQueues"]


class ReadQueues(wiring.Component):
    """Store READs, and list the queue pairs that have some. Never full, as PacketOrder counts them.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    reads : ``In(stream.Signature(read_push_layout))``
    waiting : ``Out(stream.Signature(qp))``, again : ``In(stream.Signature(qp))``
        A queue pair with READs, and one that still has some; always ready.
    jobs : ``In(RowRead(read_job_layout))``
        The queue pair is in the upper bits of the address.
    pushed : ``In(RowRead).array(2)``
        READs so far of each queue pair, modulo twice the most that are held.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        qp = stream.Signature(unsigned(config.qp_bits))
        super().__init__({
            "init": In(SweepSignature(config)), "reads": In(stream.Signature(read_push_layout(config))),
            "waiting": Out(qp), "again": In(qp),
            "jobs": In(RowRead(read_job_layout(config), config.queue_pairs * config.reads)),
            "pushed": In(RowRead(reads_width(config), config.queue_pairs)).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        config, offered = self.config, self.reads.payload
        m.submodules.jobs = jobs = RowTable(config, read_job_layout(config), depth=config.queue_pairs * config.reads,
                                            swept=False)
        m.submodules.counts = counts = RowTable(config, unsigned(reads_width(config)), depth=config.queue_pairs,
                                                reads=3)
        m.submodules.waiting = waiting = QueuePairList(config, 2)
        wiring.connect(m, wiring.flipped(self.init), counts.init)
        wiring.connect(m, wiring.flipped(self.jobs), jobs.read[0])
        wiring.connect(m, waiting.o, wiring.flipped(self.waiting))
        wiring.connect(m, wiring.flipped(self.again), waiting.add[0])
        for ours, port in zip(self.pushed, counts.read[1:], strict=True):
            wiring.connect(m, wiring.flipped(ours), port)
        looked, go = Signal(), Signal()
        index = counts.read[0].data[:(config.reads - 1).bit_length()]
        m.d.comb += [
            counts.read[0].addr.eq(offered.qp), counts.read[0].en.eq(self.reads.valid & ~looked),
            go.eq(looked & waiting.add[1].ready), self.reads.ready.eq(go),
            counts.write.en.eq(go), counts.write.addr.eq(offered.qp), counts.write.data.eq(counts.read[0].data + 1),
            jobs.write.en.eq(go), jobs.write.addr.eq(Cat(index, offered.qp)), jobs.write.data.eq(offered.job),
            waiting.add[1].valid.eq(looked), waiting.add[1].payload.eq(offered.qp),
        ]
        m.d.sync += looked.eq(Mux(looked, ~go, self.reads.valid))
        return m
