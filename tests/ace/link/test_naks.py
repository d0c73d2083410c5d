# SPDX-License-Identifier: Apache-2.0
"""The receiver requests a replay once for each round of packets in which one is missing or corrupt."""

import pytest

from hw.ace.config import TINY
from hw.ace.layouts import LinkState, PacketKind, implied_layout, link_layout
from hw.ace.link.receiver import LinkReceiver
from hw.common.crc import CRC_WIDTH
from tests.ace.link.test_sessions import SESSION, _crc
from tests.ace.streams import bits
from tests.harness.cell import run_cell


async def _naks(ctx, dut, sequence, round_, *, corrupt=False):
    """Send a GRANT; the rounds that the receiver then requests."""
    header = {"packet": {"kind": PacketKind.GRANT.value}, "sequence": sequence, "round": round_}
    crc = _crc(header) ^ bits(implied_layout(), {"session": SESSION}) ^ corrupt << CRC_WIDTH - 1
    beat = bits(link_layout(TINY), {"header": header, "first": 1, "last": 1, "crc": crc})
    ctx.set(dut.rx.payload, link_layout(TINY).from_bits(beat))
    ctx.set(dut.rx.valid, 1)
    found = []
    for _ in range(8):
        await ctx.tick()
        ctx.set(dut.rx.valid, 0)
        if ctx.get(dut.status.nak):
            found.append(ctx.get(dut.status.round))
    return found


@pytest.mark.parametrize("first", [0, 1])
def test_one_for_each_round(first):
    dut = LinkReceiver(TINY)

    async def body(ctx):
        ctx.set(dut.session.state, LinkState.UP)
        ctx.set(dut.session.number, SESSION)
        other = 1 - first
        assert await _naks(ctx, dut, 1, first) == [first]           # 0 is missing
        assert await _naks(ctx, dut, 2, first) == []
        assert await _naks(ctx, dut, 3, first, corrupt=True) == []
        assert await _naks(ctx, dut, 0, other) == []
        assert await _naks(ctx, dut, 2, other) == [other]           # 1 is missing
        assert await _naks(ctx, dut, 3, other) == []
        assert await _naks(ctx, dut, 2, first) == [first]           # and again in the next round
        assert await _naks(ctx, dut, 1, first) == []
        assert ctx.get(dut.status.expected) == 2
        # A corrupt header's round does not count.
        assert await _naks(ctx, dut, 2, other, corrupt=True) == [first]
        assert await _naks(ctx, dut, 2, first, corrupt=True) == []
        assert await _naks(ctx, dut, 2, other) == []
        assert await _naks(ctx, dut, 3, first, corrupt=True) == [other]

    run_cell(dut, body)


@pytest.mark.parametrize("state", [LinkState.START, LinkState.DOWN])
def test_none_before_the_link_is_up(state):
    dut = LinkReceiver(TINY)

    async def body(ctx):
        ctx.set(dut.session.state, state)
        ctx.set(dut.session.number, SESSION)
        assert await _naks(ctx, dut, 0, 0, corrupt=True) == []
        assert await _naks(ctx, dut, 1, 0) == []

    run_cell(dut, body)
