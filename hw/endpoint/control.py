# SPDX-License-Identifier: Apache-2.0
"""The endpoint's own registers in gateware: weights, exported spans, trigger counters, counts of events, interrupt.

s_axil -> RegisterWindow -> EndpointControl -> MemoryPort, PutReceiver, TriggerUnit.  Latency: as
``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.regs import RegisterBank
from hw.triggers.ports import TriggerSettings, TriggerStatus

from .config import EndpointConfig
from .memory_port import MemoryCounts, MemorySettings
from .put_receiver import ExportWrite
from .puts import PutCounts
from .registers import counters, register_map

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
    triggers : ``Out(TriggerSettings)``, trigger_status : ``In(TriggerStatus)``
    irqs : ``In``
        Interrupt levels of the DMA engine, of the accelerator, and of the RoCEv2 unit if there is one.
    irq : ``Out(1)``
        Registered: interrupt of any engine or of the endpoint's own registers.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "settings": Out(MemorySettings(config)), "exports": Out(ExportWrite(config)),
            "memory_counts": In(MemoryCounts(config)), "put_counts": In(PutCounts()),
            "triggers": Out(TriggerSettings(config.triggers)), "trigger_status": In(TriggerStatus(config.triggers)),
            "irqs": In(1).array(3 if config.rdma else 2), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        settings, exports, own = self.settings, self.exports, Signal()
        m.d.comb += [weight.eq(getattr(bank.read_weight, name))
                     for weight, name in zip(settings.read_weight, self.config.readers, strict=True)]
        m.d.comb += [weight.eq(getattr(bank.write_weight, name))
                     for weight, name in zip(settings.write_weight, self.config.managers, strict=True)]
        m.d.comb += [
            settings.window.eq(bank.read_window.beats),
            exports.valid.eq(bank.export_commit.written_stb), exports.span.eq(bank.export_commit.export),
            exports.open.eq(bank.export_access.valid), exports.entry.ports.eq(bank.export_access.ports),
            exports.entry.base_page.eq(Cat(bank.export_base_lo.value, bank.export_base_hi.value)[12:]),
            exports.entry.length.eq(Cat(bank.export_length_lo.value, bank.export_length_hi.value)),
            exports.entry.counts.eq(bank.export_access.counts),
            *(exports.entry[name].eq(getattr(bank.export_counter, name)) for name in ("block", "first", "shift")),
        ]
        self._triggers(m, bank)
        m.d.comb += [
            bank.irq_status.register_set.eq(bank.refused),
            bank.irq_status.trigger_set.eq(self.trigger_status.refusal.valid),
            own.eq((bank.irq_status.register & bank.irq_enable.register)
                   | (bank.irq_status.trigger & bank.irq_enable.trigger)),
        ]
        m.d.sync += self.irq.eq(Cat(self.irqs).any() | own)
        memory, sender, receiver = self.memory_counts, self.put_counts.sender, self.put_counts.receiver
        increments = {
            **{f"{name}_read_beats": one for name, one in zip(self.config.readers, memory.read, strict=True)},
            **{f"{name}_write_beats": one for name, one in zip(self.config.managers, memory.written, strict=True)},
            "put_packets_sent": sender.sent, "put_packets_taken": receiver.taken,
            "put_packets_refused": receiver.refused, "put_unexpected": receiver.unexpected,
            "trigger_ticks": self.trigger_status.counts.ticked, "trigger_firings": self.trigger_status.counts.fired,
            "trigger_refused": self.trigger_status.counts.refused,
        }
        for name in (name.lower() for name, _ in counters(self.config)):
            counter = Signal(32, name=f"count_{name}")
            m.d.comb += getattr(bank, f"count_{name}").value.eq(counter)
            m.d.sync += counter.eq(counter + increments[name])
        return m

    def _triggers(self, m, bank):
        """Settings and status of the trigger counters."""
        settings, status, config = self.triggers, self.trigger_status, self.config.triggers
        pages = [getattr(bank, f"trigger_pages_{number}").pages for number in range(-(-config.pages // 32))]
        kept = bank.trigger_refused.valid
        m.d.comb += [
            settings.pages_valid.eq(bank.trigger_commit.written_stb),
            settings.pages_block.eq(bank.trigger_commit.block), settings.pages.eq(Cat(*pages)),
            settings.reset_valid.eq(bank.trigger_reset.written_stb), settings.reset_block.eq(bank.trigger_reset.block),
            settings.select_valid.eq(bank.trigger_select.written_stb),
            settings.select_counter.eq(bank.trigger_select.counter),
            bank.trigger_busy.blocks.eq(status.busy),
            *(getattr(bank.trigger_state, name).eq(status.row[name]) for name in ("mode", "due", "generation")),
            bank.trigger_state.valid.eq(status.row_valid), bank.trigger_remaining.value.eq(status.row.remaining),
            bank.trigger_refused.valid_set.eq(status.refusal.valid & ~kept),
        ]
        refused = bank.trigger_refused
        for name, value in (("counter", status.refusal.index), ("block", status.refusal.block),
                            ("code", status.refusal.code)):
            held = Signal.like(value, name=f"refused_{name}")
            m.d.comb += getattr(refused, name).eq(held)
            with m.If(status.refusal.valid & ~kept):
                m.d.sync += held.eq(value)
