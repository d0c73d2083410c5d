# SPDX-License-Identifier: Apache-2.0
"""A DMA engine alone behind the PCIe adapter: what the card does without its accelerator, and quicker to build."""

from dataclasses import replace
from typing import Any

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.card.config import PRESETS, WORD_INTERVAL
from hw.common.register_window import RegisterWindow
from hw.common.resettable import Resettable
from hw.common.wiring import unused
from hw.dma_engine import DmaConfig, DmaEngine
from hw.dma_engine.config import TINY
from hw.pcie.adapter import PcieAdapter
from hw.pcie.config import PcieConfig
from hw.pcie.engine_reset import ENGINE_DOMAIN
from hw.pcie.pins import (
    ConfigurationSignature,
    PacketSignature,
    cc_user_layout,
    cq_user_layout,
    rc_user_layout,
    rq_user_layout,
)
from hw.pcie.registers import WINDOW_BITS

__all__ = ["DmaCard", "adapter_config", "preset_sizes", "small_dma"]


def adapter_config(engine: DmaConfig, **options: Any) -> PcieConfig:
    """The adapter that fits an engine; ``options`` are further fields of :class:`PcieConfig`."""
    return PcieConfig(data_width=engine.data_width, axi_id_width=engine.axi_id_width,
                      doorbell_addr_width=engine.doorbell_addr_width, doorbell_id_width=engine.doorbell_id_width,
                      queues=engine.queues, **options)


def preset_sizes(name: str, *, two_clocks: bool = False) -> tuple[DmaConfig, PcieConfig]:
    """Sizes of the DMA engine of a card's preset, and of its adapter."""
    config = PRESETS[name]
    engine = config.endpoint.dma
    return engine, adapter_config(engine, tags=config.pcie.tags, reorder_slots=config.pcie.reorder_slots,
                                  two_clocks=two_clocks)


def small_dma(data_width: int, *, two_clocks: bool = False) -> tuple[DmaConfig, PcieConfig]:
    """Sizes of an engine with small tables, and of its adapter."""
    engine = replace(TINY, data_width=data_width, segment_bytes=512, entries=128, window=16, tags=64,
                     word_interval=WORD_INTERVAL)
    return engine, adapter_config(engine, tags=64, reorder_slots=8, vectors=8, two_clocks=two_clocks)


class DmaCard(wiring.Component):
    """The engine's registers are where the card has them.

    Parameters
    ----------
    engine : DmaConfig
    pcie : PcieConfig
        With ``two_clocks``, the engine's clock domain is as in :class:`hw.card.card.Card`.

    Members
    -------
    rq, cc : ``Out(PacketSignature)``, rc, cq : ``In(PacketSignature)``, cfg : ``Out(ConfigurationSignature)``
    """

    def __init__(self, engine: DmaConfig, pcie: PcieConfig) -> None:
        self.engine, self.pcie = engine, pcie
        width = pcie.data_width
        super().__init__({
            "rq": Out(PacketSignature(width, rq_user_layout(width))),
            "rc": In(PacketSignature(width, rc_user_layout(width))),
            "cq": In(PacketSignature(width, cq_user_layout(width))),
            "cc": Out(PacketSignature(width, cc_user_layout(width))),
            "cfg": Out(ConfigurationSignature()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = adapter = PcieAdapter(self.pcie)
        in_domain = DomainRenamer(ENGINE_DOMAIN if self.pcie.two_clocks else "sync")
        m.submodules.engine = engine = in_domain(Resettable(DmaEngine(self.engine)))
        m.submodules.window = window = in_domain(Resettable(RegisterWindow(1, addr_width=WINDOW_BITS)))
        connect(m, adapter.m_axil, window.bus)
        connect(m, window.parts[0], engine.s_axil)
        for name in ("rq", "rc", "cq", "cc", "cfg"):
            connect(m, getattr(adapter, name), flipped(getattr(self, name)))
        connect(m, adapter.s_axi, engine.m_axi)
        connect(m, adapter.m_axi_db, engine.s_axi_db)
        connect(m, engine.interrupts, adapter.interrupts)
        unused(m, engine.events)
        m.d.comb += [adapter.irq.eq(engine.irq), engine.reset.eq(adapter.engine_reset),
                     window.reset.eq(adapter.engine_reset)]
        return m
