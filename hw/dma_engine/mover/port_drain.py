# SPDX-License-Identifier: Apache-2.0
"""Port drain: waits until memory has taken all transfers that were in flight to AW and W at one moment.

WriteSequencer, Aligner -> PortDrain -> Epochs.  A transfer offered on AXI cannot be withdrawn (IHI 0022, A3.2.1), so a
queue is abandoned only after memory has taken the addresses and beats that are past the last stage that can suppress
them.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ChannelLevelSignature", "DrainSignature", "PortDrain"]


class ChannelLevelSignature(wiring.Signature):
    """Transfers to a write channel that can no longer be suppressed.

    Members
    -------
    level : ``Out(range(depth + 1))``
        Their number, including the one on the channel.
    taken : ``Out(1)``
        Memory takes one in this cycle.
    """

    def __init__(self, depth: int) -> None:
        super().__init__({"level": Out(range(depth + 1)), "taken": Out(1)})


class DrainSignature(wiring.Signature):
    """Epochs waits until all transfers past the last stage that can suppress them have left.

    Members
    -------
    start : ``Out(1)``
        Count the transfers in flight in the next cycle. Not while busy.
    busy : ``In(1)``
        From the cycle after ``start`` until memory has taken them.
    """

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "busy": In(1)})


class PortDrain(wiring.Component):
    """Wait for as many transfers on AW and on W as there are addresses and beats in flight to them.

    Parameters
    ----------
    addresses, beats : int
        Maximum number of each in flight.

    Members
    -------
    drain : ``In(DrainSignature)``
    aw, w : ``In(ChannelLevelSignature)``
    """

    def __init__(self, *, addresses: int, beats: int) -> None:
        super().__init__({
            "drain": In(DrainSignature()),
            "aw": In(ChannelLevelSignature(addresses)), "w": In(ChannelLevelSignature(beats)),
        })

    def elaborate(self, platform):
        m = Module()
        sample, waits = Signal(name="sample"), []
        m.d.sync += sample.eq(self.drain.start)
        for name, channel in (("aw", self.aw), ("w", self.w)):
            left = Signal.like(channel.level, name=f"{name}_left")
            with m.If(sample):
                m.d.sync += left.eq(channel.level - channel.taken)
            with m.Elif(channel.taken & (left != 0)):
                m.d.sync += left.eq(left - 1)
            waits.append(left != 0)
        m.d.comb += self.drain.busy.eq(sample | Cat(waits).any())
        return m
