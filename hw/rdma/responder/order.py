# SPDX-License-Identifier: Apache-2.0
"""The order of a queue pair's requests: expected PSN, message in progress, duplicates, gaps.

AccessCheck -> PacketOrder -> RegionRecheck.  Latency: 3 cycles.  Throughput: one request per 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature
from hw.stream import Queue

from ..config import ADDR_WIDTH, RdmaConfig
from ..ports import ConnectionWrite, MarkSignature, RecordsTaken
from ..protocol import PSN_WIDTH, Nak, SyndromeKind
from .layouts import COUNT_WIDTH, GENERATION_WIDTH, Kind, checked_layout, issued_width, verdict_layout
from .rows import RowRead, RowTable
from .states import StateRead
from .window import SelectiveWindow

__all__ = ["OrderCounts", "PacketOrder", "nak", "order_layout", "reads_width"]


def nak(code):
    """Syndrome of a NAK."""
    return SyndromeKind.NAK << 5 | code


def reads_width(config):
    """Bits of a count of READs, modulo twice the most that are held."""
    return (2 * config.reads - 1).bit_length()


def order_layout(config):
    """State of a queue pair.

    ``inside``: in a message, of ``total`` bytes, of which ``remaining`` ones follow, for ``address``. ``gapped``: a
    NAK was sent, and the expected packet has not been executed since. ``ahead``: executed packets beyond the gap.
    ``records``, ``reads``, ``issued``: records, READs and requests so far. ``repeated``: a duplicate READ may be held.
    """
    return data.StructLayout({
        "expected": PSN_WIDTH, "inside": 1, "gapped": 1, "remaining": 32, "total": 32, "address": ADDR_WIDTH,
        "region": config.region_bits, "generation": GENERATION_WIDTH, "records": COUNT_WIDTH,
        "reads": reads_width(config), "repeated": 1, "ahead": config.window.bit_length(),
        "issued": issued_width(config)})


class OrderCounts(wiring.Signature):
    """Strobes: a request was executed, was a duplicate, was beyond a gap, had a wrong key, range or right, was invalid,
    or met a full ring of records."""

    def __init__(self) -> None:
        super().__init__({name: Out(1) for name in
                          ("executed", "duplicate", "gap", "access", "invalid", "not_ready")})


class PacketOrder(wiring.Component):
    """Decide on one request at a time, in three cycles: look up, compare, decide and write.

    When the expected PSN meets executed packets of the selective window, the next steps advance it over them, by up to
    16 each, before any other request.

    A READ of several packets whose PSNs could include executed packets beyond a gap is invalid. A duplicate READ whose
    key, range or length is wrong, or for which there is no free entry, is dropped. A new READ without a free entry is
    invalid, unless a duplicate may occupy one: then it is dropped, as if it was lost.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    checked : ``In(stream.Signature(checked_layout))``
    verdicts : ``Out(stream.Signature(verdict_layout))``
    connections : ``In(ConnectionWrite)``, taken : ``In(RecordsTaken)``
    accepting : ``Out(StateRead)``
    departed : ``Out(RowRead)``
        READs of a queue pair that are complete.
    opened, refused : ``Out(MarkSignature)``
    status : ``In(RowRead(order_layout))``
        A reader of the state.
    counts : ``Out(OrderCounts)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "checked": In(stream.Signature(checked_layout(config))),
            "verdicts": Out(stream.Signature(verdict_layout(config))), "connections": In(ConnectionWrite(config)),
            "taken": In(RecordsTaken(config)), "accepting": Out(StateRead(config)),
            "departed": Out(RowRead(reads_width(config), config.queue_pairs)),
            "opened": Out(MarkSignature(config)), "refused": Out(MarkSignature(config)),
            "status": In(RowRead(order_layout(config), config.queue_pairs)), "counts": Out(OrderCounts()),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.rows = rows = RowTable(config, order_layout(config), depth=config.queue_pairs, reads=2)
        m.submodules.heads = heads = RowTable(config, unsigned(COUNT_WIDTH), depth=config.queue_pairs)
        m.submodules.window = window = SelectiveWindow(config)
        m.submodules.verdicts = verdicts = Queue(verdict_layout(config), depth=4, ram="lut", output_register=True)
        wiring.connect(m, wiring.flipped(self.init), rows.init)
        wiring.connect(m, wiring.flipped(self.init), heads.init)
        wiring.connect(m, verdicts.o, wiring.flipped(self.verdicts))
        wiring.connect(m, wiring.flipped(self.status), rows.read[1])
        self._follow_heads(m, heads)

        # -- Cycle 0: choose, and look up.
        phase, start, skipping, skip_qp, skip_psn, clear = (
            Signal(range(3)), Signal(), Signal(), Signal(config.qp_bits), Signal(PSN_WIDTH),
            Signal(range(max(2, window.words))))
        now, is_skip, qp, psn = (Signal(checked_layout(config), reset_less=True), Signal(), Signal(config.qp_bits),
                                 Signal(PSN_WIDTH))
        offered = self.checked.payload
        m.d.comb += [
            start.eq((phase == 0) & (self.checked.valid | skipping) & (verdicts.level < 3)),
            qp.eq(Mux(skipping, skip_qp, offered.qp)), psn.eq(Mux(skipping, skip_psn, offered.psn)),
            window.qp.eq(qp), window.psn.eq(psn), window.en.eq(start),
        ]
        for port in (rows.read[0], heads.read[0], self.departed):
            m.d.comb += [port.addr.eq(qp), port.en.eq(start)]
        with m.If(start):
            m.d.sync += [now.eq(offered), now.qp.eq(qp), now.psn.eq(psn), is_skip.eq(skipping), phase.eq(1)]
        found = self._compare(m, rows.read[0].data, heads.read[0].data, now, is_skip, window)
        with m.If(phase == 1):
            m.d.sync += phase.eq(2)

        # -- Cycle 2: decide and write.
        row, new, more = found.row, rows.write.data, Signal()
        m.d.comb += [rows.write.addr.eq(now.qp), rows.write.en.eq(phase == 2), new.eq(row),
                     new.issued.eq(row.issued + verdicts.i.valid)]
        cleared = Signal()
        m.d.comb += [
            cleared.eq(clear == window.words - 1),
            self.checked.ready.eq((phase == 2) & ~is_skip & (~now.open | cleared)),
            verdicts.i.valid.eq((phase == 2) & (~now.open | is_skip | cleared)),
            window.clear.eq((phase == 2) & now.open & ~is_skip), window.word.eq(clear),
        ]
        with m.If(phase == 2):
            m.d.sync += [phase.eq(0), skipping.eq(more), skip_qp.eq(now.qp), skip_psn.eq(new.expected)]
            with m.If(window.clear):
                m.d.sync += clear.eq(Mux(cleared, 0, clear + 1))
        self._decide(m, now, is_skip, found, new, verdicts.i, window, phase == 2, more)
        m.d.comb += [self.opened.valid.eq(window.clear & cleared), self.opened.qp.eq(now.qp),
                     self.refused.qp.eq(now.qp)]
        return m

    def _follow_heads(self, m, heads):
        """Records that software has consumed, 0 from the opening; a report in the cycle of an opening waits."""
        later, held = Signal(heads.write.data.shape()), Signal()
        later_qp = Signal(self.config.qp_bits)
        opens = self.connections.valid & self.connections.entry.open
        with m.If(opens):
            m.d.comb += [heads.write.en.eq(1), heads.write.addr.eq(self.connections.qp)]
            m.d.sync += held.eq(held | self.taken.valid)
        with m.Elif(held):
            m.d.comb += [heads.write.en.eq(1), heads.write.addr.eq(later_qp), heads.write.data.eq(later)]
            m.d.sync += held.eq(self.taken.valid)
        with m.Else():
            m.d.comb += [heads.write.en.eq(self.taken.valid), heads.write.addr.eq(self.taken.qp),
                         heads.write.data.eq(self.taken.head)]
        with m.If(self.taken.valid):
            m.d.sync += [later.eq(self.taken.head), later_qp.eq(self.taken.qp)]

    def _compare(self, m, row, head, now, is_skip, window):
        """Cycle 1: everything about the request that depends on the state, in registers."""
        config = self.config
        found = Signal(data.StructLayout({
            "row": order_layout(config), "accepts": 1, "behind": 1, "equal": 1, "near": 1, "seen": 1, "sequence": 1,
            "total": 1, "reads_full": 1, "reads_none": 1, "backlog": COUNT_WIDTH, "run": len(window.run), "last": 1}),
            reset_less=True)
        distance, near, in_time = Signal(PSN_WIDTH), Signal(), Signal()
        reads = Signal(reads_width(config))
        m.d.comb += [
            distance.eq(now.psn - row.expected), self.accepting.qp.eq(now.qp), window.counted.eq(~is_skip),
            reads.eq(row.reads - self.departed.data),
            near.eq(~(distance >> config.window.bit_length() - 1).any()),
            in_time.eq(Mux(now.ends, row.remaining == now.length, row.remaining > now.length)),
        ]
        m.d.sync += [
            found.row.eq(row), found.accepts.eq(self.accepting.bit), found.behind.eq(distance[-1]),
            found.equal.eq(distance == 0), found.near.eq(near),
            found.seen.eq(window.seen & near),
            found.sequence.eq(Mux(now.read | now.begins, ~row.inside, row.inside)),
            found.total.eq(Mux(now.read, ~((row.ahead != 0) & (now.packets >> 1).any()), now.begins | in_time)),
            found.reads_full.eq(reads == config.reads), found.reads_none.eq(reads == 0),
            found.backlog.eq(row.records - head), found.run.eq(window.run), found.last.eq(window.last),
        ]
        return found

    def _decide(self, m, now, is_skip, found, new, verdicts, window, act, more):
        config, row, verdict, entry = self.config, found.row, verdicts.payload, verdicts.payload.entry
        valid, full, selected = Signal(), Signal(), Signal()
        remaining, steps, after = Signal(32), Signal(5), Signal(row.ahead.shape())
        m.d.comb += [
            valid.eq(now.write | now.read), full.eq(now.imm & (~now.ring | (found.backlog & now.mask).any())),
            selected.eq(now.selective & now.write & now.begins & now.ends & ~now.imm & found.near & now.sized
                        & now.allowed if config.selective else 0),
            entry.qp.eq(now.qp), entry.psn.eq(now.psn), entry.next.eq(new.expected), entry.ackreq.eq(now.ackreq),
            entry.address.eq(Mux(now.begins | now.read, now.address, row.address)),
            entry.length.eq(Mux(now.read, now.dma_length, now.length)), entry.mtu.eq(now.mtu),
            entry.region.eq(Mux(now.begins | now.read, now.region, row.region)),
            entry.generation.eq(Mux(now.begins | now.read, now.generation, row.generation)),
            entry.selective.eq(now.selective), entry.value.eq(now.value), entry.number.eq(row.records),
            entry.total.eq(Mux(now.begins, now.dma_length, row.total)),
            verdict.payload.eq(~is_skip & ~now.open & (now.length != 0)),
            remaining.eq(Mux(now.begins, now.dma_length, row.remaining)),
            steps.eq(found.run), after.eq(row.ahead - (found.run - ~is_skip)),
        ]

        def refuse(code, strobe):
            m.d.comb += [entry.kind.eq(Kind.NAK), entry.syndrome.eq(nak(code)), self.refused.valid.eq(act),
                         strobe.eq(act)]

        with m.If(is_skip):
            m.d.comb += [entry.kind.eq(Mux(steps == 0, Kind.NOTHING, Kind.DONE)), entry.ackreq.eq(1),
                         entry.messages.eq(steps),
                         new.expected.eq(row.expected + steps), new.ahead.eq(after), window.skip.eq(act),
                         more.eq(found.last & (after != 0))]
        with m.Elif(now.open):
            m.d.comb += [entry.kind.eq(Kind.OPEN), new.eq(0), new.issued.eq(row.issued + verdicts.valid),
                         new.reads.eq(row.reads), new.expected.eq(now.receive_psn)]
        with m.Elif(~found.accepts):
            pass
        with m.Elif(found.behind | (found.seen & valid)):
            m.d.comb += self.counts.duplicate.eq(act)
            with m.If(now.read & found.behind):
                with m.If(now.allowed & now.sized & ~found.reads_full):
                    m.d.comb += [entry.kind.eq(Kind.READ_AGAIN), new.reads.eq(row.reads + 1), new.repeated.eq(1)]
            with m.Elif(now.write & found.behind):
                m.d.comb += entry.kind.eq(Kind.REPEATED)
            with m.Elif(~found.equal):
                m.d.comb += entry.kind.eq(Kind.SELECTED)
        with m.Elif(found.equal):
            with m.If(~valid | ~found.sequence | ~now.sized | ~found.total):
                refuse(Nak.INVALID_REQUEST, self.counts.invalid)
            with m.Elif((now.begins | now.read) & ~now.allowed):
                refuse(Nak.REMOTE_ACCESS, self.counts.access)
            with m.Elif(now.read & found.reads_full & row.repeated):
                m.d.comb += new.gapped.eq(0)
            with m.Elif(now.read & found.reads_full):
                refuse(Nak.INVALID_REQUEST, self.counts.invalid)
            with m.Elif(full):
                m.d.comb += [entry.kind.eq(Kind.NAK), entry.syndrome.eq(Cat(now.rnr_timer, C(SyndromeKind.RNR, 3))),
                             new.gapped.eq(1), self.counts.not_ready.eq(act)]
            with m.Elif(now.read):
                m.d.comb += [entry.kind.eq(Kind.READ), new.reads.eq(row.reads + 1), new.gapped.eq(0),
                             new.repeated.eq(row.repeated & ~found.reads_none),
                             new.expected.eq(row.expected + now.packets), entry.messages.eq(1),
                             more.eq(row.ahead != 0), self.counts.executed.eq(act)]
            with m.Else():
                m.d.comb += [
                    entry.kind.eq(Kind.DONE), verdict.write.eq(now.length != 0), entry.imm.eq(now.imm),
                    new.gapped.eq(0), new.inside.eq(~now.ends), new.records.eq(row.records + now.imm),
                    new.address.eq(entry.address + now.length), new.remaining.eq(remaining - now.length),
                    new.total.eq(entry.total), new.region.eq(entry.region), new.generation.eq(entry.generation),
                    entry.messages.eq(now.ends), new.expected.eq(row.expected + 1), self.counts.executed.eq(act),
                ]
                if config.selective:
                    # The packets after it in the same word of the window are complete with it.
                    with m.If(row.ahead != 0):
                        m.d.comb += [
                            new.expected.eq(row.expected + steps), entry.messages.eq(steps - ~now.ends),
                            entry.ackreq.eq(now.ackreq | (steps != 1)), new.ahead.eq(after), window.skip.eq(act),
                            more.eq(found.last & (after != 0)),
                        ]
        with m.Else():
            m.d.comb += self.counts.gap.eq(act)
            with m.If(selected):
                m.d.comb += [entry.kind.eq(Kind.SELECTED), verdict.write.eq(now.length != 0), new.gapped.eq(1),
                             new.ahead.eq(row.ahead + 1), window.set.eq(act), self.counts.executed.eq(act)]
            with m.Elif(~row.gapped):
                m.d.comb += [entry.kind.eq(Kind.NAK), entry.syndrome.eq(nak(Nak.SEQUENCE)), new.gapped.eq(1)]
