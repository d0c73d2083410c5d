# SPDX-License-Identifier: Apache-2.0
"""Two link ports over a faulty link, with duplicates that arrive thousands of cycles later: every packet is delivered
once, whole and in order."""

import os
import zlib
from collections import Counter

import cocotb
import pytest
from amaranth import *

from hw.ace.config import LINK_SESSION_WIDTH, PRESETS, WIRE_HEADER_BYTES, AceConfig
from hw.ace.layouts import LinkCause, LinkState, PacketKind, link_header_layout, link_layout
from hw.ace.link.status import LINK_COUNTS
from tests.ace.link.bench import ALONE, CONFIGS, TIMEOUT, TRIES, Faults, LinkPair, directions, finish, run_all, wait
from tests.ace.streams import bits

pytestmark = pytest.mark.rtl

LATENCY = {"long": 7, "ecp5": 11, "replay_output_register": 8, "receive_output_register": 8, "registered_release": 7,
           "registered_header_crc": 9, "short": 5}
"""Cycles from ``i`` of one port to ``o`` of the other, for a packet of one beat over a link without latency."""


@pytest.mark.parametrize("config", [
    pytest.param(name, marks=pytest.mark.soak if name in ALONE else pytest.mark.long) for name in CONFIGS])
def test_link(simulate, config):
    simulate(LinkPair(CONFIGS[config]), env={"CONFIG": config})


@pytest.mark.parametrize("config", [*PRESETS.values(), AceConfig(
    data_width=64, lanes=2, chunk_bytes=32768, packet_bytes=1024, message_bytes=1024, link_beats=4096,
    replay_beats=4096, link_channels=2)], ids=[*PRESETS, "largest"])
def test_what_travels_beside_the_payload_is_16_bytes(config):
    crc = link_layout(config)["crc"].width
    assert link_header_layout(config).size + crc <= 8 * WIRE_HEADER_BYTES
    assert crc == 32


FAULTS = {"none": Faults(), "loss": Faults(loss=0.1), "corrupt": Faults(corrupt=0.1), "repeat": Faults(repeat=0.3),
          "delay": Faults(delay=0.1), "cut": Faults(cut=0.1), "reorder": Faults(reorder=0.1),
          "late": Faults(late=0.3, late_cycles=500),
          "all": Faults(loss=0.05, corrupt=0.05, repeat=0.05, delay=0.05, cut=0.01, reorder=0.05, late=0.05)}


@cocotb.test()
@cocotb.parametrize(case=["none 1", "none 30", "loss 30", "corrupt 1", "repeat 1", "delay 1", "cut 30",
                              "reorder 30", "late 1", "all 1", "all 30"])
async def both_directions(dut, case):
    """Packets are delivered exactly once and in order, and the status counts the faults."""
    fault, latency = case.split()
    sides = await directions(dut, latency=int(latency), stalls="none" if fault == "none" else "mixed",
                             faults=FAULTS[fault], tries=200)
    for side in sides:
        side.some(70)
    await finish(dut, sides)
    for side in sides:
        side.faults = Faults()
    await run_all(dut, sides, lambda: not any(side.status()["unacknowledged"] for side in sides))
    reported = {name: sum(side.status()[name] for side in sides) for name in LINK_COUNTS}
    done = sum((side.done for side in sides), Counter())
    dut._log.info("%s: %s %s", case, reported, dict(done))
    assert all(side.status()["state"] == LinkState.UP for side in sides)
    if fault == "none":
        assert not any(reported.values())
    for kind, name in (("loss", "sequence_errors"), ("corrupt", "crc_errors"), ("repeat", "duplicates"),
                       ("reorder", "sequence_errors"), ("late", "stale")):
        assert fault != kind or (reported[name] and done[kind])
    assert reported["replays"] or fault in ("none", "repeat", "delay", "late")


@cocotb.test()
async def latency(dut):
    sides = await directions(dut)
    for beats in (1, 4):
        sides[0].packet(beats)
        await finish(dut, sides)
        assert sides[0].got[-1] - sides[0].taken[-1] == LATENCY[os.environ["CONFIG"]] + beats


