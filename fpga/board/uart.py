# SPDX-License-Identifier: Apache-2.0
"""A serial line of 8 data bits, no parity, one stop bit.

UartReceiver: line -> bytes.  UartTransmitter: bytes -> line.  Throughput: one byte in ten bits.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter"]


def _check(divisor: int) -> None:
    if not isinstance(divisor, int) or divisor < 4:
        raise ValueError(f"Cycles of a bit must be an integer of at least 4, not {divisor!r}")


class UartReceiver(wiring.Component):
    """Take bytes from a line; each bit is sampled in its middle.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 4.

    Members
    -------
    rx : ``In(1)``
        The line, asynchronous.
    valid : ``Out(1)``
        For one cycle: a byte has arrived. It must be taken.
    data : ``Out(8)``
        The byte.
    broken : ``Out(1)``
        For one cycle: a byte had no stop bit and was dropped.
    """

    def __init__(self, divisor: int) -> None:
        _check(divisor)
        self.divisor = divisor
        super().__init__({"rx": In(1), "valid": Out(1), "data": Out(8), "broken": Out(1)})

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        timer = Signal(range(self.divisor))
        bits = Signal(range(11))
        shift = Signal(8)
        m.d.sync += [self.valid.eq(0), self.broken.eq(0)]
        m.d.comb += self.data.eq(shift)
        with m.If(bits == 0):
            m.d.sync += timer.eq(self.divisor // 2 - 1)
            with m.If(~line):
                m.d.sync += bits.eq(10)
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self.divisor - 1), bits.eq(bits - 1)]
            with m.If(bits == 10):
                # A start bit that is over so soon is a glitch.
                with m.If(line):
                    m.d.sync += bits.eq(0)
            with m.Elif(bits == 1):
                m.d.sync += [self.valid.eq(line), self.broken.eq(~line)]
            with m.Else():
                m.d.sync += shift.eq(Cat(shift[1:], line))
        return m


class UartTransmitter(wiring.Component):
    """Put bytes on a line.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 4.

    Members
    -------
    i : ``In(stream.Signature(8))``
        Bytes.
    tx : ``Out(1)``
        The line; a register.
    """

    def __init__(self, divisor: int) -> None:
        _check(divisor)
        self.divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        timer = Signal(range(self.divisor))
        bits = Signal(range(11))
        shift = Signal(9)
        m.d.comb += self.i.ready.eq(bits == 0)
        with m.If(bits == 0):
            m.d.sync += self.tx.eq(1)
            with m.If(self.i.valid):
                m.d.sync += [shift.eq(Cat(self.i.payload, 1)), self.tx.eq(0), bits.eq(10),
                             timer.eq(self.divisor - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self.divisor - 1), self.tx.eq(shift[0]), shift.eq(Cat(shift[1:], 1)),
                         bits.eq(bits - 1)]
        return m
