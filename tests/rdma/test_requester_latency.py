# SPDX-License-Identifier: Apache-2.0
"""Cycles of RequesterBuffers: latency of each path, throughput of packets and beats."""

from itertools import pairwise

import cocotb
import pytest

from tests.rdma.buffers_bench import live_bench, simulate_buffers
from tests.rdma.remote_memory import PAGE

pytestmark = pytest.mark.rtl

POSTED = 3
"""Cycles from the last beat of a burst to the posting of its first packet."""

SENT = 3
"""From ``send`` to the first beat on ``packets``."""

RETURNED = 3
"""From a beat on ``returned`` to its beat on ``beats``."""

RESPONDED = 2
"""From ``retire`` to the response to a write."""

REQUESTED = 4
"""From a read burst to the posting of its first packet."""


@pytest.mark.parametrize("name", ["TINY", "BROAD"])
def test_cycles(simulate, name):
    simulate_buffers(simulate, name, [
        "latency_of_a_write", "latency_of_a_read", "bursts_of_one_beat", "packets_without_bubbles",
        "free_blocks_follow_each_other", "read_data_without_bubbles"])


def _gaps(times):
    return [after - before for before, after in pairwise(times)]


async def _until(bench, done):
    for _ in range(3000):
        if done():
            return
        await bench.step()
    raise AssertionError("no progress")


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(beats=[1, 5])
async def latency_of_a_write(dut, beats):
    bench = await live_bench(dut, automatic=False)
    bench.write(1, bench.remotes[15], 0, beats * bench.config.beat_bytes)
    await _until(bench, lambda: bench.posted)
    assert bench.times["posted"][0] - bench.times["writes in"][-1] == POSTED
    packet, = bench.posted.values()
    bench.send(packet)
    await _until(bench, lambda: packet.copies)
    assert bench.times["packets"][0] - bench.times["send in"][0] == SENT
    bench.retire(packet)
    await _until(bench, lambda: not bench.writes)
    assert bench.times["responses"][0] - bench.times["retire in"][0] == RESPONDED
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def latency_of_a_read(dut):
    bench = await live_bench(dut, automatic=False)
    bench.read(1, bench.remotes[3], 5, 3)
    await _until(bench, lambda: bench.posted)
    assert bench.times["posted"][0] - bench.times["reads in"][0] == REQUESTED
    packet, = bench.posted.values()
    bench.send(packet)
    await _until(bench, lambda: packet.copies)
    bench.give(packet)
    await _until(bench, lambda: bench.times["beats"])
    assert bench.times["beats"][0] - bench.times["returned in"][0] == RETURNED
    await _until(bench, lambda: packet.returned)
    bench.retire(packet)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def bursts_of_one_beat(dut):
    """A burst per cycle is posted, a packet per cycle is sent, and one per cycle retires."""
    bench = await live_bench(dut, automatic=False)
    for number in range(24):
        bench.write(number, bench.remotes[5], number * PAGE // 2 + 3, 4)
    await _until(bench, lambda: len(bench.posted) == 24)
    assert _gaps(bench.times["posted"]) == [1] * 23
    for packet in bench.order[2]:
        bench.send(packet)
    await _until(bench, lambda: len(bench.times["packets"]) == 24)
    assert _gaps(bench.times["packets"]) == [1] * 23
    for packet in list(bench.order[2]):
        bench.retire(packet)
    await _until(bench, lambda: not bench.writes)
    assert _gaps(bench.times["retire in"]) == [1] * 23
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def packets_without_bubbles(dut):
    bench = await live_bench(dut, automatic=False)
    config = bench.config
    sizes, beat = (1, 9, 40, 3, 41), config.beat_bytes
    for number, beats in enumerate(sizes):
        bench.write(number, bench.remotes[15], number * PAGE, min(beats * beat, 1024) - 1)
    await _until(bench, lambda: len(bench.posted) == len(sizes))
    assert _gaps(bench.times["writes in"]) == [1] * (len(bench.times["writes in"]) - 1)
    for packet in bench.order[6]:
        bench.send(packet)
    await _until(bench, lambda: len(bench.times["packets"]) == len(sizes))
    for packet in list(bench.order[6]):
        await _until(bench, lambda packet=packet: packet.copies)
        bench.retire(packet)
    assert _gaps(bench.times["packet beats"]) == [1] * (len(bench.times["writes in"]) - 1)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def free_blocks_follow_each_other(dut):
    """After the blocks of long packets, one per cycle is taken by bursts of one beat."""
    bench = await live_bench(dut)
    config = bench.config
    used = 0
    while used < config.blocks + config.packet_blocks:
        bench.write(used % 256, bench.remotes[15], used * PAGE, 1024)
        used += 1024 // config.beat_bytes // config.block_beats
    await bench.drain()
    bench.times.clear()
    for number in range(config.packets):
        bench.write(number, bench.remotes[15], number * PAGE, 1)
    await _until(bench, lambda: not bench.sources["writes"].queue)
    assert _gaps(bench.times["writes in"]) == [1] * (config.packets - 1)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def read_data_without_bubbles(dut):
    """Also if payload that is not aligned takes a beat more than on the line: then that beat is the only one."""
    bench = await live_bench(dut, automatic=False)
    for number in range(3):
        bench.read(number, bench.remotes[15], number * PAGE + number, 16)
    await _until(bench, lambda: len(bench.posted) == 3)
    packets = list(bench.order[6])
    for packet in packets:
        bench.send(packet)
    await _until(bench, lambda: all(packet.copies for packet in packets))
    for packet in packets:
        bench.give(packet)
    await _until(bench, lambda: all(packet.returned for packet in packets))
    for packet in packets:
        bench.retire(packet)
    await _until(bench, lambda: not bench.reads)
    assert _gaps(bench.times["beats"]) == [1] * 47
    await bench.drain()
