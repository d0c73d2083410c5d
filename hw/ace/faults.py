"""What ends a communicator, and how all its ranks come to know.

Links, fill, drain, registers, watchdog, neighbours -> Faults -> Standing, and ABORT packets -> Transmit.  Latency: 3
cycles for each communicator that is looked at, and 2 for each FSM, from a cause here to the end; 1 from an ABORT.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .config import SEQUENCE_WIDTH
from .fsm import state_layout
from .layouts import RecordLayout, abort_layout
from .standing import EPOCH_WIDTH, mode_layout, standing_layout
from .words import Status

__all__ = ["Faults", "failure_layout"]


def failure_layout(config):
    """A chunk of which a read or a write was answered with an error."""
    return data.StructLayout({"communicator": config.communicator_bits, "sequence": SEQUENCE_WIDTH})


class Faults(wiring.Component):
    """The first cause ends the communicator: later ones, and other ranks' records, change nothing.

    The record goes to both neighbours in each dimension, whose accelerators do the same: it floods all ranks that links
    which work lead to. With two causes at a time, some ranks have the record of one and some that of the other.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    write : ``In(1)``, number, mode : ``In``
        An entry of the communicator table is written: its causes are forgotten.
    standing : ``In(standing_layout)``
    work : ``In(communicators)``
        Communicators with a collective that is not over.
    down : ``In(ports)``
        Links that are down.
    unread, unwritten : ``In``; ``valid``, ``payload``: failure_layout
    revoke : ``In(1)``, revoke_number : ``In``
        By software.
    late : ``In(communicators)``
    aborts : ``In``; ``valid``, ``payload``: abort_layout
        An ABORT packet of the present epoch.
    end : ``Out(1)``, end_number, end_status : ``Out``
        Ends a communicator.
    untold : ``Out(communicators)``
        Ended, and their ABORTs are still here.
    tell : ``Out``; ``valid``, ``communicator``, ``epoch``, ``record``; told : ``In(ports)``
        An ABORT for each port of ``valid``; ports that take it in this cycle.
    select : ``Out``, state : ``In(state_layout)``
        One FSM after the other, in every other cycle; else that of ``asked``.
    asked : ``In``, answer : ``Out(state_layout)``
        The FSM that software looks at, 2 cycles ago.
    record_select : ``In``, record : ``Out(RecordLayout)``
    """

    def __init__(self, config):
        self.config = config
        number = config.communicator_bits
        failure = In(wiring.Signature({"valid": Out(1), "payload": Out(failure_layout(config))}))
        super().__init__({
            "init": In(SweepSignature(config)),
            "write": In(1), "number": In(number), "mode": In(mode_layout(config)),
            "standing": In(standing_layout(config)), "work": In(config.communicators), "down": In(config.ports),
            "unread": failure, "unwritten": failure,
            "revoke": In(1), "revoke_number": In(number), "late": In(config.communicators),
            "aborts": In(wiring.Signature({"valid": Out(1), "payload": Out(abort_layout())})),
            "end": Out(1), "end_number": Out(number), "end_status": Out(8), "untold": Out(config.communicators),
            "tell": Out(tell_signature(config)), "told": In(config.ports),
            "select": Out(config.fsm_bits), "state": In(state_layout(config)),
            "asked": In(config.fsm_bits), "answer": Out(state_layout(config)),
            "record_select": In(number), "record": Out(RecordLayout),
        })

    def elaborate(self, platform):
        m = Module()
        config, standing = self.config, self.standing
        number = Signal(config.communicator_bits)
        m.submodules.records = records = Table(
            RecordLayout, depth=config.communicators, reads=2, init=SweepSignature(config))
        wiring.connect(m, wiring.flipped(self.init), records.init)
        m.submodules.ranks = ranks = Table(8, depth=config.communicators, reads=1, init=None)
        unread, unread_chunk = self._failures(m, self.unread, number, name="unread")
        unwritten, unwritten_chunk = self._failures(m, self.unwritten, number, name="unwritten")
        revoked = Signal(config.communicators)
        with m.If(self.write):
            m.d.sync += revoked.bit_select(self.number, 1).eq(0)
        with m.If(self.revoke):
            m.d.sync += revoked.bit_select(self.revoke_number, 1).eq(1)
        m.d.comb += [
            ranks.write.en.eq(self.write), ranks.write.addr.eq(self.number), ranks.write.data.eq(self.mode.rank),
            ranks.read[0].addr.eq(number), records.read[0].addr.eq(number),
            records.read[1].addr.eq(self.record_select), self.record.eq(records.read[1].data),
        ]

        # -- The pool shows an FSM to software in one cycle, and in the next one to the search.
        turn, fsm = Signal(), Signal(config.fsm_bits)
        seen = Signal(state_layout(config), reset_less=True)
        m.d.sync += [turn.eq(~turn), seen.eq(self.state)]
        m.d.comb += self.select.eq(Mux(turn, fsm, self.asked))
        with m.If(~turn):
            m.d.sync += self.answer.eq(self.state)

        # -- One communicator after the other.
        record, cause = Signal(RecordLayout), Signal(8)
        down, port = Signal(config.ports), Signal(range(config.ports))
        mine, matches, found, matched = (Signal(name=name) for name in ("mine", "matches", "found", "matched"))
        older = Signal(signed(SEQUENCE_WIDTH))
        writes = Signal()
        left = Signal(config.ports)
        closed = Signal()
        m.d.comb += [
            closed.eq(standing.closed.bit_select(number, 1)),
            down.eq(self.down & standing.ports[number]),
            mine.eq(seen.busy & (seen.communicator == number)),
            matches.eq(seen.port[1:] == record.port[1:]), older.eq(seen.sequence - record.sequence),
            self.tell.valid.eq(left), self.tell.communicator.eq(number), self.tell.record.eq(record),
            self.tell.epoch.eq(standing.epochs[number]),
        ]
        with m.FSM():
            with m.State("LOOK"):
                m.d.sync += cause.eq(Mux(closed, Status.OK, Mux(unread.bit_select(number, 1), Status.READ_ERROR, Mux(
                    unwritten.bit_select(number, 1), Status.WRITE_ERROR, Mux(
                        down.any() & self.work.bit_select(number, 1), Status.LINK_DOWN, Mux(
                            revoked.bit_select(number, 1), Status.REVOKED, Mux(
                                self.late.bit_select(number, 1), Status.TIMEOUT, Status.OK)))))))
                for index in reversed(range(config.ports)):
                    with m.If(down[index]):
                        m.d.sync += port.eq(index)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [fsm.eq(0), found.eq(0), matched.eq(0)]
                with m.If(self.untold.bit_select(number, 1)):
                    m.d.sync += [record.eq(records.read[0].data), left.eq(standing.ports[number] & ~self.down)]
                    m.next = "TELL"
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
                    m.next = "LOOK"
            with m.State("SEARCH"):
                with m.If(closed):
                    m.next = "LOOK"
                with m.Elif(turn):
                    m.next = "WEIGH"
            with m.State("WEIGH"):
                # The oldest chunk; of a link that is down, the oldest that uses it.
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
                    m.next = "LOOK"
            with m.State("TELL"):
                m.d.sync += left.eq(left & ~self.told)
                with m.If(left == 0):
                    m.d.sync += self.untold.bit_select(number, 1).eq(0)
                    m.next = "LOOK"

        # -- An ABORT cannot wait.
        came = self.aborts.payload
        m.d.comb += [
            self.end_number.eq(Mux(self.aborts.valid, came.communicator, number)),
            self.end.eq(Mux(self.aborts.valid, ~standing.closed.bit_select(self.end_number, 1), writes)),
            records.write.en.eq(self.end), records.write.addr.eq(self.end_number),
            records.write.data.eq(Mux(self.aborts.valid, came.record, record)),
            self.end_status.eq(data.View(RecordLayout, records.write.data).status),
        ]
        with m.If(self.end):
            m.d.sync += self.untold.bit_select(self.end_number, 1).eq(1)
        return m

    def _failures(self, m, event, number, *, name):
        """Communicators with one, and the first one's chunk of ``number``."""
        failed = Signal(self.config.communicators, name=name)
        m.submodules[f"{name}_chunks"] = chunks = Table(
            SEQUENCE_WIDTH, depth=self.config.communicators, reads=1, init=None)
        whose = event.payload.communicator
        m.d.comb += [
            chunks.write.en.eq(event.valid & ~failed.bit_select(whose, 1)), chunks.write.addr.eq(whose),
            chunks.write.data.eq(event.payload.sequence), chunks.read[0].addr.eq(number),
        ]
        with m.If(self.write):
            m.d.sync += failed.bit_select(self.number, 1).eq(0)
        with m.If(event.valid):
            m.d.sync += failed.bit_select(whose, 1).eq(1)
        return failed, chunks.read[0].data


def tell_signature(config):
    """ABORTs for each port of ``valid``, with the same payload."""
    return wiring.Signature({
        "valid": Out(config.ports), "communicator": Out(config.communicator_bits), "epoch": Out(EPOCH_WIDTH),
        "record": Out(RecordLayout)})
