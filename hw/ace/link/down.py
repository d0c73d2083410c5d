# SPDX-License-Identifier: Apache-2.0
"""The links that are down, as one vector.

LinkPort (each) -> LinksDown -> Faults, the engine's pins.  Latency: 0.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig

__all__ = ["LinksDown"]


class LinksDown(wiring.Component):
    """
    Parameters
    ----------
    config : AceConfig

    Members
    -------
    links : ``In(1).array(ports)``
        Whether each port is DOWN.
    down : ``Out(ports)``
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"links": In(1).array(config.ports), "down": Out(config.ports)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.down.eq(Cat(self.links))
        return m
