# SPDX-License-Identifier: Apache-2.0
"""The selective window: a bit for each PSN beyond a gap whose packet was executed.

Latency: 1 cycle.  Throughput: a look-up and a write per cycle.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import RdmaConfig
from ..protocol import PSN_WIDTH
from .layouts import MOST_MESSAGES
from .rows import RowTable

__all__ = ["SelectiveWindow"]

_WORD_BITS = MOST_MESSAGES.bit_length() - 1


class SelectiveWindow(wiring.Component):
    """Words of 16 PSNs; those of a queue pair are cleared, one at a time, before it opens.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    qp, psn, en : ``In``
        Look up the word of this PSN; the outputs are valid in the next cycle.
    seen : ``Out(1)``
        The packet with this PSN was executed.
    run : ``Out(range(17))``
        Consecutive PSNs from this one to the end of the word that were executed; with ``counted``, this one is.
    last : ``Out(1)``
        The last of them is the last of the word.
    set, skip, clear : ``In(1)``
        In a later cycle before the next look-up: set the bit; clear those of the run; or clear the word of number
        ``word``.
    word : ``In``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        self.words = max(1, config.window // MOST_MESSAGES)
        super().__init__({
            "qp": In(config.qp_bits), "psn": In(PSN_WIDTH), "en": In(1), "counted": In(1), "seen": Out(1),
            "run": Out(range(MOST_MESSAGES + 1)), "last": Out(1), "set": In(1), "skip": In(1), "clear": In(1),
            "word": In(range(max(2, self.words))),
        })

    def elaborate(self, platform):
        m = Module()
        if not self.config.selective:
            m.d.comb += [self.seen.eq(0), self.run.eq(1), self.last.eq(0)]
            return m
        # A window of 8 uses half of a word of 16 PSNs: two windows alternate, of which one is always clear.
        m.submodules.rows = rows = RowTable(self.config, unsigned(MOST_MESSAGES),
                                            depth=self.config.queue_pairs * self.words, swept=False)
        number_bits = (self.words - 1).bit_length()
        qp, psn = Signal.like(self.qp, reset_less=True), Signal(_WORD_BITS + number_bits, reset_less=True)
        with m.If(self.en):
            m.d.sync += [qp.eq(self.qp), psn.eq(self.psn)]
        at, word, marked = Signal(_WORD_BITS), rows.read[0].data, Signal(MOST_MESSAGES)
        bit, ones, chain = Signal(MOST_MESSAGES), Signal(MOST_MESSAGES), Signal(MOST_MESSAGES)
        m.d.comb += [
            rows.read[0].addr.eq(Cat(self.psn[_WORD_BITS:_WORD_BITS + number_bits], self.qp)),
            rows.read[0].en.eq(self.en),
            at.eq(psn), bit.eq(1 << at), self.seen.eq((word & bit).any()),
            marked.eq(word | Mux(self.counted, bit, 0)), ones.eq(marked >> at),
            chain.eq(Cat(ones[:end].all() for end in range(1, MOST_MESSAGES + 1))),
            self.run.eq(sum(chain)), self.last.eq((chain << at)[MOST_MESSAGES - 1]),
            rows.write.en.eq(self.set | self.skip | self.clear),
            rows.write.addr.eq(Cat(Mux(self.clear, self.word, psn[_WORD_BITS:])[:number_bits], qp)),
        ]
        # The run is registered: it is cleared a cycle after it was found.
        kept, run_bits, own = (Signal(MOST_MESSAGES, name=name, reset_less=True)
                               for name in ("kept", "run_bits", "own"))
        m.d.sync += [kept.eq(word), run_bits.eq(chain << at), own.eq(bit)]
        with m.If(self.clear):
            m.d.comb += rows.write.data.eq(0)
        with m.Elif(self.skip):
            m.d.comb += rows.write.data.eq(kept & ~run_bits)
        with m.Else():
            m.d.comb += rows.write.data.eq(kept | own)
        return m
