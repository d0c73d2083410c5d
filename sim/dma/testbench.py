# SPDX-License-Identifier: Apache-2.0
"""An engine in simulation beside its golden model: everything is done to both, and every difference is reported.

Differences are collected in ``mismatches`` as sentences; :meth:`DmaTestbench.finish` compares what is left.
"""

import logging
import os
import random
import warnings
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Event, First, Lock
from cocotb.utils import get_sim_steps
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from dmace.drivers.dma import DmaDriver
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command, NativeWord
from sim.dma.ark import FlagWatch
from sim.dma.comparison import Observer
from sim.dma.gpu import Doorbells, Poller, slots
from sim.memory import Memory, Stalls, now

__all__ = ["DmaTestbench"]

PERIOD_NS = 4
WORDS_TIMEOUT = 5_000
# cocotbext-axi uses deprecated parts of cocotb; the version of cocotb is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")
_TRACE = bool(os.environ.get("DMACE_TRACE"))


class _RegisterBus:
    """The driver's bus over cocotbext-axi's AXI4-Lite manager."""

    def __init__(self, dut: Any, stalls: str, rng: random.Random) -> None:
        logging.getLogger(f"cocotb.{dut._name}.s_axil").setLevel(logging.ERROR)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil", bus_separator="__"), dut.clk)
        write, read = self.master.write_if, self.master.read_if
        self.stalls = Stalls(dut.clk, (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel,
                                       read.r_channel), stalls, rng)

    async def read(self, offset: int) -> int:
        return int(await self.master.read_dword(offset))

    async def write(self, offset: int, value: int) -> None:
        await self.master.write_dword(offset, value)


