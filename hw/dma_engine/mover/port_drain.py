# SPDX-License-Identifier: Apache-2.0
"""Port drain: has memory taken all that was on its way to AW and W at one moment?

WriteSequencer, Aligner -> PortDrain -> Epochs.  What AXI offers it cannot withdraw (IHI 0022, A3.2.1), so a queue that
is given up waits until memory has taken the addresses and beats that are past the last place where they can be
switched off.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ChannelLevelSignature", "DrainSignature", "PortDrain"]


class ChannelLevelSignature(wiring.Signature):
    """Transfers on their way to a write channel that can no longer be switched off.

    Members
    -------
    level : ``Out(range(most + 1))``
        How many, including the one on the channel.
    taken : ``Out(1)``
        Memory takes one in this cycle.
    """

    def __init__(self, most):
        super().__init__({"level": Out(range(most + 1)), "taken": Out(1)})


class DrainSignature(wiring.Signature):
    """Epochs asks when everything has left that is past the last place where it can be switched off.

    Members
    -------
    start : ``Out(1)``
        Count what is on its way in the next cycle. Not while busy.
    busy : ``In(1)``
        From the cycle after ``start`` until memory has taken it.
    """

    def __init__(self):
        super().__init__({"start": Out(1), "busy": In(1)})


class PortDrain(wiring.Component):
    """Wait for as many transfers on AW and on W as there are addresses and beats on their way.

    Parameters
    ----------
    addresses, beats : int
        Most of them on their way.

    Members
    -------
    drain : ``In(DrainSignature)``
    aw, w : ``In(ChannelLevelSignature)``
    """

    def __init__(self, *, addresses, beats):
        super().__init__({
            "drain": In(DrainSignature()),
            "aw": In(ChannelLevelSignature(addresses)), "w": In(ChannelLevelSignature(beats)),
        })

    def elaborate(self, platform):
        m = Module()
        look, waits = Signal(), []
        m.d.sync += look.eq(self.drain.start)
        for name, channel in (("aw", self.aw), ("w", self.w)):
            left = Signal.like(channel.level, name=f"{name}_left")
            with m.If(look):
                m.d.sync += left.eq(channel.level - channel.taken)
            with m.Elif(channel.taken & (left != 0)):
                m.d.sync += left.eq(left - 1)
            waits.append(left != 0)
        m.d.comb += self.drain.busy.eq(look | Cat(waits).any())
        return m
