# SPDX-License-Identifier: Apache-2.0
"""Requests in the beats of RQ, with two TLPs in a beat where straddling allows it.

write path, read path -> RequestPacker -> RQ of the hard block.  Latency: 3 cycles from a read's header to RQ, 4
from a write's, 5 with an early load.  Throughput: one beat per cycle.

Source: PG213, "Requester Request Interface" and "Straddle Option on CQ, CC, and RQ Interfaces".
"""

from amaranth import *
from amaranth.hdl import Assert
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.pcie.config import PcieConfig
from hw.pcie.layouts import ReadTlp, write_tlp_layout
from hw.pcie.pins import PacketSignature, rq_user_layout
from hw.pcie.tlp import RequesterRequest, RequestType
from hw.stream import CreditCounter, Queue

from .rotation import DWORD_WIDTH, rotated
from .rq_schedule import DESCRIPTOR_DWORDS, UPPER, HalfKind, RequestSchedule

__all__ = ["RequestPacker"]

BEATS = 8
"""Beats between the schedule and RQ: enough for one per cycle."""


def _beat_layout(config):
    """A beat on RQ: ``start``, ``end``, ``first_be`` and ``last_be`` are of one TLP, with straddling of two."""
    fields = {"data": config.data_width, "first_be_0": 4, "last_be_0": 4, "writes": 2}
    if config.straddle:
        fields |= {"first_be_1": 4, "last_be_1": 4, "starts": 2, "upper_start": 1, "ends": 2, "end_0": 4, "end_1": 4}
    else:
        fields |= {"keep": config.beat_dwords, "last": 1}
    return data.StructLayout(fields)


