# SPDX-License-Identifier: Apache-2.0
"""All interfaces between the adapter and an engine in another clock domain.

::

    registers -> RegisterIsolation -> AxiLiteCrossing -> m_axil
    doorbells -> DoorbellIsolation -> AxiCrossing -----> m_axi_db
    memory <------------------------- AxiCrossing <----- s_axi
    level, queues <---- LevelCrossing, InterruptCrossing <- irq, interrupts
    reset, down <-----> EngineReset -------------------> engine_reset

Latency: that of :class:`AsyncQueue` for each channel of a bus.  Throughput: a beat per cycle of the slower clock on
each channel; registers: one access at a time in each direction.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.interrupts import QueueInterruptsSignature
from hw.common.wiring import Wiring
from hw.stream import LevelCrossing

from .completer.doorbell_writer import MOST_BURSTS
from .config import ADDR_WIDTH, PcieConfig
from .crossing import AxiCrossing, AxiLiteCrossing
from .engine_reset import ENGINE_DOMAIN, EngineReset
from .interrupts.interrupt_crossing import InterruptCrossing
from .isolation import DoorbellIsolation, RegisterIsolation
from .registers import WINDOW_BITS

__all__ = ["EngineCrossing"]

REGISTERS_DEPTH = 4
"""Entries of the queues for registers, of which one access uses one."""

_TO_ENGINE = {"manager_domain": "sync", "subordinate_domain": ENGINE_DOMAIN}
_TO_ADAPTER = {"manager_domain": ENGINE_DOMAIN, "subordinate_domain": "sync"}
_INTERRUPTS = {"i_domain": ENGINE_DOMAIN, "o_domain": "sync"}


class EngineCrossing(wiring.Component):
    """The adapter's side is in ``sync``, the other one in :data:`ENGINE_DOMAIN`.

    A reset of either domain resets all crossings and the engine, see :class:`EngineReset`. While the engine is in
    reset, registers respond with SLVERR, and doorbells are dropped.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    memory : ``Out(AxiSignature)``, registers : ``In(AxiLiteSignature)``, doorbells : ``In(AxiSignature)``
        Adapter's side. While ``down`` is 1, ``memory`` is without a request, and takes no response.
    level : ``Out(1)``, queues : ``Out(QueueInterruptsSignature)``
        Interrupts. A level must last longer than a cycle of the adapter's clock, and so must its absence.
    reset : ``In(1)``, down : ``Out(1)``
        As in :class:`EngineReset`.
    s_axi : ``In(AxiSignature)``, m_axil : ``Out(AxiLiteSignature)``, m_axi_db : ``Out(AxiSignature)``
        Engine's side.
    irq : ``In(1)``, interrupts : ``In(QueueInterruptsSignature)``, engine_reset : ``Out(1)``
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        self._memory = AxiSignature(addr_width=ADDR_WIDTH, data_width=config.data_width, id_width=config.axi_id_width)
        self._registers = AxiLiteSignature(addr_width=WINDOW_BITS, data_width=32)
        self._doorbells = AxiSignature(
            addr_width=config.doorbell_addr_width, data_width=128, id_width=config.doorbell_id_width)
        queues = QueueInterruptsSignature(config.queue_bits)
        super().__init__({
            "memory": Out(self._memory), "registers": In(self._registers), "doorbells": In(self._doorbells),
            "level": Out(1), "queues": Out(queues), "reset": In(1), "down": Out(1),
            "s_axi": In(self._memory), "m_axil": Out(self._registers), "m_axi_db": Out(self._doorbells),
            "irq": In(1), "interrupts": In(queues), "engine_reset": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        resets = EngineReset()
        both = ResetInserter({"sync": resets.down, ENGINE_DOMAIN: resets.engine_reset})
        wires.add(
            resets=resets,
            memory=both(AxiCrossing(self._memory, **_TO_ADAPTER)),
            registers=both(AxiLiteCrossing(self._registers, depth=REGISTERS_DEPTH, **_TO_ENGINE)),
            doorbells=both(AxiCrossing(self._doorbells, reads=False, **_TO_ENGINE)),
            queues=both(InterruptCrossing(self.config.queue_bits, **_INTERRUPTS)),
            interrupt=LevelCrossing(1, **_INTERRUPTS),
            register_isolation=RegisterIsolation(self._registers),
            doorbell_isolation=DoorbellIsolation(self._doorbells, bursts=MOST_BURSTS))

        # -- Buses.
        wires.connect("self.s_axi", "memory.manager")
        wires.connect("memory.subordinate", "self.memory")
        for name, kind, port in (("registers", "register", "m_axil"), ("doorbells", "doorbell", "m_axi_db")):
            wires.connect(f"self.{name}", f"{kind}_isolation.bus")
            wires.connect(f"{kind}_isolation.part", f"{name}.manager")
            wires.connect(f"{name}.subordinate", f"self.{port}")

        # -- Interrupts.
        wires.connect("self.irq", "interrupt.i")
        wires.connect("interrupt.o", "self.level")
        wires.connect("self.interrupts", "queues.i")
        wires.connect("queues.o", "self.queues")

        # -- Resets.
        wires.connect("self.reset", "resets.reset")
        wires.broadcast("resets.down", "self.down", "register_isolation.isolate", "doorbell_isolation.isolate")
        wires.connect("resets.engine_reset", "self.engine_reset")
        wires.finish()
        return m
