# SPDX-License-Identifier: Apache-2.0
"""Post the words of firings.

TriggerTable -> TriggerPoster -> doorbells of both engines, OperationMerge.  Latency: 1 cycle from the request of a
firing to its first word, 2 cycles with a stamp; with ``pipelined`` 4 cycles.  Throughput: a firing per 2 cycles, of two
words per 3 cycles; with ``pipelined`` 5 and 6 cycles.
"""

from itertools import pairwise

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.posts import WORD_BITS, PostPortSignature
from hw.common.table import BLOCK_RAM

from .config import GENERATION_WIDTH, INDEX_WIDTH, PAGE_WIDTH, THRESHOLD_WIDTH, TriggerConfig
from .layouts import decode_tick
from .pending import PagesSignature
from .ports import FiringSignature, LeaveSignature, RefusalSignature, TickSignature, TriggerSettings
from .table import WordWriteSignature
from .words import NATIVE_STAMP, Refusal

__all__ = ["TriggerPoster"]

RECENT = 2
"""Cycles after a word was posted in which its queue may not show it yet."""


class TriggerPoster(wiring.Component):
    """Keep the words and the pages of counters, and post the words of one firing after the other.

    Parameters
    ----------
    config : TriggerConfig

    Members
    -------
    words : ``In(WordWriteSignature)``
        Words of a counter without pending firing.
    settings : ``In(TriggerSettings)``
        Pages of blocks; the rest is unused.
    pages : ``In(PagesSignature).array(blocks + 1)``
    ready : ``Out(1)``
        A firing may leave the table.
    leave : ``In(LeaveSignature)``
    firing : ``In(FiringSignature)``
    dma, ace : ``Out(PostPortSignature)``, chain : ``Out(TickSignature)``
    refusal : ``Out(RefusalSignature)``
        A block may not post to the page (PAGE), or the queue refused a word (QUEUE).
    fired : ``Out(1)``
        The last word of a firing was posted, and not refused for its page.
    active : ``Out(blocks)``
        Block of a firing that is being posted.
    """

    def __init__(self, config: TriggerConfig) -> None:
        self.config = config
        super().__init__({
            "words": In(WordWriteSignature(config)), "settings": In(TriggerSettings(config)),
            "pages": In(PagesSignature(config)).array(config.blocks + 1), "ready": Out(1),
            "leave": In(LeaveSignature(config)), "firing": In(FiringSignature(config)),
            "dma": Out(PostPortSignature(config.dma_pages)), "ace": Out(PostPortSignature(config.ace_pages)),
            "chain": Out(TickSignature(config)), "refusal": Out(RefusalSignature(config)), "fired": Out(1),
            "active": Out(config.blocks),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # -- Words: a memory for the first ones, and one for the second ones. Read while a firing leaves the table.
        shown = []
        for second in range(2):
            m.submodules[f"words_{second}"] = words = memory.Memory(
                shape=unsigned(WORD_BITS), depth=config.counters, init=[], attrs=BLOCK_RAM)
            write, read = words.write_port(), words.read_port()
            m.d.comb += [
                write.en.eq(self.words.valid & (self.words.clear | (self.words.second == second))),
                write.addr.eq(self.words.counter), write.data.eq(Mux(self.words.clear, 0, self.words.word)),
                read.addr.eq(self.leave.counter), read.en.eq(self.leave.valid),
            ]
            shown.append(read.data)
        if config.pipelined:
            shown = [delayed(m, word, 1, name=f"word_{number}") for number, word in enumerate(shown)]

        # -- The firing that is being posted.
        firing, allowed, second, upper = Signal(self.firing.payload.shape()), Signal(), Signal(), Signal()
        held, busy, next_one = Signal(), Signal(), Signal(self.firing.payload.shape())
        number, offers, fresh = Signal(THRESHOLD_WIDTH), Signal(), self.firing.payload
        now = firing if config.pipelined else next_one
        with m.If(self.firing.valid):
            m.d.sync += number.eq(Mux(fresh.sum, -fresh.base, (fresh.base - fresh.behind)[:GENERATION_WIDTH]))
        last, taken, ends, requested = Signal(), Signal(), Signal(), Signal()
        on_the_way = Signal(config.read_latency)
        m.d.comb += requested.eq(on_the_way.any())
        m.d.sync += on_the_way.eq(Cat(self.leave.valid, on_the_way))
        m.d.sync += [held.eq((held | self.firing.valid) & ~ends), firing.eq(next_one)]
        with m.If(self.leave.valid):
            m.d.sync += allowed.eq(self.leave.allowed)
        m.d.comb += [
            busy.eq(held if config.pipelined else held | self.firing.valid),
            next_one.eq(Mux(held, firing, self.firing.payload)),
            last.eq(~now.pair | second), self.ready.eq(~held & ~self.firing.valid & ~requested),
            offers.eq(busy & allowed & (held | ~now.stamp)),
        ]
        self._look_up(m, busy, now.page)
        block = now.counter[INDEX_WIDTH:]
        m.d.comb += self.active.eq(Mux(busy, 1 << block, 0))
        word, stamped = Signal(WORD_BITS), Signal(WORD_BITS)
        low, high = NATIVE_STAMP
        m.d.comb += [
            word.eq(Mux(second, shown[1], shown[0])),
            stamped.eq(Mux(now.stamp & last,
                           Cat(word[:low], number, C(0, high - low - len(number)), word[high:]), word)),
        ]
        is_dma, is_ace, queue = Signal(), Signal(), Signal(range(config.ace_pages))
        m.d["sync" if config.pipelined else "comb"] += [
            is_dma.eq(next_one.page < config.dma_pages),
            is_ace.eq((next_one.page >= config.dma_pages) & (next_one.page < config.pages)),
            queue.eq(next_one.page - config.dma_pages),
        ]
        m.d.comb += [
            self.dma.words.valid.eq(offers & is_dma), self.dma.words.payload.queue.eq(now.page),
            self.ace.words.valid.eq(offers & is_ace), self.ace.words.payload.queue.eq(queue),
            self.dma.words.payload.data.eq(stamped), self.ace.words.payload.data.eq(stamped),
        ]

        # A word for the block's own tick page: two ticks, of which those that are 0 are skipped.
        tick, half, blank, skips = self.chain.payload, Signal(WORD_BITS // 2), Signal(), Signal()
        m.d.comb += [
            half.eq(Mux(upper, stamped[WORD_BITS // 2:], stamped[:WORD_BITS // 2])), blank.eq(half == 0),
            self.chain.valid.eq(offers & ~is_dma & ~is_ace & ~blank),
            *decode_tick(config, tick, word=half, block=block),
            skips.eq(blank | self.chain.ready),
        ]
        with m.If(~allowed):
            m.d.comb += [taken.eq(busy), ends.eq(busy)]
        with m.Else():
            m.d.comb += [
                taken.eq(offers & Mux(is_dma, self.dma.words.ready, Mux(is_ace, self.ace.words.ready, skips & upper))),
                ends.eq(taken & last),
            ]
        with m.If(offers & ~is_dma & ~is_ace & skips):
            m.d.sync += upper.eq(~upper)
        with m.If(taken):
            m.d.sync += second.eq(~ends)
        refused = Mux(is_dma, self.dma.words.refused, self.ace.words.refused) & (is_dma | is_ace) & allowed
        m.d.sync += [
            self.fired.eq(ends & allowed),
            self.refusal.valid.eq(taken & (~allowed | refused)), self.refusal.block.eq(block),
            self.refusal.index.eq(now.counter[:INDEX_WIDTH]),
            self.refusal.code.eq(Mux(allowed, Refusal.QUEUE, Refusal.PAGE)),
        ]
        return m

    def _look_up(self, m, busy, page_now):
        """Pages of the blocks' oldest firings. A page to which a word was just posted is not free."""
        config = self.config
        masks = [Signal(config.pages, name=f"mask_{block}") for block in range(config.blocks)]
        settings = self.settings
        for block, mask in enumerate(masks):
            with m.If(settings.pages_valid & (settings.pages_block == block)):
                m.d.sync += mask.eq(settings.pages)
        layout = data.StructLayout({"valid": 1, "page": PAGE_WIDTH})
        recent = [Signal(layout, name=f"recent_{age}") for age in range(RECENT)]
        m.d.sync += [recent[0].valid.eq(busy), recent[0].page.eq(page_now)]
        m.d.sync += [older.eq(newer) for newer, older in pairwise(recent)]
        free, mask_of = Signal(config.pages), Array(masks)
        m.d.comb += free.eq(Cat(self.dma.free, self.ace.free))
        for number, look_up in enumerate(self.pages):
            page, own, just = look_up.page, Signal(name=f"own_{number}"), Signal(name=f"just_{number}")
            # The heads of the blocks look up constant blocks.
            mask = masks[number] if number < config.blocks else mask_of[look_up.block]
            m.d.comb += [
                just.eq((busy & (page_now == page)) | Cat(one.valid & (one.page == page) for one in recent).any()),
                own.eq(page == config.pages + look_up.block),
                look_up.allowed.eq(own | ((page < config.pages) & mask.bit_select(page, 1))),
                look_up.free.eq(own | (free.bit_select(page, 1) & ~just)),
            ]
