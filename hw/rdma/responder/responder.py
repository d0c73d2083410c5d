# SPDX-License-Identifier: Apache-2.0
"""The responder of RoCEv2's reliable connections. Only connects.

::

    requests -> RequestIntake -> AccessCheck -> PacketOrder -> RegionRecheck
                      | payload                                     v
                      +----------------------------------> MemoryWriter -> memory_writes
                                                            ^       v flights
                                               RecordWriter + <- Completion <- memory_responses
                                                                    v
                          Acknowledgements <- notices ---------- Progress
                                 |                                  v
                                 |                              ReadQueues -> ReadIssue -> memory_reads
                                 v                                                 v
    packets <-------------- Replies <- CongestionNotices, ReadResponses <- memory_beats
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import Sweep
from hw.common.wiring import Wiring

from ..config import RdmaConfig
from ..layouts import read_beat_layout, read_layout, receive_layout, response_layout, transmit_layout, write_layout
from ..ports import (
    ConnectionWrite,
    FaultSignature,
    MarkSignature,
    RecordsTaken,
    RegionWrite,
    ResponderStatus,
    StopSignature,
)
from .access import AccessCheck
from .acknowledgements import Acknowledgements
from .completion import Completion
from .congestion import CongestionNotices
from .counts import CountStrobes, ResponderCounts
from .generations import RegionGenerations
from .inspection import ResponderInspection
from .order import PacketOrder
from .progress import Progress
from .read_issue import ReadIssue
from .read_queues import ReadQueues
from .read_responses import ReadResponses
from .recheck import RegionRecheck
from .records import RecordWriter
from .replies import Replies
from .request_intake import RequestIntake
from .states import QueuePairStates
from .writer import MemoryWriter

__all__ = ["Responder"]


class Responder(wiring.Component):
    """Execute the requests of all queue pairs; ``docs/rdma.md`` is the contract.

    Nothing is accepted in the first ``sweep_rows`` cycles after ``rst``, and the tables must not be written then.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    requests : ``In(stream.Signature(receive_layout))``
        Requests to open queue pairs, with ``header.qp`` valid.
    marked : ``In(MarkSignature)``
        A packet that met congestion arrived.
    packets : ``Out(stream.Signature(transmit_layout))``
    memory_writes : ``Out(stream.Signature(write_layout))``
    memory_responses : ``In(stream.Signature(response_layout))``
    memory_reads : ``Out(stream.Signature(read_layout))``
    memory_beats : ``In(stream.Signature(read_beat_layout))``
        All with ID 0, in order; ``memory_beats.ready`` is 1.
    connections : ``In(ConnectionWrite)``, regions : ``In(RegionWrite)``, taken : ``In(RecordsTaken)``
    stop : ``In(StopSignature)``, fault : ``Out(FaultSignature)``
    status : ``Out(ResponderStatus)``, counts : ``Out(ResponderCounts)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "requests": In(stream.Signature(receive_layout(config))), "marked": In(MarkSignature(config)),
            "packets": Out(stream.Signature(transmit_layout(config))),
            "memory_writes": Out(stream.Signature(write_layout(config))),
            "memory_responses": In(stream.Signature(response_layout(config))),
            "memory_reads": Out(stream.Signature(read_layout(config))),
            "memory_beats": In(stream.Signature(read_beat_layout(config))),
            "connections": In(ConnectionWrite(config)), "regions": In(RegionWrite(config)),
            "taken": In(RecordsTaken(config)), "stop": In(StopSignature(config)),
            "fault": Out(FaultSignature(config)), "status": Out(ResponderStatus(config)),
            "counts": Out(ResponderCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sweep=Sweep(config), intake=RequestIntake(config), access=AccessCheck(config),
                  generations=RegionGenerations(config, 3), order=PacketOrder(config), recheck=RegionRecheck(config),
                  writer=MemoryWriter(config), completion=Completion(config), records=RecordWriter(config),
                  progress=Progress(config), acks=Acknowledgements(config), queues=ReadQueues(config),
                  issue=ReadIssue(config), responses=ReadResponses(config), congestion=CongestionNotices(config),
                  replies=Replies(config), states=QueuePairStates(config), inspection=ResponderInspection(config),
                  strobes=CountStrobes())
        wires.broadcast("sweep.init", *(f"{part}.init" for part in (
            "intake", "access", "generations", "order", "completion", "progress", "queues", "issue", "responses")))
        wires.broadcast("self.connections", "intake.connections", "access.connections", "order.connections",
                        "records.connections", "congestion.connections", "states.connections")
        wires.broadcast("self.regions", "access.regions", "generations.regions")
        wires.broadcast("self.stop", "states.stop", "congestion.stop")
        wires.connect("self.taken", "order.taken")

        # -- Requests until they are in flight.
        wires.connect("self.requests", "intake.requests")
        wires.connect("intake.ops", "access.ops")
        wires.connect("access.generations", "generations.read[0]")
        wires.connect("access.checked", "order.checked")
        wires.connect("order.accepting", "states.accepting")
        wires.connect("order.departed", "responses.departed[0]")
        wires.connect("order.opened", "states.opened")
        wires.connect("order.refused", "states.errors[0]")
        wires.connect("order.verdicts", "recheck.verdicts")
        wires.connect("recheck.generations", "generations.read[1]")
        wires.connect("recheck.refused", "states.errors[1]")
        wires.connect("recheck.entries", "writer.entries[0]")
        wires.connect("intake.payload", "writer.payload[0]")
        wires.connect("writer.writes", "self.memory_writes")

        # -- Requests in flight.
        wires.connect("writer.flights", "completion.flights")
        wires.connect("completion.vacant", "writer.vacant")
        wires.connect("self.memory_responses", "completion.responses")
        wires.connect("completion.refused", "states.errors[2]")
        wires.connect("completion.records", "records.records")
        wires.connect("records.entries", "writer.entries[1]")
        wires.connect("records.payload", "writer.payload[1]")
        wires.connect("completion.ops", "progress.ops")
        wires.connect("progress.settled", "states.settled")

        # -- Acknowledgements.
        wires.connect("progress.notices", "acks.notices")
        wires.connect("progress.selected", "acks.selected")
        wires.connect("progress.read[0]", "acks.progress")
        wires.connect("acks.pushed", "queues.pushed[0]")
        wires.connect("acks.departed", "responses.departed[1]")
        wires.connect("responses.departs", "acks.departs")
        wires.connect("acks.active", "states.active[0]")

        # -- READs.
        wires.connect("progress.reads", "queues.reads")
        wires.connect("queues.waiting", "issue.waiting")
        wires.connect("issue.again", "queues.again")
        wires.connect("issue.jobs", "queues.jobs")
        wires.connect("issue.pushed", "queues.pushed[1]")
        wires.connect("issue.generations", "generations.read[2]")
        wires.connect("issue.active", "states.active[1]")
        wires.connect("issue.reads", "self.memory_reads")
        wires.connect("issue.packets", "responses.packets")
        wires.connect("responses.released", "issue.released")
        wires.connect("self.memory_beats", "responses.beats")
        wires.connect("responses.active", "states.active[2]")

        # -- Packets to send.
        wires.connect("self.marked", "congestion.marked")
        wires.connect("responses.replies", "replies.replies[0]")
        wires.connect("acks.replies", "replies.replies[1]")
        wires.connect("congestion.replies", "replies.replies[2]")
        wires.connect("replies.packets", "self.packets")
        wires.connect("replies.failed", "states.failed")
        wires.connect("replies.fault", "self.fault")

        # -- Registers.
        wires.connect("inspection.order", "order.status")
        wires.connect("inspection.progress", "progress.read[1]")
        wires.connect("inspection.departed", "responses.departed[2]")
        wires.connect("inspection.opening", "states.opening")
        wires.connect("inspection.status", "self.status")
        wires.connect("order.counts", "strobes.order")
        wires.connect("replies.sent", "strobes.sent")
        wires.connect("completion.unexpected", "strobes.responses")
        wires.connect("responses.unexpected", "strobes.beats")
        wires.connect("strobes.counts", "self.counts")
        wires.finish()
        return m
