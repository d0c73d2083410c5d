# SPDX-License-Identifier: Apache-2.0
"""Time limits of read requests: a scan over all tags, once per time limit.

ReadIssue -> ReadTimeouts -> CompletionFinder.  A request times out in the second scan after its issue, and its tag
expires in the fifth.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ..config import PcieConfig
from .read_layouts import IssuedSignature, TagQuery, Termination, termination_layout
from .tag_flags import TagFlags

__all__ = ["ReadTimeouts"]

TIMED_OUT, EXPIRED = 2, 5
"""Ages in scans. A tag that expired has waited for two time limits or more after its request timed out."""


class ReadTimeouts(wiring.Component):
    """Count the scans that a request has seen. One tag per cycle; a termination that is not accepted stalls the scan.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
    issued : ``In(IssuedSignature)``
    waiting : ``Out(TagQuery)``
        Whether completions are expected for a tag.
    timeout : ``In(32)``
        Cycles from the start of a scan to that of the next one, at least ``tags``; 0 for no further scan.
    terminations : ``Out(stream.Signature(termination_layout))``
        Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "issued": In(IssuedSignature(config)), "waiting": Out(TagQuery(config)),
            "timeout": In(32), "terminations": Out(stream.Signature(termination_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, output = self.config, self.terminations
        elapsed, due, scanning, tag = Signal(32), Signal(), Signal(), Signal(config.tag_bits)
        step = Signal()
        m.d.comb += step.eq(scanning & (~output.valid | output.ready))
        m.d.sync += [elapsed.eq(elapsed + 1), due.eq((elapsed >= self.timeout) & (self.timeout != 0))]
        with m.If(due & ~scanning):
            m.d.sync += [scanning.eq(1), elapsed.eq(2), due.eq(0)]
        with m.Elif(step):
            m.d.sync += tag.eq(tag + 1)
            with m.If(tag.all()):
                m.d.sync += scanning.eq(0)

        m.submodules.young = young = TagFlags(config)
        m.submodules.ages = ages = Table(range(EXPIRED + 1), depth=config.tags, reads=1, init=None)
        wiring.connect(m, wiring.flipped(self.init), young.init)
        age, seen = Signal(range(EXPIRED + 1)), ages.read[0].data
        m.d.comb += [
            young.set.valid.eq(self.issued.valid), young.set.tag.eq(self.issued.tag),
            young.clear.valid.eq(step), young.clear.tag.eq(tag), young.read[0].tag.eq(tag),
            ages.read[0].addr.eq(tag), self.waiting.tag.eq(tag),
            age.eq(Mux(young.read[0].value, 1, Mux(seen >= EXPIRED, EXPIRED, seen + 1))),
            ages.write.en.eq(step), ages.write.addr.eq(tag), ages.write.data.eq(age),
        ]
        with m.If(~output.valid | output.ready):
            m.d.sync += [
                output.valid.eq(scanning & self.waiting.value & ((age == TIMED_OUT) | (age == EXPIRED))),
                output.payload.tag.eq(tag),
                output.payload.kind.eq(Mux(age == EXPIRED, Termination.EXPIRED, Termination.TIMED_OUT)),
            ]
        return m
