# SPDX-License-Identifier: Apache-2.0
"""The DMA engine with a protocol monitor on each of its buses: what every simulation runs."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from hw.axi import AxiChecker, AxiLiteChecker
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.engine import DmaEngine

__all__ = ["CheckedDma"]


class CheckedDma(wiring.Component):
    """A :class:`DmaEngine` with the same ports, whose simulation ends at the first broken rule of a bus.

    Parameters
    ----------
    config : :class:`DmaConfig`
        The engine's sizes.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        self._engine = DmaEngine(config)
        super().__init__(self._engine.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self._engine
        for name in self.signature.members:
            if name != "irq":
                connect(m, flipped(getattr(self, name)), getattr(engine, name))
        m.d.comb += self.irq.eq(engine.irq)

        # Most bursts in flight per read ID: those of a segment, or those that a ring can buffer.
        m.submodules.m_axi_checker = m_axi = AxiChecker(
            engine.m_axi.signature, max_per_id=max(4, 2 * self.config.ring_depth), name="m_axi")
        m.submodules.s_axi_db_checker = s_axi_db = AxiChecker(engine.s_axi_db.signature, name="s_axi_db")
        m.submodules.s_axil_checker = s_axil = AxiLiteChecker(engine.s_axil.signature, name="s_axil")
        m.d.comb += [*m_axi.observe(engine.m_axi), *s_axi_db.observe(engine.s_axi_db),
                     *s_axil.observe(engine.s_axil)]
        return m
