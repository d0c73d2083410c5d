# SPDX-License-Identifier: Apache-2.0
"""Faults: detects the cause that ends a communicator, and reports it to all ranks.

Links, fill, drain, registers, watchdog, neighbours -> Faults -> CommunicatorStatus, and ABORT packets -> Transmit.
Latency: 3 cycles for each communicator of the scan, and 2 for each FSM, from a cause here to the end; 1 from an ABORT.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .chunk_status import ChunkFailed
from .communicator_status import ActivitySignature, CommunicatorEnd, CommunicatorStatusSignature
from .communicators import EPOCH_WIDTH, CommunicatorWrite
from .config import SEQUENCE_WIDTH, AceConfig
from .layouts import RecordLayout
from .operations import WorkSignature
from .pipe_merge import AbortReceived
from .pool.fsm_ports import FsmLookup, state_layout
from .watchdog import TimedOutSignature
from .words import Status

__all__ = ["AbortSend", "Faults", "RecordLookup", "Revoke"]


class Revoke(EventSignature):
    """Software ends a communicator; ``payload`` is its number. Driven by the registers."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(config.communicator_bits)


class RecordLookup(wiring.Signature):
    """Debug look-up: the registers drive ``communicator``; ``record``, the cause of its end, follows in the same
    cycle."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicator": Out(config.communicator_bits), "record": In(RecordLayout)})


class AbortSend(wiring.Signature):
    """An ABORT to be sent at several ports.

    Faults drives ``valid``, a bit for each port, and holds the other fields until every port has accepted the packet.
    Transmit drives ``taken``: ports that accept the packet in this cycle. A stalled port does not stall the others.

    Members
    -------
    valid : ``Out(ports)``, taken : ``In(ports)``
    communicator : ``Out``, epoch : ``Out(EPOCH_WIDTH)``, record : ``Out(RecordLayout)``
        The same for all ports.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(config.ports), "taken": In(config.ports), "communicator": Out(config.communicator_bits),
            "epoch": Out(EPOCH_WIDTH), "record": Out(RecordLayout),
        })


