# SPDX-License-Identifier: Apache-2.0
"""Order of the PCIe adapter's writes: B follows the burst's requests, and data is in order. By induction."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Format, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.pcie.requester.write_buffer import BufferSignature, WriteBuffer, payload_beats_shape
from hw.pcie.requester.write_headers import BURST_BITS, BURSTS, burst_layout, header_layout
from hw.pcie.requester.write_queue import WriteQueue
from hw.pcie.requester.write_responses import WriteResponses
from tests.formal.small import assume_constant, pcie
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]


class Responses(wiring.Component):
    """A burst of the solver's choice, from its end to its release for B or for its flush.

    ``test_pcie_writes.py`` asserts that the bursts are numbered, and each request has the number of bursts that ended
    before it. Assumed of RQ: it accepts requests that it has taken, once. Of the function: ``discard`` lasts until all
    requests that RQ has taken are accepted.

    Two rows of the table of requests are watched, and so all pairs. Those with the oldest request's row are assumed a
    cycle later.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "makes": In(1), "header": In(header_layout(config)), "ends": In(1), "burst": In(burst_layout(config)),
            "takes": In(1), "sends": In(1), "flush_ready": In(1), "flushed": In(1), "id": In(config.axi_id_width),
            "ready": In(1), "discard": In(1), "watch": In(1), "rows": In(2 * BURST_BITS - 2),
        })

    def elaborate(self, platform):
        m = Module()
        queue, responses = WriteQueue(self.config), WriteResponses(self.config)
        m.submodules.queue, m.submodules.responses = parts, others = elaborated(queue), elaborated(responses)
        wiring.connect(m, queue.oldest, responses.oldest)
        flushes, number = responses.flushes, Signal(BURST_BITS)
        m.d.comb += [
            queue.headers.valid.eq(self.makes), queue.headers.payload.eq(self.header), queue.tlps.ready.eq(self.takes),
            queue.sent.eq(self.sends), queue.discard.eq(self.discard), responses.bursts.valid.eq(self.ends),
            responses.bursts.payload.eq(self.burst), flushes.requests.ready.eq(self.flush_ready),
            flushes.done.valid.eq(self.flushed), flushes.done.payload.id.eq(self.id),
            responses.responses.ready.eq(self.ready), responses.discard.eq(self.discard),
        ]
        assume_constant(m, self.rows)

        # -- Assumed of the parts in front, of RQ and of the function.
        made, taken, sent, accepted = (internal(parts, name) for name in ("made", "taken", "sent", "accepted"))
        opened_before, opens, discarded = Signal(2), Signal(2), Signal()
        m.d.sync += [number.eq(number + self.ends), opened_before.eq(Cat(queue.open, responses.open)),
                     opens.eq(opened_before), discarded.eq(self.discard)]
        with m.If(self.discard):
            m.d.sync += [number.eq(0), opened_before.eq(0), opens.eq(0)]
        m.d.comb += [
            Assume(~(self.makes | self.ends) | opens.all() & ~discarded),
            Assume(~self.makes | (self.header.burst == number)),
            Assume(~self.sends | ((taken - sent - accepted)[:BURST_BITS] != 0)),
            Assume(~discarded | self.discard | queue.idle),
        ]

        # -- The burst: those that ended before it and are not released, and requests up to its last that RQ lacks.
        waiting, ended, merge = parts.submodules.waiting, others.submodules.ended, others.submodules.merge
        watching, before = Signal(), Signal(BURST_BITS)
        ahead, held, released = Signal.like(made), Signal.like(made), ended.o.valid & ended.o.ready
        m.d.comb += held.eq(made - sent)
        m.d.sync += ahead.eq(ahead - (accepted & (ahead != 0)))
        with m.If(self.discard):
            m.d.sync += watching.eq(0)
        with m.Elif(watching & released):
            m.d.sync += [watching.eq(before != 0), before.eq(before - 1)]
        with m.Elif(self.ends & self.watch & ~watching):
            m.d.sync += [watching.eq(1), before.eq(ended.level - released), ahead.eq(held + self.makes - accepted)]

        # Rows of requests: their distance from the oldest one, and that of their burst from the oldest burst.
        rows = [self.rows[:BURST_BITS - 1], self.rows[BURST_BITS - 1:]]
        memory, first = opened(parts, "kinds").submodules.memory, internal(others, "number")
        one, other, oldest = ((self._distance(sent, row), (row_of(m, memory, row)[1:] - first)[:BURST_BITS])
                              for row in (*rows, sent[:-1]))
        there = [place < held for place, _ in (one, other, oldest)]
        is_oldest, head = (one[0] == 0) | (held == 0), watching & (before == 0)
        true = Signal(init=1)
        m.d.sync += true.eq(discarded | ~there[0] | (oldest[1] <= one[1]) & (oldest[1] <= ended.level))
        m.d.comb += [
            Assume(true),
            Assert(~(head & released & is_oldest) | (ahead == 0), Format("a burst is released before it is accepted")),
            Assert(~(head & is_oldest & (ahead == 0)) | merge.i[0].valid | released | self.discard,
                   Format("a burst is not released")),
            Assert(~self.makes | waiting.i.ready, Format("a request is lost")),
            Assert(~self.ends | ended.i.ready, Format("a burst is lost")),
        ]

        # -- The invariant.
        inner, queued = opened(parts, "waiting"), (made - taken)[:BURST_BITS]
        m.d.comb += [
            Assert(waiting.level == queued, Format("waiting")), Assert(queued <= held, Format("taken")),
            Assert(waiting.o.valid == (queued != 0), Format("offered")), Assert(held <= BURSTS, Format("held")),
            Assert(internal(inner, "full") == (queued == BURSTS), Format("waiting full")),
            Assert(internal(inner, "some") == (queued > 1), Format("waiting some")),
            Assert(~accepted | (taken != sent), Format("accepted")),
            Assert((first + ended.level)[:BURST_BITS] == number, Format("number of bursts")),
            Assert(ended.o.valid == (ended.level != 0), Format("ended")),
            Assert(ended.level <= BURSTS, Format("number of ended bursts")),
            Assert(internal(opened(others, "ended"), "full") == (ended.level == BURSTS), Format("ended full")),
            Assert(~watching | (before < ended.level) & ~discarded, Format("watched burst")),
            Assert(~watching | (ahead <= held), Format("requests of the watched burst")),
            Assert(discarded | ~there[0] | (one[1] <= ended.level), Format("burst of a request")),
            Assert(discarded | ~there[0] | ~there[1] | (one[0] > other[0]) | (one[1] <= other[1]), Format("order")),
            Assert(~watching | ~there[0] | ((one[0] < ahead) == (one[1] <= before)), Format("up to the burst")),
        ]
        return m

    @staticmethod
    def _distance(sent, row):
        return (row - sent)[:BURST_BITS - 1]


