# SPDX-License-Identifier: Apache-2.0
"""The adapter's registers in gateware: time-out, moderation, status and counters.

Completer -> RegisterWindow -> AdapterControl -> FunctionControl, Msix.  Latency: as ``hw.regs.RegisterBank``.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import AxiLiteSignature
from hw.regs import RegisterBank

from .config import PcieConfig
from .function import FunctionStatus
from .layouts import RequesterEvents
from .registers import COUNTERS, WINDOW_BITS, register_map

__all__ = ["AdapterControl"]


class AdapterControl(wiring.Component):
    """Hardware side of the adapter's register map.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
    status : ``In(FunctionStatus)``, msix_enable, msix_mask : ``In(1)``
    events : ``In(RequesterEvents)``, write_refused, request_refused : ``In(1)``
        Counters to increment in this cycle.
    timeout : ``Out(32)``, moderation : ``Out(16)``
        Levels.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=WINDOW_BITS, data_width=32)),
            "status": In(FunctionStatus()), "msix_enable": In(1), "msix_mask": In(1), "events": In(RequesterEvents()),
            "write_refused": In(1), "request_refused": In(1), "timeout": Out(32), "moderation": Out(16),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank(register_map(self.config))
        connect(m, flipped(self.bus), bank.bus)
        m.d.comb += [
            *(getattr(bank.status, name).eq(getattr(self.status, name)) for name in (
                "max_payload", "max_read", "bus_master", "extended_tags")),
            bank.status.msix_enable.eq(self.msix_enable), bank.status.msix_mask.eq(self.msix_mask),
            self.timeout.eq(bank.completion_timeout.cycles), self.moderation.eq(bank.msix_moderation.cycles),
        ]
        for name in (name.lower() for name, _ in COUNTERS):
            counter, increment = Signal(32, name=f"count_{name}"), Signal(name=f"increment_{name}")
            source = {"writes_refused": self.write_refused, "requests_refused": self.request_refused}.get(name)
            m.d.sync += [increment.eq(getattr(self.events, name) if source is None else source),
                         counter.eq(counter + increment)]
            m.d.comb += getattr(bank, f"count_{name}").value.eq(counter)
        return m
