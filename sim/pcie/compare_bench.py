# SPDX-License-Identifier: Apache-2.0
"""A DMA engine behind the PCIe adapter, beside the golden model: what :mod:`sim.pcie.compare` acts on."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import cocotb
from cocotb.triggers import Event, Lock, Timer
from cocotb.utils import get_sim_steps

from dmace.drivers.dma import DmaDriver, LogRecord
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import DESCRIPTOR_BYTES, DmaConfig
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command
from hw.pcie.config import PcieConfig
from hw.pcie.registers import MSIX_TABLE, WINDOWS
from sim.dma.ark import FlagWatch
from sim.dma.comparison import Observer
from sim.dma.gpu import Poller, slots
from sim.dma.testbench import PERIOD_NS, DmaTestbench
from sim.pcie.card import CardSystem, Window
from sim.pcie.compare_faults import TIMEOUT_CYCLES, Expiry, FaultyPages, counter_limits
from sim.pcie.compare_layout import Memories
from sim.pcie.faults import Fault

__all__ = ["MEMORY_BYTES", "PcieTestbench"]

MEMORY_BYTES = 1 << 26
_HOST = -1
_SLOT_BYTES, _MESSAGE = 16, 0x5A5A
_QUIET_NS = 2000
_FAULTY = {"SLVERR", "DECERR"}


class _Driver(DmaDriver):
    """A driver that counts lost log entries from a moment on."""

    lost_before = 0

    async def lost(self) -> int:
        return await super().lost() - self.lost_before


class PcieTestbench(DmaTestbench):
    """Card, GPUs, host and model.

    Parameters
    ----------
    dut : handle
        A :class:`sim.pcie.dma_card.DmaCard`.
    config : :class:`DmaConfig`
        The engine's sizes.
    adapter : :class:`PcieConfig`
        The adapter's.
    engine_mhz : int or None
        As in :class:`CardSystem`.
    seed : int
        Random seed.

    Attributes
    ----------
    system : :class:`CardSystem`
    memory : :class:`Memories`
    faulty : :class:`FaultyPages`
    access : Lock
        Held while the registers are accessed for an interrupt.
    lenient : bool
        Words, log entries and attributes are not compared now.
    resetting : bool
        A reset is in progress.
    tags : Counter
        Tag -> reads with it since this was last cleared.
    """

    def __init__(self, dut: Any, config: DmaConfig, adapter: PcieConfig, *, engine_mhz: int | None = None,
                 seed: int = 0) -> None:
        Observer.__init__(self)
        self.dut, self.config, self.seed = dut, config, seed
        self.rng = random.Random(seed)
        self.period = get_sim_steps(PERIOD_NS, "ns")
        self.model = DmaModel(config)
        self.system = CardSystem(dut, config, adapter, gpu_bytes=MEMORY_BYTES, host_bytes=MEMORY_BYTES,
                                 engine_mhz=engine_mhz, seed=seed % (1 << 32))
        self._lock, self.access = Lock(), Lock()
        self.driver: _Driver = _Driver(Window(self.system, WINDOWS["ENDPOINT"]), config, lock=lambda: self._lock)
        self.poller, self.flags = Poller(), FlagWatch(self)
        self.posted = 0
        self._ended_before, self._ended_unknown, self._words_unknown = 0, False, False
        self.lenient = self.resetting = False
        self.tags: Counter[int] = Counter()
        self._interrupt = Event()
        #: Queue -> sender of its stores: the number of a GPU, or the host.
        self._posters: dict[int, int] = {}
        self._unordered: set[int] = set()
        self._settings: dict[int, dict[str, Any]] = {}
        #: Number of the memory that was just written.
        self._target: int | None = None
        self._counted: dict[str, int] = {}
        self._injected_before: Counter[Fault] = Counter()
        self._counters_known = True
        self._failures: Counter[str] = Counter()

    async def start(self) -> None:
        """Enumerate, and set up all that has no tables."""
        system = self.system
        await system.start()
        self.memory: Any = Memories(system)
        self.faulty = FaultyPages(self.memory, self.rng)
        for number, (base, _, completer) in enumerate(self.memory.parts):
            def landed(offset: int, data: bytes, number: int = number, base: int = base) -> None:
                self._target = number
                self._written([(base + offset, data)])
                self._target = None
            completer.written = landed
        system.card.sent.append(self._sent)
        system.interrupts = self._interrupted
        self.expiry = Expiry(system, random.Random(f"expiry {self.seed}"))
        system.card.function.msix_cap.msix_enable = True
        system.card.refresh()
        # In a reset, the card has no addresses, and stores go to the former ones.
        self._doorbells = system.bar2
        await self._prepare()
        cocotb.start_soon(self._collect_log())

    async def _prepare(self) -> None:
        """Registers without tables, after a reset."""
        await self.driver.check_identity()
        await self.system.adapter.write("COMPLETION_TIMEOUT", cycles=TIMEOUT_CYCLES)
        table = Window(self.system, MSIX_TABLE)
        for offset, value in enumerate((self.system.interrupt_address, 0, _MESSAGE, 0)):
            await table.write(4 * offset, value)
        await self.driver.enable_interrupts(error=True)
        self._counted = await self._adapter_counters()
        self._injected_before = self.faulty.injected()

    # Observations

    def _interrupted(self, address: int, data: int) -> None:
        if (address, data) != (self.system.interrupt_address, _MESSAGE):
            self.mismatch(f"there was a message of {data:#x} to {address:#x}.")
        self._interrupt.set()

    def _sent(self, tlp: Any) -> None:
        """A request leaves the card."""
        if tlp.is_completion() or tlp.fmt_type.name.startswith("MSG"):
            return
        read = not tlp.has_data()
        if read:
            self.tags[tlp.tag] += 1
        self.trace(f"{'read' if read else 'write'} of {tlp.length} DW at {tlp.address:#x}, byte enables "
                   f"{tlp.first_be:#x} and {tlp.last_be:#x}, tag {tlp.tag}")
        if self.lenient or tlp.address - self.system.interrupt_address in range(4096):
            return
        flush = read and not tlp.first_be
        kind = "read" if read and not flush else "write"
        address, attr = tlp.address + tlp.get_first_be_offset(), int(tlp.attr)
        # A flush never has relaxed ordering.
        expected = {(cache in (2, 3)) | (qos & (2 if flush else 3)) << 1
                    for cache, _, qos in self.model.attributes(kind, address)}
        if attr not in expected and (attr or expected):
            self.mismatch(f"a {kind} at {address:#x} has the attributes {attr}; expected "
                          f"{' or '.join(map(str, sorted(expected))) or '0'}.")

    def _check_word(self, queue: int, kind: str, word: CompletionWord) -> None:
        if not self.lenient:
            super()._check_word(queue, kind, word)

    def _check_record(self, record: LogRecord) -> None:
        if not self.lenient:
            super()._check_record(record)
        elif record.status.name.rpartition("_")[2] not in {*_FAULTY, "ERROR", "FETCH"}:
            self.mismatch(f"a request without access to memory ended with {record.status.name}.")

    def check_moved(self, queue: int, count: int, when: str) -> None:
        """As for the engine alone, but for bytes that a completion word says nothing about: those at another target
        whose region has no flush."""
        for request in self.model.queues[queue].ended[self._verified[queue]:count]:
            if request.moved:
                request.moved = [(address, data) for address, data in request.moved
                                 if self.memory.find(address) == self._target or self._flushed(address)]
        super().check_moved(queue, count, when)

    def _flushed(self, address: int) -> bool:
        regions = [region for region in self.model.regions.values()
                   if region.writable and region.covers(self.model.pages, address)]
        return bool(regions) and all(region.qos & 4 for region in regions)

    async def _collect_log(self) -> None:
        """Pop the error log at each interrupt."""
        while True:
            await self._interrupt.wait()
            self._interrupt.clear()
            async with self.access:
                while (await self.driver.interrupts())["error"]:
                    await self.driver.acknowledge(error=True)
                    while (record := await self.driver.pop_log()) is not None:
                        self._check_record(record)

    # Actions

    def fail_page(self, address: int, **responses: str) -> None:
        """Let the page's reads fail; writes do so only by their flush, and then both fail in the same way."""
        regions = [region for region in self.model.regions.values() if region.covers(self.model.pages, address)]
        readable = not regions or any(region.readable for region in regions)
        flushed = any(region.writable and region.qos & 4 for region in regions)
        if "read" not in responses and not flushed:
            return
        response, = responses.values()
        self.model.fail_page(address, read=response if readable else None, write=response if flushed else None)
        # In a read of several descriptors, those in front of the fault would be right.
        page = address - address % PAGE_BYTES
        rings = [queue.ring.location for queue in self.model.queues if queue.ring is not None]
        self.faulty.fail(address, response, whole=any(
            ring.base < page + PAGE_BYTES and page < ring.base + ring.entries * DESCRIPTOR_BYTES for ring in rings))

    def repair_page(self, address: int) -> None:
        self.model.repair_page(address)
        self.faulty.repair(address)

    async def configure_queue(self, queue: int, **values: Any) -> bool:
        accepted = await super().configure_queue(queue, **values)
        if accepted:
            self._settings[queue] = values
        return accepted

    async def command(self, queue: int, command: Command) -> None:
        await self.order()
        if command is Command.START and self.model.queues[queue].count == 0:
            # Words from before a RESET may still be in flight to memory.
            await self.quiet()
        await super().command(queue, command)
        await self.driver.read("QUEUE_STATE")

    async def quiet(self) -> None:
        """Wait until no write arrives in memory any more."""
        before = -1
        while self.memory.writes != before:
            before = self.memory.writes
            await Timer(_QUIET_NS, "ns")

    async def wait_log(self, *, timeout: int = 5_000) -> None:
        await super().wait_log(timeout=timeout)
        await self.quiet()

    async def order(self, poster: int | None = None) -> None:
        """Wait until the stores of a poster, or of all, have reached the card."""
        address = self.system.bar0 + WINDOWS["PCIE"]
        for who in sorted(self._unordered if poster is None else self._unordered & {poster}):
            self._unordered.discard(who)
            if who == _HOST:
                await self.system.root.mem_read(address, 4)
            else:
                await self.system.gpus[who].load(address, 4)

    async def store(self, queue: int, data: bytes, *, offset: int = 0, size: int = 4, verifiable: bool = True) -> bool:
        """Store bytes to a queue's page, in any number of TLPs that cut at multiples of 16 bytes."""
        expected, q = True, self.model.queues[queue]
        for slot, strobes in slots(offset, data):
            before = q.posted
            expected &= self.model.post(queue, int.from_bytes(slot, "little"), strobes=strobes)
            self.posted += max(1, q.posted - before)
            if not verifiable:
                self._unverifiable |= {(queue, number) for number in range(before, q.posted)}
        self.trace(f"{len(data)} bytes to the doorbell of queue {queue}: {data.hex()}; "
                   f"model: {self.model.state(queue)}")
        poster = await self._poster(queue)
        for first, part in self._parts(offset, data):
            address = self._doorbells + queue * PAGE_BYTES + first
            self._unordered.add(poster)
            if poster == _HOST:
                await self.system.root.mem_write(address, part)
            else:
                await self.system.gpus[poster].store(address, part)
        return expected

    async def _poster(self, queue: int) -> int:
        """The sender of stores to a queue, now; those of the former one are in order before."""
        former = self._posters.get(queue)
        # In a reset, no read would complete that puts the stores in order.
        if former is None or (self.rng.random() < 0.15 and not self.resetting):
            poster = self._posters[queue] = self.rng.choice((*range(len(self.system.gpus)), _HOST))
            if former is not None and former != poster:
                await self.order(former)
        return self._posters[queue]

    def _parts(self, offset: int, data: bytes) -> Iterable[tuple[int, bytes]]:
        """Offset and bytes of each TLP: single words, or several of them merged."""
        position, merged = 0, self.rng.choice((1, 2, 4, 8))
        while position < len(data):
            start = offset + position
            length = min(len(data) - position, _SLOT_BYTES * merged - start % _SLOT_BYTES)
            yield start, data[position:position + length]
            position += length

    async def configure(self, *, max_payload: int, max_read: int, extended_tags: bool) -> None:
        """Change settings of the configuration space while nothing is in flight; wait until the adapter has seen them.

        It polls for extended tags.
        """
        self.system.configure(max_payload=max_payload, max_read=max_read, extended_tags=extended_tags)
        await self.wait(8)
        while (await self.system.adapter.read("STATUS"))["extended_tags"] != extended_tags:
            await self.wait(200)

    # Resets

    def lose(self) -> None:
        """The card was reset: no queue has anything any more. The memory stays, and so do all tables of the model."""
        for queue in range(self.config.queues):
            self._command_model(queue, Command.RESET)
        self.clear_log()
        model = self.model
        model.words = model.refused = model.irqs_waiting = 0
        model.irq_completion = model.irq_error = False
        model.moderation = (0, 0)
        self._ended_before, self._ended_unknown, self._words_unknown = 0, False, False
        self._counters_known, self.driver.lost_before = True, 0
        self._states.clear()
        self._unordered.clear()

    def clear_log(self) -> None:
        """Start to compare the error log again."""
        self._failures.update(entry.status.name for entry in self.model.log)
        self.model.log.clear()
        for counter in (self._popped, self._reported, self._quiet):
            counter.clear()
        self._lost = 0

    async def restore(self) -> None:
        """Set up the card after a reset as the model is; queues are to be started."""
        self._interrupt.clear()
        await self._prepare()
        for number, region in self.model.regions.items():
            await self.driver.define_region(number, **vars(region))
        for number in range(self.config.pages):
            if number in self.model.pages:
                await self.driver.define_page(number, self.model.pages[number])
        for number, connection in self.model.connections.items():
            await self.driver.define_connection(number, **vars(connection))
        for queue, values in self._settings.items():
            await self.driver.configure_queue(queue, **values)

    def uncertain(self) -> None:
        """The engine's counters are not known until the next reset."""
        self._counters_known = False

    def failures(self) -> Counter[str]:
        """Failures of each status so far."""
        return self._failures + Counter(entry.status.name for entry in self.model.log)

    # Counters

    async def _adapter_counters(self) -> dict[str, int]:
        adapter = self.system.adapter
        return {name: (await adapter.read(f"COUNT_{name}"))["value"]
                for name in (*counter_limits(Counter()), "WRITES_REFUSED", "REQUESTS_REFUSED")}

    async def check_adapter(self) -> None:
        """Compare the adapter's counters with the faults since the last reset."""
        if not self._counters_known:
            return
        limits = counter_limits(self.faulty.injected() - self._injected_before)
        counted = await self._adapter_counters()
        for name, value in counted.items():
            # One per store that the engine refuses, which may hold several words.
            refused = self.model.refused if name == "REQUESTS_REFUSED" else 0
            low, high = limits.get(name, (min(refused, 1), refused))
            if not low <= (value - self._counted[name]) % (1 << 32) <= high:
                self.mismatch(f"COUNT_{name} has risen by {value - self._counted[name]} instead of "
                              f"{low}{f' to {high}' if high > low else ''}.")

    async def finish(self) -> None:
        for queue in range(self.config.queues):
            await self.settle(queue)
        await self.wait_log()
        if not self.memory.idle():
            self.mismatch("the engine shows nothing in flight, but reads are outstanding at the memory.")
        if refused := await self.driver.refused_write():
            self.mismatch(refused)
        if self._counters_known:
            counters, model = await self.driver.counters(), self.model
            ended = self._ended_before + sum(q.count for q in model.queues)
            for name, value in (("words", model.words), ("refused", model.refused), ("requests", ended),
                                ("failed", len(model.log))):
                unknown = {"requests": self._ended_unknown, "words": self._words_unknown}.get(name, False)
                if counters[name] != value and not unknown:
                    self.mismatch(f"counter COUNT_{name.upper()} is {counters[name]} instead of {value}.")
            for queue in range(self.config.queues):
                await self.check_counters(queue)
        await self.check_adapter()
        self.check_memory()
        self.system.monitor.finish()


