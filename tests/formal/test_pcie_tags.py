# SPDX-License-Identifier: Apache-2.0
"""Tags of the PCIe adapter's reads: handed out only while free, and free again once per use. By induction."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.pcie.requester.tag_pool import FEW_BITS, TagPool
from tests.formal.small import assume_constant, pcie, swept
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Pooled(wiring.Component):
    """A tag of the solver's choice: free, in use, or returning after both of its events, from the sweep on.

    Assumed of the read path: each event comes once per use, in any order and any cycle after the tag was taken.

    Assumed of the other tags is what is asserted of this one, for each, and its consequences: one that is taken was not
    in use, one that returns was, and no queue, which has an entry for each tag that it may hold, is full when a tag
    comes. Likewise the rows of a queue: one is watched. All of this is assumed a cycle later, so not of the first cycle
    in which it fails: there the assertion fails.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "ready": In(1), "extended": In(1), "hold": In(1), "delivers": In(1), "delivered": In(config.tag_bits),
            "completes": In(1), "completed": In(config.tag_bits), "watched": In(config.tag_bits),
            "row": In(config.tag_bits),
        })

    def elaborate(self, platform):
        m = Module()
        config, dut, watched = self.config, TagPool(self.config), self.watched
        m.submodules.dut = parts = elaborated(dut)
        count, o = config.tags, dut.o
        m.d.comb += [
            o.ready.eq(self.ready), dut.extended.eq(self.extended), dut.hold.eq(self.hold),
            dut.delivered.valid.eq(self.delivers), dut.delivered.tag.eq(self.delivered),
            dut.completed.valid.eq(self.completes), dut.completed.tag.eq(self.completed),
        ]
        assume_constant(m, Cat(watched, self.row))
        done = swept(m, dut.init, config.sweep_rows)

        # -- The tag: free from the sweep or its return on, in use until the later of its events, then returning.
        names = ["few", "many"][:1 + (count > 1 << FEW_BITS)]
        queues = [getattr(parts.submodules, name) for name in names]
        free, used, returning, delivered, completed = (Signal(name=name) for name in (
            "free", "used", "returning", "was_delivered", "was_completed"))
        delivers, completes = (Signal(name=name) for name in ("delivers_it", "completes_it"))
        comes, returned, taken, ends = (Signal(name=name) for name in ("comes", "returned", "taken", "ends"))
        m.d.comb += [
            delivers.eq(self.delivers & (self.delivered == watched)),
            completes.eq(self.completes & (self.completed == watched)),
            Assume(~delivers | used & ~delivered), Assume(~completes | used & ~completed),
            taken.eq(o.valid & self.ready & (o.payload == watched)),
            comes.eq(Cat(queue.i.valid for queue in queues).any() & (queues[0].i.payload == watched)),
            returned.eq(comes & done), ends.eq((delivered | delivers) & (completed | completes)),
        ]
        m.d.sync += [
            free.eq(free & ~taken | comes), used.eq(used & ~ends | taken), returning.eq(returning & ~returned | ends),
            delivered.eq((delivered | delivers) & ~ends), completed.eq((completed | completes) & ~ends),
        ]
        is_few = ~watched[FEW_BITS:].any()
        allowed, held, offered = Signal(), Signal(), Signal.like(o.payload)
        m.d.sync += [allowed.eq(Mux(self.hold, allowed, self.extended)), offered.eq(o.payload),
                     held.eq(o.valid & self.hold & ~self.ready)]
        m.d.comb += [
            Assert(~o.valid | (o.payload != watched) | free, Format("a tag is offered that is not free")),
            Assert(~returned | returning, Format("a tag returns that is in use or free")),
            Assert(~done | (free + used + returning == 1), Format("a tag is lost, or in two places")),
            Assert(~o.valid | (o.payload != watched) | is_few | allowed, Format("an extended tag is not allowed")),
            Assert(~held | o.valid & (o.payload == offered), Format("a tag changes while it is held")),
            Assert(~dut.idle | ~used & ~returning, Format("idle while a tag is in use")),
        ]

        # -- Assumed of the other tags.
        others, true = Signal(range(count)), Signal(init=1)
        gives = done & Cat(queue.i.valid for queue in queues).any() & ~comes
        takes = o.valid & self.ready & ~taken
        m.d.sync += [
            others.eq(others + takes - gives),
            true.eq((~takes | (others != count - 1)) & (~gives | (others != 0)) & Cat(
                ~queue.i.valid | queue.i.ready for queue in (*queues, parts.submodules.delayed)).all()),
        ]
        m.d.comb += [Assume(true), Assume(done | ~(self.delivers | self.completes))]

        # -- The invariant: where the tag is.
        later, delayed = parts.submodules.pair.later, parts.submodules.delayed
        tables = opened(parts, "pair")
        bits = [row_of(m, opened(tables, name).submodules.memory, watched) for name in ("first", "second")]
        here = [event.valid & (event.tag == watched) for event in later]
        inside = [self._assert_held(m, name, queue, opened(parts, name))
                  for name, queue in zip(names, queues, strict=True)]
        waits = self._assert_held(m, "delayed", delayed, opened(parts, "delayed"))
        m.d.comb += [
            Assert(free == sum(inside), Format("free")), Assert(~inside[0] | is_few, Format("few")),
            Assert(returning == sum(here) + waits, Format("returning")),
            Assert(~done & (dut.init.address <= watched) | (bits[0] ^ bits[1] == delivered ^ completed),
                   Format("pair of events")),
            Assert(~(delivered & completed), Format("both events")),
            Assert(~(delivered | completed) | used, Format("events of a tag that is not in use")),
            Assert(internal(m, "sweep_row") <= config.sweep_rows, Format("row of the sweep")),
            Assert(done | ~used & (others == 0), Format("in use during the sweep")),
            Assert(done | (delayed.level == 0) & ~later[0].valid & ~later[1].valid, Format("returns in the sweep")),
            Assert(done | (free == (watched < dut.init.address)), Format("the sweep")),
            Assert(internal(parts, "used") == others + used + returning, Format("number of tags in use")),
        ]
        if len(names) > 1:
            m.d.comb += [Assert(~inside[1] | ~is_few, Format("many")),
                         Assert(~internal(parts, "choice") | allowed, Format("choice"))]
        return m

    def _assert_held(self, m, name, queue, parts):
        """Whether the tag is in the queue, which has it in the register or in one row."""
        depth, storage = queue.depth, parts.submodules.storage
        oldest, write = storage.read_ports[0].addr, storage.write_ports[0]
        in_rows, place = Signal.like(queue.level, name=f"{name}_rows"), Signal.like(oldest, name=f"{name}_place")
        inside = Signal(name=f"has_{name}")
        comes = queue.i.valid & (queue.i.payload == self.watched)
        leaves = queue.o.valid & queue.o.ready & (queue.o.payload == self.watched)
        shown = queue.o.valid & (queue.o.payload == self.watched)
        m.d.sync += inside.eq(inside & ~leaves | comes)
        with m.If(comes):
            m.d.sync += place.eq(write.addr)
        here, row, true = inside & ~shown, self.row[:len(oldest)], Signal(name=f"{name}_true", init=1)

        def has(number, contents):
            return ((number - oldest)[:len(oldest)] < in_rows) & (contents == self.watched)

        m.d.sync += true.eq(~has(oldest, storage.read_ports[0].data) | here & (place == oldest))
        m.d.comb += [
            in_rows.eq(queue.level - queue.o.valid),
            Assert(internal(parts, "full") == (queue.level == depth), Format("{} full", name)),
            Assert(internal(parts, "some") == (queue.level > 1), Format("{} some", name)),
            Assert(queue.o.valid == (queue.level != 0), Format("{} valid", name)),
            Assert(queue.level <= depth, Format("{} level", name)),
            Assert(write.addr == (oldest + in_rows)[:len(oldest)], Format("{} written", name)),
            Assert(~here | has(place, row_of(m, storage, place)), Format("{} place", name)),
            Assert(~has(row, row_of(m, storage, row)) | here & (place == row), Format("{} rows", name)),
            Assert(~shown | inside, Format("{} shown", name)), Assume(true),
        ]
        return inside


@pytest.mark.parametrize("tags", [32, 64, 256])
def test_pool(tags):
    prove(Pooled(pcie(tags)), name=f"pcie-tag-pool-{tags}", depth=2, mode="prove")
