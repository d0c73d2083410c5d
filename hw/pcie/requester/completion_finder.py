# SPDX-License-Identifier: Apache-2.0
"""The request of each completion: its record and its state, by the tag.

RC, ReadTimeouts, ReadIssue -> CompletionFinder -> CompletionCheck.  Latency: 1 cycle.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.common.table import Table

from ..config import TAG_WIDTH, PcieConfig
from ..layouts import completion_layout
from .read_layouts import (
    IssuedSignature,
    StateUpdate,
    TagQuery,
    Termination,
    found_layout,
    tag_record_layout,
    tag_state_layout,
    termination_layout,
)
from .tag_flags import TagFlags

__all__ = ["CompletionFinder"]


class CompletionFinder(wiring.Component):
    """Read the tables of tags, and keep them: ReadIssue writes records, CompletionCheck updates states.

    The state of a request that has received nothing follows from its record. An update of the beat before is seen
    although the tables do not have it yet.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    init : ``In(SweepSignature)``
    completions : ``In(stream.Signature(completion_layout))``
        ``ready`` depends on ``found.ready``. From the input to the output register: up to 7 levels of logic.
    terminations : array of ``In(stream.Signature(termination_layout))``
        Of both, the first has precedence, and both have precedence over completions.
    issued : ``In(IssuedSignature)``, updates : ``In(StateUpdate)``
        An update comes in the cycle in which its beat leaves ``found``.
    waiting : ``In(TagQuery)``
        Whether completions are expected for a tag.
    found : ``Out(stream.Signature(found_layout))``
        Registered.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "completions": In(stream.Signature(completion_layout(config))),
            "terminations": In(stream.Signature(termination_layout(config))).array(2),
            "issued": In(IssuedSignature(config)), "updates": In(StateUpdate(config)), "waiting": In(TagQuery(config)),
            "found": Out(stream.Signature(found_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        bits = self.config.tag_bits
        load, tag, kind = Signal(), Signal(bits), Signal(Termination)
        completion, output = self.completions.payload, self.found
        first, second = self.terminations
        terminated, exists = Signal(), Signal()
        m.d.comb += [
            load.eq(~output.valid | output.ready),
            terminated.eq(first.valid | second.valid),
            first.ready.eq(load), second.ready.eq(load & ~first.valid), self.completions.ready.eq(load & ~terminated),
            tag.eq(Mux(first.valid, first.payload.tag, Mux(second.valid, second.payload.tag, completion.tag))),
            kind.eq(Mux(first.valid, first.payload.kind, Mux(second.valid, second.payload.kind, Termination.NONE))),
            exists.eq(terminated | ~completion.tag[bits:].any() if bits < TAG_WIDTH else 1),
        ]
        record, state = self._look_up(m, tag, exists)
        with m.If(load):
            m.d.sync += [
                output.valid.eq(terminated | self.completions.valid), output.payload.completion.eq(completion),
                output.payload.completion.tag.eq(tag), output.payload.kind.eq(kind),
                output.payload.record.eq(record), output.payload.state.eq(state),
            ]
            self._measure(m, completion, output.payload)
        return m

    def _look_up(self, m, tag, exists):
        config, issued, updates, init = self.config, self.issued, self.updates, self.init
        m.submodules.records = records = Table(tag_record_layout(config), depth=config.tags, reads=1, init=None)
        moving = data.StructLayout({name: tag_state_layout(config)[name].width for name in ("beat", "left")})
        m.submodules.states = states = Table(moving, depth=config.tags, reads=1, init=None)
        m.submodules.fresh = fresh = TagFlags(config)
        m.submodules.expected = expected = TagFlags(config, reads=2)
        for flags in (fresh, expected):
            wiring.connect(m, wiring.flipped(init), flags.init)
        m.d.comb += [
            records.write.en.eq(issued.valid), records.write.addr.eq(issued.tag), records.write.data.eq(issued.record),
            states.write.en.eq(updates.valid), states.write.addr.eq(updates.tag),
            *(states.write.data[name].eq(updates.state[name]) for name in ("beat", "left")),
            fresh.set.valid.eq(issued.valid), fresh.set.tag.eq(issued.tag),
            fresh.clear.valid.eq(updates.valid), fresh.clear.tag.eq(updates.tag),
            expected.set.valid.eq(issued.valid & issued.sent), expected.set.tag.eq(issued.tag),
            expected.clear.valid.eq(updates.valid & ~updates.state.waiting), expected.clear.tag.eq(updates.tag),
            records.read[0].addr.eq(tag), states.read[0].addr.eq(tag), fresh.read[0].tag.eq(tag),
            expected.read[0].tag.eq(tag), expected.read[1].tag.eq(self.waiting.tag),
            self.waiting.value.eq(expected.read[1].value & ~init.active),
        ]

        record, state, updated = records.read[0].data, Signal(tag_state_layout(config)), Signal()
        m.d.comb += updated.eq(updates.valid & (updates.tag == tag))
        with m.If(updated):
            m.d.comb += [state.eq(updates.state), state.waiting.eq(updates.state.waiting & exists)]
        with m.Else():
            m.d.comb += [
                state.waiting.eq(expected.read[0].value & ~init.active & exists),
                state.beat.eq(Mux(fresh.read[0].value, record.beat, states.read[0].data.beat)),
                state.left.eq(Mux(fresh.read[0].value, record.left, states.read[0].data.left)),
                state.offset.eq(Mux(fresh.read[0].value, record.offset, 0)),
            ]
        return record, state

    def _measure(self, m, completion, found):
        lane, dwords = self.config.lane_bits, self.config.dword_lane_bits
        end = (completion.address[2:lane] + completion.dwords)[:len(completion.dwords) + 1]
        m.d.sync += [
            found.beats.eq(end[dwords:]), found.whole.eq((end[:dwords] == 0) & (completion.dwords != 0)),
            found.count.eq(completion.byte_count + completion.address[:lane]),
            found.count_dwords.eq((completion.byte_count + completion.address[:2] + 3)[2:]),
            found.zero_length.eq((completion.dwords == 1) & (completion.byte_count == 1)),
        ]
