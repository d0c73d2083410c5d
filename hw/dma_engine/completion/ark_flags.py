# SPDX-License-Identifier: Apache-2.0
"""ARK flags: each ARK request that succeeds sets RC in the receiver's array, then SC in the sender's.

Notices -> ArkFlags -> Notices.  Latency: 2 cycles to RC, 3 to SC.  Throughput: a request every 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sizes import ADDR_WIDTH
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import ConnectionWriteSignature, QueueWriteSignature
from hw.dma_engine.layouts import completion_write_layout, notice_layout, word_id_layout
from hw.dma_engine.words import Status

__all__ = ["ArkFlags"]


class ArkFlags(wiring.Component):
    """Set 4-byte flags, in arrays indexed by segment IDs, to 1. A failed request sets none.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    configure : ``In(QueueWriteSignature)``
        Address of a queue's SC array, if it has one.
    connection : ``In(ConnectionWriteSignature)``
        Address of a connection's RC array.
    i : ``In(stream.Signature(notice_layout))``
    o : ``Out(stream.Signature(completion_write_layout))``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "configure": In(QueueWriteSignature(config)), "connection": In(ConnectionWriteSignature(config)),
            "i": In(stream.Signature(notice_layout(config))),
            "o": Out(stream.Signature(completion_write_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, notice = self.config, self.i.payload
        senders_layout = data.StructLayout({"enable": 1, "base": ADDR_WIDTH - 3})
        m.submodules.senders = senders = Table(senders_layout, depth=config.extended, reads=1, init=None)
        m.submodules.receivers = receivers = Table(ADDR_WIDTH - 3, depth=config.connections, reads=1, init=None)
        sender = Signal(senders_layout)
        receiver = Signal(ADDR_WIDTH - 3)
        ark = notice.info.note.ark
        m.d.comb += [
            senders.write.en.eq(self.configure.valid & is_extended(config, self.configure.queue)),
            senders.write.addr.eq(self.configure.queue),
            senders.write.data.enable.eq(self.configure.settings.sc_enable),
            senders.write.data.base.eq(self.configure.sc_addr[3:]),
            receivers.write.en.eq(self.connection.valid), receivers.write.addr.eq(self.connection.connection),
            receivers.write.data.eq(self.connection.rc_addr[3:]),
            senders.read[0].addr.eq(notice.queue), receivers.read[0].addr.eq(ark.connection),
        ]

        # One cycle looks up the arrays; the flags follow. The notice is taken with the last of them.
        lookup_valid, is_sc, free = (Signal(name=name) for name in ("lookup_valid", "is_sc", "free"))
        ok, last = Signal(), Signal()
        element, word_id = Signal(ADDR_WIDTH - 2), Signal(word_id_layout(config))
        m.d.comb += [
            ok.eq(notice.status == Status.OK),
            last.eq(is_sc | ~sender.enable),
            free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(~ok | (lookup_valid & free & last)),
            element.eq((Mux(is_sc, sender.base, receiver) << 1) + Mux(is_sc, ark.src, ark.dst)),
            word_id.top.eq(1), word_id.notice.eq(1), word_id.queue.eq(notice.queue),
        ]
        with m.If(~lookup_valid):
            m.d.sync += [
                lookup_valid.eq(self.i.valid & ok),
                sender.eq(senders.read[0].data), receiver.eq(receivers.read[0].data),
            ]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(lookup_valid),
                self.o.payload.addr.eq(element << 2),
                self.o.payload.id.eq(word_id),
            ]
            with m.If(lookup_valid):
                m.d.sync += [is_sc.eq(~last), lookup_valid.eq(~last)]
        m.d.comb += [self.o.payload.half.eq(1), self.o.payload.word.eq(1 | 1 << 32)]
        return m