class RequestPacker(wiring.Component):
    """Send reads and writes, each as a packet without interruption.

    Beats are planned before their data moves, and only as far as the queue in front of RQ has free entries, so that no
    stage behind the plan stalls. Both kinds start alternately; :class:`RequestSchedule` has the rules.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    writes : ``In(stream.Signature(write_tlp_layout))``, reads : ``In(stream.Signature(ReadTlp))``
        ``ready`` is registered.
    data : ``In(stream.Signature(data_width))``
        Payload of the writes in order; each starts with a new beat, at position ``lane``. All beats of a write are
        valid, in consecutive cycles if accepted so, from the cycle in which its header is. ``ready`` is registered.
    halt : ``In(1)``
        No further TLP starts, from this cycle on.
    rq : ``Out(PacketSignature)``
        Registered. With straddling, ``tkeep`` is all ones and ``tlast`` 0, as the hard block ignores both.
    sent : ``Out(1)``
        Strobe: the last beat of a write was accepted by RQ, in the cycle before or, of the second of two writes that
        end in one beat, a cycle later.
    idle : ``Out(1)``
        All TLPs that have started, in the cycle before or earlier, were accepted by RQ, and ``sent`` was set for each
        write in an earlier cycle.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "writes": In(stream.Signature(write_tlp_layout(config))),
            "data": In(stream.Signature(config.data_width)),
            "reads": In(stream.Signature(ReadTlp)),
            "halt": In(1),
            "rq": Out(PacketSignature(config.data_width, rq_user_layout(config.data_width))),
            "sent": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.schedule = schedule = RequestSchedule(self.config)
        m.submodules.credits = credits = CreditCounter(BEATS, max_take=1, checks=True)
        m.submodules.beats = beats = Queue(_beat_layout(self.config), depth=BEATS, ram="lut", output_register=True)
        wiring.connect(m, wiring.flipped(self.writes), schedule.writes)
        wiring.connect(m, wiring.flipped(self.reads), schedule.reads)
        plan = schedule.plan
        m.d.comb += [
            schedule.halt.eq(self.halt), schedule.free.eq(credits.available != 0),
            credits.take.eq(1), credits.take_stb.eq(schedule.planned),
        ]

        # Load data as planned.
        newer, older = (Signal(self.config.data_width, name=name, reset_less=True) for name in ("newer", "older"))
        m.d.comb += self.data.ready.eq(plan.load)
        with m.If(~ResetSignal(allow_reset_less=True)):
            m.d.sync += Assert(~plan.load | self.data.valid, "RequestPacker: data of a write is not valid")
        with m.If(plan.load):
            m.d.sync += [newer.eq(rotated(m, self.data.payload, plan.rotation, name="rotated")), older.eq(newer)]

        valid = Signal()
        m.d.sync += valid.eq(plan.valid)
        m.d.comb += [
            beats.i.valid.eq(valid), beats.i.payload.data.eq(self._data(m, plan, newer, older)),
            *(beats.i.payload[name].eq(value) for name, value in self._sideband(m, plan).items()),
        ]
        written = self._send(m, beats.o)
        m.d.comb += [
            credits.give.eq(self.rq.tvalid & self.rq.tready),
            self.idle.eq(~schedule.busy & (credits.available == BEATS) & (written == 0)),
        ]
        return m

    def _data(self, m, plan, newer, older):
        """Descriptors, and data of the last two loads."""
        write, read = (Signal(RequesterRequest, name=name, reset_less=True) for name in ("write", "read"))
        m.d.sync += [write.request_type.eq(RequestType.MEMORY_WRITE), read.request_type.eq(RequestType.MEMORY_READ),
                     read.tag.eq(plan.read.tag)]
        for descriptor, header in ((write, plan.write), (read, plan.read)):
            m.d.sync += [descriptor[name].eq(header[name]) for name in ("address", "dwords", "attributes")]

        words = []
        for position in range(self.config.beat_dwords):
            kind = plan.upper if position >= UPPER else plan.lower
            old, start_write, start_read = (Signal(name=f"{name}_{position}") for name in (
                "old", "start_write", "start_read"))
            # In the upper half, a load in the cycle of a start is of the write that starts.
            fresh = (plan.upper == HalfKind.WRITE) if position >= UPPER else 0
            m.d.sync += [old.eq(plan.load & plan.below[position] & ~fresh),
                         start_write.eq(kind == HalfKind.WRITE), start_read.eq(kind == HalfKind.READ)]
            word = Mux(old, older.word_select(position, DWORD_WIDTH), newer.word_select(position, DWORD_WIDTH))
            if position % UPPER < DESCRIPTOR_DWORDS:
                part = position % UPPER
                word = Mux(start_write, Value.cast(write).word_select(part, DWORD_WIDTH),
                           Mux(start_read, Value.cast(read).word_select(part, DWORD_WIDTH), word))
            words.append(word)
        return Cat(words)

    def _sideband(self, m, plan):
        """The fields of a beat other than its data."""
        low, up = plan.lower != HalfKind.NONE, plan.upper != HalfKind.NONE
        values = {"writes": plan.writes}
        if self.config.straddle:
            first = Mux(low, plan.lower == HalfKind.WRITE, plan.upper == HalfKind.WRITE)
            # A TLP in the upper half starts only behind one that ends in the lower half.
            values |= {
                "first_be_1": Mux(plan.upper == HalfKind.WRITE, plan.write.first_be, plan.read.first_be),
                "last_be_1": Mux(plan.upper == HalfKind.WRITE, plan.write.last_be, plan.read.last_be),
                "starts": Cat(low | up, low & up), "upper_start": ~low,
                "ends": Cat(plan.lower_ends, plan.upper_ends), "end_0": plan.lower_last, "end_1": plan.upper_last,
            }
        else:
            first = plan.lower == HalfKind.WRITE
            values |= {"last": plan.lower_ends,
                       "keep": Cat(~plan.lower_ends | (plan.lower_last >= position)
                                   for position in range(self.config.beat_dwords))}
        values |= {"first_be_0": Mux(first, plan.write.first_be, plan.read.first_be),
                   "last_be_0": Mux(first, plan.write.last_be, plan.read.last_be)}
        later = {name: Signal(Value.cast(value).shape(), name=name, reset_less=True) for name, value in values.items()}
        m.d.sync += [later[name].eq(value) for name, value in values.items()]
        return later

    def _send(self, m, beats):
        """Drive RQ; returns the number of writes for which ``sent`` is due."""
        rq, user = self.rq, data.View(rq_user_layout(self.config.data_width), self.rq.tuser)
        m.d.comb += [rq.tvalid.eq(beats.valid), beats.ready.eq(rq.tready), rq.tdata.eq(beats.payload.data)]
        if self.config.straddle:
            same = ("first_be_0", "first_be_1", "last_be_0", "last_be_1", "starts", "ends", "end_0", "end_1")
            m.d.comb += [
                rq.tkeep.eq(-1), rq.tlast.eq(0), user.start_0.eq(Mux(beats.payload.upper_start, UPPER // 4, 0)),
                user.start_1.eq(UPPER // 4), *(user[name].eq(beats.payload[name]) for name in same),
            ]
        else:
            m.d.comb += [rq.tkeep.eq(beats.payload.keep), rq.tlast.eq(beats.payload.last),
                         user.first_be.eq(beats.payload.first_be_0), user.last_be.eq(beats.payload.last_be_0)]
        # If two writes end in a beat, the first one started in an earlier beat, in which no write ended, or which such
        # a beat precedes. Therefore no more than two are due.
        written = Signal(2)
        m.d.comb += self.sent.eq(written != 0)
        m.d.sync += written.eq(written - self.sent + Mux(rq.tvalid & rq.tready, beats.payload.writes, 0))
        return written
