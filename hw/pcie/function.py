# SPDX-License-Identifier: Apache-2.0
"""The PCIe function: its settings from the configuration space, function-level reset, and resets of the engine.

Hard block -> FunctionControl -> ReadPath, WritePath, RequestPacker, Completer.  Latency: 1 cycle for settings.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .layouts import RequesterSettings
from .pins import ConfigurationSignature

__all__ = ["FunctionControl", "FunctionReset", "FunctionStatus"]

DEVICE_CONTROL = 0x78 // 4
"""Address of the Device Control register, in double words: the hard block has the PCI Express capability at 0x70."""

EXTENDED_TAG_BIT = 8

POLL_BITS = 12
"""Log2 of the cycles between two reads of the Device Control register."""

RESET_CYCLES = 64
"""Cycles for which the idle flags must last; also the minimum for which the engine is in reset."""

RESET_TIMEOUT = 1 << 20
"""Limit for completions that are outstanding at a reset, unless software's is shorter: their tags are free after five
times as many cycles at most, 21 ms at 250 MHz. A function-level reset has 100 ms (PCI Express Base, 6.6.2)."""


class FunctionStatus(wiring.Signature):
    """State of the function for software: levels.

    Members
    -------
    max_payload : ``Out(2)``, max_read : ``Out(3)``, bus_master, extended_tags : ``Out(1)``
    """

    def __init__(self) -> None:
        super().__init__({
            "max_payload": Out(2), "max_read": Out(3), "bus_master": Out(1), "extended_tags": Out(1),
        })


class FunctionReset(wiring.Signature):
    """A reset of all but the adapter, seen from its source: levels.

    Members
    -------
    refuse : ``Out(1)``
        Requests from the host are refused; those accepted before are completed. Rises first, falls last; initially 1.
    discard : ``Out(1)``
        The engine is in reset: drop what it has issued.
    engine : ``Out(1)``
        Reset the engine.
    engine_down : ``In(1)``
        The engine is in reset, whatever the reason. At least while ``engine`` is 1.
    completer_idle, requester_idle : ``In(1)``
        Nothing accepted before is in progress.
    """

    def __init__(self) -> None:
        super().__init__({
            "refuse": Out(1, init=1), "discard": Out(1), "engine": Out(1), "engine_down": In(1),
            "completer_idle": In(1), "requester_idle": In(1),
        })


class FunctionControl(wiring.Component):
    """Distribute the function's settings, and carry out resets.

    A function-level reset has four steps: refuse requests, stop to send, and wait until accepted requests are complete;
    reset the engine, drop what it had issued, and wait until no tag is in flight and no packet is half sent; end the
    engine's reset, and wait until it has ended; report completion. So nothing is in flight afterwards, and no
    completion for a request from before can meet one from after the reset.

    A reset of the engine for another reason takes the same steps, without the report: all that the engine had issued is
    dropped. The engine stays in reset from the moment in which its reset is seen.

    After a reset of the adapter itself, requests are refused until the engine is not in reset any more.

    Parameters
    ----------
    poll_bits : int
        Log2 of the cycles between two reads of the extended-tag bit, which the hard block has on no pin.

    Members
    -------
    cfg : ``Out(ConfigurationSignature)``
    timeout : ``In(32)``
        Software's limit for completions, in cycles.
    settings : ``Out(RequesterSettings)``, status : ``Out(FunctionStatus)``, reset : ``Out(FunctionReset)``
    msix_enable, msix_mask : ``Out(1)``
        MSI-X is enabled; all vectors are masked.
    """

    def __init__(self, *, poll_bits: int = POLL_BITS) -> None:
        self.poll_bits = poll_bits
        super().__init__({
            "cfg": Out(ConfigurationSignature()), "timeout": In(32), "settings": Out(RequesterSettings()),
            "status": Out(FunctionStatus()), "reset": Out(FunctionReset()),
            "msix_enable": Out(1), "msix_mask": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, settings, status = self.cfg, self.settings, self.status
        m.d.sync += [
            status.max_payload.eq(cfg.cfg_max_payload), status.max_read.eq(cfg.cfg_max_read_req),
            status.bus_master.eq(cfg.cfg_function_status[2]),
            self.msix_enable.eq(cfg.cfg_interrupt_msix_enable[0]), self.msix_mask.eq(cfg.cfg_interrupt_msix_mask[0]),
        ]
        m.d.comb += [
            settings.max_payload.eq(status.max_payload), settings.max_read.eq(status.max_read),
            settings.bus_master.eq(status.bus_master), settings.extended_tags.eq(status.extended_tags),
            cfg.cfg_mgmt_write.eq(0), cfg.cfg_mgmt_addr.eq(DEVICE_CONTROL),
        ]
        self._poll(m)
        self._reset(m)
        return m

    def _poll(self, m):
        cfg, pause = self.cfg, Signal(self.poll_bits)
        m.d.sync += pause.eq(pause + 1)
        with m.If(cfg.cfg_mgmt_read & cfg.cfg_mgmt_read_write_done):
            m.d.sync += [cfg.cfg_mgmt_read.eq(0), pause.eq(0),
                         self.status.extended_tags.eq(cfg.cfg_mgmt_read_data[EXTENDED_TAG_BIT])]
        with m.Elif(pause.all()):
            m.d.sync += cfg.cfg_mgmt_read.eq(1)

    def _reset(self, m):
        cfg, reset, settings = self.cfg, self.reset, self.settings
        cycles, requested, report, limited = Signal(range(RESET_CYCLES)), Signal(), Signal(), Signal()
        m.d.sync += [
            requested.eq(cfg.cfg_flr_in_process[0]), cfg.cfg_flr_done.eq(0), settings.timeout.eq(self.timeout),
            limited.eq((self.timeout != 0) & (self.timeout < RESET_TIMEOUT)),
        ]
        # Requests from the host are accepted whenever the completer has free entries, but not while it becomes idle: it
        # never would with one request right behind the other.
        m.d.comb += cfg.pcie_cq_np_req.eq(-1)
        with m.FSM():
            with m.State("START"):
                with m.If(~reset.engine_down):
                    m.d.sync += reset.refuse.eq(0)
                with m.If(requested | ~reset.engine_down):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += [cycles.eq(0), report.eq(requested)]
                with m.If(requested | reset.engine_down):
                    m.d.sync += [reset.refuse.eq(1), settings.halt.eq(1), reset.engine.eq(reset.engine_down)]
                    m.next = "REFUSE"
            with m.State("REFUSE"):
                m.d.comb += cfg.pcie_cq_np_req.eq(0)
                # The idle flags follow ``refuse`` by some cycles.
                m.d.sync += cycles.eq(Mux(reset.completer_idle, cycles + 1, 0))
                with m.If(reset.engine_down):
                    m.d.sync += reset.engine.eq(1)
                with m.If(cycles.all()):
                    m.d.sync += [reset.engine.eq(1), reset.discard.eq(1)]
                    m.next = "DISCARD"
            with m.State("DISCARD"):
                m.d.sync += cycles.eq(Mux(reset.requester_idle, cycles + 1, 0))
                with m.If(~limited):
                    m.d.sync += settings.timeout.eq(RESET_TIMEOUT)
                with m.If(cycles.all()):
                    m.d.sync += reset.engine.eq(0)
                    m.next = "RELEASE"
            with m.State("RELEASE"):
                with m.If(~reset.engine & ~reset.engine_down):
                    m.d.sync += [reset.discard.eq(0), cfg.cfg_flr_done[0].eq(report)]
                    m.next = "DONE"
            with m.State("DONE"):
                with m.If(~requested | ~report):
                    m.d.sync += [reset.refuse.eq(0), settings.halt.eq(0)]
                    m.next = "RUN"
