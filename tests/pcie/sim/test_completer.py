# SPDX-License-Identifier: Apache-2.0
"""Completers: latency, concurrency, order, splitting, and every error as the card sees it on RC."""

import random
from itertools import pairwise

import cocotb
import pytest
from cocotb.triggers import Combine, Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.xilinx.us.tlp import ErrorCode

from sim.pcie.completer import CompleterSettings, enabled_bytes, pieces
from sim.pcie.faults import Fault, Injection
from sim.verilator.design import Design
from tests.pcie.sim.bench import start
from tests.pcie.sim.wires import Wires


@pytest.mark.rtl
@pytest.mark.long
def test_completer(simulate):
    simulate(Design(Wires, 512))


@pytest.mark.parametrize("first_be, last_be, dwords, expected", [
    (15, 0, 1, (0, 4)), (0, 0, 1, (0, 1)), (8, 0, 1, (3, 1)), (0b1001, 0, 1, (0, 4)), (0b0110, 0, 1, (1, 2)),
    (0b1000, 0b0001, 2, (3, 2)), (0b1100, 0b0111, 4, (2, 13)), (0b0100, 0b0100, 2, (2, 5)), (15, 15, 1024, (0, 4096)),
])
def test_enabled_bytes(first_be, last_be, dwords, expected):
    assert enabled_bytes(first_be, last_be, dwords) == expected


