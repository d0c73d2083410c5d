"""Port drain: has memory taken all that was on its way to AW and W at one moment?

WriteSequencer, Aligner -> PortDrain -> Epochs.  What AXI offers it cannot withdraw (IHI 0022, A3.2.1), so a queue that
is given up waits until memory has taken the addresses and beats that are past the last place where they can be
switched off.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PortDrain"]


class PortDrain(wiring.Component):
    """Wait for as many transfers on AW and on W as there are addresses and beats on their way.

    Parameters
    ----------
    addresses, beats : int
        Most of them on their way.

    Members
    -------
    start : ``In(1)``
        Look in the next cycle. Not while busy.
    addresses, beats : ``In``
        On their way to AW and to W.
    address_taken, beat_taken : ``In(1)``
        A transfer on AW, on W.
    busy : ``Out(1)``
        From the cycle after ``start``.
    """

    def __init__(self, *, addresses, beats):
        super().__init__({
            "start": In(1), "busy": Out(1),
            "addresses": In(range(addresses + 1)), "address_taken": In(1),
            "beats": In(range(beats + 1)), "beat_taken": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        look, waits = Signal(), []
        m.d.sync += look.eq(self.start)
        for level, taken in ((self.addresses, self.address_taken), (self.beats, self.beat_taken)):
            left = Signal.like(level, name=f"{level.name}_left")
            with m.If(look):
                m.d.sync += left.eq(level - taken)
            with m.Elif(taken & (left != 0)):
                m.d.sync += left.eq(left - 1)
            waits.append(left != 0)
        m.d.comb += self.busy.eq(look | Cat(waits).any())
        return m
