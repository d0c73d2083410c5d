# amaranth: UnusedElaboratable=no
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

LATENCY = {"long": 7, "ecp5": 9, "replay_output_register": 8, "receive_output_register": 8, "registered_release": 7,
           "short": 5}
"""Cycles from ``i`` of one port to ``o`` of the other, for a packet of one beat over a link without latency."""


@pytest.mark.parametrize("config", [
    "short", *(pytest.param(name, marks=pytest.mark.soak if name in ALONE else pytest.mark.long)
               for name in CONFIGS if name != "short")])
def test_link(simulate, config):
    simulate(LinkPair(CONFIGS[config]), env={"CONFIG": config})


@pytest.mark.parametrize("config", [*PRESETS.values(), AceConfig(
    data_width=64, lanes=2, chunk_bytes=65536, packet_bytes=1024, message_bytes=1024, link_beats=4096,
    replay_beats=4096, link_channels=2)], ids=[*PRESETS, "largest"])
def test_what_travels_beside_the_payload_is_16_bytes(config):
    crc = link_layout(config)["crc"].width
    assert link_header_layout(config).size + crc <= 8 * WIRE_HEADER_BYTES
    assert crc == 32


FAULTS = {"none": Faults(), "loss": Faults(loss=0.1), "corrupt": Faults(corrupt=0.1), "repeat": Faults(repeat=0.3),
          "delay": Faults(delay=0.1), "cut": Faults(cut=0.02), "reorder": Faults(reorder=0.1),
          "late": Faults(late=0.3, late_cycles=500),
          "all": Faults(loss=0.05, corrupt=0.05, repeat=0.05, delay=0.05, cut=0.01, reorder=0.05, late=0.05)}


@cocotb.test()
@cocotb.parametrize(case=["none 1", "none 30", "loss 30", "corrupt 1", "repeat 1", "delay 1", "cut 30",
                              "reorder 30", "late 1", "all 1", "all 30"])