class DmaTestbench(Observer):
    """Engine, memory, GPU, driver and model.

    Parameters
    ----------
    dut : handle
        A :class:`sim.dma.checked.CheckedDma`.
    config : :class:`DmaConfig`
        Its sizes.
    seed : int
        Random seed.
    latency : int or (int, int)
        Of the memory, see :class:`sim.memory.Memory`.
    stalls : str
        On every channel of all three buses, see :class:`sim.memory.Stalls`.
    """

    def __init__(self, dut: Any, config: DmaConfig, *, seed: int = 0, latency: int | tuple[int, int] = 8,
                 stalls: str = "none") -> None:
        super().__init__()
        self.dut, self.config, self.seed = dut, config, seed
        self.rng = random.Random(seed)
        self.period = get_sim_steps(PERIOD_NS, "ns")
        self.model = DmaModel(config)
        self.memory = Memory(dut, period=self.period, latency=latency, stalls=stalls, seed=seed)
        self.memory.written, self.memory.issued = self._written, self._issued
        stall_rng = random.Random(f"stalls {seed}")
        self.doorbells = Doorbells(dut, stalls=stalls, rng=stall_rng)
        self._lock = Lock()
        self.bus = _RegisterBus(dut, stalls, stall_rng)
        self.driver = DmaDriver(self.bus, config, lock=lambda: self._lock)
        self.poller, self.flags = Poller(), FlagWatch(self)
        self.posted = 0
        self._ended_before, self._ended_unknown, self._words_unknown = 0, False, False

    @property
    def cycle(self) -> int:
        """Cycles simulated."""
        return now() // self.period

    async def start(self) -> None:
        """Clock, reset, and a first look at the registers."""
        self.dut.rst.value = 1
        Clock(self.dut.clk, PERIOD_NS, "ns").start()
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)
        await self.driver.check_identity()
        await self.driver.enable_interrupts(error=True)
        cocotb.start_soon(self._collect_log())

    async def wait(self, cycles: int) -> None:
        await ClockCycles(self.dut.clk, cycles)

    async def until(self, event: Event, cycles: int) -> None:
        """Wait for an event, for a limited number of cycles."""
        await First(event.wait(), ClockCycles(self.dut.clk, cycles))

    def trace(self, text: str) -> None:
        """Note what is done and seen, in the log if ``DMACE_TRACE`` is set."""
        if _TRACE:
            self.dut._log.info(f"cycle {self.cycle}: {text}")

    # Actions on both

    def fill(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        self.model.memory.write(address, data)
        self.memory.write(address, data)

    async def define_region(self, number: int, **values: Any) -> None:
        self.model.define_region(number, **values)
        await self.driver.define_region(number, **values)

    async def define_page(self, number: int, frame: int | None) -> None:
        self.model.define_page(number, frame)
        await self.driver.define_page(number, frame)

    async def define_connection(self, number: int, **values: Any) -> None:
        self.model.define_connection(number, **values)
        self.flags.watch(values["rc"])
        await self.driver.define_connection(number, **values)

    async def configure_queue(self, queue: int, **values: Any) -> bool:
        """Returns whether the engine accepts it."""
        if not self.model.configure_queue(queue, **values):
            await self.driver.configure_queue(queue, **values)
            return False
        self._classes[queue] = values.get("priority", 0)
        for kind in ("sc", "rc"):
            self.poller.watch(queue, kind, getattr(self.model.queues[queue], kind))
        if (ark := self.model.queues[queue].ark) is not None and ark.sc is not None:
            self.flags.watch(ark.sc)
        await self.driver.configure_queue(queue, **values)
        return True

    async def command(self, queue: int, command: Command) -> None:
        self._command_model(queue, command)
        await self.driver.command(queue, command)

    def _command_model(self, queue: int, command: Command) -> None:
        if command is Command.RESET:
            q = self.model.queues[queue]
            self._ended_before += q.count
            self._ended_unknown |= q.frozen
            # How many words a ring had made by then, only the engine knows.
            self._words_unknown |= q.ring is not None and bool(q.waiting)
            self._earlier[queue] = {word.pack() for word in q.history} | self._reachable(q)
            for kind in ("sc", "rc"):
                self._positions.pop((queue, kind), None)
            self._verified.pop(queue, None)
            self.poller.discard(queue)
            self.flags.discard(queue)
            self.known.pop(queue, None)
            self._unverifiable = {entry for entry in self._unverifiable if entry[0] != queue}
        elif command is Command.START and self.model.queues[queue].count == 0:
            # A word in flight at the queue's RESET has been written since.
            self.poller.discard(queue)
        self.model.command(queue, command)
        self.trace(f"{command.name} to queue {queue}; model: {self.model.state(queue)}")

    def fail_page(self, address: int, **responses: str) -> None:
        self.model.fail_page(address, **responses)
        self.memory.fail_page(address, **responses)

    def repair_page(self, address: int) -> None:
        self.model.repair_page(address)
        self.memory.repair_page(address)

    def withhold(self, address: int, *, begun: int = 0) -> None:
        self.model.withhold(address)
        self.memory.withhold(address, begun=begun)

    def release(self, address: int) -> None:
        self.model.release(address)
        self.memory.release(address)

    async def post(self, queue: int, *words: NativeWord | int, offset: int = 0, verifiable: bool = True) -> bool:
        """Store one or several words to a queue in one burst; returns whether all were accepted.

        The bytes of each request are checked as soon as a completion word reports them,
        unless ``verifiable`` is false, which it must be if a later request may overwrite them.
        """
        packed = [word.pack() if isinstance(word, NativeWord) else word for word in words]
        data = b"".join(word.to_bytes(16, "little") for word in packed)
        return await self.store(queue, data, offset=offset, verifiable=verifiable)

    async def ring(self, queue: int, tail: int, *, verifiable: bool = True, size: int = 3, offset: int = 0) -> bool:
        """Store a new tail to a queue's descriptor ring; returns whether it was accepted."""
        return await self.store(queue, (tail % (1 << 32)).to_bytes(1 << size, "little"), size=size, offset=offset,
                                verifiable=verifiable)

    async def store(self, queue: int, data: bytes, *, offset: int = 0, size: int = 4, verifiable: bool = True) -> bool:
        """Store any bytes to a queue's page; see :meth:`post`."""
        expected = True
        q = self.model.queues[queue]
        for slot, strobes in slots(offset, data, size):
            before = q.posted
            expected &= self.model.post(queue, int.from_bytes(slot, "little"), strobes=strobes)
            self.posted += max(1, q.posted - before)
            if not verifiable:
                self._unverifiable |= {(queue, number) for number in range(before, q.posted)}
        self.trace(f"{len(data)} bytes to the doorbell of queue {queue}: {data.hex()}; "
                   f"model: {self.model.state(queue)}")
        accepted = await self.doorbells.store(queue, data, offset=offset, size=size)
        if accepted != expected:
            self.mismatch(f"the doorbell of queue {queue} {'accepted' if accepted else 'refused'} a store of "
                          f"{len(data)} bytes at offset {offset:#x} that was to be "
                          f"{'accepted' if expected else 'refused'}.")
        return accepted

    async def finish(self) -> None:
        """Wait for the end of everything, compare all state, the log, the counters and the memory."""
        for queue in range(self.config.queues):
            await self.settle(queue)
        await self.wait_log()
        # A completion word may be written once more with the value that it has.
        start = self.cycle
        while not self.memory.idle() and self.cycle - start < WORDS_TIMEOUT:
            await self.wait(50)
        if not self.memory.idle():
            self.mismatch("the engine shows nothing in flight, but bursts are outstanding at the memory.")
        if refused := await self.driver.refused_write():
            self.mismatch(refused)
        counters = await self.driver.counters()
        ended = self._ended_before + sum(q.count for q in self.model.queues)
        for name, value in (("words", self.model.words), ("refused", self.model.refused),
                            ("requests", ended), ("failed", len(self.model.log))):
            unknown = {"requests": self._ended_unknown, "words": self._words_unknown}.get(name, False)
            if counters[name] != value and not unknown:
                self.mismatch(f"counter COUNT_{name.upper()} is {counters[name]} instead of {value}.")
        for queue in range(self.config.queues):
            await self.check_counters(queue)
        self.check_memory()

    async def acknowledge_completion(self) -> None:
        self.model.irq_completion = False
        await self.driver.acknowledge(completion=True)
