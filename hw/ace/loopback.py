# SPDX-License-Identifier: Apache-2.0
"""The loopback: packets that an endpoint sends to itself, so that its lanes combine two positions of its own slot.

Transmit -> Loopback -> Receive, of the last pipe.  Latency: 1 cycle, 3 in block RAM with
``receive_output_register``.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import Queue

from .config import AceConfig
from .layouts import flit_layout
from .link.sender import ReplayLevels

__all__ = ["Loopback"]


class Loopback(wiring.Component):
    """Hold ``local_beats`` beats.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(flit_layout))``
        There is always an entry for what :attr:`levels` allowed.
    o : ``Out(stream.Signature(flit_layout))``
    levels : ``Out(ReplayLevels)``
        Beats in it; all count as fresh.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        flits = stream.Signature(flit_layout(config))
        super().__init__({"i": In(flits), "o": Out(flits), "levels": Out(ReplayLevels(config))})

    def elaborate(self, platform):
        m = Module()
        registered = self.config.timing.receive_output_register
        m.submodules.beats = beats = Queue(flit_layout(self.config), depth=self.config.local_beats,
                                           output_register=registered, empty_bypass=not registered)
        connect(m, flipped(self.i), beats.i)
        connect(m, beats.o, flipped(self.o))
        m.d.comb += [self.levels.level.eq(beats.level), self.levels.fresh.eq(beats.level)]
        return m
