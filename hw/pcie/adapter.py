# SPDX-License-Identifier: Apache-2.0
"""The adapter: an endpoint's buses and interrupts behind the PCIe hard block.

::

    s_axi -------------------> Requester -> rq        FunctionControl <-> cfg
                                  ^  rc                  | settings, resets
    irq, ---> Interrupt- -> Msix -+                      v
    interrupts  Vectors      ^   messages           all stages
    m_axil <- RegisterWindow <- Completer <- cq, -> cc
                   +-> AdapterControl |
    m_axi_db <------------------------+

With two clocks, all interfaces on the left pass an EngineCrossing.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.interrupts import QueueInterruptsSignature
from hw.common.register_window import RegisterWindow
from hw.common.wiring import Wiring

from .completer.completer import Completer
from .config import ADDR_WIDTH, PcieConfig
from .control import AdapterControl
from .engine_crossing import EngineCrossing
from .function import FunctionControl
from .interrupts.interrupt_vectors import InterruptVectors
from .interrupts.msix import Msix
from .pins import (
    ConfigurationSignature,
    PacketSignature,
    cc_user_layout,
    cq_user_layout,
    rc_user_layout,
    rq_user_layout,
)
from .registers import WINDOW_BITS
from .requester.requester import Requester

__all__ = ["PcieAdapter"]

ENGINE_PORTS = {
    "s_axi": ("requester.s_axi", "memory"), "m_axil": ("registers.parts[0]", "registers"),
    "m_axi_db": ("completer.doorbells", "doorbells"), "irq": ("vectors.irq", "level"),
    "interrupts": ("vectors.queues", "queues"), "engine_reset": ("function.reset.engine", "reset"),
}
"""Ports to the engine: the part that each belongs to, and its name in the crossing."""


class PcieAdapter(wiring.Component):
    """A PCIe function with one memory bus, registers and doorbells.

    All is in ``sync``, the hard block's clock domain, whose reset is ``user_reset``. With ``config.two_clocks``, the
    ports to the engine are in another one: ``ENGINE_DOMAIN`` of :mod:`.engine_reset`.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    s_axi : ``In(AxiSignature)``
        Memory: addresses are those of the PCIe bus.
    m_axil : ``Out(AxiLiteSignature)``
        First window of BAR 0.
    m_axi_db : ``Out(AxiSignature)``
        BAR 2.
    irq : ``In(1)``, interrupts : ``In(QueueInterruptsSignature)``
    engine_reset : ``Out(1)``
        Level, during a function-level reset: reset what is behind these buses. With two clocks, during all resets of
        either domain.
    rq, cc : ``Out(PacketSignature)``, rc, cq : ``In(PacketSignature)``, cfg : ``Out(ConfigurationSignature)``
        Hard block: straddling on RQ and RC with 512 bits, none on CQ and CC, tags of the client.
    """

    def __init__(self, config: PcieConfig) -> None:
        if not isinstance(config, PcieConfig):
            raise TypeError(f"PcieAdapter needs a PcieConfig, not {config!r}")
        self.config = config
        width = config.data_width
        super().__init__({
            "s_axi": In(AxiSignature(addr_width=ADDR_WIDTH, data_width=width, id_width=config.axi_id_width)),
            "m_axil": Out(AxiLiteSignature(addr_width=WINDOW_BITS, data_width=32)),
            "m_axi_db": Out(AxiSignature(addr_width=config.doorbell_addr_width, data_width=128,
                                         id_width=config.doorbell_id_width)),
            "irq": In(1), "interrupts": In(QueueInterruptsSignature(config.queue_bits)), "engine_reset": Out(1),
            "rq": Out(PacketSignature(width, rq_user_layout(width))),
            "rc": In(PacketSignature(width, rc_user_layout(width))),
            "cq": In(PacketSignature(width, cq_user_layout(width))),
            "cc": Out(PacketSignature(width, cc_user_layout(width))),
            "cfg": Out(ConfigurationSignature()),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(
            requester=Requester(config), completer=Completer(config), function=FunctionControl(),
            registers=RegisterWindow(3, window_bits=WINDOW_BITS), control=AdapterControl(config), msix=Msix(config),
            vectors=InterruptVectors(config))

        # -- Packets.
        for name in ("rq", "rc"):
            wires.connect(f"requester.{name}", f"self.{name}")
        for name in ("cq", "cc"):
            wires.connect(f"completer.{name}", f"self.{name}")
        wires.connect("completer.registers", "registers.bus")
        wires.connect("registers.parts[1]", "control.bus")
        wires.connect("registers.parts[2]", "msix.bus")

        # -- The engine.
        if config.two_clocks:
            wires.add(crossing=EngineCrossing(config))
            for port, (part, name) in ENGINE_PORTS.items():
                wires.connect(part, f"crossing.{name}")
                wires.connect(f"crossing.{port}", f"self.{port}")
            wires.connect("crossing.down", "function.reset.engine_down")
        else:
            for port, (part, _) in ENGINE_PORTS.items():
                if port != "engine_reset":
                    wires.connect(part, f"self.{port}")
            wires.broadcast("function.reset.engine", "self.engine_reset", "function.reset.engine_down")

        # -- Interrupts.
        wires.connect("vectors.requests", "msix.requests")
        wires.connect("msix.messages", "requester.messages")
        wires.connect("control.moderation", "msix.interval")

        # -- Function.
        wires.connect("function.cfg", "self.cfg")
        wires.connect("function.settings", "requester.settings")
        wires.connect("function.status", "control.status")
        wires.broadcast("function.msix_enable", "control.msix_enable", "msix.enable")
        wires.broadcast("function.msix_mask", "control.msix_mask", "msix.function_mask")
        wires.connect("control.timeout", "function.timeout")
        wires.connect("function.reset.refuse", "completer.refuse")
        wires.connect("function.reset.discard", "requester.discard")
        wires.connect("completer.idle", "function.reset.completer_idle")
        wires.connect("requester.idle", "function.reset.requester_idle")

        # -- Counters.
        wires.connect("requester.events", "control.events")
        wires.connect("requester.refused", "control.write_refused")
        wires.connect("completer.unsupported", "control.request_refused")
        wires.finish()
        return m