@pytest.mark.parametrize("split", ["never", "always", "random"])
def test_pieces(seed, split):
    """Pieces cover the request, fit the payload size, and are cut at the boundary; the number is extreme."""
    rng = random.Random(seed)
    for _ in range(500):
        rcb, payload = rng.choice((64, 128)), rng.choice((128, 256, 512))
        address = rng.randrange(4096)
        length = rng.choice((1, 2, 5, 64, 128, 129, rng.randint(1, 4096)))
        found = list(pieces(address, length, max_payload=payload, rcb=rcb, split=split, rng=rng))
        assert [position for position, _ in found] == [address, *(position + size for position, size in found)][:-1]
        assert found[-1][0] + found[-1][1] == address + length
        assert all(position % rcb == 0 for position, _ in found[1:])
        dwords = [-(-(position + size) // 4) - position // 4 for position, size in found]
        assert min(size for _, size in found) > 0 and 4 * max(dwords) <= payload
        if split == "always":
            assert len(found) == -(-(address + length) // rcb) - address // rcb
        elif split == "never":
            assert len(found) <= -(-(address % 4 + length + rcb) // payload) + 1
            assert len(found) == 1 or 4 * sum(dwords[:2]) > payload


@pytest.mark.parametrize("rule, options", [
    ("latency_ns must be a range of times from 0, not (5, 3)", {"latency_ns": (5, 3)}),
    ("concurrency must be at least 1 or None, not 0", {"concurrency": 0}),
    ("split must be one of never, always, random, not 'often'", {"split": "often"}),
    ("rcb must be 64 or 128, not 32", {"rcb": 32}),
])
def test_settings(rule, options):
    with pytest.raises(ValueError) as error:
        CompleterSettings(**options)
    assert str(error.value) == rule


@pytest.mark.parametrize("rule, options", [
    ("piece of an injection must be at least 0, not -1", {"piece": -1}),
    ("times of an injection must be at least 1 or None, not 0", {"times": 0}),
])
def test_injections(rule, options):
    with pytest.raises(ValueError, match=rule):
        Injection(Fault.DROPPED, **options)


async def _times(system, app, count, *, length=4):
    """Times at which reads with tags from 0 on complete, relative to the first request, and their order."""
    base, begun, found = system.gpus[0].base, get_sim_time("ns"), []

    async def read(tag):
        await app.read(base + 4096 * tag, length, tag)
        found.append((tag, get_sim_time("ns") - begun))

    await Combine(*(cocotb.start_soon(read(tag)) for tag in range(count)))
    return [tag for tag, _ in found], [time for _, time in found]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def timing(dut):
    """Latency, concurrency and order."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((0, 0)))
    completer = system.gpus[0].completer
    await _times(system, app, 1)        # waits for the links, too
    _, (bare,) = await _times(system, app, 1)
    completer.settings = CompleterSettings((1000, 1000))
    order, times = await _times(system, app, 8)
    assert order == list(range(8)) and 990 < times[0] - bare < 1010 and times[-1] - times[0] < 200
    completer.settings = CompleterSettings((1000, 1000), concurrency=2)
    order, times = await _times(system, app, 8)
    assert order == list(range(8)) and 3990 < times[-1] - bare < 4200
    completer.settings = CompleterSettings((100, 2000))
    order, times = await _times(system, app, 16)
    assert order == list(range(16)) and times[-1] < 3000
    completer.settings = CompleterSettings((100, 2000), reorder=True)
    order, _ = await _times(system, app, 16)
    assert order != list(range(16)) and sorted(order) == list(range(16))
    assert completer.idle()
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def interleaving(dut):
    """With reordering, completions of several requests interleave; those of one request keep their order."""
    system, app, monitor = await start(
        dut, enumerate_bus=False, gpu=CompleterSettings((0, 100), reorder=True, split="always"))
    system.gpus[0].memory.write(0, bytes(range(256)) * 256)
    seen, sent = [], system.card.upstream_recv

    async def observe(tlp):
        seen.append((tlp.tag, tlp.byte_count))
        await sent(tlp)

    system.card.upstream_port.rx_handler = observe
    await _times(system, app, 8, length=512)
    tags = [tag for tag, _ in seen]
    assert len(tags) == 8 * 4
    assert sum(one != other for one, other in pairwise(tags)) > 8
    for number in range(8):
        assert [count for tag, count in seen if tag == number] == [512, 384, 256, 128]
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def partial_writes(dut):
    """Bytes without enables stay, and those under a poisoned write."""
    system, _, _ = await start(dut, enumerate_bus=False)
    gpu = system.gpus[0]
    gpu.memory.write(0, b"abcdefghijkl")
    writes = []
    gpu.completer.written = lambda address, data: writes.append((address, data))
    other = system.gpus[1]
    await other.store(gpu.base, b"ABCDEFGH", first_be=0b1010, last_be=0b0110)
    await other.store(gpu.base + 8, b"IJKL", first_be=0)
    await other.store(gpu.base + 8, b"IJKL", poisoned=True)
    await Timer(500, "ns")
    assert gpu.memory.read(0, 12) == b"aBcDeFGhijkl"
    assert writes == [(1, b"B"), (3, b"D"), (5, b"FG")]
    assert gpu.completer.writes == 3


ERRORS = {
    Fault.UNSUPPORTED_REQUEST: ErrorCode.BAD_STATUS, Fault.COMPLETER_ABORT: ErrorCode.BAD_STATUS,
    Fault.POISONED: ErrorCode.POISONED, Fault.WRONG_LOWER_ADDRESS: ErrorCode.INVALID_ADDRESS,
    Fault.WRONG_BYTE_COUNT: ErrorCode.INVALID_ADDRESS, Fault.WRONG_ATTRIBUTES: ErrorCode.MISMATCH,
    Fault.NO_DATA: ErrorCode.INVALID_LENGTH,
}


@cocotb.test(timeout_time=200, timeout_unit="us")
async def errors(dut):
    """Each error in the first, a middle and the last completion: the ones before are right, and the code fits."""
    system, app, _ = await start(dut, enumerate_bus=False, gpu=CompleterSettings((0, 0), split="always"))
    gpu, tag = system.gpus[0], 0
    content = random.Random(1).randbytes(512)
    gpu.memory.write(0, content)
    for fault, code in ERRORS.items():
        for piece in (0, 2, 9):
            gpu.completer.inject(Injection(fault, piece=piece))
            await app.request(gpu.base, 512, tag)
            good = 0
            while not (tlp := await app.completions[tag].get()).error_code:
                assert bytes(tlp.get_data()) == content[128 * good:128 * good + 128]
                good += 1
            assert good == min(piece, 3) and tlp.error_code == code, (fault, piece, good, tlp.error_code)
            # A mismatch leaves the tag in use in the hard block.
            tag += 1
    assert await app.read(gpu.base, 512, tag) == content


@cocotb.test(timeout_time=200, timeout_unit="us")
async def schedules(dut):
    """Injections count the matching reads, end after their times, and apply to their addresses only."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((0, 0)))
    gpu = system.gpus[0]
    gpu.completer.inject(
        Injection(Fault.UNSUPPORTED_REQUEST, after=1, times=2, addresses=range(0x1000, 0x1008)),
        Injection(Fault.COMPLETER_ABORT, addresses=range(0x3000, 0x4000), times=None))

    async def failed(address, length):
        reply = await app.read(gpu.base + address, length, 0)
        return 0 if isinstance(reply, bytes) else int(reply.status)

    reads = [(0x1000, 8), (0xFF8, 8), (0x1008, 8), (0x1004, 4), (0x0FFE, 3 - 1), (0x1007, 1), (0x1000, 8)]
    # The second and third reads that touch the range fail.
    assert [await failed(*read) for read in reads] == [0, 0, 0, 1, 0, 1, 0]
    assert [await failed(0x3000 + 64 * number, 4) for number in range(4)] == [4] * 4
    assert await failed(0x4000, 4) == 0
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lost_and_extra(dut):
    """A dropped completion never arrives, and the hard block times out; an unexpected and a late one are reported."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((0, 0), split="always"))
    gpu = system.gpus[0]
    gpu.completer.inject(Injection(Fault.DROPPED, piece=1))
    await app.request(gpu.base, 256, 5)
    assert (await app.completions[5].get()).byte_count == 256
    await Timer(5, "us")
    assert app.completions[5].empty() and 5 in monitor.requester.in_flight and gpu.completer.idle()
    system.card.expire(5)
    tlp = await app.completions[5].get()
    assert tlp.error_code == ErrorCode.TIMEOUT and tlp.request_completed
    with pytest.raises(ValueError, match="No request with tag 5 is in flight"):
        system.card.expire(5)

    gpu.completer.inject(Injection(Fault.UNEXPECTED_TAG, extra_tag=200))
    assert len(await app.read(gpu.base, 16, 6)) == 16
    assert (await app.completions[200].get()).error_code == ErrorCode.INVALID_TAG

    system.card.withdrawn = 1
    await app.request(gpu.base, 16, 8)
    assert (await app.completions[8].get()).discontinue

    gpu.completer.inject(Injection(Fault.DUPLICATE, delay_ns=3000))
    begun = get_sim_time("ns")
    assert len(await app.read(gpu.base, 16, 7)) == 16
    assert (await app.completions[7].get()).error_code == ErrorCode.INVALID_TAG
    assert 3000 < get_sim_time("ns") - begun < 3500
    monitor.finish()
