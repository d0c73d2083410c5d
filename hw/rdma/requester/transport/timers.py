# SPDX-License-Identifier: Apache-2.0
"""Time of the retransmission and RNR timers, in sixteenths of the time that is measured.

Timers -> Acknowledgements.  Latency: combinational.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...config import RdmaConfig
from ...protocol import RNR_TIMER_US
from .layouts import STAMP_WIDTH

__all__ = ["TIMEOUT_STAMPS", "TimeLookup", "Timers"]

TIMEOUT_STAMPS = 16
"""Stamps in a timeout."""

_UNIT_NS = 256
"""The finest stamp is that of a timeout of 4.096 us."""

_MOST_TIMEOUT = 31


def _rnr_times():
    """For each RNR timer code: log2 of the units of a stamp, and stamps."""
    for microseconds in RNR_TIMER_US:
        units = -(-microseconds * 1000 // _UNIT_NS)
        shift = max(0, units.bit_length() - (TIMEOUT_STAMPS - 1).bit_length() - 1)
        yield shift, -(-units // (1 << shift))


class TimeLookup(wiring.Signature):
    """The present stamp of a timer: of RNR code ``code`` if ``rnr``, else of timeout ``timeout``. ``limit``: it has run
    out when the stamp exceeds that of its start by more."""

    def __init__(self) -> None:
        super().__init__({"rnr": Out(1), "code": Out(5), "timeout": Out(5), "stamp": In(STAMP_WIDTH),
                          "limit": In(6)})


class Timers(wiring.Component):
    """Scale the time since reset.

    A stamp has 8 bits: a timer that is read at least once in 200 stamps is never misread.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    time : ``In(TimeLookup)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({"time": In(TimeLookup())})

    def elaborate(self, platform):
        m = Module()
        fraction = (self.config.timer_cycles // TIMEOUT_STAMPS - 1).bit_length()
        now = Signal(fraction + _MOST_TIMEOUT + STAMP_WIDTH)
        m.d.sync += now.eq(now + 1)
        shift, rnr_shift, stamps = Signal(5), Signal(5), Signal(6)
        with m.Switch(self.time.code):
            for code, (bits, count) in enumerate(_rnr_times()):
                with m.Case(code):
                    m.d.comb += [rnr_shift.eq(bits), stamps.eq(count)]
        m.d.comb += [
            shift.eq(Mux(self.time.rnr, rnr_shift, self.time.timeout)),
            self.time.stamp.eq(now[fraction:].bit_select(shift, STAMP_WIDTH)),
            self.time.limit.eq(Mux(self.time.rnr, stamps, TIMEOUT_STAMPS)),
        ]
        return m
