# SPDX-License-Identifier: Apache-2.0
"""The requester: a memory bus and MSI-X messages as requests on RQ.

::

    s_axi <-> AxiStreams -+-> ReadPath ----+-> RequestPacker -> rq
                          |      ^  ^      |
              rc -> CompletionUnpacker |   |
                          |         | flush|
                          +-> WritePath ---+
    messages ---------------------^

Latency: 5 cycles from AR to RQ; from RC to R 4.  Throughput: a beat per cycle on RQ and on RC.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature
from hw.axi.streams import AxiStreams
from hw.common.resettable import Resettable
from hw.common.wiring import Wiring

from ..config import ADDR_WIDTH, PcieConfig
from ..layouts import MessageLayout, RequesterEvents, RequesterSettings
from ..pins import PacketSignature, rc_user_layout, rq_user_layout
from .rc import CompletionUnpacker
from .reads import ReadPath
from .rq import RequestPacker
from .status import RequesterStatus
from .writes import WritePath

__all__ = ["Requester"]


class Requester(wiring.Component):
    """Carry out bursts of full beats as memory requests.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    s_axi : ``In(AxiSignature)``
    messages : ``In(stream.Signature(MessageLayout))``
        As in :class:`WritePath`.
    rq : ``Out(PacketSignature)``, rc : ``In(PacketSignature)``
    settings : ``In(RequesterSettings)``, events : ``Out(RequesterEvents)``
    refused : ``Out(1)``
        Strobe: a write's strobes cannot be expressed.
    discard : ``In(1)``, idle : ``Out(1)``
        As in :class:`ReadPath` and :class:`WritePath`.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        width = config.data_width
        super().__init__({
            "s_axi": In(AxiSignature(addr_width=ADDR_WIDTH, data_width=width, id_width=config.axi_id_width)),
            "messages": In(stream.Signature(MessageLayout)),
            "rq": Out(PacketSignature(width, rq_user_layout(width))),
            "rc": In(PacketSignature(width, rc_user_layout(width))),
            "settings": In(RequesterSettings()), "events": Out(RequesterEvents()),
            "refused": Out(1), "discard": In(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(
            # It may be inside a burst whose remaining beats never come.
            streams=Resettable(AxiStreams(addr_width=ADDR_WIDTH, data_width=config.data_width,
                                          bus_id_width=config.axi_id_width, id_width=config.axi_id_width)),
            reads=ReadPath(config), writes=WritePath(config), packer=RequestPacker(config),
            unpacker=CompletionUnpacker(config), status=RequesterStatus())
        wires.connect("self.s_axi", "streams.bus")
        wires.connect("streams.reads", "reads.bursts")
        wires.connect("reads.beats", "streams.beats")
        wires.connect("streams.writes", "writes.beats")
        wires.connect("writes.responses", "streams.responses")
        wires.connect("self.messages", "writes.messages")
        wires.leave_open("writes.message_sent", "the sender of messages does not wait")
        wires.connect("writes.flushes", "reads.flushes")

        wires.connect("reads.tlps", "packer.reads")
        wires.connect("writes.tlps", "packer.writes")
        wires.connect("writes.data", "packer.data")
        wires.connect("packer.sent", "writes.sent")
        wires.connect("packer.rq", "self.rq")
        wires.connect("self.rc", "unpacker.rc")
        wires.connect("unpacker.o", "reads.completions")

        wires.broadcast("self.settings", "reads.settings", "writes.settings")
        wires.tie_off("packer.halt", "the paths stop by themselves, and a request on offer has a tag")
        wires.broadcast("self.discard", "reads.discard", "writes.discard", "streams.reset")
        for name in ("reads", "writes", "packer"):
            wires.connect(f"{name}.idle", f"status.{name}")
        wires.connect("status.idle", "self.idle")
        wires.connect("reads.events", "self.events")
        wires.connect("writes.refused", "self.refused")
        wires.finish()
        return m
