# SPDX-License-Identifier: Apache-2.0
"""The filter of requests: classify, drop, and hold each until it is complete.

cq -> RequestFilter -> RequestSplit.  Latency: 1 cycle from a packet's last beat.  Throughput: one beat per cycle.
Source: PG213, "Completer Request Descriptor Formats"; PCI Express Base 2.2.7, 2.3.1.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import CommitQueue

from ..config import MAX_PAYLOAD_BYTES, PcieConfig
from ..pins import PacketSignature, cq_user_layout
from ..tlp import CompleterRequest, RequestType
from .layouts import (
    DOORBELL_BAR,
    MAX_PAYLOAD_DWORDS,
    REGISTER_BAR,
    WORD_DWORDS,
    WORD_WIDTH,
    RequestKind,
    request_beat_layout,
)

__all__ = ["RequestFilter"]

PAGE_DWORDS = 1024

TRANSLATION_REQUEST = 1
"""Address type of a translation request, which only a translation agent serves."""


class RequestFilter(wiring.Component):
    """Pass memory writes as a whole and the first beat of other non-posted requests; drop everything else.

    A request is unsupported if it is no memory read or write, if it is to another function than 0, to another BAR than
    0 and 2, or a translation request, if ``refuse`` is 1, or if the hard block withdraws it (``discontinue``). If it is
    non-posted, it leaves with the kind ``UNSUPPORTED``, and its payload is dropped; if posted, all of it is dropped.
    PG213 has no other sign of a poisoned request on CQ than ``discontinue``, which comes with the last beat: for this
    reason, memory writes are held until they are complete.

    Memory writes longer than the hard block's largest payload are dropped, and those to BAR 2 that cross 4 KiB. Writes
    of no byte end here without effect. Types that are neither posted nor non-posted in PG213 are dropped.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    cq : ``In(PacketSignature)``
        ``tready`` depends on registers only.
    refuse : ``In(1)``
        Level, sampled with a packet's first beat.
    o : ``Out(stream.Signature(request_beat_layout))``
    unsupported : ``Out(1)``
        Strobe: a request was dropped, or became ``UNSUPPORTED``, in the cycle before.
    idle : ``Out(1)``
        No accepted packet is in progress, and none is held. A posted one that is dropped does not count.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "cq": In(PacketSignature(config.data_width, cq_user_layout(config.data_width))), "refuse": In(1),
            "o": Out(stream.Signature(request_beat_layout(config))), "unsupported": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cq, width = self.cq, self.config.data_width
        packet_beats = 1 + MAX_PAYLOAD_BYTES // self.config.beat_bytes
        m.submodules.beats = beats = CommitQueue(
            request_beat_layout(self.config), depth=1 << packet_beats.bit_length(), ram="lut")
        wiring.connect(m, beats.o, wiring.flipped(self.o))

        user = data.View(cq_user_layout(width), cq.tuser)
        descriptor = data.View(CompleterRequest, cq.tdata[:WORD_WIDTH])
        inside, held = Signal(), Signal()               # within a packet; its beats are held
        transfer, withdrawn = Signal(), Signal()
        m.d.comb += [
            cq.tready.eq(beats.i.ready), transfer.eq(cq.tvalid & cq.tready), withdrawn.eq(user.discontinue & cq.tlast),
        ]
        with m.If(transfer):
            m.d.sync += inside.eq(~cq.tlast)

        item = beats.i.payload
        m.d.comb += [
            item.data.eq(cq.tdata), item.first.eq(~inside),
            item.first_be.eq(user.first_be_0 if width == 512 else user.first_be),
            item.last_be.eq(user.last_be_0 if width == 512 else user.last_be),
            item.last_word.eq(sum(cq.tkeep[dword] for dword in range(WORD_DWORDS, len(cq.tkeep), WORD_DWORDS))),
            beats.first.eq(~inside),
        ]

        # -- Classification of a packet by its first beat.
        write, posted, empty, legal, fits = (
            Signal(name=name) for name in ("write", "posted", "empty", "legal", "fits"))
        kind = Signal(RequestKind)
        m.d.comb += [
            write.eq(descriptor.request_type == RequestType.MEMORY_WRITE),
            posted.eq(write | descriptor.request_type.as_value()[2:].all()),
            empty.eq((descriptor.dwords == 1) & (item.first_be == 0)),
            legal.eq((descriptor.target_function == 0) & (descriptor.address_type != TRANSLATION_REQUEST)
                     & (descriptor.dwords != 0) & ~self.refuse & ~withdrawn),
            fits.eq((descriptor.dwords <= MAX_PAYLOAD_DWORDS) & (
                (descriptor.bar == REGISTER_BAR)
                | (descriptor.address[:10] + descriptor.dwords[:10] <= PAGE_DWORDS))),
            kind.eq(RequestKind.UNSUPPORTED),
        ]
        registers, doorbells = descriptor.bar == REGISTER_BAR, descriptor.bar == DOORBELL_BAR
        with m.If(write & legal & fits):
            with m.If(registers):
                m.d.comb += kind.eq(RequestKind.REGISTER_WRITE)
            with m.Elif(doorbells):
                m.d.comb += kind.eq(RequestKind.DOORBELL_WRITE)
        with m.Elif((descriptor.request_type == RequestType.MEMORY_READ) & legal):
            with m.If(doorbells | registers & empty):
                m.d.comb += kind.eq(RequestKind.ZERO_READ)
            with m.Elif(registers):
                m.d.comb += kind.eq(RequestKind.REGISTER_READ)

        # -- What is held, and when it is complete.
        wanted, refused = Signal(), Signal()
        m.d.comb += [
            refused.eq(kind == RequestKind.UNSUPPORTED),
            wanted.eq(Mux(posted, ~refused & ~empty, 1)),
            item.kind.eq(kind),
        ]
        m.d.comb += [
            item.last.eq(cq.tlast), beats.commit.eq(cq.tlast | (~inside & ~posted)),
            beats.i.valid.eq(cq.tvalid & Mux(inside, held & ~withdrawn, wanted)),
        ]
        with m.If(transfer & ~inside):
            m.d.sync += held.eq(wanted & posted)
        m.d.sync += self.unsupported.eq(transfer & Mux(inside, held & withdrawn, refused))
        m.d.comb += self.idle.eq(beats.empty & ~(inside & held))
        return m
