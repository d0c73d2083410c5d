"""The endpoint's own registers in gateware: weights, exported spans, counters.

s_axil -> RegisterWindow -> EndpointControl -> MemoryPort, PutReceiver.  Latency as ``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.regs import RegisterBank

from .config import MANAGERS, WEIGHT_WIDTH
from .layouts import export_layout
from .memory_port import READERS, WINDOW_WIDTH
from .registers import COUNTERS, register_map

__all__ = ["CountStrobes", "EndpointControl"]

CountStrobes = data.StructLayout({name.lower(): 1 for name, _ in COUNTERS})


class EndpointControl(wiring.Component):
    """The register map's hardware side.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
    read_weight, write_weight : arrays of ``Out(WEIGHT_WIDTH)``, window : ``Out(WINDOW_WIDTH)``
    commit, span, valid, entry : ``Out``
        An entry of the table of exported spans.
    counts : ``In(CountStrobes)``
        Counters that rise in this cycle.
    irq : ``Out(1)``
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=12, data_width=32)),
            "read_weight": Out(WEIGHT_WIDTH).array(READERS), "write_weight": Out(WEIGHT_WIDTH).array(len(MANAGERS)),
            "window": Out(WINDOW_WIDTH),
            "commit": Out(1), "span": Out(config.export_bits), "valid": Out(1), "entry": Out(export_layout()),
            "counts": In(CountStrobes), "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        m.d.comb += [weight.eq(getattr(bank.read_weight, name))
                     for weight, name in zip(self.read_weight, MANAGERS, strict=False)]
        m.d.comb += [weight.eq(getattr(bank.write_weight, name))
                     for weight, name in zip(self.write_weight, MANAGERS, strict=True)]
        m.d.comb += [
            self.window.eq(bank.read_window.beats),
            self.commit.eq(bank.export_commit.written_stb), self.span.eq(bank.export_commit.export),
            self.valid.eq(bank.export_access.valid), self.entry.ports.eq(bank.export_access.ports),
            self.entry.base_page.eq(Cat(bank.export_base_lo.value, bank.export_base_hi.value)[12:]),
            self.entry.length.eq(Cat(bank.export_length_lo.value, bank.export_length_hi.value)),
        ]
        m.d.comb += [bank.irq_status.register_set.eq(bank.refused),
                     self.irq.eq(bank.irq_status.register & bank.irq_enable.register)]
        for name, _ in COUNTERS:
            counter = Signal(32, name=f"count_{name.lower()}")
            m.d.comb += getattr(bank, f"count_{name.lower()}").value.eq(counter)
            m.d.sync += counter.eq(counter + self.counts[name.lower()])
        return m
