# SPDX-License-Identifier: Apache-2.0
"""Puts of a cocotbext-axi manager to itself, over a link between two of its ports, into a memory with faults."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine, RisingEdge
from cocotb.utils import get_sim_steps
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from hw.endpoint.config import TINY, remote_address
from sim.memory import Memory
from tests.endpoint.checked import CheckedMemory
from tests.endpoint.test_memory_port import export

pytestmark = pytest.mark.rtl

OWN, SPAN, LENGTH = 0x10_0000, 0x7_1234_5000, 0x5000 + 123
FAR = 3
"""Number of the span that port 1 may write; packets sent at port 0 reach it."""


def test_puts(simulate):
    simulate(CheckedMemory(TINY))


class _Bench:
    def __init__(self, dut, *, stalls="none", latency=8):
        self.dut = dut
        self.rng = random.Random(os.environ["COCOTB_RANDOM_SEED"])
        self.memory = Memory(dut, period=get_sim_steps(4, "ns"), latency=latency, stalls=stalls,
                             seed=os.environ["COCOTB_RANDOM_SEED"])
        self.model = bytearray(self.rng.randbytes(LENGTH + 0x2000))
        self.memory.write(SPAN - 0x1000, bytes(self.model))
        self.memory.write(OWN, bytes(0x4000))

    async def start(self):
        dut = self.dut
        for name in ("read_weight__0", "read_weight__1", "write_weight__0", "write_weight__1", "write_weight__2"):
            getattr(dut, f"settings__{name}").value = 1
        dut.rst.value = 1
        dut.settings__window.value = dut.exports__valid.value = dut.down.value = dut.cut.value = 0
        for bus in ("m0", "m1"):
            for channel in ("aw", "w", "ar"):
                getattr(dut, f"{bus}__{channel}valid").value = 0
        dut.m_axi__rvalid.value = dut.m_axi__bvalid.value = 0
        cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
        self.masters = [AxiMaster(AxiBus.from_prefix(dut, f"m{number}", bus_separator="__"), dut.clk, dut.rst)
                        for number in range(2)]
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        await export(dut, FAR, base=SPAN, length=LENGTH, ports=1 << 1)
        await export(dut, 1, base=OWN, length=0x1000, ports=0b111101)

    async def put(self, offset, data, *, port=0, span=FAR, beyond=0):
        done = await self.masters[0].write(remote_address(port, span, offset) | beyond, data)
        return done.resp

    def accept(self, offset, data):
        self.model[0x1000 + offset:0x1000 + offset + len(data)] = data

    def check(self):
        found = self.memory.read(SPAN - 0x1000, len(self.model))
        wrong = [at for at, (one, other) in enumerate(zip(found, self.model, strict=True)) if one != other]
        assert not wrong, f"{len(wrong)} bytes differ, the first at {wrong[0] - 0x1000:#x}"


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stalls=["none", "random"])
async def any_bytes_anywhere(dut, stalls):
    """Puts of any length to any address, concurrent with writes to local memory and with another manager's writes."""
    bench = _Bench(dut, stalls=stalls)
    await bench.start()

    async def work():
        for _ in range(12):
            length = bench.rng.choice((1, 8, bench.rng.randint(1, 40), 256, 264, bench.rng.randint(1, 900)))
            offset = bench.rng.choice((0, LENGTH - length, 0x1000 - 5, bench.rng.randrange(LENGTH - length)))
            offset = min(offset, LENGTH - length)
            data = bench.rng.randbytes(length)
            bench.accept(offset, data)
            assert await bench.put(offset, data) == AxiResp.OKAY
            local = bench.rng.randbytes(50)
            assert (await bench.masters[0].write(OWN + 0x2003, local)).resp == AxiResp.OKAY
            assert bench.memory.read(OWN + 0x2003, 50) == local

    async def other():
        for number in range(20):
            await bench.masters[1].write(OWN + 0x3000 + 64 * number, bench.rng.randbytes(64))

    await Combine(cocotb.start_soon(work()), cocotb.start_soon(other()))
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def puts_without_an_export_are_refused(dut):
    """Every reason for a refusal, alternating with puts that succeed."""
    bench = _Bench(dut)
    await bench.start()
    await export(dut, 0, base=SPAN, length=LENGTH, ports=0b111111, valid=0)
    data = b"\xEE" * 20
    refused = {
        "no such entry": {"span": 2}, "not valid": {"span": 0}, "not for this port": {"span": 1},
        "a byte too far": {"offset": LENGTH - 19}, "far beyond": {"offset": 0xFFFF_FF00},
        "from another port": {"port": 3}, "beyond the table": {"span": 4 + FAR},
    }
    nowhere = {"no such port": {"port": 6}, "no such span": {"span": 32 + FAR}, "bad offset": {"beyond": 1 << 32}}
    for number, (name, options) in enumerate((*refused.items(), *nowhere.items())):
        resp = await bench.put(**{"offset": 0, "data": data} | options)
        assert resp == (AxiResp.SLVERR if name in refused else AxiResp.DECERR), name
        good = bytes([number] * 30)
        bench.accept(64 * number, good)
        assert await bench.put(64 * number, good) == AxiResp.OKAY, name
    bench.check()
    assert bench.memory.read(OWN, 0x1000) == bytes(0x1000)
    # After its entry is made invalid, the span is refused, too.
    await export(dut, FAR, base=SPAN, length=LENGTH, ports=2, valid=0)
    assert await bench.put(0, data) == AxiResp.SLVERR
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def an_error_of_the_memory_comes_back(dut):
    """A put fails if one of its packets fails. Other puts in flight succeed."""
    bench = _Bench(dut)
    await bench.start()
    bench.memory.fail_page(SPAN + 0x1000, write="SLVERR")
    for offset, length, resp in ((0xF00, 0x100, AxiResp.OKAY), (0xE80, 0x300, AxiResp.SLVERR),
                                 (0x2000, 0x300, AxiResp.OKAY)):
        assert await bench.put(offset, bytes(length)) == resp, hex(offset)
    tasks = [cocotb.start_soon(bench.put(0x400 * number, bytes(16))) for number in range(10)]
    await Combine(*tasks)
    assert [task.result() == AxiResp.OKAY for task in tasks] == [number // 4 != 1 for number in range(10)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def completes_when_memory_has_responded(dut):
    """While the neighbour's memory withholds the response to a put, this put and all later ones stay in flight."""
    bench = _Bench(dut)
    await bench.start()
    bench.memory.withhold(SPAN)
    first, second = (cocotb.start_soon(bench.put(offset, bytes(16))) for offset in (0, 0x1000))
    await bench.masters[0].write(OWN, bytes(8))
    await ClockCycles(dut.clk, 300)
    assert not first.done() and not second.done()
    bench.memory.release(SPAN)
    await Combine(first, second)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_link_that_is_down_fails_puts_in_flight(dut):
    """Puts in flight and later ones fail; when the link is up again, puts succeed."""
    bench = _Bench(dut)
    await bench.start()
    dut.cut.value = 1
    tasks = [cocotb.start_soon(bench.put(0, bytes(number))) for number in (1, 8, 20, 16)]
    await ClockCycles(dut.clk, 100)
    assert not any(task.done() for task in tasks)
    dut.down.value = 0b000011
    await Combine(*tasks)
    assert [task.result() for task in tasks] == [AxiResp.SLVERR] * 4
    assert await bench.put(0, bytes(50)) == AxiResp.SLVERR
    bench.check()
    await ClockCycles(dut.clk, 300)
    dut.cut.value = dut.down.value = 0
    await ClockCycles(dut.clk, 5)
    for number in range(5):
        data = bench.rng.randbytes(100)
        bench.accept(100 * number, data)
        assert await bench.put(100 * number, data) == AxiResp.OKAY
    bench.check()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def full_rate(dut):
    """Consecutive long bursts: a beat per cycle at the memory, which is the rate of the link."""
    bench = _Bench(dut)
    await bench.start()
    pins = {name: getattr(dut, f"m_axi__{name}") for name in ("wvalid", "wready")}
    put = cocotb.start_soon(bench.put(0, bytes(0x4000)))
    beats, begin, end, cycle = 0, None, 0, 0
    while not put.done():
        await RisingEdge(dut.clk)
        cycle += 1
        if pins["wvalid"].value and pins["wready"].value:
            begin, end, beats = cycle if begin is None else begin, cycle, beats + 1
    assert beats == 0x4000 // TINY.beat_bytes
    assert beats / (end - begin + 1) > 0.95, (beats, end - begin)
