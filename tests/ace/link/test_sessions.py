# SPDX-License-Identifier: Apache-2.0
"""A packet of another session, or of another time in the same one, differs in one bit that is not sent."""

import zlib

import pytest

from hw.ace.config import LINK_SESSION_WIDTH, TINY
from hw.ace.layouts import (
    LinkCause,
    LinkState,
    PacketKind,
    flit_layout,
    implied_layout,
    link_header_layout,
    link_layout,
)
from hw.ace.link.receiver import LinkReceiver
from hw.ace.link.sender import LinkSender
from hw.ace.link.state import DOWN_CYCLES, HELLO, LinkControl
from hw.common.crc import CRC_WIDTH
from tests.ace.streams import bits
from tests.harness.cell import run_cell

SESSION, PEER = 0xA5, 0x3C
OTHERS = [PEER ^ 1 << bit for bit in range(LINK_SESSION_WIDTH)]


def _crc(header):
    """The CRC of a packet of one beat, without the bits that do not travel."""
    return zlib.crc32(bits(link_header_layout(TINY), header).to_bytes(12, "little"))


async def _send(ctx, dut, header, crc):
    """Send a packet of one beat; whether it is reported as received."""
    beat = bits(link_layout(TINY), {"header": header, "first": 1, "last": 1, "crc": crc})
    ctx.set(dut.rx.payload, link_layout(TINY).from_bits(beat))
    ctx.set(dut.rx.valid, 1)
    await ctx.tick()
    ctx.set(dut.rx.valid, 0)
    received = False
    for _ in range(4):
        await ctx.tick()
        received |= bool(ctx.get(dut.received.valid))
    return received


def test_every_bit_that_does_not_travel_counts():
    """A GRANT that would be the next packet is dropped if any of these bits differs."""
    dut = LinkReceiver(TINY)

    async def body(ctx):
        ctx.set(dut.session.state, LinkState.UP)
        ctx.set(dut.session.number, SESSION)
        expected = 0
        for bit in (*range(implied_layout().size), None):
            header = {"packet": {"kind": PacketKind.GRANT.value}, "sequence": expected}
            implied = bits(implied_layout(), {"session": SESSION}) ^ (0 if bit is None else 1 << bit)
            received = await _send(ctx, dut, header, _crc(header) ^ implied)
            assert received == (bit is None) and ctx.get(dut.status.expected) == expected + received, f"bit {bit}"

    run_cell(dut, body)


@pytest.mark.parametrize("kind", [PacketKind.GRANT, PacketKind.CREDIT])
def test_every_bit_of_the_crc_counts(kind):
    """Also those beyond the bits that are not sent: corrupt packets may differ in these only."""
    dut = LinkReceiver(TINY)

    async def body(ctx):
        ctx.set(dut.session.state, LinkState.UP)
        ctx.set(dut.session.number, SESSION)
        header = {"packet": {"kind": kind.value}}
        implied = 0 if kind == PacketKind.CREDIT else bits(implied_layout(), {"session": SESSION})
        for bit in (*range(CRC_WIDTH), None):
            crc = _crc(header) ^ implied ^ (0 if bit is None else 1 << bit)
            assert await _send(ctx, dut, header, crc) == (bit is None), f"bit {bit}"

    run_cell(dut, body)


async def _receive(ctx, dut, state, session, **fields):
    ctx.set(dut.received.payload, {"control": 1, "state": state, "session": session, "named": 1, "recent": 1, **fields})
    ctx.set(dut.received.valid, 1)
    await ctx.tick()
    ctx.set(dut.received.valid, 0)
    await ctx.tick()
    return LinkState(ctx.get(dut.session.state))


@pytest.mark.parametrize("up", [False, True])
def test_only_the_peer_takes_the_port_down(up):
    """A DOWN of any other session is a delayed duplicate."""
    dut = LinkControl(TINY)

    async def body(ctx):
        ctx.set(dut.receiver.empty, 1)
        await ctx.tick().repeat(4)
        state = await _receive(ctx, dut, LinkState.START, PEER)
        assert state == LinkState.INIT and ctx.get(dut.commands.peer) == PEER
        if up:
            state = await _receive(ctx, dut, LinkState.INIT, PEER)
            assert state == LinkState.UP
        session = ctx.get(dut.session.number)
        for other in OTHERS:
            assert await _receive(ctx, dut, LinkState.DOWN, other) == state, f"session {other:#x}"
        assert ctx.get(dut.session.number) == session
        assert await _receive(ctx, dut, LinkState.DOWN, PEER) == (LinkState.DOWN if up else LinkState.START)
        if up:
            assert LinkCause(ctx.get(dut.events.cause)) == LinkCause.PEER
        else:
            assert ctx.get(dut.session.number) == session + 1

    run_cell(dut, body)


@pytest.mark.parametrize("up", [False, True])
def test_a_refusal_of_another_session_is_a_stale_copy(up):
    dut = LinkControl(TINY)

    async def body(ctx):
        ctx.set(dut.receiver.empty, 1)
        await ctx.tick().repeat(4)
        state = await _receive(ctx, dut, LinkState.START, PEER)
        if up:
            state = await _receive(ctx, dut, LinkState.INIT, PEER)
        for session in (PEER, *OTHERS):
            assert await _receive(ctx, dut, LinkState.START, session, refuse=1, named=0) == state
        assert await _receive(ctx, dut, LinkState.START, OTHERS[0], refuse=1) == (
            LinkState.DOWN if up else LinkState.START)
        if up:
            assert LinkCause(ctx.get(dut.events.cause)) == LinkCause.RESTART

    run_cell(dut, body)


