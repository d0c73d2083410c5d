# SPDX-License-Identifier: Apache-2.0
"""Completions of the PCIe adapter's reads: a request ends once, with all of its beats, and so does its tag's use.

By induction, for any completions.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw.axi import Resp
from hw.pcie.config import TAG_WIDTH
from hw.pcie.layouts import completion_layout
from hw.pcie.requester.completion_check import CompletionCheck
from hw.pcie.requester.completion_finder import CompletionFinder
from hw.pcie.requester.read_layouts import Termination, tag_record_layout, termination_layout
from tests.formal.delivery import stable
from tests.formal.small import assume_constant, pcie, swept
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Ended(wiring.Component):
    """The request under a tag of the solver's choice, for any completions, from the sweep on.

    Assumed of the pool: a tag is issued while no request has it. Of RC: all beats of a completion have the same fields,
    but for an error. Of ReadTimeouts: the kinds of its terminations, at any time. Of ReadIssue: a flush has one beat,
    and a request that is not sent is refused once.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "issues": In(1), "issued": In(config.tag_bits), "record": In(tag_record_layout(config)), "sends": In(1),
            "arrives": In(1), "completion": In(completion_layout(config)), "ends": In(1),
            "end": In(termination_layout(config)), "refuses": In(1), "refused": In(config.tag_bits), "ready": In(1),
            "query": In(config.tag_bits), "watched": In(config.tag_bits),
        })

    def elaborate(self, platform):
        m = Module()
        config, watched = self.config, self.watched
        finder, check = CompletionFinder(config), CompletionCheck(config)
        m.submodules.finder, m.submodules.check = parts, checks = elaborated(finder), elaborated(check)
        wiring.connect(m, finder.found, check.found)
        wiring.connect(m, check.updates, finder.updates)
        timeouts, refusals = finder.terminations
        assume_constant(m, watched)
        done = swept(m, finder.init, config.sweep_rows)
        m.d.comb += [
            finder.issued.valid.eq(self.issues), finder.issued.tag.eq(self.issued),
            finder.issued.record.eq(self.record), finder.issued.sent.eq(self.sends),
            finder.completions.valid.eq(self.arrives), finder.completions.payload.eq(self.completion),
            timeouts.valid.eq(self.ends), timeouts.payload.eq(self.end), refusals.valid.eq(self.refuses),
            refusals.payload.tag.eq(self.refused), refusals.payload.kind.eq(Termination.REFUSED),
            finder.waiting.tag.eq(self.query), check.checked.ready.eq(self.ready),
            Assume((self.end.kind == Termination.TIMED_OUT) | (self.end.kind == Termination.EXPIRED)),
        ]
        for name, source in (("completion", finder.completions), ("end", timeouts), ("refusal", refusals)):
            stable(m, source, Assume, name)
        inside, current = Signal(), Signal(len(self._fields(self.completion)))
        with m.If(self.arrives & finder.completions.ready):
            m.d.sync += [inside.eq(~self.completion.last), current.eq(self._fields(self.completion))]
        m.d.comb += Assume((self.completion.first == ~inside) & (~inside | (self._fields(self.completion) == current)))

        # -- The request: live until its last completion, with the beats that are left.
        live, sent, refused, left = Signal(), Signal(), Signal(), Signal.like(self.record.left)
        record, was = Signal.like(self.record), check.found.payload
        issues, completes, delivers = (Signal(name=name) for name in ("issues_it", "completes_it", "delivers_it"))
        checked, error = check.checked.payload, Signal()
        m.d.comb += [
            issues.eq(self.issues & (self.issued == watched)),
            completes.eq(check.completed.valid & (check.completed.tag == watched)),
            delivers.eq(check.checked.valid & (checked.tag == watched)), error.eq(checked.resp != Resp.OKAY),
            Assume(~self.issues | done), Assume(~issues | ~live & (left == 0) & (self.record.left != 0)),
            Assume(~self.record.flush | (self.record.left == 1)),
            Assume(~self.refuses | (self.refused != watched) | live & ~sent & ~refused),
        ]
        m.d.sync += live.eq(live & ~completes | issues)
        with m.If(issues):
            m.d.sync += [sent.eq(self.sends), refused.eq(0), left.eq(self.record.left), record.eq(self.record)]
        with m.Elif(delivers & self.ready):
            m.d.sync += left.eq(Mux(error, 0, left - 1))
        with m.If(self.refuses & refusals.ready & (self.refused == watched)):
            m.d.sync += refused.eq(1)
        same = Cat(checked[name] == record[name] for name in ("id", "flush", "stored", "slot", "ends_burst")).all()
        m.d.comb += [
            Assert(~completes | live, Format("a tag completes twice, or is not in use")),
            Assert(~completes | Mux(sent, (was.kind == Termination.EXPIRED) | (was.kind == Termination.NONE)
                                    & was.completion.last, was.kind == Termination.REFUSED), Format("still in flight")),
            Assert(~completes | (left == 0) | delivers & (error | (left == 1)), Format("beats are missing")),
            Assert(~delivers | live & (left != 0) & (checked.left == left), Format("a beat too many")),
            Assert(~delivers | same, Format("a beat of another request")),
            Assert(~delivers | sent | error, Format("data of a request that was not sent")),
            Assert((self.query != watched) | (finder.waiting.value == (live & sent)), Format("a time-out is not seen")),
        ]

        # -- The invariant.
        found, ours = finder.found, Signal()
        fresh, expected = (self._flag(m, opened(parts, name)) for name in ("fresh", "expected"))
        rows = row_of(m, opened(parts, "records").submodules.memory, watched)
        state = row_of(m, opened(parts, "states").submodules.memory, watched)
        kept = data.View(tag_record_layout(config), rows)
        held = (was.record.as_value() == record.as_value()) & (was.state.left == left)
        cleared = done | (finder.init.address > watched)
        m.d.comb += [
            ours.eq(found.valid & (was.completion.tag == watched)),
            Assert(~cleared | (expected == (live & sent)), Format("expected")),
            Assert(done | ~live & (left == 0), Format("live during the sweep")),
            Assert(~live | (rows == record.as_value()), Format("record")),
            Assert(~live | ~record.flush | (left <= 1), Format("flush")),
            Assert(~live | (Mux(fresh, kept.left, state[-len(left):]) == left), Format("left")),
            Assert(live | (left == 0), Format("left behind")), Assert(~live | sent | (left != 0), Format("not sent")),
            Assert(~ours | ~was.state.waiting | live & sent & held & (was.kind != Termination.REFUSED),
                   Format("found")),
            Assert((ours & (was.kind == Termination.REFUSED)) == (live & ~sent & refused), Format("refused")),
            Assert(~(ours & (was.kind == Termination.REFUSED)) | held, Format("found, refused")),
            Assert(was.completion.tag < config.tags, Format("number of the tag")),
            Assert(internal(m, "sweep_row") <= config.sweep_rows, Format("row of the sweep")),
        ]

        # The completion in progress: as far as it is found, and as far as it is checked.
        begun, ignoring, latest = Signal(), internal(checks, "ignoring"), internal(checks, "current")
        arrived, bits = found.valid & (was.kind == Termination.NONE), config.tag_bits
        with m.If(arrived & self.ready):
            m.d.sync += begun.eq(~was.completion.last)
        fields = data.View(self._common(), current)
        measured = self._measured(fields)
        mine, counted = begun & (latest == watched), measured["count_dwords"] <= fields.dwords
        m.d.comb += [
            Assert(arrived | (begun == inside), Format("begun")),
            Assert(~arrived | (was.completion.first == ~begun) & (was.completion.last == ~inside),
                   Format("first, last")),
            Assert(~arrived | (self._fields(was.completion)[TAG_WIDTH:] == current[TAG_WIDTH:]), Format("fields")),
            Assert(~arrived | (was.completion.tag == fields.tag[:bits]), Format("tag")),
            Assert(~begun | (latest == fields.tag[:bits]), Format("latest tag")),
            Assert(~arrived | Cat(was[name] == value for name, value in measured.items()).all(), Format("measured")),
            Assert(~mine | ignoring | live & sent, Format("a completion of an earlier request")),
            Assert(~mine | ignoring | (left == 0) | ~counted | (fields.dwords == 0) | fields.completed,
                   Format("a completion with all bytes")),
        ]
        return m

    def _common(self):
        """Those fields of a completion that all of its beats have in common."""
        layout = completion_layout(self.config)
        return data.StructLayout({name: layout[name].shape for name in (
            "tag", "address", "dwords", "byte_count", "completed", "status")})

    def _fields(self, completion):
        return Cat(completion[name] for name, _ in self._common())

    def _measured(self, fields):
        """Values that CompletionFinder derives from them."""
        lane, dwords = self.config.lane_bits, self.config.dword_lane_bits
        end = (fields.address[2:lane] + fields.dwords)[:len(fields.dwords) + 1]
        return {
            "beats": end[dwords:], "whole": (end[:dwords] == 0) & (fields.dwords != 0),
            "count": fields.byte_count + fields.address[:lane],
            "count_dwords": (fields.byte_count + fields.address[:2] + 3)[2:],
            "zero_length": (fields.dwords == 1) & (fields.byte_count == 1),
        }

    def _flag(self, m, parts):
        """The tag's flag."""
        one, other = (row_of(m, opened(parts, name).submodules.memory, self.watched) for name in ("raised", "lowered"))
        return one ^ other


@pytest.mark.parametrize("tags", [32, 256])
def test_completions(tags):
    prove(Ended(pcie(tags)), name=f"pcie-tag-ends-{tags}", depth=2, mode="prove")
