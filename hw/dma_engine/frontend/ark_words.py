# SPDX-License-Identifier: Apache-2.0
"""ARK words: translates stores to the pages of queues in ARK mode into native words.

Doorbell -> ArkWords -> QueueStore.  Latency: none for stores to other queues; 2 cycles for ARK words.  Throughput: a
store per cycle; an ARK word every 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import StoreSignature, is_extended
from hw.common.sizes import REGION_ID_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.dma_engine.config import LENGTH_WIDTH, DmaConfig
from hw.dma_engine.configuration import ConnectionWriteSignature, QueueWriteSignature
from hw.dma_engine.layouts import ArkExtra, ArkLayout, ArkSettings, Check, Connection, arrival_layout
from hw.dma_engine.words import Opcode

from .queues import ArrivalSignature

__all__ = ["ArkWords"]

HALF_BITS = 64


class ArkWords(wiring.Component):
    """Translate ARK words into native words, and pass on stores to other queues unchanged.

    A 16-byte store to a queue in ARK mode may hold a word in each half; the lower one comes first. A half with all bits
    set is empty. Segment IDs become region numbers here, and connections are looked up here.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    configure : ``In(QueueWriteSignature)``
        Ignored for queues that are not extended.
    connection : ``In(ConnectionWriteSignature)``
        Later words use the new entry.
    i : ``In(StoreSignature)``, o : ``Out(ArrivalSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "configure": In(QueueWriteSignature(config)), "connection": In(ConnectionWriteSignature(config)),
            "i": In(StoreSignature(config)), "o": Out(ArrivalSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, store = self.config, self.i.payload
        m.submodules.modes = modes = Table(
            ArkSettings, depth=config.extended, reads=1, init=SweepSignature(config))
        m.submodules.connections = connections = Table(
            Connection, depth=config.connections, reads=1, init=SweepSignature(config))
        for table in (modes, connections):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        settings, known = modes.read[0].data, Signal(Connection)
        # Equal to ``modes``, and settled much earlier in the cycle.
        active = Signal(config.extended)
        with m.If(modes.write.en):
            m.d.sync += active.bit_select(self.configure.queue[:config.extended_bits], 1).eq(self.configure.ark.active)
        m.d.comb += [
            modes.write.en.eq(self.configure.valid & is_extended(config, self.configure.queue)),
            modes.write.addr.eq(self.configure.queue), modes.write.data.eq(self.configure.ark),
            modes.read[0].addr.eq(store.queue),
            connections.write.en.eq(self.connection.valid), connections.write.addr.eq(self.connection.connection),
            connections.write.data.eq(self.connection.entry),
        ]

        # -- Halves with words, in order; ``upper`` selects the present one.
        ark, second, upper, more = Signal(), Signal(), Signal(), Signal()
        has = store.words
        m.d.comb += [
            ark.eq(active.bit_select(store.queue[:config.extended_bits], 1) & is_extended(config, store.queue)),
            upper.eq(second | ~has[0]),
            more.eq(~upper & has[1]),
        ]

        # -- An ARK word takes three cycles: its connection is looked up, it is translated, it leaves.
        word = ArkLayout(Mux(upper, store.data[HALF_BITS:], store.data[:HALF_BITS]))
        staged = Signal(data.StructLayout({
            "check": Check, "src_region": REGION_ID_WIDTH, "dst_region": REGION_ID_WIDTH, "length": LENGTH_WIDTH,
            "extra": ArkExtra}))
        lookup_valid, staged_valid, first_refused, taken = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            connections.read[0].addr.eq(word.connection),
            taken.eq(staged_valid & self.o.ready),
        ]
        with m.If(~staged_valid):
            m.d.sync += [
                lookup_valid.eq(self.i.valid & ark & has.any() & ~lookup_valid), staged_valid.eq(lookup_valid),
                known.eq(connections.read[0].data),
                *self._translate(m, staged, word, Mux(upper, store.whole[1], store.whole[0]), settings, known),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [staged_valid.eq(0), second.eq(more), first_refused.eq(more & self.i.refused)]

        native, arrival = Signal(arrival_layout(config)), Signal(arrival_layout(config))
        m.d.comb += [
            native.queue.eq(store.queue), native.word.eq(store.data),
            native.check.eq(Mux(store.whole.all(), Check.OK, Check.MALFORMED)),
            arrival.queue.eq(store.queue), arrival.ark.eq(1), arrival.check.eq(staged.check),
            arrival.word.opcode.eq(Opcode.COPY), arrival.word.length.eq(staged.length),
            arrival.word.src_region.eq(staged.src_region), arrival.word.dst_region.eq(staged.dst_region),
            arrival.word.src_offset.eq(staged.extra),
            self.o.valid.eq(staged_valid | (self.i.valid & ~ark)),
            self.o.payload.eq(Mux(staged_valid, arrival, native)),
            self.i.ready.eq(Mux(ark, (taken & ~more) | ~has.any(), self.o.ready)),
            self.i.refused.eq(Mux(ark, taken & (first_refused | self.o.refused), self.o.refused)),
        ]
        return m

    def _translate(self, m, staged, word, whole, settings, known):
        """Layout of a staged ARK word."""
        regions = {"src": Signal(REGION_ID_WIDTH + 1), "dst": Signal(REGION_ID_WIDTH + 1)}
        malformed, unknown = Signal(), Signal()
        m.d.comb += [
            malformed.eq(~whole | (word.req != 0) | (word.reserved != 0)),
            unknown.eq(~known.valid | (known.domain != settings.domain)
                       | (word.connection >> self.config.connection_bits).any()),
            regions["src"].eq(settings.base + word.src), regions["dst"].eq(known.base + word.dst),
        ]
        extra = staged.extra
        return [
            staged.check.eq(Mux(malformed, Check.MALFORMED, Mux(unknown, Check.CONNECTION, Check.OK))),
            staged.src_region.eq(regions["src"]), staged.dst_region.eq(regions["dst"]),
            staged.length.eq(word.length), extra.length_high.eq(word.length[LENGTH_WIDTH:]),
            extra.src_beyond.eq(regions["src"][-1]), extra.dst_beyond.eq(regions["dst"][-1]),
            extra.note.ark.src.eq(word.src), extra.note.ark.dst.eq(word.dst),
            extra.note.ark.connection.eq(word.connection),
        ]