@cocotb.test(skip=os.environ.get("CONFIG") == "short")
async def full_rate(dut):
    """One direction, where only CREDIT packets return credits, and both directions."""
    for both in (False, True):
        for beats in (1, 7):
            sides = await directions(dut, latency=10)
            for side in sides[:1 + both]:
                for _ in range(280 // beats):
                    side.packet(beats)
            await finish(dut, sides)
            for side in sides[:1 + both]:
                # A packet is delivered when it is complete.
                assert side.got[-1] - side.got[0] == 280 - 1


@cocotb.test()
async def stuck_receiver(dut):
    """One channel is not read for a long time: the other channel and direction continue, and nothing is lost."""
    sides = await directions(dut, tries=2)
    stuck = sides[0].sinks[-1]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for side in sides:
        for _ in range(60):
            for channel in range(len(side.sinks)):
                side.packet(channel=channel)
    await run_all(dut, sides, lambda: not any(sides[1].expected) and not any(sides[0].expected[:-1]))
    await wait(dut, sides, 5 * TIMEOUT)
    assert sides[0].held[-1] > sides[0].config.link_beats - sides[0].config.packet_beats
    stuck.stalls = stalls
    await finish(dut, sides)
    assert all(side.status()["state"] == LinkState.UP for side in sides)


async def _start(dut, sides, ports):
    for name, value in (("start", 1), ("start", 0)):
        for port in ports:
            getattr(dut, f"management__{port}__settings__{name}").value = value
        await wait(dut, sides, 1)


@cocotb.test()
async def broken_link(dut):
    """A link that drops everything in one direction times out after the configured limit; its port accepts and drops
    packets, and comes up again when both ends are started."""
    sides = await directions(dut)
    for side in sides:
        side.some(20)
    await finish(dut, sides)
    await run_all(dut, sides, lambda: not any(side.status()["unacknowledged"] for side in sides))
    first, other = sides
    first.faults = Faults(loss=1)
    for _ in range(5):
        first.packet()
    timeout = (TRIES + 1) * (TIMEOUT + 30)
    took = await run_all(dut, sides, lambda: first.status()["state"] == LinkState.DOWN)
    assert TRIES * TIMEOUT < took < timeout
    assert other.status()["state"] == LinkState.UP
    for _ in range(50):
        first.packet()
        first.grant()
    await run_all(dut, sides, lambda: not first.sources[0].items and not first.signals.items)
    first.faults = Faults()
    # The other end receives the report.
    await run_all(dut, sides, lambda: other.status()["state"] == LinkState.DOWN)
    await _start(dut, sides, [0])
    await wait(dut, sides, 1000)
    assert first.status()["state"] == LinkState.START and other.status()["state"] == LinkState.DOWN
    for side in sides:
        side.discard_all()
    await _start(dut, sides, [1])
    await run_all(dut, sides, lambda: all(side.status()["state"] == LinkState.UP for side in sides))
    for side in sides:
        side.some(30)
    await finish(dut, sides)


@cocotb.test()
async def late_copies(dut):
    """Duplicates arrive when numbers have wrapped twice."""
    sides = await directions(dut, faults=Faults(late=0.2))
    for _ in range(3):
        for side in sides:
            for _ in range(500):
                side.packet(1)
            side.some(50)
        await finish(dut, sides)
    for side in sides:
        side.faults = Faults()
    await run_all(dut, sides, lambda: not any(side.copies for side in sides))
    for side in sides:
        side.some(20)
    await finish(dut, sides)
    await run_all(dut, sides, lambda: not any(side.status()["unacknowledged"] for side in sides))
    await wait(dut, sides, 100)
    for side in sides:
        status = side.status()
        assert status["stale"] > 100 and status["credits"] == side.config.link_beats
        assert status["state"] == LinkState.UP and status["cause"] == LinkCause.NONE
        assert not any(status[name] for name in ("replays", "crc_errors", "sequence_errors", "timeouts")), str(status)


async def _up(dut, sides):
    await run_all(dut, sides, lambda: all(side.status()["state"] == LinkState.UP for side in sides))


async def _copies(dut, sides):
    """Every packet so far arrives again, in any order, during traffic in both directions."""
    for side in sides:
        for beats in side.record:
            side.later(beats, side.rng.randint(1, 3000))
        side.record = []
        side.some(150)
    await finish(dut, sides)
    await run_all(dut, sides, lambda: not any(side.copies for side in sides))
    for side in sides:
        side.some(20)
    await finish(dut, sides)


@cocotb.test()
async def copies_of_an_earlier_session(dut):
    """Duplicates of START, INIT, DOWN, UP and data, in the same session and in the next one, have no effect."""
    sides = await directions(dut)
    for side in sides:
        side.some(150)
    await finish(dut, sides)
    await _copies(dut, sides)
    dut.management__0__settings__stop.value = 1
    await wait(dut, sides, 1)
    dut.management__0__settings__stop.value = 0
    await run_all(dut, sides, lambda: sides[1].status()["state"] == LinkState.DOWN)
    assert [side.status()["cause"] for side in sides] == [LinkCause.SOFTWARE, LinkCause.PEER]
    for side in sides:
        side.discard_all()
    await _start(dut, sides, [0, 1])
    # Duplicates of all earlier packets arrive during the handshake, too.
    for side in sides:
        for beats in side.record:
            side.later(beats, side.rng.randint(1, 1000))
    await _up(dut, sides)
    await _copies(dut, sides)
    assert all(side.status()["state"] == LinkState.UP and side.status()["cause"] == LinkCause.SOFTWARE
               for side in sides)


async def _one_end(dut, sides):
    """The peer has restarted: this end goes DOWN, though it has nothing to send, and comes up when started."""
    await run_all(dut, sides, lambda: sides[1].status()["state"] == LinkState.DOWN, limit=2000)
    assert sides[1].status()["cause"] == LinkCause.RESTART
    assert sides[0].status()["state"] == LinkState.START
    for side in sides:
        side.discard_all()
    await _start(dut, sides, [1])
    await _up(dut, sides)
    await _copies(dut, sides)
    assert [side.status()["state"] for side in sides] == [LinkState.UP] * 2


@cocotb.test()
@cocotb.parametrize(how=["start", "reset", "same number"])
async def the_other_end_alone_begins_again(dut, how):
    sides = await directions(dut)
    for side in sides:
        side.some(20)
    await finish(dut, sides)
    await run_all(dut, sides, lambda: not any(side.status()["unacknowledged"] for side in sides))
    if how == "start":
        await _start(dut, sides, [0])
    else:
        # Once per session number: as if the number had been lost.
        for _ in range(1 << LINK_SESSION_WIDTH if how == "same number" else 1):
            dut.resets.value = 1
            await wait(dut, sides, 1)
            dut.resets.value = 0
            await wait(dut, sides, 3)
    await _one_end(dut, sides)


def _credit(side, **fields):
    """A CREDIT packet to the port at the end of ``side``, as the peer would send it now."""
    config = side.config
    packet = {"kind": PacketKind.CREDIT.value, "state": LinkState.UP.value, "session": side.session,
              "peer": side.other.session, "ack_high": side.ack >> 9}
    header = {"ack": side.ack % 512, "credits": [0] * config.link_channels}
    for name, value in fields.items():
        (header if name in header else packet)[name] = value
    packed = bits(link_header_layout(config), {**header, "packet": packet})
    crc = zlib.crc32(packed.to_bytes(12, "little"))
    return [bits(link_layout(config), {"header": {**header, "packet": packet}, "first": 1, "last": 1, "crc": crc})]


@cocotb.test()
@cocotb.parametrize(what=["ack", "ack 2", "credits", "credits 2"])
async def what_cannot_be(dut, what):
    """A packet of this session that acknowledges or credits what was never sent takes the port down; an older packet,
    or one of another session, has no effect."""
    sides = await directions(dut)
    for side in sides:
        for _ in range(30):
            side.packet(1)
    await finish(dut, sides)
    await run_all(dut, sides, lambda: not any(side.status()["unacknowledged"] for side in sides))
    await wait(dut, sides, 100)
    side = sides[0]
    true = {"ack": side.ack % 512, "credits": [30, *[0] * (side.config.link_channels - 1)]}
    limit, past = side.config.link_beats, {"ack": (side.ack - 3) % 512, "credits": [27, *true["credits"][1:]]}
    name, _, much = what.partition(" ")
    wrong = {"ack": {"ack": true["ack"] + (250 if much else 1)},
             "credits": {"credits": [30 + (2 * limit if much else 1), *true["credits"][1:]]}}[name]
    for reported in ({**true, "session": side.session + 1, **wrong}, {**true, "peer": side.other.session + 1, **wrong},
                     {**true, "ack_high": 1, **wrong}, past, {**true, "credits": past["credits"]}, true):
        side.later(_credit(side, **reported), 1)
        await wait(dut, sides, 20)
        assert sides[1].status()["state"] == LinkState.UP and sides[1].status()["credits"] == limit
    side.later(_credit(side, **{**true, **wrong}), 1)
    await wait(dut, sides, 20)
    assert sides[1].status()["state"] == LinkState.DOWN and sides[1].status()["cause"] == LinkCause.VIOLATION


@cocotb.test()
async def full_buffers_at_the_start(dut):
    """A port with packets of the previous session in its buffer waits until they are read: only then does it have free
    entries for the peer's packets."""
    sides = await directions(dut)
    stuck = sides[0].sinks[0]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for _ in range(sides[0].config.link_beats // 2):
        sides[0].packet(1)
    await wait(dut, sides, 1000)
    sides[0].discard_all(held=True)
    sides[1].discard_all()
    await _start(dut, sides, [0, 1])
    await wait(dut, sides, 2000)
    assert sides[1].status()["state"] == LinkState.START and sides[0].status()["state"] == LinkState.INIT
    for _ in range(sides[0].config.link_beats):
        sides[0].packet(1)
    await wait(dut, sides, 100)
    stuck.stalls = stalls
    await finish(dut, sides)
    assert all(side.status()["state"] == LinkState.UP for side in sides)


@cocotb.test()
async def no_peer(dut):
    """A port without anything to send waits for its peer without limit."""
    sides = await directions(dut, faults=Faults(loss=1), up=False)
    await wait(dut, sides, 2 * TRIES * TIMEOUT)
    assert all(side.status()["state"] == LinkState.START and not side.status()["timeouts"] for side in sides)
    sides[1].faults = Faults()
    await wait(dut, sides, 1000)
    assert sides[1].status()["state"] == LinkState.START and sides[0].status()["state"] == LinkState.INIT
    sides[0].faults = Faults()
    sides[0].some(10)
    await finish(dut, sides)