@pytest.mark.parametrize("stops", [None, 3], ids=["started", "stopped"])
def test_a_port_that_software_starts_is_down_before(stops):
    """So that senders of packets know it before the port accepts packets of the next session; a stop cancels it."""
    dut = LinkControl(TINY)

    async def body(ctx):
        ctx.set(dut.receiver.empty, 1)
        await ctx.tick().repeat(4)
        assert await _receive(ctx, dut, LinkState.START, PEER) == LinkState.INIT
        assert await _receive(ctx, dut, LinkState.INIT, PEER) == LinkState.UP
        session = ctx.get(dut.session.number)
        states = []
        for cycle in range(DOWN_CYCLES + 20):
            # Starts while it is held begin again.
            ctx.set(dut.settings.start, cycle in (0, 2))
            ctx.set(dut.settings.stop, cycle == stops)
            await ctx.tick()
            states.append(LinkState(ctx.get(dut.session.state)))
        down = len(states) if stops else 2 + DOWN_CYCLES
        assert states == [LinkState.DOWN] * down + [LinkState.START] * (len(states) - down)
        assert ctx.get(dut.session.number) == session + (0 if stops else 1)
        assert LinkCause(ctx.get(dut.events.cause)) == LinkCause.SOFTWARE

    run_cell(dut, body)


@pytest.mark.parametrize("beats", [1, 2])
def test_a_packet_that_the_link_stalls_keeps_its_session(beats):
    """A stalled packet leaves in the next session; its CRC must not be that of the peer's new session."""
    dut = LinkSender(TINY)

    async def body(ctx):
        ctx.set(dut.session.state, LinkState.UP)
        ctx.set(dut.commands.peer, PEER)
        flit = {"header": {"kind": PacketKind.DATA.value}, "data": 0x1234}
        for beat in range(beats):
            ctx.set(dut.i[0].payload, flit_layout(TINY).from_bits(bits(
                flit_layout(TINY), {**flit, "first": beat == 0, "last": beat == beats - 1})))
            ctx.set(dut.i[0].valid, 1)
            await ctx.tick()
        ctx.set(dut.i[0].valid, 0)
        await ctx.tick().repeat(8)
        for state, cycles in ((LinkState.DOWN, DOWN_CYCLES), (LinkState.START, 4), (LinkState.INIT, 4)):
            ctx.set(dut.session.state, state)
            if state == LinkState.INIT:
                ctx.set(dut.commands.peer, PEER + 1)
            await ctx.tick().repeat(cycles)
        ctx.set(dut.tx.ready, 1)
        data, header, crcs = b"", None, []
        for _ in range(8):
            if ctx.get(dut.tx.valid):
                payload = ctx.get(dut.tx.payload)
                header = payload.header.as_bits() if payload.first else header
                data += int(payload.data).to_bytes(TINY.beat_bytes, "little")
                if payload.last:
                    crcs.append(int(payload.crc))
            await ctx.tick()
        crc = zlib.crc32(header.to_bytes(12, "little") + data)
        assert [one ^ crc for one in crcs] == [bits(implied_layout(), {"session": PEER})]

    run_cell(dut, body)


def test_changes_are_reported():
    """A port sends its state when it changes, and until it is UP once in a while; not in other cycles."""
    dut = LinkControl(TINY)

    async def body(ctx):
        ctx.set(dut.receiver.empty, 1)
        await ctx.tick().repeat(4)
        for state, following in ((LinkState.START, LinkState.INIT), (LinkState.INIT, LinkState.UP)):
            ctx.set(dut.received.payload, {"control": 1, "state": state, "session": PEER, "named": 1, "recent": 1})
            ctx.set(dut.received.valid, 1)
            await ctx.tick()
            ctx.set(dut.received.valid, 0)
            assert (LinkState(ctx.get(dut.session.state)), ctx.get(dut.commands.report)) == (following, 1)
            reports = 0
            for _ in range(HELLO):
                await ctx.tick()
                reports += ctx.get(dut.commands.report)
            assert reports == (following != LinkState.UP)

    run_cell(dut, body)


def test_a_session_that_was_left_is_refused():
    """By a port that is not UP, if a peer in INIT or UP names another session than the port's."""
    dut = LinkControl(TINY)

    async def refuses(ctx, state, **fields):
        ctx.set(dut.received.payload, {"control": 1, "state": state, "session": PEER, "recent": 1, **fields})
        ctx.set(dut.received.valid, 1)
        found = ctx.get(dut.commands.refuse)
        ctx.set(dut.received.valid, 0)
        return found

    async def body(ctx):
        ctx.set(dut.receiver.empty, 1)
        await ctx.tick().repeat(4)
        for here in (LinkState.START, LinkState.INIT, LinkState.UP, LinkState.DOWN):
            if here == LinkState.DOWN:
                ctx.set(dut.settings.stop, 1)
                await ctx.tick()
                ctx.set(dut.settings.stop, 0)
            assert LinkState(ctx.get(dut.session.state)) == here
            for state in LinkState:
                wanted = here != LinkState.UP and state in (LinkState.INIT, LinkState.UP)
                assert await refuses(ctx, state, named=0) == wanted, (here, state)
                assert not await refuses(ctx, state, named=1)
                assert not await refuses(ctx, state, named=0, refuse=1)
            if here in (LinkState.START, LinkState.INIT):
                await _receive(ctx, dut, here, PEER)

    run_cell(dut, body)
