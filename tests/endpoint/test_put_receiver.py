# SPDX-License-Identifier: Apache-2.0
"""Packets that no PutSender generates: which of them are refused, and what the others write."""

import random

import pytest

from hw.ace.layouts import PacketKind, flit_layout
from hw.axi import Resp
from hw.endpoint.config import TINY
from hw.endpoint.layouts import put_layout
from hw.endpoint.put_receiver import PutReceiver
from tests.harness.cell import run_cell

BEAT, PAGE = TINY.beat_bytes, 4096
LONGEST = TINY.packet_beats * BEAT
SPAN, LENGTH, PORT = 2, 3 * PAGE + 123, 1
BASE_PAGE = 0x7_1234_5


class _Bench:
    """A PutReceiver with one span, which port 1 may write; memory accepts all writes and responds OKAY."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut
        self.rng = random.Random("puts")
        self.written, self.results = {}, []

    async def start(self):
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.exports.valid, 1)
        ctx.set(dut.exports.span, SPAN)
        ctx.set(dut.exports.open, 1)
        ctx.set(dut.exports.entry, {"base_page": BASE_PAGE, "length": LENGTH, "ports": 1 << PORT})
        await ctx.tick()
        ctx.set(dut.exports.valid, 0)
        ctx.set(dut.writes.ready, 1)
        for result in dut.results:
            ctx.set(result.ready, 1)

    async def put(self, offset, size, *, span=SPAN, port=PORT, beats=None):
        """Send ``size`` bytes for ``offset``, by default in the beats that they occupy; return whether they were
        written."""
        ctx, dut = self.ctx, self.dut
        lane = offset % BEAT
        beats = -(-(lane + size) // BEAT) if beats is None else beats
        header = put_layout(TINY).const({
            "kind": PacketKind.PUT, "export": span, "offset": offset, "end_lane": (offset + size - 1) % BEAT,
            "ends": 1})
        content = [self.rng.getrandbits(8 * BEAT) for _ in range(beats)]
        self.written.clear()
        received, sent, responses = dut.received[port], 0, 0
        for _ in range(beats + 40):
            ctx.set(received.valid, sent < beats)
            if sent < beats:
                flit = flit_layout(TINY.ace)
                header_field = flit["header"]
                number = content[sent] << flit["data"].offset | (
                    (header.as_bits() if sent == 0 else 0) << header_field.offset) | (
                    int(sent == 0) << flit["first"].offset) | (int(sent == beats - 1) << flit["last"].offset)
                ctx.set(received.payload, flit.from_bits(number))
            ctx.set(dut.responses.valid, responses)
            ctx.set(dut.responses.payload, {"id": port, "resp": Resp.OKAY})
            responses = 0
            for number, result in enumerate(dut.results):
                if ctx.get(result.valid):
                    self.results.append((number, ctx.get(result.payload)))
            if ctx.get(dut.writes.valid):
                beat = ctx.get(dut.writes.payload)
                if beat.first:
                    at = beat.addr // BEAT * BEAT
                    assert beat.len == beats - 1 and beat.addr // PAGE == (beat.addr + (beat.len * BEAT)) // PAGE
                for one in range(BEAT):
                    if beat.strb >> one & 1:
                        self.written[at + one] = beat.data >> 8 * one & 0xFF
                at += BEAT
                responses = int(beat.last)
            taken = sent < beats and ctx.get(received.ready)
            await ctx.tick()
            sent += taken
        (where, failed), = self.results
        assert where == port and failed == (not self.written)
        self.results.clear()
        if self.written:
            data = b"".join(beat.to_bytes(BEAT, "little") for beat in content)[lane:lane + size]
            first = BASE_PAGE * PAGE + offset
            assert self.written == {first + index: byte for index, byte in enumerate(data)}
        return bool(self.written)


def _run(body):
    dut = PutReceiver(TINY)

    async def live(ctx):
        bench = _Bench(ctx, dut)
        await bench.start()
        await body(bench)

    run_cell(dut, live)


@pytest.mark.parametrize("page", [1, 2])
@pytest.mark.parametrize("size", [1, BEAT, BEAT + 1, LONGEST - 3, LONGEST])
def test_no_packet_crosses_4_kib(page, size):
    """A packet up to the end of a page is written; one that ends a byte later is refused, unless it starts there."""
    async def body(bench):
        end = page * PAGE
        for offset in (end - size, end):
            if (offset + size - 1) // BEAT - offset // BEAT < TINY.packet_beats:
                assert await bench.put(offset, size)
        for offset in {end - size + 1, end - 1}:
            if offset < end < offset + size and (offset + size - 1) // BEAT - offset // BEAT < TINY.packet_beats:
                assert not await bench.put(offset, size)
        assert await bench.put(0, BEAT)

    _run(body)


def test_the_last_byte_of_a_span():
    async def body(bench):
        for size in (1, 2, BEAT, 3 * BEAT, 5 * BEAT - 3):
            assert await bench.put(LENGTH - size, size)
            assert not await bench.put(LENGTH - size + 1, size)
        assert not await bench.put(LENGTH, 1)
        assert not await bench.put((1 << 32) - 1, 1)

    _run(body)


def test_refused_managers():
    """Spans that do not exist, some of them with the lower bits of an existing one's number; another port."""
    async def body(bench):
        for span in range(2 * TINY.exports):
            assert await bench.put(64, 10, span=span) == (span == SPAN)
        for port in range(TINY.ports):
            assert await bench.put(64, 10, port=port) == (port == PORT)

    _run(body)


def test_end_before_the_start_is_refused():
    async def body(bench):
        # 5 bytes from lane 6 end at lane 2 of the next beat. With a single beat, the end is before the start.
        assert await bench.put(64 + 6, 5)
        assert not await bench.put(64 + 6, 5, beats=1)
        assert await bench.put(64 + 2, 5)

    _run(body)


def test_responses_of_an_earlier_session():
    """Responses to writes from before the session are accepted and counted; none completes a later write."""
    async def body(bench):
        ctx, dut = bench.ctx, bench.dut
        for port in range(1 << len(dut.responses.payload.id)):
            ctx.set(dut.responses.payload, {"id": port, "resp": Resp.SLVERR})
            ctx.set(dut.responses.valid, 1)
            for _ in range(3):
                assert ctx.get(dut.responses.ready), f"a response for port {port} blocks all later ones"
                await ctx.tick()
                assert ctx.get(dut.counts.unexpected)
            ctx.set(dut.responses.valid, 0)
            await ctx.tick()
            assert not ctx.get(dut.counts.unexpected)
            assert await bench.put(64, 10)

    _run(body)
