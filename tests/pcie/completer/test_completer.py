# SPDX-License-Identifier: Apache-2.0
"""The completer against cocotbext-pcie: completions, accesses, doorbells, their order, and latency."""

import os
import random
import warnings

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.pcie.core.tlp import TlpType

from hw.pcie.completer import Completer
from hw.pcie.config import PcieConfig

from .bench import ATOMICS, CONFIG, MESSAGE, SLVERR, Bench, Request
from .checked import CheckedCompleter

pytestmark = [pytest.mark.rtl, pytest.mark.long]
# cocotbext-pcie uses deprecated parts of cocotb, whose version is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

READ, WRITE = TlpType.MEM_READ_64, TlpType.MEM_WRITE_64


def _completer(width):
    return CheckedCompleter(PcieConfig(data_width=width, **CONFIG))


def test_completer(simulate):
    simulate(_completer(512), name="completer_512")


@pytest.mark.parametrize("width", [128, pytest.param(256, marks=pytest.mark.soak)])
def test_narrow(simulate, width):
    simulate(_completer(width), name=f"completer_{width}", testcase=(
        "random_requests_with_stalls", "alignments", "queues_are_full", "withdrawn", "unsupported_kinds",
        "latency_and_throughput"))


def test_needs_a_configuration():
    with pytest.raises(TypeError, match=r"^Completer needs a PcieConfig, not 3$"):
        Completer(3)


def _rng():
    return random.Random(os.environ["COCOTB_RANDOM_SEED"])


def _enables(rng, length):
    """Byte enables that PCI Express allows: contiguous in requests of more than two DW."""
    if length == 1:
        return rng.choice((0xf, 0xf, rng.randrange(16))), 0
    if length == 2 and rng.random() < 0.5:
        return rng.randrange(1, 16), rng.randrange(1, 16)
    return 0xf << rng.randrange(4) & 0xf, 0xf >> rng.randrange(4)


def _any(rng):
    """A request of any kind."""
    sort = rng.choice(("store", "store", "doorbells", "registers", "registers", "read", "read", "odd"))
    if sort == "store":
        return Request.make(WRITE, rng, bar=2, offset=16 * rng.randrange(4096), length=4)
    if sort == "doorbells":
        length = rng.choice((1, 2, 4, 8, 12, 16, rng.randint(1, 40), rng.choice((255, 256))))
        offset = 4 * rng.randrange(16384)
        offset -= max(0, offset % 4096 + 4 * length - 4096)
    else:
        length = rng.choice((1, 1, 1, 2, 3, 4, 5, rng.randint(1, 40), rng.randint(1, 90)))
        offset = 4 * rng.randrange(16384 - length)
    first_be, last_be = _enables(rng, length)
    where = {"offset": offset, "length": length, "first_be": first_be, "last_be": last_be}
    if sort in ("doorbells", "registers"):
        return Request.make(WRITE, rng, bar=2 if sort == "doorbells" else 0, **where)
    if sort == "read":
        return Request.make(READ, rng, bar=rng.choice((0, 0, 2)), at=rng.choice((0, 0, 2)), **where)
    return _odd(rng, where)


def _odd(rng, where):
    case = rng.randrange(7)
    kind = rng.choice((READ, WRITE))
    if case == 0:
        return Request.make(kind, rng, bar=rng.choice((1, 3, 4, 5, 6)), **where)
    if case == 1:
        return Request.make(kind, rng, bar=rng.choice((0, 2)), function=rng.randrange(1, 8), **where)
    if case == 2:
        return Request.make(kind, rng, bar=0, at=1, **where)
    if case in (3, 4):
        if case == 3:
            atomic, least = rng.choice(list(ATOMICS.items()))
            request = Request.make(atomic, rng, bar=rng.choice((0, 2)), offset=where["offset"] & ~31,
                                   length=least * rng.choice((1, 2)), last_be=0xf)
        else:
            request = Request.make(rng.choice((TlpType.IO_READ, TlpType.IO_WRITE)), rng, bar=0, offset=where["offset"],
                                   length=1, first_be=where["first_be"])
        request.discontinue = request.has_data() and rng.random() < 0.5
        return request
    if case == 5:
        return Request.make(TlpType.MEM_READ_LOCKED_64, rng, bar=0, **where)
    request = Request.make(WRITE, rng, bar=rng.choice((0, 2)), **where)
    if rng.random() < 0.5:
        request.message = MESSAGE + rng.randrange(3)
    else:
        request.discontinue = True
    return request


