# SPDX-License-Identifier: Apache-2.0
"""Resets: the pins, the hard block and the requests in flight at a function-level reset, hot reset and link failure."""

from dataclasses import replace
from itertools import chain, repeat

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge, SimTimeoutError, Timer
from cocotbext.pcie.xilinx.us.tlp import ErrorCode

from sim.pcie.completer import CompleterSettings
from sim.pcie.resets import function_level_reset, hot_reset, link_down, save, set_bus_master
from sim.verilator.design import Design
from tests.pcie.sim.bench import start
from tests.pcie.sim.wires import Wires

pytestmark = [pytest.mark.rtl, pytest.mark.long]


def test_resets(simulate):
    simulate(Design(Wires, 512))


def test_narrow_resets(simulate):
    simulate(Design(Wires, 128), testcase="failures")


async def _all_work(system, app):
    """Reads, writes, registers and doorbells."""
    gpu, data = system.gpus[0], bytes(range(100))
    await app.write(gpu.base + 0x1003, data)
    assert await app.read(gpu.base + 0x1003, 100, 1) == data
    await system.root.mem_write(system.bar0 + 0x30, b"word")
    assert await system.root.mem_read(system.bar0 + 0x30, 4) == b"word"
    before = len(app.stores)
    await gpu.ring(system.bar2 + 0x20, [bytes(16)])
    await Timer(300, "ns")
    assert app.stores[before:] == [(2, system.bar2 + 0x20, bytes(16))]


async def _flr_done(dut, delay):
    """A card that takes its time for a function-level reset."""
    await dut.cfg__cfg_flr_in_process.value_change
    await ClockCycles(dut.clk, delay)
    assert int(dut.cfg__cfg_flr_in_process.value) == 1
    dut.app_flr_done.value = 1
    await ClockCycles(dut.clk, 1)
    dut.app_flr_done.value = 0
    await ClockCycles(dut.clk, 2)
    assert int(dut.cfg__cfg_flr_in_process.value) == 0


@cocotb.test(timeout_time=200, timeout_unit="us")
async def function_reset(dut):
    """Requests in flight end with code FLR, late completions are unexpected, and the configuration is lost but MPS."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((3000, 3000)))
    configuration = replace(await save(system), message_control=1 << 15 | system.settings.vectors - 1)
    await configuration.restore(system)
    assert int(dut.cfg__cfg_interrupt_msix_enable.value) == 1
    for tag in (3, 4):
        await app.request(system.gpus[0].base, 64, tag)
    await Timer(200, "ns")
    assert sorted(monitor.requester.in_flight) == [3, 4]
    card = cocotb.start_soon(_flr_done(dut, 100))
    await function_level_reset(system, restore=False)
    await card
    for tag in (3, 4):
        tlp = await app.completions[tag].get()
        assert tlp.error_code == ErrorCode.FLR and tlp.request_completed and not tlp.length
    assert not monitor.requester.in_flight
    assert int(dut.cfg__cfg_function_status.value) == 0 and int(dut.cfg__cfg_interrupt_msix_enable.value) == 0
    assert int(dut.cfg__cfg_max_payload.value) == 2 and system.bar0 == 0 and system.bar2 == 0
    # Their completions arrive now.
    for tag in (3, 4):
        assert (await app.completions[tag].get()).error_code == ErrorCode.INVALID_TAG
    stores = len(app.stores)
    await system.gpus[0].store(configuration.bars[2] & ~15 | configuration.bars[3] << 32, bytes(16))
    await Timer(300, "ns")
    assert len(app.stores) == stores
    await configuration.restore(system)
    assert int(dut.cfg__cfg_function_status.value) & 6 == 6 and int(dut.cfg__cfg_interrupt_msix_enable.value) == 1
    assert await save(system) == configuration
    system.gpus[0].completer.settings = CompleterSettings()
    await _all_work(system, app)
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def function_reset_is_limited(dut):
    """A card that never finishes is noticed."""
    system, _, _ = await start(dut, enumerate_bus=False)
    capability = 4 * system.card.function.pcie_cap.offset
    assert await system.root.config_read_dword(system.identity, capability + 4) & 1 << 28
    with pytest.raises(SimTimeoutError):
        await function_level_reset(system, timeout_us=3)


FAILURES = [
    # Packets in progress on RQ and CC, and requests that wait for CQ.
    ({"rq": 12, "cc": 2}, 300, 1000), ({"cq": 2}, 300, 1000),
    # Completions wait for RC.
    ({"rc": 2}, 1700, 1000),
    # Completions arrive after the link is up again.
    ({}, 157, 300),
]
"""Interfaces that stall after some cycles; when the link fails, and for how long, in ns."""


@cocotb.test(timeout_time=200, timeout_unit="us")
async def failures(dut):
    """The link fails in the middle of traffic; nothing of it is left, and all works with a restored configuration."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((1000, 1000)))
    gpu = system.gpus[0]
    configuration = await save(system)
    for stalled, before, duration in FAILURES:
        system.card.stall({name: chain([False] * cycles, repeat(True)) for name, cycles in stalled.items()})
        tasks = [cocotb.start_soon(app.write(gpu.base, bytes(500))) for _ in range(4)]
        tasks += [cocotb.start_soon(app.request(gpu.base, 500, tag)) for tag in range(8)]
        tasks.append(cocotb.start_soon(gpu.ring(system.bar2, [bytes(16)] * 40)))
        tasks.append(cocotb.start_soon(system.root.mem_read(system.bar0, 64)))
        await Timer(before, "ns")
        for name in stalled:
            waiting = int(getattr(dut, f"{name}__tvalid").value) and not int(getattr(dut, f"{name}__tready").value)
            assert waiting or system.card.rc_source.pause or system.card.cq_source.pause, name
        down = cocotb.start_soon(link_down(system, duration_ns=duration))
        await ClockCycles(dut.clk, 10)
        assert int(dut.rst.value) == 1 and int(dut.cfg__cfg_phy_link_down.value) == 1
        assert await system.root.config_read(system.identity, 0, 4) == b"\xff" * 4
        await _lose(app)
        await down
        for task in tasks:
            task.cancel()
        assert int(dut.rst.value) == 0 and int(dut.cfg__cfg_phy_link_down.value) == 0
        assert not monitor.requester.in_flight and not monitor.completer.outstanding
        for queue in app.completions:
            while not queue.empty():
                queue.get_nowait()
        system.card.stall(dict.fromkeys(("cq", "cc", "rq", "rc")))
        await Timer(1500, "ns")     # completions of lost requests
        assert all(queue.empty() for queue in app.completions)
        app.stores.clear()
        await configuration.restore(system)
        assert await save(system) == configuration
        await _all_work(system, app)
    monitor.finish()


