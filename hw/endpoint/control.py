# SPDX-License-Identifier: Apache-2.0
"""The endpoint's own registers in gateware: weights, exported spans, counters; and the endpoint's interrupt.

s_axil -> RegisterWindow -> EndpointControl -> MemoryPort, PutReceiver.  Latency: as ``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.regs import RegisterBank

from .config import MANAGERS, EndpointConfig
from .memory_port import MemoryCounts, MemorySettings
from .put_receiver import ExportWrite
from .puts import PutCounts
from .registers import COUNTERS, register_map

__all__ = ["EndpointControl"]


class EndpointControl(wiring.Component):
    """Hardware side of the endpoint's register map.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
    settings : ``Out(MemorySettings)``, exports : ``Out(ExportWrite)``
    memory_counts : ``In(MemoryCounts)``, put_counts : ``In(PutCounts)``
        Counters to increment in this cycle.
    dma_irq, ace_irq : ``In(1)``
        Interrupt levels of the two engines.
    irq : ``Out(1)``
        Registered: interrupt of either engine or of the endpoint's own registers.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "settings": Out(MemorySettings()), "exports": Out(ExportWrite(config)),
            "memory_counts": In(MemoryCounts()), "put_counts": In(PutCounts()),
            "dma_irq": In(1), "ace_irq": In(1), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        settings, exports, own = self.settings, self.exports, Signal()
        m.d.comb += [weight.eq(getattr(bank.read_weight, name))
                     for weight, name in zip(settings.read_weight, MANAGERS, strict=False)]
        m.d.comb += [weight.eq(getattr(bank.write_weight, name))
                     for weight, name in zip(settings.write_weight, MANAGERS, strict=True)]
        m.d.comb += [
            settings.window.eq(bank.read_window.beats),
            exports.valid.eq(bank.export_commit.written_stb), exports.span.eq(bank.export_commit.export),
            exports.open.eq(bank.export_access.valid), exports.entry.ports.eq(bank.export_access.ports),
            exports.entry.base_page.eq(Cat(bank.export_base_lo.value, bank.export_base_hi.value)[12:]),
            exports.entry.length.eq(Cat(bank.export_length_lo.value, bank.export_length_hi.value)),
        ]
        m.d.comb += [bank.irq_status.register_set.eq(bank.refused),
                     own.eq(bank.irq_status.register & bank.irq_enable.register)]
        m.d.sync += self.irq.eq(self.dma_irq | self.ace_irq | own)
        memory, sender, receiver = self.memory_counts, self.put_counts.sender, self.put_counts.receiver
        increments = {
            **{f"{name}_read_beats": one for name, one in zip(MANAGERS, memory.read, strict=False)},
            **{f"{name}_write_beats": one for name, one in zip(MANAGERS, memory.written, strict=True)},
            "put_packets_sent": sender.sent, "put_packets_taken": receiver.taken,
            "put_packets_refused": receiver.refused, "put_unexpected": receiver.unexpected,
        }
        for name in (name.lower() for name, _ in COUNTERS):
            counter = Signal(32, name=f"count_{name}")
            m.d.comb += getattr(bank, f"count_{name}").value.eq(counter)
            m.d.sync += counter.eq(counter + increments[name])
        return m
