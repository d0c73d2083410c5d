# SPDX-License-Identifier: Apache-2.0
"""The write path: bursts and MSI-X messages as posted memory writes.

::

    beats, messages -> WriteIntake -> WriteSplitter -> WriteHeaders -> WriteQueue -> tlps
                                           |                |              | sent
                                           |                +-----> WriteResponses -> responses, flushes
                                           +-> WriteBuffer -> data
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.wiring import Wiring

from ..config import PcieConfig
from ..layouts import (
    FlushSignature,
    MessageLayout,
    RequesterSettings,
    write_beat_layout,
    write_response_layout,
    write_tlp_layout,
)
from .write_buffer import WriteBuffer
from .write_gate import WriteGate
from .write_headers import WriteHeaders
from .write_intake import WriteIntake
from .write_queue import WriteQueue
from .write_responses import WriteResponses
from .write_splitter import WriteSplitter

__all__ = ["WritePath"]


class WritePath(wiring.Component):
    """Split bursts into write requests of at most MPS, cut at multiples of MPS, and respond to them.

    Latency: 3 cycles from a burst's last beat on ``beats`` to its header on ``tlps``, and from ``sent`` to B.
    Throughput: one beat, one TLP and one burst per cycle.

    *Strobes*: exactly the strobed bytes are written; a TLP without any is not sent. The strobed bytes of each TLP must
    be one contiguous range, as PCIe has byte enables only for the first and last DW. Otherwise the TLP is not sent:
    none of its bytes is written, and the burst gets SLVERR. Its other TLPs are sent.

    *Responses*: B has OKAY when RQ has accepted the burst's last TLP, as posted requests have no completion. From then
    on, PCIe keeps this write before every later write to the same target that does not have the attribute relaxed
    ordering (PCI Express Base, 2.4.1); between different targets there is no order. With bit 2 of AWQOS, B waits for a
    flush: a read of no byte at the last TLP's address, which pushes the burst to its target. B is in the order of the
    bursts, except for those with a flush, which have it when they are done. A burst with SLVERR, with DECERR or without
    a strobed byte is not flushed.

    *Bus mastering*: if it is off when a burst starts, nothing is sent and B has DECERR; messages wait.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    beats : ``In(stream.Signature(write_beat_layout))``
        INCR bursts of full beats within 4 KiB; the lowest bits of the address, within a beat, are ignored. ``ready``
        does not depend on ``valid``.
    messages : ``In(stream.Signature(MessageLayout))``
        Sent behind all bursts whose first beat was accepted before the message, or in the same cycle, and before all
        others. A message waits for the end of a burst that has started.
    message_sent : ``Out(1)``
        Event strobe: RQ has accepted a message.
    tlps : ``Out(stream.Signature(write_tlp_layout))``
        From a register.
    data : ``Out(stream.Signature(data_width))``
        Beats of the TLPs in order: those from a TLP's first byte to its last. When a header is offered, so is its first
        beat, as soon as the beats of the TLP before are taken, and no stall follows until the TLP's last.
    sent : ``In(1)``
        Strobe: RQ has accepted the oldest TLP that was taken from ``tlps``. Registered here.
    responses : ``Out(stream.Signature(write_response_layout))``
        B. From registers.
    flushes : ``Out(FlushSignature)``
        At most 64 from the end of the burst to its B; beyond, ``beats`` stalls.
    settings : ``In(RequesterSettings)``
        A burst keeps the values that it started with. ``halt`` is obeyed behind ``tlps``.
    refused : ``Out(1)``
        Event strobe: a TLP is not sent because of its strobes.
    idle : ``Out(1)``
        Nothing is left, apart from flushes in flight during ``discard``. Registered.
    discard : ``In(1)``
        Level, for at least two cycles and until ``idle``, at the reset of the function and of the manager: bursts,
        messages and responses are dropped, and nothing is offered but the data of TLPs whose headers were taken. These
        TLPs must be completed, and reported with ``sent``. No flush may be done after ``discard``.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "beats": In(stream.Signature(write_beat_layout(config))), "messages": In(stream.Signature(MessageLayout)),
            "message_sent": Out(1), "tlps": Out(stream.Signature(write_tlp_layout(config))),
            "data": Out(stream.Signature(config.data_width)), "sent": In(1),
            "responses": Out(stream.Signature(write_response_layout(config))), "flushes": Out(FlushSignature(config)),
            "settings": In(RequesterSettings()), "refused": Out(1), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(intake=WriteIntake(config), splitter=WriteSplitter(config), buffer=WriteBuffer(config),
                  headers=WriteHeaders(config), queue=WriteQueue(config), ended=WriteResponses(config),
                  gate=WriteGate(3, 5))

        wires.connect("self.beats", "intake.beats")
        wires.connect("self.messages", "intake.messages")
        wires.connect("self.settings", "intake.settings")
        wires.connect("intake.o", "splitter.i")
        wires.connect("splitter.payload", "buffer.write")
        wires.connect("splitter.refused", "self.refused")
        wires.connect("splitter.o", "headers.i")
        wires.connect("headers.headers", "queue.headers")
        wires.connect("headers.bursts", "ended.bursts")

        wires.connect("queue.tlps", "self.tlps")
        wires.connect("queue.taken", "buffer.taken")
        wires.connect("buffer.data", "self.data")
        wires.connect("self.sent", "queue.sent")
        wires.connect("queue.message_sent", "self.message_sent")
        wires.connect("queue.oldest", "ended.oldest")
        wires.connect("ended.flushes", "self.flushes")
        wires.connect("ended.responses", "self.responses")

        for number, part in enumerate(("buffer", "queue", "ended")):
            wires.connect(f"{part}.open", f"gate.opens[{number}]")
        wires.connect("gate.open", "intake.open")
        for number, part in enumerate(("intake", "splitter", "buffer", "queue", "ended")):
            wires.connect(f"{part}.idle", f"gate.idles[{number}]")
        wires.connect("gate.idle", "self.idle")
        wires.broadcast("self.discard", "intake.discard", "splitter.discard", "buffer.discard", "headers.discard",
                        "queue.discard", "ended.discard")
        wires.finish()
        return m