async def both_ways(dut, case):
    """Packets are delivered exactly once and in order, and the status counts the faults."""
    fault, latency = case.split()
    ways = await directions(dut, latency=int(latency), stalls="none" if fault == "none" else "mixed",
                            faults=FAULTS[fault], tries=200)
    for way in ways:
        way.some(70)
    await finish(dut, ways)
    for way in ways:
        way.faults = Faults()
    await run_all(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    told = {name: sum(way.status()[name] for way in ways) for name in LINK_COUNTS}
    done = sum((way.done for way in ways), Counter())
    dut._log.info("%s: %s %s", case, told, dict(done))
    assert all(way.status()["state"] == LinkState.UP for way in ways)
    if fault == "none":
        assert not any(told.values())
    for kind, name in (("loss", "sequence_errors"), ("corrupt", "crc_errors"), ("repeat", "duplicates"),
                       ("reorder", "sequence_errors"), ("late", "stale")):
        assert fault != kind or (told[name] and done[kind])
    assert told["replays"] or fault in ("none", "repeat", "delay", "late")


@cocotb.test()
async def latency(dut):
    ways = await directions(dut)
    for beats in (1, 4):
        ways[0].packet(beats)
        await finish(dut, ways)
        assert ways[0].got[-1] - ways[0].taken[-1] == LATENCY[os.environ["CONFIG"]] + beats


@cocotb.test(skip=os.environ.get("CONFIG") == "short")
async def full_rate(dut):
    """One direction, where only CREDIT packets return credits, and both directions."""
    for both in (False, True):
        for beats in (1, 7):
            ways = await directions(dut, latency=10)
            for way in ways[:1 + both]:
                for _ in range(280 // beats):
                    way.packet(beats)
            await finish(dut, ways)
            for way in ways[:1 + both]:
                # A packet is delivered when it is complete.
                assert way.got[-1] - way.got[0] == 280 - 1


@cocotb.test()
async def stuck_receiver(dut):
    """One channel is not read for a long time: the other channel and direction continue, and nothing is lost."""
    ways = await directions(dut, tries=2)
    stuck = ways[0].sinks[-1]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for way in ways:
        for _ in range(60):
            for channel in range(len(way.sinks)):
                way.packet(channel=channel)
    await run_all(dut, ways, lambda: not any(ways[1].expected) and not any(ways[0].expected[:-1]))
    await wait(dut, ways, 5 * TIMEOUT)
    assert ways[0].held[-1] > ways[0].config.link_beats - ways[0].config.packet_beats
    stuck.stalls = stalls
    await finish(dut, ways)
    assert all(way.status()["state"] == LinkState.UP for way in ways)


async def _start(dut, ways, ports):
    for name, value in (("start", 1), ("start", 0)):
        for port in ports:
            getattr(dut, f"management__{port}__settings__{name}").value = value
        await wait(dut, ways, 1)


@cocotb.test()
async def broken_link(dut):
    """A link that drops everything in one direction times out after the configured limit; its port accepts and drops
    packets, and comes up again when both ends are started."""
    ways = await directions(dut)
    for way in ways:
        way.some(20)
    await finish(dut, ways)
    await run_all(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    first, other = ways
    first.faults = Faults(loss=1)
    for _ in range(5):
        first.packet()
    patience = (TRIES + 1) * (TIMEOUT + 30)
    took = await run_all(dut, ways, lambda: first.status()["state"] == LinkState.DOWN)
    assert TRIES * TIMEOUT < took < patience
    assert other.status()["state"] == LinkState.UP
    for _ in range(50):
        first.packet()
        first.grant()
    await run_all(dut, ways, lambda: not first.sources[0].items and not first.signals.items)
    first.faults = Faults()
    # The other end receives the report.
    await run_all(dut, ways, lambda: other.status()["state"] == LinkState.DOWN)
    await _start(dut, ways, [0])
    await wait(dut, ways, 1000)
    assert first.status()["state"] == LinkState.START and other.status()["state"] == LinkState.DOWN
    for way in ways:
        way.forget()
    await _start(dut, ways, [1])
    await run_all(dut, ways, lambda: all(way.status()["state"] == LinkState.UP for way in ways))
    for way in ways:
        way.some(30)
    await finish(dut, ways)


@cocotb.test()
async def late_copies(dut):
    """Duplicates arrive when numbers have wrapped twice."""
    ways = await directions(dut, faults=Faults(late=0.2))
    for _ in range(3):
        for way in ways:
            for _ in range(500):
                way.packet(1)
            way.some(50)
        await finish(dut, ways)
    for way in ways:
        way.faults = Faults()
    await run_all(dut, ways, lambda: not any(way.strays for way in ways))
    for way in ways:
        way.some(20)
    await finish(dut, ways)
    await run_all(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    await wait(dut, ways, 100)
    for way in ways:
        status = way.status()
        assert status["stale"] > 100 and status["credits"] == way.config.link_beats
        assert status["state"] == LinkState.UP and status["cause"] == LinkCause.NONE
        assert not any(status[name] for name in ("replays", "crc_errors", "sequence_errors", "timeouts")), str(status)


async def _up(dut, ways):
    await run_all(dut, ways, lambda: all(way.status()["state"] == LinkState.UP for way in ways))


async def _copies(dut, ways):
    """Every packet so far arrives again, in any order, during traffic in both directions."""
    for way in ways:
        for beats in way.record:
            way.later(beats, way.rng.randint(1, 3000))
        way.record = []
        way.some(150)
    await finish(dut, ways)
    await run_all(dut, ways, lambda: not any(way.strays for way in ways))
    for way in ways:
        way.some(20)
    await finish(dut, ways)


@cocotb.test()
async def copies_of_an_earlier_session(dut):
    """Duplicates of START, INIT, DOWN, UP and data, in the same session and in the next one, have no effect."""
    ways = await directions(dut)
    for way in ways:
        way.some(150)
    await finish(dut, ways)
    await _copies(dut, ways)
    dut.management__0__settings__stop.value = 1
    await wait(dut, ways, 1)
    dut.management__0__settings__stop.value = 0
    await run_all(dut, ways, lambda: ways[1].status()["state"] == LinkState.DOWN)
    assert [way.status()["cause"] for way in ways] == [LinkCause.SOFTWARE, LinkCause.PEER]
    for way in ways:
        way.forget()
    await _start(dut, ways, [0, 1])
    # Duplicates of all earlier packets arrive during the handshake, too.
    for way in ways:
        for beats in way.record:
            way.later(beats, way.rng.randint(1, 1000))
    await _up(dut, ways)
    await _copies(dut, ways)
    assert all(way.status()["state"] == LinkState.UP and way.status()["cause"] == LinkCause.SOFTWARE for way in ways)


async def _one_end(dut, ways):
    """The peer has restarted: this end goes DOWN, though it has nothing to send, and comes up when started."""
    await run_all(dut, ways, lambda: ways[1].status()["state"] == LinkState.DOWN, limit=2000)
    assert ways[1].status()["cause"] == LinkCause.RESTART
    assert ways[0].status()["state"] == LinkState.START
    for way in ways:
        way.forget()
    await _start(dut, ways, [1])
    await _up(dut, ways)
    await _copies(dut, ways)
    assert [way.status()["state"] for way in ways] == [LinkState.UP] * 2


@cocotb.test()
@cocotb.parametrize(how=["start", "reset", "same number"])
async def the_other_end_alone_begins_again(dut, how):
    ways = await directions(dut)
    for way in ways:
        way.some(20)
    await finish(dut, ways)
    await run_all(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    if how == "start":
        await _start(dut, ways, [0])
    else:
        # Once per session number: as if the number had been lost.
        for _ in range(1 << LINK_SESSION_WIDTH if how == "same number" else 1):
            dut.resets.value = 1
            await wait(dut, ways, 1)
            dut.resets.value = 0
            await wait(dut, ways, 3)
    await _one_end(dut, ways)


def _credit(way, **fields):
    """A CREDIT packet to the port at the end of ``way``, as the peer would send it now."""
    config = way.config
    packet = {"kind": PacketKind.CREDIT.value, "state": LinkState.UP.value, "session": way.session,
              "peer": way.other.session, "ack_high": way.ack >> 9}
    header = {"ack": way.ack % 512, "credits": [0] * config.link_channels}
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
    ways = await directions(dut)
    for way in ways:
        for _ in range(30):
            way.packet(1)
    await finish(dut, ways)
    await run_all(dut, ways, lambda: not any(way.status()["unacknowledged"] for way in ways))
    await wait(dut, ways, 100)
    way = ways[0]
    true = {"ack": way.ack % 512, "credits": [30, *[0] * (way.config.link_channels - 1)]}
    limit, past = way.config.link_beats, {"ack": (way.ack - 3) % 512, "credits": [27, *true["credits"][1:]]}
    name, _, much = what.partition(" ")
    wrong = {"ack": {"ack": true["ack"] + (250 if much else 1)},
             "credits": {"credits": [30 + (2 * limit if much else 1), *true["credits"][1:]]}}[name]
    for told in ({**true, "session": way.session + 1, **wrong}, {**true, "peer": way.other.session + 1, **wrong},
                 {**true, "ack_high": 1, **wrong}, past, {**true, "credits": past["credits"]}, true):
        way.later(_credit(way, **told), 1)
        await wait(dut, ways, 20)
        assert ways[1].status()["state"] == LinkState.UP and ways[1].status()["credits"] == limit
    way.later(_credit(way, **{**true, **wrong}), 1)
    await wait(dut, ways, 20)
    assert ways[1].status()["state"] == LinkState.DOWN and ways[1].status()["cause"] == LinkCause.VIOLATION


@cocotb.test()
async def full_buffers_at_the_start(dut):
    """A port with packets of the previous session in its buffer waits until they are read: only then does it have free
    entries for the peer's packets."""
    ways = await directions(dut)
    stuck = ways[0].sinks[0]
    stalls, stuck.stalls = stuck.stalls, lambda: True
    for _ in range(ways[0].config.link_beats // 2):
        ways[0].packet(1)
    await wait(dut, ways, 1000)
    ways[0].forget(held=True)
    ways[1].forget()
    await _start(dut, ways, [0, 1])
    await wait(dut, ways, 2000)
    assert ways[1].status()["state"] == LinkState.START and ways[0].status()["state"] == LinkState.INIT
    for _ in range(ways[0].config.link_beats):
        ways[0].packet(1)
    await wait(dut, ways, 100)
    stuck.stalls = stalls
    await finish(dut, ways)
    assert all(way.status()["state"] == LinkState.UP for way in ways)


@cocotb.test()
async def nobody_there(dut):
    """A port without anything to send waits for its peer without limit."""
    ways = await directions(dut, faults=Faults(loss=1), up=False)
    await wait(dut, ways, 2 * TRIES * TIMEOUT)
    assert all(way.status()["state"] == LinkState.START and not way.status()["timeouts"] for way in ways)
    ways[1].faults = Faults()
    await wait(dut, ways, 1000)
    assert ways[1].status()["state"] == LinkState.START and ways[0].status()["state"] == LinkState.INIT
    ways[0].faults = Faults()
    ways[0].some(10)
    await finish(dut, ways)