async def _lose(app):
    """A card loses packets in progress in reset."""
    for _ in range(40):
        for stream in (app.rq, app.cc):
            stream.clear()
            stream.queue_occupancy_bytes = stream.queue_occupancy_frames = 0
            stream.dequeue_event.set()
            stream.drive_obj = None
            stream.drive_sync.set()
        for sink in (app.rc, app.cq):
            sink.clear()
        await RisingEdge(app.dut.clk)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def bus_reset(dut):
    """Software resets the secondary bus and restores the configuration."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    configuration = await save(system)
    task = cocotb.start_soon(hot_reset(system))
    await RisingEdge(dut.rst)
    await _lose(app)
    await task
    assert await save(system) == configuration
    await _all_work(system, app)
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def bus_master(dut):
    """Without bus mastering, the hard block drops requests; BARs still work."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    gpu = system.gpus[0]
    await set_bus_master(system, False)
    assert int(dut.cfg__cfg_function_status.value) & 6 == 2
    await app.write(gpu.base, b"lost")
    await app.request(gpu.base, 4, 1)
    await system.root.mem_write(system.bar0 + 0x30, b"word")
    assert await system.root.mem_read(system.bar0 + 0x30, 4) == b"word"
    assert gpu.completer.writes == 0 and monitor.requester.writes == 1
    await set_bus_master(system, True)
    await _all_work(system, app)
    monitor.finish()


@cocotb.test(timeout_time=200, timeout_unit="us")
async def short_failure(dut):
    system, _, _ = await start(dut, enumerate_bus=False)
    with pytest.raises(ValueError, match="A link must be down for at least 200 ns, not 100"):
        await link_down(system, duration_ns=100)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def management(dut):
    """Reads of configuration space by the card."""
    system, _, _ = await start(dut, enumerate_bus=False)
    for number, value in ((0, 0x00FF1234), (4, system.bar0)):
        dut.app_mgmt_addr.value, dut.app_mgmt_read.value = number, 1
        await RisingEdge(dut.cfg__cfg_mgmt_read_write_done)
        await RisingEdge(dut.clk)
        assert int(dut.cfg__cfg_mgmt_read_data.value) & ~15 == value & ~15
        dut.app_mgmt_read.value = 0
        await ClockCycles(dut.clk, 2)
        assert int(dut.cfg__cfg_mgmt_read_write_done.value) == 0
