# SPDX-License-Identifier: Apache-2.0
"""The part of a board's design that belongs to its FPGA: PLL, reset and pins around a :class:`BoardCore`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import In, Out

from .core import BoardConfig, BoardCore

__all__ = ["Ecp5Pll", "Ecp5Top", "PlainTop"]


@dataclass(frozen=True)
class Ecp5Pll:
    """Dividers of an EHXPLLL whose feedback comes from its first output.

    The output runs at ``input_hz * feedback / reference``, the oscillator at ``output`` times that, from 400 to
    800 MHz; the phase detector from 3.125 to 400 MHz (Lattice FPGA-DS-02012, sysCLOCK PLL timing).
    """

    input_hz: int
    reference: int
    feedback: int
    output: int

    @property
    def output_hz(self) -> int:
        return self.input_hz * self.feedback // self.reference

    @classmethod
    def find(cls, input_hz: int, output_hz: int) -> Self:
        """Dividers that come closest to ``output_hz`` without going beyond it. Raises ValueError where none do."""
        best: tuple[float, Self] | None = None
        for reference in range(1, 129):
            if input_hz / reference < 3_125_000:
                break
            feedback = min(128, output_hz * reference // input_hz)
            made = feedback and input_hz * feedback / reference
            if not made or made < 10_000_000:
                continue
            output = max(1, min(128, int(800_000_000 // made)))
            if 400_000_000 <= made * output <= 800_000_000 and (best is None or made > best[0]):
                best = made, cls(input_hz, reference, feedback, output)
        if best is None:
            raise ValueError(f"The PLL cannot make {output_hz} Hz of {input_hz} Hz")
        return best[1]


_PINS = {"clk": In(1), "rx": In(1), "tx": Out(1), "idle": Out(1), "busy": Out(1), "error": Out(1)}


class Ecp5Top(wiring.Component):
    """A :class:`BoardCore` on an ECP5.

    There is no reset: flip-flops have their initial values from the configuration, and the clock starts when the PLL
    has locked. nextpnr does not route a reset on global wires, and a DMA engine's would have some 4,800 sinks.

    Parameters
    ----------
    config : BoardConfig
    clock_hz : int
        Of the board's oscillator.
    inverted : set of str
        Ports whose pins are active low.

    Members
    -------
    clk : ``In(1)``
        The oscillator.
    rx, tx, idle, busy, error
        Of :class:`BoardCore`.
    """

    def __init__(self, config: BoardConfig, *, clock_hz: int, inverted: Iterable[str] = ()) -> None:
        self.core, self.inverted = BoardCore(config), frozenset(inverted)
        self.pll = Ecp5Pll.find(clock_hz, config.clock_hz)
        super().__init__(_PINS)

    def elaborate(self, platform):
        m = Module()
        pll, locked, clock = self.pll, Signal(), Signal()
        m.domains.sync = ClockDomain("sync", reset_less=True)
        m.submodules.pll = Instance(
            "EHXPLLL", p_CLKI_DIV=pll.reference, p_CLKFB_DIV=pll.feedback, p_CLKOP_DIV=pll.output,
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_CPHASE=pll.output - 1, p_FEEDBK_PATH="CLKOP",
            i_CLKI=self.clk, i_CLKFB=clock, i_RST=0, i_STDBY=0, i_ENCLKOP=0, i_PLLWAKESYNC=0, i_PHASESEL0=0,
            i_PHASESEL1=0, i_PHASEDIR=0, i_PHASESTEP=0, i_PHASELOADREG=0, o_CLKOP=clock, o_LOCK=locked,
            a_FREQUENCY_PIN_CLKI=str(pll.input_hz / 1e6), a_FREQUENCY_PIN_CLKOP=str(pll.output_hz / 1e6))
        # Two flip-flops, so that all of the design starts at one edge.
        gate = Signal()
        m.domains.start = ClockDomain("start", reset_less=True)
        m.d.comb += ClockSignal("start").eq(clock)
        m.submodules.locked = FFSynchronizer(locked, gate, o_domain="start")
        m.submodules.gate = Instance("DCCA", i_CLKI=clock, i_CE=gate, o_CLKO=ClockSignal("sync"))
        _connect(m, self)
        return m


class PlainTop(wiring.Component):
    """A :class:`BoardCore` that runs at the oscillator's clock, on any FPGA whose flip-flops have initial values.

    Parameters and members are those of :class:`Ecp5Top`; of engines there is one at most.
    """

    def __init__(self, config: BoardConfig, *, inverted: Iterable[str] = ()) -> None:
        if config.twins:
            raise ValueError(f"Twins have no reset, and the oscillator's clock runs before all flip-flops do: "
                             f"endpoints must be 1, not {config.endpoints!r}")
        self.core, self.inverted = BoardCore(config), frozenset(inverted)
        super().__init__(_PINS)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain("sync")
        m.domains.start = ClockDomain("start", reset_less=True)
        m.d.comb += [ClockSignal("sync").eq(self.clk), ClockSignal("start").eq(self.clk)]
        # The clock runs before all flip-flops do.
        waited = Signal(5)
        with m.If(~waited[-1]):
            m.d.start += waited.eq(waited + 1)
        m.submodules.reset = ResetSynchronizer(~waited[-1], domain="sync")
        _connect(m, self)
        return m


def _connect(m, top):
    """The :class:`BoardCore` behind the pins of ``top``."""
    m.submodules.core = core = top.core
    for name in ("rx", "tx", "idle", "busy", "error"):
        port = getattr(top, name)
        ours, theirs = (getattr(core, name), port) if name == "rx" else (port, getattr(core, name))
        m.d.comb += ours.eq(~theirs if name in top.inverted else theirs)
