# SPDX-License-Identifier: Apache-2.0
"""The requester without payload. Only connects.

::

    posted -> Posting ---> PacketRecords      SendBuffer -> send
                 |            |      ^           ^  ^
                 v            v      |           |  |
              Visits -----> Sender --|-----------+  | found
                 ^            |      |              |
      Pacer -----+            v      +-------- Retirement -> retire
    notified -> Rates    PendingReads               ^
                              |                   Visits
                              v                     ^
    received -> ResponseSplit -> Acknowledgements --+-> fault
                    |                 | verdicts
                    +-> beats -> ReadReturns -> returned
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import Sweep
from hw.common.wiring import Wiring

from ...config import RdmaConfig
from ...layouts import posted_layout, receive_layout, retire_layout, returned_layout, send_layout
from ...ports import ConnectionWrite, FaultSignature, MarkSignature, RequesterStatus, StopSignature
from .acknowledgements import Acknowledgements
from .marks import SelectiveMarks
from .pacer import Pacer
from .pending_reads import PendingReads
from .ports import RequesterCounts
from .posting import Posting
from .rates import Rates
from .records import PacketRecords
from .responses import ReadReturns, ResponseSplit
from .retirement import Retirement
from .send_buffer import SendBuffer
from .sender import Sender
from .states import QueuePairStates
from .status import RequesterState
from .timers import Timers
from .visits import Visits

__all__ = ["RequesterTransport"]


class RequesterTransport(wiring.Component):
    """Send stored packets reliably, in order for each queue pair; ``docs/rdma.md`` is the contract.

    After reset, all queue pairs are closed. For ``sweep_rows`` cycles after it, nothing is accepted but writes of
    connections. Packets that are posted to a queue pair less than 64 cycles after its opening may fail.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    posted : ``In(stream.Signature(posted_layout))``
        Stored packets, each of one PSN. Their number never exceeds ``packets``.
    send : ``Out(stream.Signature(send_layout))``
        A packet that is offered here has not retired.
    retire : ``Out(stream.Signature(retire_layout))``
        Each packet once. A READ retires after the last beat of its response was accepted, unless it has failed.
    received : ``In(stream.Signature(receive_layout))``
        ACKNOWLEDGE and READ responses of known queue pairs.
    returned : ``Out(stream.Signature(returned_layout))``
    notified : ``In(MarkSignature)``
        A CNP.
    connections : ``In(ConnectionWrite)``
        Eight writes can wait; each takes about 40 cycles, and an opening waits for packets that have not retired.
    writable : ``Out(1)``
        Four more writes can wait. Registered.
    stop : ``In(StopSignature)``
        32 can wait while a queue pair is opened.
    fault : ``Out(FaultSignature)``
        Once for each opening.
    status : ``Out(RequesterStatus)``
    counts : ``Out(RequesterCounts)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "posted": In(stream.Signature(posted_layout(config))), "send": Out(stream.Signature(send_layout(config))),
            "retire": Out(stream.Signature(retire_layout(config))),
            "received": In(stream.Signature(receive_layout(config))),
            "returned": Out(stream.Signature(returned_layout(config))),
            "notified": In(MarkSignature(config)), "connections": In(ConnectionWrite(config)), "writable": Out(1),
            "stop": In(StopSignature(config)), "fault": Out(FaultSignature(config)),
            "status": Out(RequesterStatus(config)), "counts": Out(RequesterCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(sweep=Sweep(config), states=QueuePairStates(config), posting=Posting(config),
                  records=PacketRecords(config), to_send=Visits(config, wakes=4), sender=Sender(config),
                  buffer=SendBuffer(config), reads=PendingReads(config), split=ResponseSplit(config),
                  acknowledgements=Acknowledgements(config), timers=Timers(config), returns=ReadReturns(config),
                  to_retire=Visits(config, wakes=5), retirement=Retirement(config), rates=Rates(config),
                  pacer=Pacer(config), state=RequesterState(config))
        stateful = ("states", "returns", "posting", "sender", "acknowledgements", "retirement", "rates", "pacer")
        wires.broadcast("sweep.init", *(f"{name}.init" for name in stateful))
        wires.broadcast("states.opening", *(f"{name}.opening" for name in stateful[2:]))
        wires.broadcast("states.hold", *(f"{name}.hold" for name in (
            "posting", "acknowledgements", "rates", "to_send", "to_retire")))

        # -- From posting to the line.
        wires.connect("self.posted", "posting.posted")
        wires.connect("posting.record", "records.record")
        wires.connect("posting.link", "records.link")
        wires.connect("to_send.visit", "sender.visit")
        wires.connect("sender.again", "to_send.again")
        wires.connect("buffer.go", "to_send.go")
        wires.connect("sender.record", "records.lookups[0]")
        wires.connect("sender.send", "buffer.i")
        wires.connect("sender.read", "reads.write")
        wires.connect("sender.pace", "pacer.pace")
        wires.connect("buffer.o", "self.send")

        # -- From the line to retirement.
        wires.connect("self.received", "split.received")
        wires.connect("split.operations", "acknowledgements.operations")
        wires.connect("split.beats", "returns.beats")
        wires.connect("acknowledgements.verdicts", "returns.verdicts")
        wires.connect("acknowledgements.reads", "reads.lookup")
        wires.connect("acknowledgements.time", "timers.time")
        wires.connect("returns.returned", "self.returned")
        wires.connect("to_retire.visit", "retirement.visit")
        wires.connect("retirement.again", "to_retire.again")
        wires.connect("retirement.go", "to_retire.go")
        wires.connect("retirement.record", "records.lookups[1]")
        wires.connect("retirement.unsent", "buffer.lookup")
        wires.connect("retirement.retire", "self.retire")
        if config.selective:
            wires.add(marks=SelectiveMarks(config))
            wires.connect("sender.clear", "marks.clear")
            wires.connect("acknowledgements.mark", "marks.mark")
            wires.connect("sender.received", "marks.lookup")

        # -- Work for the sender and for retirement.
        for number, name in enumerate(("posting", "acknowledgements", "retirement", "pacer")):
            wires.connect(f"{name}.wake", f"to_send.wake[{number}]")
        for number, name in enumerate(("posting", "acknowledgements", "states", "returns", "retirement")):
            wires.connect(f"{name}.kick", f"to_retire.wake[{number}]")

        # -- Rows that other stages read.
        for table, readers in {
                "posting.rows": ("sender.posted", "retirement.posted", "states.posted", "state.posted"),
                "sender.rows": ("posting.sent", "acknowledgements.sent", "state.sent"),
                "acknowledgements.rows": ("sender.progress", "retirement.progress", "state.progress"),
                "retirement.rows": ("posting.retired[0]", "posting.retired[1]", "sender.retired", "states.retired",
                                    "state.retired"),
                "states.running": ("sender.running", "acknowledgements.running"),
                "states.flushing": ("posting.flushing", "retirement.flushing"),
                "states.settings": ("sender.settings", "acknowledgements.settings", "rates.settings"),
                "rates.rates": ("pacer.rate", "state.rate")}.items():
            for number, reader in enumerate(readers):
                wires.connect(reader, f"{table}[{number}]")
        wires.connect("sender.entries", "posting.to_send")
        wires.connect("retirement.entries", "posting.to_retire[0]")
        wires.connect("sender.to_retire", "posting.to_retire[1]")
        wires.connect("sender.paced", "pacer.paced")
        wires.connect("sender.limited", "rates.limited")
        wires.connect("retirement.delivered", "returns.delivered")

        # -- Registers.
        wires.connect("self.notified", "rates.notified")
        wires.connect("self.connections", "states.connections")
        wires.connect("states.writable", "self.writable")
        wires.connect("self.stop", "states.stop")
        wires.connect("acknowledgements.fault", "states.failed")
        wires.connect("states.fault", "self.fault")
        wires.connect("state.status", "self.status")
        for name in ("sent", "retransmitted"):
            wires.connect(f"sender.{name}", f"self.counts.{name}")
        wires.connect("retirement.count", "self.counts.retired")
        for name in ("timeouts", "naks", "rnrs", "dropped"):
            wires.connect(f"acknowledgements.counts.{name}", f"self.counts.{name}")
        wires.finish()
        return m
