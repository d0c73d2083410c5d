# SPDX-License-Identifier: Apache-2.0
"""The monitor on the pins: broken rules end the simulation, settings have a time of grace, resets clear all."""

import re

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotbext.pcie.core.tlp import Tlp, TlpType
from cocotbext.pcie.xilinx.us.tlp import Tlp_us

from sim.pcie.completer import CompleterSettings
from sim.pcie.monitor import Monitor
from sim.pcie.resets import set_bus_master
from sim.pcie.stream import Violation
from sim.verilator.design import Design
from sim.verilator.simulator import SimulationFailed
from tests.pcie.sim.bench import start
from tests.pcie.sim.wires import Wires

pytestmark = [pytest.mark.rtl, pytest.mark.long]

BROKEN = {
    "reused_tag": "RQ, memory read of 1 DW at 0x.*, tag 9: the tag is in use by the memory read of 16 DW at 0x",
    "long_write": "RQ, memory write of 130 DW .* a payload must not exceed the maximum payload size of 512 bytes",
    "unstable": "RQ: tdata must be stable while tvalid waits for tready",
    "abandoned": "RQ, TLP .*: tvalid must stay asserted for the duration of a packet",
    "no_request": "CC, completion with tag 7 for requester 05:00.0, .*no request with this requester and tag",
    "no_master": "RQ, memory write .*: no request may be sent while bus mastering is disabled",
    "valid_in_reset": "RQ: tvalid must be 0 in reset",
    "overflow": "RC: the completion with tag .* and 4 DW does not fit the receive buffer of 1 headers and 32768 bytes",
    "decoded_otherwise": "the hard block sends a memory write of 1 DW at 0x1000, tag 0, which was not on RQ",
}


def test_monitor(simulate):
    """All tests that break a rule fail with its sentence; the others pass."""
    with pytest.raises(SimulationFailed) as failed:
        simulate(Design(Wires, 512), env={"COCOTB_MAX_FAILURES": 0})
    messages = {test.name: test.message for test in failed.value.result.tests if not test.passed}
    assert set(messages) == set(BROKEN)
    for name, rule in BROKEN.items():
        assert re.search(rule, messages[name]), messages[name]


@cocotb.test(timeout_time=20, timeout_unit="us")
async def reused_tag(dut):
    system, app, _ = await start(dut, enumerate_bus=False)
    await app.request(system.gpus[0].base, 64, 9)
    # The library's assertion on the same rule would end the test, too.
    system.card.active_request = _Never()
    await app.request(system.gpus[0].base, 4, 9)
    await Timer(1, "us")


class _Never(list):
    """No request is in flight."""

    def __getitem__(self, index):
        return None

    def __setitem__(self, index, value):
        pass


@cocotb.test(timeout_time=20, timeout_unit="us")
async def long_write(dut):
    system, app, _ = await start(dut, enumerate_bus=False)
    await app.write(system.gpus[0].base, bytes(520))
    await Timer(1, "us")


async def _drive(dut, **pins):
    for name, value in pins.items():
        getattr(dut, f"app_rq__{name}").value = value
    await RisingEdge(dut.clk)


# A write of 40 DW to 0x1000.
_LONG = 0x1000 | 40 << 64 | 1 << 75
_START = 15 | 15 << 8 | 1 << 20


@cocotb.test(timeout_time=20, timeout_unit="us")
async def unstable(dut):
    system, _, _ = await start(dut, enumerate_bus=False)
    system.card.stall({"rq": iter([True] * 1000)})
    await ClockCycles(dut.clk, 2)
    for data in (_LONG, _LONG ^ 1 << 200):
        await _drive(dut, tvalid=1, tdata=data, tuser=_START)
    await ClockCycles(dut.clk, 2)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def abandoned(dut):
    await start(dut, enumerate_bus=False)
    await _drive(dut, tvalid=1, tdata=_LONG, tuser=_START)
    while not int(dut.app_rq__tready.value):
        await RisingEdge(dut.clk)
    await _drive(dut, tvalid=0)
    await ClockCycles(dut.clk, 4)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def no_request(dut):
    _, app, _ = await start(dut, enumerate_bus=False)
    completion = Tlp_us()
    completion.fmt_type, completion.requester_id, completion.tag = TlpType.CPL, (5, 0, 0), 7
    await app.cc.send(completion.pack_us_cc())
    await Timer(100, "ns")


@cocotb.test(timeout_time=20, timeout_unit="us")
async def no_master(dut):
    system, app, _ = await start(dut, enumerate_bus=False)
    await set_bus_master(system, False)
    await Timer(300, "ns")
    await app.write(system.gpus[0].base, bytes(4))
    await Timer(1, "us")


@cocotb.test(timeout_time=20, timeout_unit="us")
async def valid_in_reset(dut):
    system, _, _ = await start(dut, enumerate_bus=False)
    system.card.user_reset.value = 1
    await _drive(dut, tvalid=1)
    await ClockCycles(dut.clk, 8)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def overflow(dut):
    system, app, _ = await start(dut, enumerate_bus=False)
    system.card.rx_buf_cplh_fc_limit = 1
    system.card.stall({"rc": iter([True] * 1000)})
    for tag in range(12):
        await app.request(system.gpus[0].base, 16, tag)
    await Timer(2, "us")


@cocotb.test(timeout_time=20, timeout_unit="us")
async def decoded_otherwise(dut):
    system, _, _ = await start(dut, enumerate_bus=False)
    wrong = Tlp()
    wrong.fmt_type, wrong.requester_id = TlpType.MEM_WRITE, system.identity
    wrong.set_addr_be_data(0x1000, b"data")
    await system.card.send(wrong)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def grace(dut):
    """A request of the former settings passes shortly after a change."""
    system, app, monitor = await start(dut, enumerate_bus=False)
    card = system.card
    card.function.pcie_cap.max_payload_size, card.function.bus_master_enable = 0, False
    card.refresh()
    assert (monitor.limits.max_payload, monitor.limits.bus_master, monitor.limits.tags) == (512, True, 256)
    await app.write(system.gpus[0].base, bytes(512))
    await Timer(200, "ns")
    assert monitor.requester.writes == 1 and monitor.limits.bus_master
    await Timer(100, "ns")
    assert (monitor.limits.max_payload, monitor.limits.bus_master, monitor.limits.tags) == (128, False, 256)
    card.function.pcie_cap.max_payload_size = 3
    card.refresh()
    assert monitor.limits.max_payload == 1024


@cocotb.test(timeout_time=20, timeout_unit="us")
async def finish(dut):
    """A request that has not completed at the end is noticed; a reset clears it."""
    system, app, monitor = await start(dut, enumerate_bus=False, gpu=CompleterSettings((5000, 5000)))
    monitor.finish()
    assert isinstance(monitor, Monitor)
    await app.request(system.gpus[0].base, 64, 9)
    await Timer(100, "ns")
    with pytest.raises(Violation, match="tag 9: the request has not completed at the end"):
        monitor.finish()
    system.card.user_reset.value = 1
    await ClockCycles(dut.clk, 3)
    monitor.finish()
