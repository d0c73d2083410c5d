# SPDX-License-Identifier: Apache-2.0
"""Reports of received packets and freed beats to the neighbour."""

from sim.system import Machine, MachineConfig
from sim.system.configuration import LinkConfig
from sim.system.credits import Credits

CYCLE = 1000
CONFIG = MachineConfig(shape=(2,), whole_packets=True, receive_buffer_bytes=2048, beat_bytes=8, clock_hz=1e9)


def at(cycles):
    return round(cycles * CYCLE)


def test_a_report_after_32_cycles():
    """Three cycles from a packet's arrival until it counts, then 32: as in the RTL's log of an idle ring."""
    credits = Credits(CONFIG)
    assert credits.due is None
    credits.arrived(at(100))
    credits.leaves(256, at(100), at(132))
    assert credits.due == at(135)
    # 31 of 32 beats have left. The last one is reported 33 cycles later.
    assert credits.report(at(135)) == (31 * 8, (0,))
    assert credits.due == at(168)
    assert credits.report(at(168)) == (8, ())
    assert credits.due is None


def test_a_report_has_what_arrived_three_cycles_before():
    """The others are reported by a later packet: 32 cycles after they count, or at once if they are four."""
    credits = Credits(CONFIG)
    for cycle in (100, 101, 102, 103, 104):
        credits.arrived(at(cycle), 8 * cycle)
    assert credits.report(at(104)) == (0, (800, 808))
    assert credits.due == at(105 + 32)
    credits.arrived(at(106), 64)
    assert credits.due == at(109 + 1)
    assert credits.report(at(110)) == (0, (816, 824, 832, 64))
    assert credits.due is None


def test_reports_at_once():
    """After four packets, and after a quarter of the buffer."""
    credits = Credits(CONFIG)
    for cycle in (100, 102, 104):
        credits.arrived(at(cycle))
    assert credits.due == at(135)
    credits.arrived(at(106))
    assert credits.due == at(110)
    credits.report(at(110))
    credits.arrived(at(200))
    credits.leaves(512, at(200), at(232))
    assert credits.due == at(235)
    credits.leaves(256, at(201), at(217))
    # 512 bytes are a quarter. The 64th beat leaves at 200 + 16 + 5, and the report follows a cycle later.
    assert credits.due <= at(235)
    many = Credits(CONFIG.with_(receive_buffer_bytes=512))
    many.arrived(at(100))
    many.leaves(256, at(100), at(132))
    assert many.due == at(100 + 15 + 5 + 1)


def test_credits_of_the_neighbour():
    credits = Credits(CONFIG)
    for _ in range(7):
        credits.spend(256)
    assert credits.suffice
    credits.spend(8)
    assert not credits.suffice
    credits.gain(8)
    assert credits.suffice


def test_a_credit_packet_takes_the_link():
    """With receive buffers, links of a ring carry CREDIT packets, which is seen only in their number."""
    links = LinkConfig(bytes_per_s=2e9, latency_s=100e-9)
    rule = {"shape": (4,), "endpoint": "ace", "links": links, "chunk_bytes": 4096, "message_bytes": 1024,
            "whole_packets": True, "beat_bytes": 8, "clock_hz": 1e9}
    sent = []
    for buffer in (None, 2048):
        machine = Machine(MachineConfig(receive_buffer_bytes=buffer, **rule))
        machine.issue("ALL_REDUCE", 4096)
        machine.run()
        link = machine.statistics()["links"][0]
        sent.append((link["payload_bytes"], link["packets"], link["wire_bytes"]))
    (payload, packets, wire), (same, more, longer) = sent
    assert payload == same and more > packets and longer - wire == 16 * (more - packets)


def test_the_memory_of_unacknowledged_packets_limits_a_link():
    """A packet stays there until a report of its arrival is back. Here three of four beats fit, besides two beats for
    ABORTs: 12 beats for each round trip, of twice the link's latency and some cycles. In each direction 8,192 beats
    cross the link."""
    def cycles(replay):
        machine = Machine(MachineConfig(
            shape=(2,), endpoint="wide", links=LinkConfig(bytes_per_s=64e9, latency_s=100e-9), whole_packets=True,
            receive_buffer_bytes=1 << 16, replay_bytes=replay, beat_bytes=64, clock_hz=1e9))
        machine.issue("ALL_REDUCE", 1 << 20)
        machine.run()
        return machine.now * 1e9

    assert cycles(None) == cycles(1 << 16) == cycles(32 << 10) < 25_000
    assert 8192 / 12 * 200 < cycles(16 * 64) < 8192 / 12 * 260
