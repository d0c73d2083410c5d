# SPDX-License-Identifier: Apache-2.0
"""The system: enumeration, peer-to-peer stores and loads, reads and writes of GPU and host memory through the switch."""

import random
import os
import time
import warnings

import cocotb
import pytest
from cocotb.triggers import ClockCycles, Timer
from cocotb.utils import get_sim_time

from sim.pcie.completer import CompleterSettings
from sim.pcie.system import PcieSystem, SystemSettings
from tests.pcie.sim.application import Application
from tests.pcie.sim.wires import Wires

pytestmark = pytest.mark.rtl
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")


@pytest.mark.parametrize("width", [512, 128])
def test_system(simulate, width):
    simulate(Wires(width))


@cocotb.test(timeout_time=200, timeout_unit="us")
async def first(dut):
    app = Application(dut)
    system = PcieSystem(dut)
    t = time.time()
    await system.start()
    print("ENUM", get_sim_time("ns"), time.time() - t)
    print(hex(system.bar0), hex(system.bar2), [hex(g.base) for g in system.gpus])
    gpu = system.gpus[1]
    await gpu.ring(system.bar2 + 0x40, [bytes([n] * 16) for n in range(6)], merged=2)
    await Timer(1, "us")
    print(app.stores)
    data = random.randbytes(500)
    await app.write(gpu.base + 0x123, data)
    got = await app.read(gpu.base + 0x123, 500, 7)
    assert got == data, got
    print(await app.read(gpu.base + 0x124, 0, 8))
    t = time.time(); s = get_sim_time("ns")
    await Timer(100, "us")
    print("IDLE us per s", (get_sim_time("ns") - s) / 1000 / (time.time() - t))
