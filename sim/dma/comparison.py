# SPDX-License-Identifier: Apache-2.0
"""The engine's observable results in simulation, compared with its golden model."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cocotb.triggers import Event, RisingEdge

from dmace.drivers.dma import DmaDriver, LogRecord, QueueState
from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.model.state import Queue
from sim.dma.ark import FlagWatch
from sim.dma.describe import describe_bytes, show_field, show_record, show_request, show_word
from sim.dma.gpu import Poller
from sim.memory import Memory, Writes

__all__ = ["Observer"]

MAX_MISMATCHES = 50


class Observer:
    """The part of :class:`.testbench.DmaTestbench` that watches completion words, the error log, registers and memory,
    and notes every difference from the model."""

    dut: Any
    seed: int
    config: DmaConfig
    model: DmaModel
    memory: Memory
    driver: DmaDriver
    poller: Poller
    flags: FlagWatch

    if TYPE_CHECKING:
        @property
        def cycle(self) -> int: ...

        def trace(self, text: str) -> None: ...

        async def wait(self, cycles: int) -> None: ...

        async def until(self, event: Event, cycles: int) -> None: ...

    def __init__(self) -> None:
        self.mismatches: list[str] = []
        #: Called with ``(queue, kind, word)`` at each completion word written.
        self.on_word: Callable[[int, str, CompletionWord], None] | None = None
        #: Status name -> entries popped from the error log.
        self.errors: Counter[str] = Counter()
        #: Queue -> requests that had ended when its registers were last read.
        self.known: Counter[int] = Counter()
        #: Queue -> priority.
        self._classes: Counter[int] = Counter()
        #: Queue -> its registers when they were last read, and the cycle of its last change.
        self._states: dict[int, QueueState] = {}
        self._moved: Counter[int] = Counter()
        #: Queue -> entries popped from the engine's log.
        self._popped: Counter[int] = Counter()
        #: Queue -> entries of the model's log that were matched with the engine's.
        self._reported: Counter[int] = Counter()
        #: Queue -> the same, when the log had reported everything.
        self._quiet: Counter[int] = Counter()
        self._lost = 0
        #: (queue, kind) -> index in the queue's history.
        self._positions: defaultdict[tuple[int, str], int] = defaultdict(int)
        #: Queue -> words that were legal before its RESET.
        self._earlier: defaultdict[int, set[int]] = defaultdict(set)
        #: Queue -> ended requests whose bytes have been checked.
        self._verified: Counter[int] = Counter()
        #: (queue, number) of requests whose bytes are overwritten later.
        self._unverifiable: set[tuple[int, int]] = set()

    def mismatch(self, sentence: str) -> None:
        """Note a difference between the hardware and the model."""
        if len(self.mismatches) < MAX_MISMATCHES:
            sentence = f"Cycle {self.cycle}: {sentence}"
            self.mismatches.append(sentence)
            self.dut._log.warning(sentence)

    # Observations of the hardware

    def _written(self, writes: Writes) -> None:
        for queue, kind, word in self.poller.take(writes):
            self._moved[queue] = self.cycle
            self._check_word(queue, kind, word)
            if self.on_word is not None:
                self.on_word(queue, kind, word)
        self.flags.take(writes)

    def _issued(self, kind: str, identifier: int, address: int, attributes: tuple[int, ...]) -> None:
        """A burst must address a region and have its attributes."""
        word = identifier >> (self.config.axi_id_width - 1)
        expected = {(0, 0, 0)} if word else self.model.attributes(kind, address)
        if attributes not in expected:
            self.mismatch(f"a {kind} at {address:#x} has AxCACHE, AxPROT, AxQOS {attributes}; expected "
                          f"{' or '.join(map(str, sorted(expected))) or 'no access there'}.")

    @staticmethod
    def _reachable(q: Queue) -> set[int]:
        """Words that a frozen queue may show, as long as none of its requests fails."""
        if not q.frozen:
            return set()
        return {q.word._replace(count=q.count + number).pack() for number in range(len(q.waiting) + 1)}

    def _check_word(self, queue: int, kind: str, word: CompletionWord) -> None:
        """A completion word is one that the model has shown too, no older than the one before, and true."""
        self.trace(f"{kind.upper()} of queue {queue} becomes {show_word(word)}")
        history = self.model.queues[queue].history
        place = self._positions[queue, kind]
        for index in range(place, len(history)):
            if history[index] == word:
                self._positions[queue, kind] = index
                break
        else:
            stale = self._earlier[queue] if place == 0 else set()
            if word.pack() in stale or word.pack() in self._reachable(self.model.queues[queue]):
                return
            expected = ", ".join(map(show_word, history[place:place + 3])) or "none"
            self.mismatch(f"{kind.upper()} of queue {queue} became {show_word(word)}; expected one of: "
                          f"{expected}{' ...' if len(history) > place + 3 else ''}.")
            return
        self.check_moved(queue, word.count, f"{kind.upper()} of queue {queue} became {show_word(word)}")

    def check_moved(self, queue: int, count: int, when: str) -> None:
        """Check that the bytes of the queue's first ``count`` requests are in memory."""
        ended = self.model.queues[queue].ended
        while self._verified[queue] < min(count, len(ended)):
            request = ended[self._verified[queue]]
            self._verified[queue] += 1
            if request.moved is None or (queue, request.number) in self._unverifiable:
                continue
            moved, request.moved = request.moved, None
            for address, data in moved:
                found = self.memory.read(address, len(data))
                if found == data:
                    continue
                undefined = self.model.memory.undefined(address, len(data))
                wrong = [(address + i, data[i], found[i]) for i in range(len(data))
                         if found[i] != data[i] and (undefined is None or not undefined[i])]
                if wrong:
                    self.mismatch(f"{when}, but request {request.number} ({show_request(request)}) is not "
                                  f"all there: {describe_bytes(wrong)}.")

    async def _collect_log(self) -> None:
        """Pop the error log whenever the interrupt says so."""
        while True:
            if not int(self.dut.irq.value):
                await RisingEdge(self.dut.irq)
            await self.driver.acknowledge(error=True)
            while (record := await self.driver.pop_log()) is not None:
                self._check_record(record)

    def _check_record(self, record: LogRecord) -> None:
        self.errors[record.status.name] += 1
        self.trace(f"error log: {show_record(record)}")
        entries = [entry for entry in self.model.log if entry.queue == record.queue]
        self._popped[record.queue] += 1
        start, quiet = self._reported[record.queue], self._quiet[record.queue]
        # A queue's first failure has a log entry; some of the later ones are only counted.
        end = start + 1 if start == quiet else len(entries)
        for index in range(start, min(end, len(entries))):
            if (entries[index].status, entries[index].count) == (record.status, record.count):
                self._reported[record.queue] = index + 1
                return
        if start >= len(entries):
            self.mismatch(f"the error log has {show_record(record)}, and the model no such entry.")
        else:
            self.mismatch(f"the error log has {show_record(record)}, expected {show_record(entries[start])}"
                          f"{'' if start == quiet else ' or a later one'}.")

    @property
    def popped(self) -> int:
        """Entries popped from the error log."""
        return self._popped.total()

    # Comparing

    def difference(self, queue: int, state: QueueState) -> str | None:
        """Differences between a :class:`QueueState` and the model, or None."""
        expected = self.model.state(queue)
        wrong = {name: (value, getattr(state, name)) for name, value in expected.items()
                 if getattr(state, name) != value}
        if not wrong:
            return None
        return ", ".join(f"{name} is {show_field(name, got)} instead of {show_field(name, value)}"
                         for name, (value, got) in wrong.items())

    async def state(self, queue: int) -> QueueState:
        """:class:`QueueState` of a queue."""
        state = await self.driver.state(queue)
        self.known[queue] = state.count
        if state != self._states.get(queue):
            self._states[queue], self._moved[queue] = state, self.cycle
        self.trace(f"{state} of queue {queue}")
        return state

    def _last_move(self, queue: int) -> int:
        """Cycle in which the queue, or one that may go before it, was last seen to change."""
        return max(self._moved[other] for other in range(self.config.queues)
                   if self._classes[other] >= self._classes[queue])

    async def settle(self, queue: int, *, timeout: int = 20_000) -> bool:
        """Wait until the state of a queue equals the model's, and its words are in memory.

        ``timeout`` is the number of cycles without progress after which the wait ends with a mismatch. Progress of
        other queues counts, too, unless their class is lower: this queue may have to wait for theirs. Returns whether
        the state was reached.
        """
        q = self.model.queues[queue]
        start = self.cycle
        while True:
            # Words are cheap to read, registers are not.
            if self._words_missing(queue) is None or self.cycle - max(start, self._moved[queue]) > 256:
                state = await self.state(queue)
                # Segments issued behind a failed request stay in flight until the queue is cleared.
                moving = state.in_flight and q.held is None and not self.memory.withheld
                if self.difference(queue, state) is None and not moving and not self._words_missing(queue):
                    self.check_moved(queue, q.count, f"queue {queue} is idle")
                    return True
                if self.cycle - max(start, self._last_move(queue)) > timeout:
                    what = self.difference(queue, state) or self._words_missing(queue) or "still in flight"
                    self.mismatch(f"queue {queue} makes no progress: {what} (in flight {state.in_flight}, waiting "
                                  f"{state.waiting}, running {state.running}).")
                    return False
            changed = self.poller.changed(queue)
            changed.clear()
            await self.until(changed, 64)

    def _words_missing(self, queue: int) -> str | None:
        """Which published word, record or flag has not reached memory, or None."""
        q = self.model.queues[queue]
        if q.ring is not None and q.ring.latest is not None:
            address, data = q.ring.latest
            if self.model.memory.differences(address, self.memory.read(address, len(data))):
                return f"the record at {address:#x} is {self.memory.read(address, 8).hex()} instead of {data.hex()}"
        for kind, word in q.published.items():
            address = getattr(q, kind)
            if address is None or self.model.memory.undefined(address, 8) is not None:
                continue
            found = int.from_bytes(self.memory.read(address, 8), "little")
            if found != word.pack():
                return f"{kind.upper()} in memory is {found:#018x} instead of {word.pack():#018x}"
        return self.flags.missing(queue)

    async def wait_log(self, *, timeout: int = 5_000) -> None:
        """Wait until the hardware's log has every failure of the model's log, or counted it as lost."""
        start = self.cycle
        while self.popped + self._lost < len(self.model.log):
            if self.cycle - start > timeout:
                self.mismatch(f"the error log has reported {self.popped} failures and lost {self._lost} of "
                              f"{len(self.model.log)}.")
                return
            await self.wait(32)
            self._lost = await self.driver.lost()
        if self.popped + self._lost > len(self.model.log):
            self.mismatch(f"the error log has reported {self.popped} failures and lost {self._lost}, but there were "
                          f"{len(self.model.log)}.")
        # The log has an entry for a failure of each queue again.
        for queue, failures in Counter(entry.queue for entry in self.model.log).items():
            if self._reported[queue] == self._quiet[queue] < failures:
                self.mismatch(f"queue {queue} failed, and the error log does not report it.")
            self._reported[queue] = self._quiet[queue] = failures

    def check_memory(self) -> None:
        """Compare every byte that either side has ever written."""
        pages = set(self.model.memory.pages()) | set(self.memory.store.segs)
        for page in sorted(pages):
            data = self.memory.read(page, PAGE_BYTES)
            wrong = self.model.memory.differences(page, data)
            if wrong:
                expected = self.model.memory.read(page, PAGE_BYTES)
                about = describe_bytes([(a, expected[a - page], data[a - page]) for a in wrong])
                self.mismatch(f"memory differs in the page at {page:#x}{self._whose(wrong[0])}: {about}.")
                if len(self.mismatches) >= MAX_MISMATCHES:
                    return

    def _whose(self, address: int) -> str:
        for number, region in self.model.regions.items():
            if region.covers(self.model.pages, address):
                return f", region {number}"
        for queue, q in enumerate(self.model.queues):
            if address & -8 in (q.sc, q.rc):
                return f", a completion word of queue {queue}"
        return ", in no region"

    async def check_interrupt(self) -> None:
        """Compare the completion interrupt, when all that could raise it has."""
        raised = bool((await self.driver.interrupts())["completion"])
        if raised != self.model.irq_completion:
            self.mismatch(f"the completion interrupt is {'' if raised else 'not '}raised.")

    async def check_counters(self, queue: int) -> None:
        """Compare the counters of an idle queue that is not held."""
        q = self.model.queues[queue]
        if q.held is not None or q.waiting:
            return
        counted = await self.driver.queue_counters(queue)
        for name, low, high in (("requests", q.count, q.count), ("failed", q.failed, q.failed),
                                ("bytes", q.bytes, q.bytes + q.bytes_unknown)):
            if not low <= getattr(counted, name) <= high:
                self.mismatch(f"queue {queue} has counted {getattr(counted, name):,} {name} instead of "
                              f"{low:,}{f' to {high:,}' if high > low else ''}.")

    def assert_equal(self) -> None:
        """Fail the test with the mismatches, if there are any."""
        if self.mismatches:
            listed = "\n  ".join(self.mismatches[:8])
            raise AssertionError(f"{len(self.mismatches)} mismatches with seed {self.seed}:\n  {listed}")
