# SPDX-License-Identifier: Apache-2.0
"""RequesterBuffers: exhausted buffers, late retransmission, failures, limits of memory, reset."""

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from hw.axi import Resp
from tests.rdma.buffers_bench import LENGTH, live_bench, simulate_buffers
from tests.rdma.remote_memory import PAGE

pytestmark = pytest.mark.rtl


def test_cases(simulate):
    simulate_buffers(simulate, "TINY", [
        "all_entries", "all_blocks", "retired_while_being_sent", "read_fails_after_its_first_part",
        "closed_queue_pairs", "limits_of_memory", "starts_again_after_reset", "reads_and_writes_alternate",
        "order_of_a_queue_pair"])


async def _until(bench, done):
    for _ in range(3000):
        if done():
            return
        await bench.step()
    raise AssertionError("no progress")


async def _steps(bench, count):
    for _ in range(count):
        await bench.step()


async def _send_and_retire(bench):
    """Send and retire all packets that are posted, the oldest of each queue pair first."""
    packets = list(bench.posted.values())
    for packet in packets:
        bench.send(packet)
    await _until(bench, lambda: all(packet.copies for packet in packets))
    for order in bench.order.values():
        for packet in list(order):
            if packet in packets:
                bench.retire(packet)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def all_entries(dut):
    """Each entry is used once; then bursts wait, and continue when entries are free."""
    bench = await live_bench(dut, automatic=False)
    packets = bench.config.packets
    for number in range(packets + 60):
        bench.write(number, bench.remotes[15], number * PAGE + number, 3)
    await _steps(bench, 200)
    assert sorted(bench.posted) == list(range(packets))
    free, _ = bench.free()
    assert free == 0 and bench.sources["writes"].queue
    while bench.writes:
        await _send_and_retire(bench)
        await _steps(bench, 60)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def all_blocks(dut):
    """Payload fills the whole store. A burst that finds no block waits; its beats and all others are correct."""
    bench = await live_bench(dut, automatic=False)
    config, size = bench.config, 1024
    count = config.buffer_beats * config.beat_bytes // size
    for _ in range(3):
        for number in range(count + 1):
            bench.write(number, bench.remotes[15], number * PAGE, size)
        await _until(bench, lambda: bench.stalled)
        await _steps(bench, 50)
        assert bench.stalled and len(bench.posted) == count
        _, free = bench.free()
        assert free == 0
        await _send_and_retire(bench)
        await _until(bench, lambda: len(bench.posted) == 1 and not bench.sources["retire"].queue)
        await _send_and_retire(bench)
        await _until(bench, lambda: not bench.writes)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(before=[0, 1, 2])
