# SPDX-License-Identifier: Apache-2.0
"""The completer as a whole.

::

    cq -> RequestFilter -> RequestSplit -+-> DoorbellWriter -> doorbells
                                         +-> RegisterAccess <-> registers
                                                   +-> CompletionPacker -> cc

Latency: 2 cycles from the last beat of a memory write on CQ to the first one on ``doorbells``, 3 with 128 bits; 9
cycles from CQ to CC for a read of one register whose access takes up to 3.  Throughput: one store of 16 bytes per
cycle; one per 2 cycles with 128 bits.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature, AxiSignature
from hw.common.wiring import Wiring

from ..config import PcieConfig
from ..pins import PacketSignature, cc_user_layout, cq_user_layout
from .completion_packer import CompletionPacker
from .doorbell_writer import DoorbellWriter
from .layouts import WORD_WIDTH
from .register_access import RegisterAccess
from .request_filter import RequestFilter
from .request_split import RequestSplit
from .status import CompleterStatus

__all__ = ["Completer"]


class Completer(wiring.Component):
    """Serve requests to BAR 0 (registers, 64 KiB) and BAR 2 (doorbells, 64-bit prefetchable).

    *BAR 0*: one AXI4-Lite access per double word. *BAR 2*: a memory write is one AXI4 burst of 16-byte beats; reads
    return zero. Everything else is an unsupported request: see :class:`RequestFilter`. For the order of requests, see
    :class:`RequestSplit`; for completions, :class:`RegisterAccess`.

    The hard block is configured without straddling on CQ and CC, in DW-aligned mode, and has all credits for
    non-posted requests. Both BARs are aligned to their sizes, 64 KiB and ``1 << config.doorbell_addr_width``.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    cq : ``In(PacketSignature)``, cc : ``Out(PacketSignature)``
    registers : ``Out(AxiLiteSignature)``
    doorbells : ``Out(AxiSignature)``
    refuse : ``In(1)``
        Level, during a function-level reset: requests that start are unsupported. Earlier ones complete.
    idle : ``Out(1)``
        No request is in progress.
    unsupported : ``Out(1)``
        Strobe: a request was dropped or got the status unsupported request, or an access got an error response.
    """

    def __init__(self, config: PcieConfig) -> None:
        if not isinstance(config, PcieConfig):
            raise TypeError(f"Completer needs a PcieConfig, not {config!r}")
        self.config = config
        super().__init__({
            "cq": In(PacketSignature(config.data_width, cq_user_layout(config.data_width))),
            "cc": Out(PacketSignature(config.data_width, cc_user_layout(config.data_width))),
            "registers": Out(AxiLiteSignature(addr_width=16, data_width=32)),
            "doorbells": Out(AxiSignature(
                addr_width=config.doorbell_addr_width, data_width=WORD_WIDTH,
                id_width=config.doorbell_id_width)),
            "refuse": In(1), "idle": Out(1), "unsupported": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(filter=RequestFilter(config), split=RequestSplit(config), doorbells=DoorbellWriter(config),
                  registers=RegisterAccess(), packer=CompletionPacker(config), status=CompleterStatus())

        wires.connect("self.cq", "filter.cq")
        wires.connect("self.refuse", "filter.refuse")
        wires.connect("filter.o", "split.i")
        wires.connect("split.doorbells", "doorbells.i")
        wires.connect("doorbells.doorbells", "self.doorbells")
        for name in ("requests", "words"):
            wires.connect(f"split.{name}", f"registers.{name}")
        wires.connect("registers.written", "split.written")
        wires.connect("registers.registers", "self.registers")
        wires.connect("registers.dwords", "packer.i")
        wires.connect("packer.cc", "self.cc")

        for name in ("filter", "doorbells", "registers"):
            wires.connect(f"{name}.unsupported", f"status.{name}_unsupported")
        for name in ("filter", "split", "packer"):
            wires.connect(f"{name}.idle", f"status.{name}_idle")
        wires.broadcast("doorbells.idle", "split.doorbells_idle", "status.doorbells_idle")
        wires.connect("status.idle", "self.idle")
        wires.connect("status.unsupported", "self.unsupported")
        wires.finish()
        return m