class Faults(wiring.Component):
    """The first cause ends the communicator: later causes, and other ranks' records, have no effect.

    The record goes to both neighbours in each dimension, which forward it in turn: it floods all ranks reachable over
    working links. With two simultaneous causes, some ranks have the record of one and some that of the other.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(CommunicatorWrite)``
        Clears the entry's causes.
    communicator_status : ``In(CommunicatorStatusSignature)``, work : ``In(WorkSignature)``
    down : ``In(ports)``
        Links in state DOWN.
    unread, unwritten : ``In(ChunkFailed)``, revoke : ``In(Revoke)``, timed_out : ``In(TimedOutSignature)``
    aborts : ``In(AbortReceived)``
        Causes.
    end : ``Out(CommunicatorEnd)``
    Ended communicators whose ABORTs have not all been sent.
        Ended, and their ABORTs are still here.
    abort : ``Out(AbortSend)``
    fsm : ``Out(FsmLookup)``
        One FSM after the other, in every other cycle; otherwise that of ``shown``.
    shown : ``In(FsmLookup)``
        The FSM that software selected, 2 cycles ago.
    record : ``In(RecordLookup)``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "write": In(CommunicatorWrite(config)),
            "communicator_status": In(CommunicatorStatusSignature(config)), "work": In(WorkSignature(config)),
            "down": In(config.ports), "unread": In(ChunkFailed(config)), "unwritten": In(ChunkFailed(config)),
            "revoke": In(Revoke(config)), "timed_out": In(TimedOutSignature(config)), "aborts": In(AbortReceived()),
            "end": Out(CommunicatorEnd(config)), "reporting": Out(ActivitySignature(config)),
            "abort": Out(AbortSend(config)),
            "fsm": Out(FsmLookup(config)), "shown": In(FsmLookup(config)), "record": In(RecordLookup(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, communicator_status, write = self.config, self.communicator_status, self.write
        reporting = self.reporting.communicators
        number = Signal(config.communicator_bits)
        m.submodules.records = records = Table(
            RecordLayout, depth=config.communicators, reads=2, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), records.init)
        m.submodules.ranks = ranks = Table(8, depth=config.communicators, reads=1, init=None)
        unread, unread_chunk = self._failures(m, self.unread, number, name="unread")
        unwritten, unwritten_chunk = self._failures(m, self.unwritten, number, name="unwritten")
        revoked = Signal(config.communicators)
        with m.If(write.valid):
            m.d.sync += revoked.bit_select(write.number, 1).eq(0)
        with m.If(self.revoke.valid):
            m.d.sync += revoked.bit_select(self.revoke.payload, 1).eq(1)
        m.d.comb += [
            ranks.write.en.eq(write.valid), ranks.write.addr.eq(write.number), ranks.write.data.eq(write.mode.rank),
            ranks.read[0].addr.eq(number), records.read[0].addr.eq(number),
            records.read[1].addr.eq(self.record.communicator), self.record.record.eq(records.read[1].data),
        ]

        # -- The pool's look-up port serves software and the search in alternate cycles.
        turn, fsm = Signal(), Signal(config.fsm_bits)
        seen = Signal(state_layout(config), reset_less=True)
        m.d.sync += [turn.eq(~turn), seen.eq(self.fsm.state)]
        m.d.comb += self.fsm.fsm.eq(Mux(turn, fsm, self.shown.fsm))
        with m.If(~turn):
            m.d.sync += self.shown.state.eq(self.fsm.state)

        # -- One communicator after the other.
        record, cause = Signal(RecordLayout), Signal(8)
        down, port = Signal(config.ports), Signal(range(config.ports))
        mine, matches, found, matched = (Signal(name=name) for name in ("mine", "matches", "found", "matched"))
        older = Signal(signed(SEQUENCE_WIDTH))
        writes = Signal()
        left = Signal(config.ports)
        closed = Signal()
        m.d.comb += [
            closed.eq(communicator_status.closed.bit_select(number, 1)),
            down.eq(self.down & communicator_status.ports[number]),
            mine.eq(seen.busy & (seen.communicator == number)),
            matches.eq(seen.port[1:] == record.port[1:]), older.eq(seen.sequence - record.sequence),
            self.abort.valid.eq(left), self.abort.communicator.eq(number), self.abort.record.eq(record),
            self.abort.epoch.eq(communicator_status.epochs[number]),
        ]
        with m.FSM():
            with m.State("LOOKUP"):
                m.d.sync += cause.eq(Mux(closed, Status.OK, Mux(unread.bit_select(number, 1), Status.READ_ERROR, Mux(
                    unwritten.bit_select(number, 1), Status.WRITE_ERROR, Mux(
                        down.any() & self.work.communicators.bit_select(number, 1), Status.LINK_DOWN, Mux(
                            revoked.bit_select(number, 1), Status.REVOKED, Mux(
                                self.timed_out.communicators.bit_select(number, 1), Status.TIMEOUT, Status.OK)))))))
                for index in reversed(range(config.ports)):
                    with m.If(down[index]):
                        m.d.sync += port.eq(index)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [fsm.eq(0), found.eq(0), matched.eq(0)]
                with m.If(reporting.bit_select(number, 1)):
                    m.d.sync += [record.eq(records.read[0].data),
                                 left.eq(communicator_status.ports[number] & ~self.down)]
                    m.next = "REPORT"
                with m.Elif((cause != Status.OK) & ~closed):
                    failed = (cause == Status.READ_ERROR) | (cause == Status.WRITE_ERROR)
                    m.d.sync += [
                        record.eq(0), record.status.eq(cause), record.rank.eq(ranks.read[0].data),
                        record.port.eq(Mux(cause == Status.LINK_DOWN, port, 0)), record.named.eq(failed),
                    ]
                    with m.If(failed):
                        m.d.sync += record.sequence.eq(
                            Mux(cause == Status.READ_ERROR, unread_chunk, unwritten_chunk))
                        m.next = "WRITE"
                    with m.Else():
                        m.next = "SEARCH"
                with m.Else():
                    m.d.sync += number.eq(number + 1)
                    m.next = "LOOKUP"
            with m.State("SEARCH"):
                with m.If(closed):
                    m.next = "LOOKUP"
                with m.Elif(turn):
                    m.next = "WEIGH"
            with m.State("WEIGH"):
                # Prefer the oldest chunk; if a link is down, the oldest chunk on that link.
                better = (record.status == Status.LINK_DOWN) & matches & ~matched
                worse = (record.status == Status.LINK_DOWN) & ~matches & matched
                with m.If(mine & (~found | better | ((older < 0) & ~worse))):
                    m.d.sync += [record.named.eq(1), record.sequence.eq(seen.sequence), record.phase.eq(seen.phase),
                                 record.step.eq(seen.sent), found.eq(1), matched.eq(matches)]
                m.d.sync += fsm.eq(fsm + 1)
                with m.If(fsm == config.fsms - 1):
                    m.next = "WRITE"
                with m.Else():
                    m.next = "SEARCH"
            with m.State("WRITE"):
                with m.If(~self.aborts.valid):
                    m.d.comb += writes.eq(~closed)
                    m.next = "LOOKUP"
            with m.State("REPORT"):
                m.d.sync += left.eq(left & ~self.abort.taken)
                with m.If(left == 0):
                    m.d.sync += reporting.bit_select(number, 1).eq(0)
                    m.next = "LOOKUP"

        # -- A received ABORT cannot be stalled.
        came, end = self.aborts.payload, self.end.payload
        m.d.comb += [
            end.communicator.eq(Mux(self.aborts.valid, came.communicator, number)),
            self.end.valid.eq(Mux(self.aborts.valid, ~communicator_status.closed.bit_select(end.communicator, 1),
                                  writes)),
            records.write.en.eq(self.end.valid), records.write.addr.eq(end.communicator),
            records.write.data.eq(Mux(self.aborts.valid, came.record, record)),
            end.status.eq(data.View(RecordLayout, records.write.data).status),
        ]
        with m.If(self.end.valid):
            m.d.sync += reporting.bit_select(end.communicator, 1).eq(1)
        return m

    def _failures(self, m, event, number, *, name):
        """Communicators with a failure, and the chunk of the first failure of communicator ``number``."""
        failed = Signal(self.config.communicators, name=name)
        m.submodules[f"{name}_chunks"] = chunks = Table(
            SEQUENCE_WIDTH, depth=self.config.communicators, reads=1, init=None)
        owner = event.payload.communicator
        m.d.comb += [
            chunks.write.en.eq(event.valid & ~failed.bit_select(owner, 1)), chunks.write.addr.eq(owner),
            chunks.write.data.eq(event.payload.sequence), chunks.read[0].addr.eq(number),
        ]
        with m.If(self.write.valid):
            m.d.sync += failed.bit_select(self.write.number, 1).eq(0)
        with m.If(event.valid):
            m.d.sync += failed.bit_select(owner, 1).eq(1)
        return failed, chunks.read[0].data
