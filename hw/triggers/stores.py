# SPDX-License-Identifier: Apache-2.0
"""Trigger pages: AXI4 writes in, operations on counters out.

DoorbellSplit -> TriggerStores -> OperationMerge.  Latency: 1 cycle from the W handshake to ``ops``.  Throughput: one
operation per cycle; a beat of two ticks takes two cycles.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import AxiSignature, Resp
from hw.common.posts import WORD_BITS
from hw.common.sizes import PAGE_BYTES
from hw.stream import Queue, Skid

from .config import SLOT_BYTES, TriggerConfig
from .layouts import ArmLayout, OpKind, decode_tick, tick_layout
from .ports import OperationSignature
from .words import Mode, Refusal, SlotField

__all__ = ["TriggerStores"]

RESPONSES = 8
"""Operations and responses in flight."""

BEAT_BITS, HALF = (WORD_BITS // 8 - 1).bit_length(), WORD_BITS // 2
PAGE_BITS, SLOT_BITS = (PAGE_BYTES - 1).bit_length(), (SLOT_BYTES - 1).bit_length()


class TriggerStores(wiring.Component):
    """Translate stores to tick and preparation pages.

    A tick page for each block is followed by a preparation page for each. A beat without strobes has no effect. Reads
    are not supported: the owner of ``bus`` sends none.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    bus : ``In(AxiSignature)``
        Write channels; BRESP is SLVERR if any operation of the burst was refused.
    ops : ``Out(OperationSignature)``
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "bus": In(AxiSignature(addr_width=config.doorbell_addr_width, data_width=WORD_BITS,
                                   id_width=config.doorbell_id_width)),
            "ops": Out(OperationSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, bus, op, id_width = self.config, self.bus, self.ops.payload, self.config.doorbell_id_width
        slots = PAGE_BITS - BEAT_BITS
        m.submodules.addresses = addresses = Skid(data.StructLayout(
            {"page": range(2 * config.blocks), "beat": slots, "id": id_width}))
        m.submodules.beats = beats = Skid(data.StructLayout(
            {"data": WORD_BITS, "some": 2, "whole": 2, "last": 1}))
        # Operations in flight, and bursts that wait for their response.
        m.submodules.flying = flying = Queue(data.StructLayout({"id": id_width, "last": 1}), depth=RESPONSES)
        m.submodules.responses = responses = Queue(
            data.StructLayout({"id": id_width, "refused": 1}), depth=RESPONSES)
        halves = bus.wstrb[:HALF // 8], bus.wstrb[HALF // 8:]
        m.d.comb += [
            addresses.i.valid.eq(bus.awvalid), bus.awready.eq(addresses.i.ready),
            addresses.i.payload.page.eq(bus.awaddr[PAGE_BITS:]),
            addresses.i.payload.beat.eq(bus.awaddr[BEAT_BITS:PAGE_BITS]), addresses.i.payload.id.eq(bus.awid),
            beats.i.valid.eq(bus.wvalid), bus.wready.eq(beats.i.ready), beats.i.payload.data.eq(bus.wdata),
            beats.i.payload.last.eq(bus.wlast),
            beats.i.payload.some.eq(Cat(strobes.any() for strobes in halves)),
            beats.i.payload.whole.eq(Cat(strobes.all() for strobes in halves)),
            bus.bvalid.eq(responses.o.valid), responses.o.ready.eq(bus.bready), bus.bid.eq(responses.o.payload.id),
            bus.bresp.eq(Mux(responses.o.payload.refused, Resp.SLVERR, Resp.OKAY)),
            bus.arready.eq(0), bus.rvalid.eq(0), bus.rid.eq(0), bus.rdata.eq(0), bus.rresp.eq(Resp.OKAY),
            bus.rlast.eq(0),
        ]

        beat, address = beats.o.payload, addresses.o.payload
        number, block, prepares = Signal(slots), Signal(config.block_bits), Signal()
        slot, upper, more, ends, taken = Signal(slots), Signal(), Signal(), Signal(), Signal()
        has, word, halfword, second = Signal(2), Signal(WORD_BITS), Signal(HALF), Signal()
        tick = Signal(tick_layout(config))
        m.d.comb += [
            block.eq(address.page), prepares.eq(address.page >= config.blocks), slot.eq(address.beat + number),
            has.eq(Cat(beat.some[half] & (~beat.whole[half] | beat.data.word_select(half, HALF).any())
                       for half in range(2))),
            # ``second``: the lower half of the beat was taken in an earlier cycle.
            upper.eq(second | ~has[0]), more.eq(~prepares & ~upper & has[1]),
            word.eq(beat.data), halfword.eq(word.word_select(upper, HALF)),
            *decode_tick(config, tick, word=halfword, block=block),
            self.ops.valid.eq(beats.o.valid & addresses.o.valid & (flying.level + responses.level < RESPONSES)),
            taken.eq(self.ops.valid & self.ops.ready), ends.eq(beat.last & ~more),
            beats.o.ready.eq(taken & ~more), addresses.o.ready.eq(taken & ends),
            flying.i.valid.eq(taken), flying.i.payload.id.eq(address.id), flying.i.payload.last.eq(ends),
        ]
        with m.If(taken):
            m.d.sync += [second.eq(more), number.eq(Mux(ends, 0, number + ~more))]

        field, arm = slot[:SLOT_BITS - BEAT_BITS], data.View(ArmLayout, word)
        needs_count = (arm.mode == Mode.ONCE) | (arm.mode == Mode.REPEAT)
        m.d.comb += [op.word.eq(word), op.any.eq(tick.any), op.generation.eq(tick.generation), op.value.eq(tick.value)]
        with m.If(~prepares):
            m.d.comb += [
                op.counter.eq(tick.counter), op.kind.eq(Mux(has.any(), OpKind.TICK, OpKind.NONE)),
                op.code.eq(Mux(has.any() & (tick.malformed | ~beat.whole.bit_select(upper, 1)), Refusal.MALFORMED,
                               Refusal.NONE)),
            ]
        with m.Else():
            m.d.comb += [
                op.counter.eq(Cat(slot[SLOT_BITS - BEAT_BITS:], block)), op.second.eq(field == SlotField.SECOND_WORD),
                op.kind.eq(Mux(field == SlotField.ARM, OpKind.ARM, OpKind.WORD)),
            ]
            with m.If(~beat.some.any()):
                m.d.comb += op.kind.eq(OpKind.NONE)
            with m.Elif(~beat.whole.all() | (field > SlotField.ARM) | ((field == SlotField.ARM) & (
                    arm.reserved.any() | arm.reserved_high.any() | (needs_count & (arm.threshold == 0))))):
                m.d.comb += op.code.eq(Refusal.MALFORMED)

        # -- A burst's response follows the verdict on its last operation.
        verdict, refused = self.ops.verdict, Signal()
        m.d.comb += [
            flying.o.ready.eq(verdict.valid), responses.i.valid.eq(verdict.valid & flying.o.payload.last),
            responses.i.payload.id.eq(flying.o.payload.id),
            responses.i.payload.refused.eq(refused | (verdict.code != Refusal.NONE)),
        ]
        with m.If(verdict.valid):
            m.d.sync += refused.eq((refused | (verdict.code != Refusal.NONE)) & ~flying.o.payload.last)
        return m