async def _random_traffic(dut, requests, **options):
    rng = _rng()
    bench = await Bench.start(dut, rng, **options)
    bench.errors = {4 * rng.randrange(16384): SLVERR + rng.randrange(2) for _ in range(300)}
    bench.doorbell_errors = 0.1
    for _ in range(requests):
        await bench.send(_any(rng))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def random_requests(dut):
    await _random_traffic(dut, 100)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def random_requests_with_stalls(dut):
    await _random_traffic(dut, 80, stall=0.4)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def long_reads(dut):
    """The longest reads of both BARs, and an access error in each part of a read."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    await bench.send(Request.make(READ, rng, bar=2, offset=0, length=1024),
                     Request.make(READ, rng, bar=0, offset=0x1f54, length=1024, first_be=8, last_be=1))
    await bench.drain()
    bench.check()
    for wrong in (0, 1, 10, 11, 12, 42, 43, 44):
        bench.errors = {0x7f54 + 4 * wrong: SLVERR}
        await bench.send(Request.make(READ, rng, bar=0, offset=0x7f54, length=45, first_be=0xc, last_be=3),
                         Request.make(READ, rng, bar=0, offset=0x8000, length=1, first_be=0))
        await bench.drain()
        bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def byte_enables(dut):
    """Every combination of byte enables in reads and writes of one and two DW, in both BARs."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    for first_be in range(16):
        for last_be in range(16):
            length = 1 if last_be == 0 else 2
            if length == 2 and first_be == 0:
                continue
            for kind, bar in ((WRITE, 2), (WRITE, 0), (READ, 0)):
                if rng.random() < (1 if length == 1 else 0.4):
                    await bench.send(Request.make(kind, rng, bar=bar, offset=4 * rng.randrange(1, 1000), length=length,
                                                  first_be=first_be, last_be=last_be))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def alignments(dut):
    """Doorbell writes of each length at each position, up to the largest payload, and those that are not allowed."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    for length in (*range(1, 20), 255, 256):
        for lane in range(4):
            if 4 * lane + 4 * length <= 4096:
                await bench.send(Request.make(WRITE, rng, bar=2, offset=4096 * lane + 4 * lane, length=length))
    for length, offset in ((2, 4092), (16, 4096 - 60), (257, 0), (300, 0), (256, 4096 - 1024), (1, 4092)):
        await bench.send(Request.make(WRITE, rng, bar=2, offset=offset, length=length))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def refused_during_reset(dut):
    """While ``refuse`` is 1, non-posted requests get UR and posted ones are dropped; then service resumes."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    await bench.send(Request.make(READ, rng, bar=0, offset=0, length=40))
    await bench.drain()
    bench.check()
    dut.refuse.value = 1
    await RisingEdge(dut.clk)
    for kind, bar in ((READ, 0), (WRITE, 0), (READ, 2), (WRITE, 2)):
        request = Request.make(kind, rng, bar=bar, offset=0x40, length=5)
        request.refuse = True
        await bench.send(request)
    await bench.drain()
    assert bench.strobes == 4
    bench.check()
    dut.refuse.value = 0
    await RisingEdge(dut.clk)
    await bench.send(Request.make(READ, rng, bar=0, offset=0x44, length=3),
                     Request.make(WRITE, rng, bar=2, offset=0x50, length=4))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def doorbells_pass_reads(dut):
    """Ten reads of slow registers are in progress: doorbell writes pass them; a register write does not let them."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    bench.register_delay = 100
    await bench.send(*(Request.make(READ, rng, bar=0, offset=4 * n, length=2) for n in range(10)))
    await bench.send(*(Request.make(WRITE, rng, bar=2, offset=16 * n, length=4) for n in range(20)))
    await ClockCycles(dut.clk, 80)
    assert len(bench.bursts) == 20 and len(bench.accesses) < 10
    await bench.send(Request.make(WRITE, rng, bar=0, offset=0, length=1),
                     Request.make(WRITE, rng, bar=2, offset=0, length=4))
    await ClockCycles(dut.clk, 80)
    assert len(bench.bursts) == 20
    await bench.drain()
    assert bench.accesses[-1][0] == "write" and bench.accesses[-1][-1] == 20
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def queues_are_full(dut):
    """More reads and writes of slow registers than the queues hold."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    bench.register_delay = 10
    for _ in range(3):
        await bench.send(*(Request.make(READ, rng, bar=0, offset=4 * n, length=1) for n in range(20)))
        await bench.send(*(Request.make(WRITE, rng, bar=0, offset=4 * n, length=5) for n in range(18)))
    await bench.send(Request.make(WRITE, rng, bar=0, offset=0, length=200))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def reads_wait_for_doorbells(dut):
    """A register read starts when earlier doorbell writes have been accepted."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    bench.open_doorbells = False
    await ClockCycles(dut.clk, 2)
    await bench.send(Request.make(WRITE, rng, bar=2, offset=0, length=4), Request.make(READ, rng, bar=0, offset=0,
                                                                                    length=1))
    await ClockCycles(dut.clk, 50)
    assert not bench.accesses
    bench.open_doorbells = True
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def latency_and_throughput(dut):
    """A store of 16 bytes takes 2 cycles, and one follows per cycle. With 128 bits, it has two beats and takes 3."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    beats = 2 if len(dut.cq__tdata) == 128 else 1
    await bench.send(Request.make(WRITE, rng, bar=2, offset=0, length=4))
    await bench.drain()
    assert bench.burst_cycles[-1] - bench.cq_cycles[-1] == 1 + beats
    bench.burst_cycles.clear()
    await bench.send(*(Request.make(WRITE, rng, bar=2, offset=16 * n, length=4) for n in range(50)))
    await bench.drain()
    assert bench.burst_cycles[-1] - bench.burst_cycles[0] == 49 * beats
    # An access to this register takes 2 cycles.
    await bench.send(Request.make(READ, rng, bar=0, offset=0, length=1))
    await bench.drain()
    assert bench.cc_cycles[-1] - bench.cq_cycles[-1] == 9
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def withdrawn(dut):
    """Requests that the hard block withdraws, of one beat and of several, before and behind others that it does not."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    for length in (1, 4, 12, 13, 30, 60, 256):
        for kind, bar in ((WRITE, 2), (WRITE, 0), (READ, 0)):
            request = Request.make(kind, rng, bar=bar, offset=0, length=length)
            request.discontinue = True
            await bench.send(request, Request.make(WRITE, rng, bar=rng.choice((0, 2)), offset=64, length=5))
    await bench.drain()
    bench.check()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def unsupported_kinds(dut):
    """Each kind of request that has no function, with its largest payload, withdrawn or not, between others."""
    rng = _rng()
    bench = await Bench.start(dut, rng)
    for kind, length in ((TlpType.FETCH_ADD_64, 2), (TlpType.SWAP_64, 2), (TlpType.CAS_64, 8), (TlpType.IO_WRITE, 1),
                         (TlpType.IO_READ, 1), (TlpType.MEM_READ_LOCKED_64, 33)):
        for bar in (0, 2, 4):
            request = Request.make(kind, rng, bar=bar, offset=32, length=length)
            request.discontinue = request.has_data() and bar == 2
            await bench.send(request, Request.make(WRITE, rng, bar=2 * rng.randrange(2), offset=64, length=5))
    for kind in range(3):
        request = Request.make(WRITE, rng, bar=0, offset=0, length=12 * kind + 1)
        request.message = MESSAGE + kind
        await bench.send(request, Request.make(READ, rng, bar=0, offset=64, length=5))
    await bench.drain()
    bench.check()
