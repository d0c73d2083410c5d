# SPDX-License-Identifier: Apache-2.0
"""MSI-X as a whole.

::

    bus -> MsixTable <-> MessageSender -> messages
    requests ---------------> ^-> Moderation

Latency: 4 cycles from a request to its message.  Throughput: one message per 3 cycles.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiLiteSignature
from hw.common.wiring import Wiring

from ..config import PcieConfig
from ..layouts import MessageLayout
from .message_sender import MessageSender
from .moderation import INTERVAL_WIDTH, Moderation
from .msix_table import ADDR_WIDTH, MsixTable

__all__ = ["Msix"]


class Msix(wiring.Component):
    """Turn requests of interrupts into messages.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    bus : ``In(AxiLiteSignature)``
        The table at 0, the pending bits at 0x1000.
    requests : ``In(config.vectors)``
        One-cycle strobes.
    enable, function_mask : ``In(1)``
        From the hard block. While ``enable`` is 0, requests are dropped.
    interval : ``In(16)``
        Least number of cycles between two messages of one vector; 0 for none. Requests meanwhile coalesce.
    messages : ``Out(stream.Signature(MessageLayout))``
        Registered. A message that is chosen is sent, even if its vector is masked in the same cycle.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=ADDR_WIDTH, data_width=32)), "requests": In(config.vectors),
            "enable": In(1), "function_mask": In(1), "interval": In(INTERVAL_WIDTH),
            "messages": Out(stream.Signature(MessageLayout)),
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(table=MsixTable(self.config), sender=MessageSender(self.config), moderation=Moderation(self.config))
        wires.connect("self.bus", "table.bus")
        for name in ("requests", "enable", "function_mask"):
            wires.connect(f"self.{name}", f"sender.{name}")
        wires.connect("self.interval", "moderation.interval")
        wires.connect("table.masked", "sender.masked")
        wires.connect("table.message", "sender.message")
        wires.connect("sender.pending", "table.pending")
        wires.broadcast("sender.vector", "table.vector", "moderation.vector")
        for name in ("start", "sending"):
            wires.connect(f"sender.{name}", f"moderation.{name}")
        wires.connect("moderation.withheld", "sender.withheld")
        wires.connect("sender.messages", "self.messages")
        wires.finish()
        return m