async def retired_while_being_sent(dut, before):
    """Neither the entry nor the blocks are free until the packet was read. It is being read, looked up, or offered,
    with ``before`` others before it."""
    bench = await live_bench(dut, automatic=False)
    line, free = bench.sinks["packets"], bench.config.packets - 4
    remotes = bench.remotes[15], bench.remotes[5], bench.remotes[0], bench.remotes[3]
    for number, remote in enumerate(remotes):
        bench.write(number, remote, 0, 256)
    await _until(bench, lambda: len(bench.posted) == 4)
    others = [bench.order[qp][0] for qp in (2, 7, 1)]
    packet = bench.order[6][0]
    bench.send(packet)
    await _until(bench, lambda: packet.copies)
    line.chance = 0
    for sent in (*others[:before], packet):
        bench.send(sent)
    await _steps(bench, 10)
    assert bench.sources["send"].offered == (before == 2)
    bench.retire(packet)
    await _steps(bench, 30)
    assert not bench.sources["retire"].queue and bench.free()[0] == free and 0 in bench.writes
    # Blocks that are free too early would be used for these.
    for number in range(100, 132):
        bench.write(number, remotes[0], number * PAGE, 256)
    await _steps(bench, 1000)
    line.chance = 1
    await _until(bench, lambda: not bench.sends and not bench.sources["send"].queue)
    assert packet.copies == 2
    while bench.writes or bench.posted:
        await _send_and_retire(bench)
        await _steps(bench, 400)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def read_fails_after_its_first_part(dut):
    """Error beats replace the second part only, and stay behind the data of the first one."""
    bench = await live_bench(dut, automatic=False)
    bench.read(9, bench.remotes[3], 100, 40)
    await _until(bench, lambda: len(bench.posted) == 2)
    first, second = bench.order[1]
    bench.send(first)
    bench.send(second)
    await _until(bench, lambda: second.copies)
    bench.sinks["beats"].chance = 0
    bench.give(first)
    await _steps(bench, 10)
    bench.sinks["beats"].chance = 1
    await _until(bench, lambda: first.returned)
    bench.failed.add(1)
    bench.retire(first)
    bench.retire(second, failed=True)
    await _until(bench, lambda: not bench.reads)
    assert bench.seen["failed read"] == 1 and len(bench.times["beats"]) == 40
    assert bench.errors == 40 - (256 - 96) // 8
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def closed_queue_pairs(dut):
    bench = await live_bench(dut)
    remote = bench.remotes[3]
    for state in (False, True, False, True):
        await bench.connect(1, mtu=256, is_open=state)
        resp = Resp.OKAY if state else Resp.SLVERR
        bench.write(1, remote, 8, 700, resp=resp)
        bench.read(2, remote, 8, 70, resp=resp)
        bench.write(3, bench.remotes[5], PAGE, 20)
        await _until(bench, lambda: not bench.busy)
    assert bench.seen["refused"] == 2
    await bench.define(3, qp=1, va=0, length=LENGTH, valid=False)
    bench.write(1, remote, 8, 700, resp=Resp.DECERR)
    bench.read(2, remote, 8, 70, resp=Resp.DECERR)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def limits_of_memory(dut):
    """Each length of memory around the end of a burst."""
    bench = await live_bench(dut)
    for length in (*range(1, 12), 15, 16, 17, 23, 24, 25, 31, 32, 33, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE):
        remote = await bench.define(3, qp=1, va=0x5555, length=length)
        for number, size in enumerate((1, 7, 8, 9, 23)):
            for lower, offset in enumerate((0, 3, 8)):
                inside = offset + size <= length
                bench.write(16 * number + lower, remote, offset, size, resp=Resp.OKAY if inside else Resp.SLVERR)
                await _until(bench, lambda: not bench.busy)
                beats = (offset + size - 1) // 8 - offset // 8 + 1
                last = max(offset, (offset // 8 + beats - 1) * 8)
                bench.read(16 * number + lower, remote, offset, beats,
                           resp=Resp.OKAY if last < length else Resp.SLVERR)
                await _until(bench, lambda: not bench.busy)
    remote = await bench.define(3, qp=1, va=0, length=0)
    bench.write(1, remote, 0, 1, resp=Resp.SLVERR)
    bench.read(1, remote, 0, 1, resp=Resp.SLVERR)
    await _until(bench, lambda: not bench.busy)
    remote = await bench.define(3, qp=1, va=0, length=5 * PAGE)
    for number, page in enumerate((5, 6, 1 << 30)):
        bench.write(number, remote, page * PAGE, 1, resp=Resp.SLVERR)
        bench.read(number, remote, page * PAGE, 1, resp=Resp.SLVERR)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def starts_again_after_reset(dut):
    bench = await live_bench(dut, automatic=False)
    for number in range(20):
        bench.write(number, bench.remotes[15], number * PAGE, 600)
        bench.read(number, bench.remotes[15], (20 + number) * PAGE, 30)
    await _steps(bench, 400)
    dut.rst.value = 1
    for source in bench.sources:
        getattr(dut, f"{source}__valid").value = 0
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    bench = await live_bench(dut)
    for number in range(20):
        bench.write(number, bench.remotes[15], number * PAGE, 600)
        bench.read(number, bench.remotes[15], (20 + number) * PAGE, 30)
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_and_writes_alternate(dut):
    """Neither kind of burst waits while entries are taken by the other."""
    bench = await live_bench(dut, sink=0.5)
    for number in range(60):
        bench.write(number, bench.remotes[5], number // 8 * PAGE + number % 8 * 64, 8)
        bench.read(number, bench.remotes[5], (8 + number // 8) * PAGE, 1)
    kinds = []
    while len(kinds) < 80:
        await bench.step()
        kinds = bench.kinds[:80]
    assert 30 < sum(kinds) < 50
    await bench.drain()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def order_of_a_queue_pair(dut):
    """Packets are posted in the order of their bursts, which are not interleaved."""
    bench = await live_bench(dut, automatic=False)
    sizes = (2000, 1, 700, 256, 257, 512)
    for number, size in enumerate(sizes):
        bench.write(number, bench.remotes[3], number * PAGE, size)
    bench.read(9, bench.remotes[3], 7 * PAGE, 200)
    await _until(bench, lambda: len(bench.posted) == sum(-(-size // 256) for size in sizes) + 7)
    await _send_and_retire_reads(bench)
    await bench.drain()


async def _send_and_retire_reads(bench):
    packets = list(bench.order[1])
    for packet in packets:
        bench.send(packet)
    await _until(bench, lambda: all(packet.copies for packet in packets))
    for packet in packets:
        if packet.read:
            bench.give(packet)
            await _until(bench, lambda packet=packet: packet.returned)
        bench.retire(packet)
