# SPDX-License-Identifier: Apache-2.0
"""The host's side of a board: frames on a serial line -> words on the board's bus -> frames.

One request at a time. It is executed after its CRC was checked, and the response is sent when it is complete.
"""

from amaranth import *
from amaranth.lib import crc, memory, stream, wiring
from amaranth.lib.crc.catalog import CRC16_IBM_3740
from amaranth.lib.wiring import In, Out

from .bus import WordSignature
from .protocol import MAX_WORDS, REQUEST_SYNC, RESPONSE_SYNC, Operation, Status

__all__ = ["Bridge"]

_HEADER = 7
"""Bytes of a request between its first and its data."""


class Bridge(wiring.Component):
    """Execute the requests of :mod:`fpga.board.protocol` and respond to them.

    Parameters
    ----------
    timeout : int
        Cycles without a byte after which a frame that is not whole is dropped.

    Members
    -------
    data : ``In(8)``, valid : ``In(1)``, broken : ``In(1)``
        Bytes from the line, as of a :class:`UartReceiver`.
    o : ``Out(stream.Signature(8))``
        Bytes to the line.
    bus : ``Out(WordSignature())``
        What the host reads and writes.
    dropped : ``Out(1)``
        For one cycle: a frame was dropped.
    busy : ``Out(1)``
        A request is being received or executed, or its response is being sent.
    """

    def __init__(self, *, timeout: int) -> None:
        self.timeout = timeout
        super().__init__({
            "data": In(8), "valid": In(1), "broken": In(1), "o": Out(stream.Signature(8)),
            "bus": Out(WordSignature()), "dropped": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = check = crc.Processor(CRC16_IBM_3740(data_width=8))
        m.submodules.words = words = memory.Memory(shape=32, depth=MAX_WORDS, init=[], attrs={
            "ram_style": "distributed"})
        write, read = words.write_port(), words.read_port(domain="comb")
        o, bus = self.o, self.bus

        header = Signal(8 * _HEADER)
        sequence, operation, count, address = header[:8], header[8:16], header[16:24], header[24:]
        last_sequence, last_known, status = Signal(8), Signal(), Signal(Status)
        index, lane, step = Signal(range(MAX_WORDS)), Signal(2), Signal(3)
        shift = Signal(24)
        final = Signal()
        m.d.sync += final.eq(index == (count - 1)[:len(index)])
        waited = Signal(range(self.timeout + 1))
        responded = Signal(8)                   # words of the response

        timed_out = Signal()
        m.d.comb += [
            read.addr.eq(index), write.addr.eq(index),
            bus.write_data.eq(read.data),
            bus.write.eq(operation == Operation.WRITE), bus.last.eq(final),
            timed_out.eq(self.broken | (waited == self.timeout)),
        ]
        # A byte is checked one cycle later: the next comes after some.
        due = Signal()
        m.d.sync += [check.data.eq(Mux(self.valid, self.data, o.payload)), check.valid.eq(due)]
        m.d.sync += [waited.eq(waited + 1), bus.address.eq(address + Cat(C(0, 2), index))]
        with m.If(self.valid | self.broken | timed_out):
            m.d.sync += waited.eq(0)

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += check.start.eq(1)
                m.d.sync += [waited.eq(0), step.eq(0), index.eq(0), lane.eq(0)]
                with m.If(self.valid & (self.data == REQUEST_SYNC)):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += due.eq(self.valid)
                with m.If(self.valid):
                    m.d.sync += [header.eq(Cat(header[8:], self.data)), step.eq(step + 1)]
                    with m.If(step == _HEADER - 1):
                        m.d.sync += step.eq(0)
                        m.next = "LENGTH"
                with m.If(timed_out):
                    m.next = "DROP"
            with m.State("LENGTH"):
                # Bytes are many cycles apart.
                with m.If(operation == Operation.HELLO):
                    m.next = "CRC"
                with m.Elif((count == 0) | (count > MAX_WORDS) | address[:2].any()):
                    m.next = "DROP"
                with m.Elif(operation == Operation.WRITE):
                    m.next = "DATA"
                with m.Else():
                    m.next = "CRC"
            with m.State("DATA"):
                m.d.comb += [due.eq(self.valid), write.data.eq(Cat(shift, self.data)),
                             write.en.eq(self.valid & (lane == 3))]
                with m.If(self.valid):
                    m.d.sync += [shift.eq(Cat(shift[8:], self.data)), lane.eq(lane + 1)]
                    with m.If(lane == 3):
                        m.d.sync += index.eq(index + 1)
                        with m.If(final):
                            m.next = "CRC"
                with m.If(timed_out):
                    m.next = "DROP"
            with m.State("CRC"):
                m.d.comb += due.eq(self.valid)
                with m.If(self.valid):
                    m.d.sync += step.eq(step + 1)
                with m.If(timed_out):
                    m.next = "DROP"
                with m.Elif(step == 2):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [index.eq(0), step.eq(0)]
                m.d.comb += check.start.eq(1)
                with m.If(~check.match_detected):
                    m.next = "DROP"
                with m.Elif(operation == Operation.HELLO):
                    m.d.sync += [last_known.eq(0), status.eq(Status.OK), responded.eq(0)]
                    m.next = "RESPOND"
                with m.Elif(last_known & (sequence == last_sequence) & (operation == Operation.WRITE)):
                    m.next = "RESPOND"
                with m.Else():
                    m.d.sync += [last_known.eq(1), last_sequence.eq(sequence), status.eq(Status.OK),
                                 responded.eq(0)]
                    with m.If(operation > max(Operation)):
                        m.d.sync += status.eq(Status.BAD_OPERATION)
                        m.next = "RESPOND"
                    with m.Else():
                        m.next = "FETCH"
            with m.State("FETCH"):
                # `final` and the address are those of this word one cycle later.
                m.next = "WORD"
            with m.State("WORD"):
                m.d.comb += [bus.valid.eq(1), write.data.eq(bus.read_data),
                             write.en.eq(bus.done & ~bus.write)]
                with m.If(bus.done):
                    m.d.sync += index.eq(index + 1)
                    m.next = "FETCH"
                    with m.If(bus.error):
                        m.d.sync += [status.eq(Status.BUS_ERROR), index.eq(0)]
                        m.next = "RESPOND"
                    with m.Elif(final):
                        m.d.sync += [index.eq(0), responded.eq(Mux(bus.write, 0, count))]
                        m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += [o.valid.eq(1), due.eq(o.ready & (step != 0)),
                             o.payload.eq(Array([RESPONSE_SYNC, sequence, status, responded])[step[:2]])]
                with m.If(o.ready):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step == 3):
                        m.d.sync += [step.eq(0), lane.eq(0)]
                        m.next = "WORDS"
                        with m.If(responded == 0):
                            m.next = "CHECK"
            with m.State("WORDS"):
                m.d.comb += [o.valid.eq(1), o.payload.eq(read.data.word_select(lane, 8)), due.eq(o.ready)]
                with m.If(o.ready):
                    m.d.sync += lane.eq(lane + 1)
                    with m.If(lane == 3):
                        m.d.sync += index.eq(index + 1)
                        with m.If(final):
                            m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [o.valid.eq(1), o.payload.eq(Mux(step[0], check.crc[:8], check.crc[8:]))]
                with m.If(o.ready):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step[0]):
                        m.next = "IDLE"
            with m.State("DROP"):
                m.d.comb += self.dropped.eq(1)
                m.next = "IDLE"
        return m
