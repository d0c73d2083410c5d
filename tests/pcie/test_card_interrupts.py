# SPDX-License-Identifier: Apache-2.0
"""Interrupts of a card as MSI-X messages: when one arrives, the completion words that it is for are in host memory."""

import warnings

import cocotb
import pytest
from cocotb.triggers import Timer

from hw.common.words import CompletionWord
from hw.dma_engine.words import NativeWord, RequestFlag
from hw.pcie.registers import MSIX_PENDING, MSIX_TABLE
from sim.pcie.card import CardSystem, Window
from sim.pcie.dma_card import DmaCard
from sim.verilator.design import Design
from tests.pcie.configs import small_dma

pytestmark = [pytest.mark.rtl, pytest.mark.long]
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")

SC, RC, IRQ = RequestFlag.SC, RequestFlag.RC, RequestFlag.IRQ
WORDS = 0xF0_0000
DATA = 0x100
ENGINE_MHZ = 220


@pytest.mark.parametrize("two_clocks", [False, True], ids=["one", "two"])
def test_card_interrupts(simulate, two_clocks):
    simulate(Design(DmaCard, *small_dma(512, two_clocks=two_clocks)))


def _words(queue):
    """Addresses in host memory."""
    return WORDS + 64 * queue, WORDS + 64 * queue + 8


class _Messages:
    """Messages by vector, each with the counts of all queues' words in host memory at its arrival."""

    def __init__(self, system):
        self.system, self.arrived = system, []
        system.interrupts = self._arrive

    def _arrive(self, address, data):
        vector = data - DATA
        assert address == self.system.interrupt_address + 16 * vector
        self.arrived.append((vector, [self._counts(queue) for queue in range(self.system.dma.config.queues)]))

    def _counts(self, queue):
        return tuple(CompletionWord.unpack(int.from_bytes(self.system.host.memory.read(address, 8), "little")).count
                     for address in _words(queue))

    def take(self):
        arrived, self.arrived = self.arrived, []
        return arrived


async def _prepared(dut):
    """Queues with words in host memory, and a table of unmasked vectors, programmed through BAR 0."""
    two_clocks = hasattr(dut, "engine_clk")
    engine, adapter = small_dma(len(dut.rq__tdata), two_clocks=two_clocks)
    system = CardSystem(dut, engine, adapter, engine_mhz=ENGINE_MHZ if two_clocks else None, seed=cocotb.RANDOM_SEED)
    messages = _Messages(system)
    await system.start()
    await system.function.msix_set_enable(True)
    table = Window(system, MSIX_TABLE)
    for vector in range(adapter.vectors):
        for offset, value in enumerate((system.interrupt_address + 16 * vector, 0, DATA + vector, 0)):
            await table.write(16 * vector + 4 * offset, value)
    for number, base in enumerate((system.gpus[0].base, system.gpus[1].base)):
        await system.dma.define_region(number, base=base, length=1 << 20)
    for queue in range(engine.queues):
        sc, rc = _words(queue)
        await system.dma.configure_queue(queue, sc=sc, rc=rc)
        await system.dma.start(queue)
    assert (await system.dma.state(engine.queues - 1)).running
    return system, messages, table


def _copy(flags, length=256):
    return NativeWord.copy(src=(0, 0), dst=(1, 0), length=length, flags=int(flags))


@cocotb.test(timeout_time=500, timeout_unit="us")
async def behind_the_words(dut):
    """Each queue's message has its own vector, and finds the words; requests without the flag send none."""
    system, messages, _ = await _prepared(dut)
    gpu, queues = system.gpus[0], range(system.dma.config.queues)
    for queue in queues:
        for number, (flags, words) in enumerate((
                (SC | IRQ, (0,)), (RC | IRQ, (1,)), (SC | RC | IRQ, (0, 1)), (SC | RC, ()), (IRQ, None)), 1):
            await system.post(gpu, queue, _copy(flags))
            await Timer(3, "us")
            arrived = messages.take()
            # The messages for two words may coalesce.
            assert {vector for vector, _ in arrived} == ({1 + queue} if flags & IRQ else set()), arrived
            assert len(arrived) <= len(words or (0,)), arrived
            if words:
                assert all(arrived[-1][1][queue][word] == number for word in words), arrived
    # All queues at the same time, full, with every message's words checked.
    for queue in queues:
        await system.post(gpu, queue, *(_copy(SC | IRQ, 64) for _ in range(8)))
    await Timer(10, "us")
    arrived = messages.take()
    for queue in queues:
        counts = [words[queue][0] for vector, words in arrived if vector == 1 + queue]
        assert counts and counts[-1] == 13 and counts[0] > 5, f"queue {queue}: {counts}"
    system.monitor.finish()


@cocotb.test(timeout_time=500, timeout_unit="us")
async def masked(dut):
    """A masked vector's message waits, and the level's vector is independent of the queues'."""
    system, messages, table = await _prepared(dut)
    pending = Window(system, MSIX_PENDING)
    await table.write(16 * 2 + 12, 1)
    await system.post(system.gpus[0], 1, _copy(SC | IRQ), _copy(SC | IRQ))
    await system.post(system.gpus[0], 2, _copy(SC | IRQ))
    await Timer(5, "us")
    assert [vector for vector, _ in messages.take()] == [3]
    assert await pending.read(0) == 1 << 2
    await table.write(16 * 2 + 12, 0)
    await Timer(2, "us")
    (vector, words), = messages.take()
    assert vector == 2 and words[1] == (2, 0) and await pending.read(0) == 0
    # The completion interrupt of the engine's registers.
    await system.dma.enable_interrupts(completion=True)
    await system.dma.acknowledge(completion=True)
    await Timer(2, "us")
    messages.take()
    await system.post(system.gpus[0], 3, _copy(SC | IRQ))
    await Timer(5, "us")
    assert sorted(vector for vector, _ in messages.take()) == [0, 4]
    system.monitor.finish()
