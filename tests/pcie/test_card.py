# SPDX-License-Identifier: Apache-2.0
"""The card among GPUs and a root complex: requests by peer-to-peer stores, copies between GPUs and host."""

import random
import warnings

import cocotb
import pytest
from cocotb.triggers import Timer

from hw.card.card import Card
from hw.dma_engine.words import NativeWord
from sim.pcie.card import CardSystem
from sim.pcie.dma_card import DmaCard
from sim.verilator.design import Design
from tests.pcie.configs import small, small_dma

pytestmark = [pytest.mark.rtl, pytest.mark.long]
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

SC, RC = 0xF0_0000, 0xF0_1000


@pytest.mark.parametrize("width", [512, 128])
def test_dma_engine(simulate, width):
    simulate(Design(DmaCard, *small_dma(width)), testcase="copy")


@pytest.mark.soak
def test_card(simulate):
    """With the accelerator and the memory port, whose registers are in the next windows."""
    simulate(Design(Card, small(128)), testcase=["copy", "windows"])


def _system(dut, **settings):
    return CardSystem(dut, *small_dma(len(dut.rq__tdata)), seed=cocotb.RANDOM_SEED, **settings)


async def _regions(system, queue=0):
    """Region 0: memory of the first GPU; 1: of the second; 2: of the host."""
    first, second = system.gpus
    for number, base in enumerate((first.base, second.base, 0)):
        await system.dma.define_region(number, base=base, length=1 << 20)
    await system.dma.configure_queue(queue, sc=first.base + SC, rc=second.base + RC)
    await system.dma.start(queue)
    # The CPU's writes and the GPUs' stores have no order; a read waits for the writes before it.
    assert (await system.dma.state(queue)).running


@cocotb.test(timeout_time=500, timeout_unit="us")
async def copy(dut):
    system, rng = _system(dut), random.Random(cocotb.RANDOM_SEED)
    await system.start()
    await system.dma.check_identity()
    first, second = system.gpus
    await _regions(system)
    data = rng.randbytes(1 << 16)
    first.memory.write(0, data)
    count = 0
    for length, source, target in ((64, 0, 0), (64, 64, 128), (1000, 3, 4097), (4096, 100, 70), (20000, 4093, 12345)):
        second.memory.write(0, bytes(1 << 16))
        await system.post(first, 0, NativeWord.copy(src=(0, source), dst=(1, target), length=length, flags=3))
        count += 1
        word = await system.wait(second, RC, count)
        assert word.count == count and not word.failed, word
        image = bytes(target) + data[source:source + length]
        assert second.memory.read(0, 1 << 16) == image + bytes((1 << 16) - len(image))
        assert (await system.wait(first, SC, count)).count == count
    await Timer(1, "us")
    system.monitor.finish()


@cocotb.test(timeout_time=100, timeout_unit="us")
async def windows(dut):
    """ASCII names of all blocks in BAR 0, and UR beyond them."""
    system = _system(dut)
    await system.start()
    for offset, name in ((0, b"DMAE"), (0x1000, b"ACE "), (0x2000, b"ENDP"), (0x4000, b"PCIE")):
        assert (await system.root.mem_read(system.bar0 + offset, 4))[::-1] == name
    before = (await system.adapter.read("COUNT_REQUESTS_REFUSED"))["value"]
    with pytest.raises(Exception, match="Unsuccessful completion"):
        await system.root.mem_read(system.bar0 + 0x3000, 4)
    assert (await system.adapter.read("COUNT_REQUESTS_REFUSED"))["value"] == before + 1
    system.monitor.finish()