class Payload(wiring.Component):
    """A beat of the solver's choice, from the splitter to RQ.

    ``test_pcie_writes.py`` asserts what is stored for each request. Assumed of WriteQueue: a header is taken two cycles
    after its payload was complete, or later. Of RQ: it takes no other data. Of the function: ``discard`` lasts for two
    cycles, and until the buffer is idle.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "write": In(BufferSignature(config)), "takes": In(1), "beats": In(payload_beats_shape(config)),
            "ready": In(1), "discard": In(1), "watch": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        dut, write, depth = WriteBuffer(self.config), self.write, self.config.write_beats
        m.submodules.dut = parts = elaborated(dut)
        wiring.connect(m, wiring.flipped(write), dut.write)
        m.d.comb += [dut.taken.valid.eq(self.takes), dut.taken.payload.eq(self.beats), dut.data.ready.eq(self.ready),
                     dut.discard.eq(self.discard)]

        # -- Beats inside: of complete requests, those of them that were complete a cycle before, those whose header was
        # taken, and those of the next request.
        complete, early, due, more = (Signal(range(2 * depth), name=name) for name in (
            "complete", "early", "header_taken", "more"))
        opened_before, discarded, discards = Signal(), Signal(), Signal()
        leaves = dut.data.valid & self.ready
        m.d.sync += [opened_before.eq(dut.open), discarded.eq(self.discard), discards.eq(discarded & self.discard)]
        m.d.comb += [
            Assume(~(write.push | write.commit | write.drop) | ~discarded), Assume(~(write.commit & write.drop)),
            Assume(~write.push | opened_before), Assume(~self.takes | ~self.discard & (self.beats <= early - due)),
            Assume(~leaves | (due != 0) | self.takes & (self.beats != 0)),
            Assume(~discarded | self.discard | discards & dut.idle),
        ]
        m.d.sync += [early.eq(complete - leaves), due.eq(due + Mux(self.takes, self.beats, 0) - leaves)]
        with m.If(self.discard):
            m.d.sync += [complete.eq(due - leaves), early.eq(due - leaves), more.eq(0), opened_before.eq(0)]
        with m.Else():
            m.d.sync += [complete.eq(complete + Mux(write.commit, more + write.push, 0) - leaves),
                         more.eq(Mux(write.commit | write.drop, 0, more + write.push))]

        # -- The beat: those ahead of it, and whether its request is complete.
        watching, ahead, item, whole = Signal(), Signal(range(2 * depth)), Signal(len(write.data)), Signal()
        chosen = write.push & self.watch & ~watching & ~self.discard & ~write.drop
        with m.If(watching & self.discard & (ahead >= due)
                  | watching & (~whole & write.drop | leaves & (ahead == 0))):
            m.d.sync += watching.eq(0)
        with m.Elif(watching):
            m.d.sync += [ahead.eq(ahead - leaves), whole.eq(whole | write.commit)]
        with m.Elif(chosen):
            m.d.sync += [watching.eq(1), ahead.eq(complete + more - leaves), item.eq(write.data),
                         whole.eq(write.commit)]
        m.d.comb += [
            Assert(~leaves | (complete != 0), Format("data of an incomplete request")),
            Assert(~(leaves & watching & (ahead == 0)) | whole & (dut.data.payload == item), Format("other data")),
            Assert((due == 0) | dut.data.valid, Format("data of a request stalls")),
            Assert(complete + more <= depth, Format("too many beats")),
        ]

        # -- The invariant.
        written, good, reading, left, headers = (
            internal(parts, name) for name in ("written", "good", "reading", "left", "due"))
        storage, loaded = parts.submodules.storage, internal(parts, "loaded")
        row = row_of(m, storage, (left + ahead)[:-1])
        m.d.comb += [
            Assert((good - left)[:len(left)] == complete, Format("complete")),
            Assert((written - good)[:len(left)] == more, Format("more")),
            Assert((headers - left)[:len(left)] == due, Format("taken")),
            Assert((reading - left)[:len(left)] == loaded, Format("reading")),
            Assert((due <= early) & (early <= complete), Format("early")),
            Assert((due == 0) | loaded, Format("loaded")),
            Assert(discarded | (early == 0) | loaded, Format("loaded early")),
            Assert(discarded | (loaded <= complete), Format("loaded of no request")),
            Assert(~discarded | (complete == due) & (more == 0), Format("discarded")),
            Assert(~watching | (whole == (ahead < complete)) & (ahead < complete + more), Format("watched beat")),
            Assert(~watching | (Mux(loaded & (ahead == 0), storage.read_ports[0].data, row) == item), Format("row")),
        ]
        return m


def test_responses():
    prove(Responses(pcie(32)), name="pcie-write-responses", depth=4, mode="prove")


def test_payload():
    prove(Payload(pcie(32)), name="pcie-write-data", depth=3, mode="prove")
