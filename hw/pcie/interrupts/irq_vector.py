# SPDX-License-Identifier: Apache-2.0
"""An interrupt level as requests of an MSI-X vector.

Endpoint -> IrqVector -> Msix.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import PcieConfig

__all__ = ["IrqVector"]


class IrqVector(wiring.Component):
    """Request vector 0 whenever the level rises.

    Software must clear all sources, and read them again until none is set: only then the level falls, and its next rise
    requests the vector again.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    irq : ``In(1)``, requests : ``Out(config.vectors)``
    """

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"irq": In(1), "requests": Out(config.vectors)})

    def elaborate(self, platform):
        m = Module()
        before = Signal()
        m.d.sync += [before.eq(self.irq), self.requests.eq(self.irq & ~before)]
        return m
