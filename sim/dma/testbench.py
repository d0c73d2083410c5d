"""An engine in simulation beside its golden model: everything is done to both, and every difference is told.

Differences are collected in ``mismatches`` as sentences; :meth:`DmaTestbench.finish` compares what is left.
"""

import logging
import os
import random
import warnings
from collections import Counter, defaultdict

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, Lock, RisingEdge
from cocotb.utils import get_sim_steps
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from dmace.drivers.dma import DmaDriver
from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command, NativeWord, Status
from sim.dma.ark import FlagWatch
from sim.dma.gpu import Doorbells, Poller, slots
from sim.memory import Memory, Stalls, now

__all__ = ["DmaTestbench", "describe_bytes"]

PERIOD_NS = 4
MAX_MISMATCHES = 50
WORDS_PATIENCE = 5_000
# What cocotbext-axi uses of cocotb is on its way out; the version of cocotb is pinned.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")
_TRACE = bool(os.environ.get("DMACE_TRACE"))


class _RegisterBus:
    """The driver's bus over cocotbext-axi's AXI4-Lite manager."""

    def __init__(self, dut, stalls, rng):
        logging.getLogger(f"cocotb.{dut._name}.s_axil").setLevel(logging.ERROR)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil", bus_separator="__"), dut.clk)
        write, read = self.master.write_if, self.master.read_if
        self.stalls = Stalls(dut.clk, (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel,
                                       read.r_channel), stalls, rng)

    async def read(self, offset):
        return await self.master.read_dword(offset)

    async def write(self, offset, value):
        await self.master.write_dword(offset, value)


def describe_bytes(wrong):
    """Sentence about wrong bytes, each ``(address, expected, got)``, in order of address."""
    addresses, expected, got = zip(*wrong, strict=True)
    more = " ..." if len(wrong) > 8 else ""
    return (f"{len(wrong)} wrong byte{'s' if len(wrong) > 1 else ''} from {addresses[0]:#x} to "
            f"{addresses[-1]:#x}, expected {bytes(expected[:8]).hex(' ')}{more}, "
            f"got {bytes(got[:8]).hex(' ')}{more}")


class DmaTestbench:
    """Engine, memory, GPU, driver and model.

    Parameters
    ----------
    dut : handle
        A :class:`sim.dma.checked.CheckedDma`.
    config : :class:`DmaConfig`
        Its sizes.
    seed : int
        Of everything random.
    latency : int or (int, int)
        Of the memory, see :class:`sim.memory.Memory`.
    stalls : str
        On every channel of all three buses, see :class:`sim.memory.Stalls`.
    """

    def __init__(self, dut, config, *, seed=0, latency=8, stalls="none"):
        self.dut, self.config, self.seed = dut, config, seed
        self.rng = random.Random(seed)
        self.period = get_sim_steps(PERIOD_NS, "ns")
        self.model = DmaModel(config)
        self.memory = Memory(dut, period=self.period, latency=latency, stalls=stalls, seed=seed)
        self.memory.written, self.memory.asked = self._written, self._asked
        stall_rng = random.Random(f"stalls {seed}")
        self.doorbells = Doorbells(dut, stalls=stalls, rng=stall_rng)
        self._lock = Lock()
        self.bus = _RegisterBus(dut, stalls, stall_rng)
        self.driver = DmaDriver(self.bus, config, lock=lambda: self._lock)
        self.poller, self.flags = Poller(), FlagWatch(self)
        self.mismatches = []
        #: Called with ``(queue, kind, word)`` at each completion word written.
        self.on_word = None
        #: Status name -> entries popped from the error log.
        self.errors = Counter()
        self.posted = 0
        #: Queue -> requests that had ended when its registers were last read.
        self.known = Counter()
        self._classes = Counter()           # queue -> priority
        self._states, self._moved = {}, Counter()   # queue -> what was seen of it, cycle of its last change
        self._popped = Counter()            # queue -> entries popped from the engine's log
        self._told = Counter()              # queue -> entries of the model's log that the engine's has come past
        self._quiet = Counter()             # queue -> the same, when the log had told everything
        self._lost = 0
        self._places = defaultdict(int)     # (queue, kind) -> index in the queue's history
        self._earlier = defaultdict(set)    # queue -> words that were legal before its RESET
        self._verified = Counter()          # queue -> ended requests whose bytes have been looked at
        self._unverifiable = set()          # (queue, number) of requests whose bytes are overwritten later
        self._ended_before, self._ended_unknown, self._words_unknown = 0, False, False

    @property
    def cycle(self):
        """Cycles simulated."""
        return now() // self.period

    async def start(self):
        """Clock, reset, and a first look at the registers."""
        self.dut.rst.value = 1
        cocotb.start_soon(Clock(self.dut.clk, PERIOD_NS, "ns").start())
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)
        await self.driver.check_identity()
        await self.driver.enable_interrupts(error=True)
        cocotb.start_soon(self._collect_log())

    async def wait(self, cycles):
        await ClockCycles(self.dut.clk, cycles)

    async def until(self, event, cycles):
        """Wait for an event, but not for more than so many cycles."""
        await First(event.wait(), ClockCycles(self.dut.clk, cycles))

    def trace(self, text):
        """Note what is done and seen, in the log if ``DMACE_TRACE`` is set."""
        if _TRACE:
            self.dut._log.info(f"cycle {self.cycle}: {text}")

    def mismatch(self, sentence):
        """Note a difference between the hardware and the model."""
        if len(self.mismatches) < MAX_MISMATCHES:
            sentence = f"Cycle {self.cycle}: {sentence}"
            self.mismatches.append(sentence)
            self.dut._log.warning(sentence)

    # What is done to both

    def fill(self, address, data):
        """Put bytes into memory."""
        self.model.memory.write(address, data)
        self.memory.write(address, data)

    async def define_region(self, number, **values):
        self.model.define_region(number, **values)
        await self.driver.define_region(number, **values)

    async def define_page(self, number, frame):
        self.model.define_page(number, frame)
        await self.driver.define_page(number, frame)

    async def define_connection(self, number, **values):
        self.model.define_connection(number, **values)
        self.flags.watch(values["rc"])
        await self.driver.define_connection(number, **values)

    async def configure_queue(self, queue, **values):
        self.model.configure_queue(queue, **values)
        self._classes[queue] = values.get("priority", 0)
        for kind in ("sc", "rc"):
            self.poller.watch(queue, kind, getattr(self.model.queues[queue], kind))
        if (ark := self.model.queues[queue].ark) is not None and ark.sc is not None:
            self.flags.watch(ark.sc)
        await self.driver.configure_queue(queue, **values)

    async def command(self, queue, command):
        if command is Command.RESET:
            q = self.model.queues[queue]
            self._ended_before += q.count
            self._ended_unknown |= q.frozen
            # How many words a ring had made by then, only the engine knows.
            self._words_unknown |= q.ring is not None and bool(q.waiting)
            self._earlier[queue] = {word.pack() for word in q.history} | self._reachable(q)
            for kind in ("sc", "rc"):
                self._places.pop((queue, kind), None)
            self._verified.pop(queue, None)
            self.poller.forget(queue)
            self.flags.forget(queue)
            self.known.pop(queue, None)
            self._unverifiable = {entry for entry in self._unverifiable if entry[0] != queue}
        elif command is Command.START and self.model.queues[queue].count == 0:
            # A word on its way when the queue was reset has been written since.
            self.poller.forget(queue)
        self.model.command(queue, command)
        self.trace(f"{command.name} to queue {queue}; model: {self.model.state(queue)}")
        await self.driver.command(queue, command)

    @staticmethod
    def _reachable(q):
        """Words that a frozen queue may show, as long as none of its requests fails."""
        if not q.frozen:
            return set()
        return {q.word._replace(count=q.count + number).pack() for number in range(len(q.waiting) + 1)}

    def fail_page(self, address, **responses):
        self.model.fail_page(address, **responses)
        self.memory.fail_page(address, **responses)

    def mend_page(self, address):
        self.model.mend_page(address)
        self.memory.mend_page(address)

    def withhold(self, address, *, begun=0):
        self.model.withhold(address)
        self.memory.withhold(address, begun=begun)

    def release(self, address):
        self.model.release(address)
        self.memory.release(address)

    async def post(self, queue, *words, offset=0, verifiable=True):
        """Store one or several words to a queue in one burst; returns whether all were accepted.

        The bytes of each request are looked at as soon as a completion word says that they are there,
        unless ``verifiable`` is false, which it must be if a later request may overwrite them.
        """
        words = [word.pack() if isinstance(word, NativeWord) else word for word in words]
        data = b"".join(word.to_bytes(16, "little") for word in words)
        return await self.store(queue, data, offset=offset, verifiable=verifiable)

    async def ring(self, queue, tail, *, verifiable=True, size=3, offset=0):
        """Tell a queue's descriptor ring of a new tail; returns whether that was accepted."""
        return await self.store(queue, (tail % (1 << 32)).to_bytes(1 << size, "little"), size=size, offset=offset,
                                verifiable=verifiable)

    async def store(self, queue, data, *, offset=0, size=4, verifiable=True):
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

    # What the hardware shows

    def _written(self, writes):
        for queue, kind, word in self.poller.take(writes):
            self._moved[queue] = self.cycle
            self._check_word(queue, kind, word)
            if self.on_word is not None:
                self.on_word(queue, kind, word)
        self.flags.take(writes)

    def _asked(self, kind, identifier, address, attributes):
        """A burst goes where a region is, with the attributes of the region."""
        word = identifier >> (self.config.axi_id_width - 1)
        expected = {(0, 0, 0)} if word else self.model.attributes(kind, address)
        if attributes not in expected:
            self.mismatch(f"a {kind} at {address:#x} has AxCACHE, AxPROT, AxQOS {attributes}; expected "
                          f"{' or '.join(map(str, sorted(expected))) or 'no access there'}.")

    def _check_word(self, queue, kind, word):
        """A completion word is one that the model has shown too, no older than the one before, and true."""
        self.trace(f"{kind.upper()} of queue {queue} becomes {_show_word(word)}")
        history = self.model.queues[queue].history
        place = self._places[queue, kind]
        for index in range(place, len(history)):
            if history[index] == word:
                self._places[queue, kind] = index
                break
        else:
            stale = self._earlier[queue] if place == 0 else ()
            if word.pack() in stale or word.pack() in self._reachable(self.model.queues[queue]):
                return
            expected = ", ".join(map(_show_word, history[place:place + 3])) or "none"
            self.mismatch(f"{kind.upper()} of queue {queue} became {_show_word(word)}; expected one of: "
                          f"{expected}{' ...' if len(history) > place + 3 else ''}.")
            return
        self.check_moved(queue, word.count, f"{kind.upper()} of queue {queue} became {_show_word(word)}")

    def check_moved(self, queue, count, when):
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
                    self.mismatch(f"{when}, but request {request.number} ({_show_request(request)}) is not "
                                  f"all there: {describe_bytes(wrong)}.")

    async def _collect_log(self):
        """Pop the error log whenever the interrupt says so."""
        while True:
            if not int(self.dut.irq.value):
                await RisingEdge(self.dut.irq)
            await self.driver.acknowledge(error=True)
            while (record := await self.driver.pop_log()) is not None:
                self._check_record(record)

    def _check_record(self, record):
        self.errors[record.status.name] += 1
        self.trace(f"error log: {_show_record(record)}")
        entries = [entry for entry in self.model.log if entry.queue == record.queue]
        self._popped[record.queue] += 1
        start, quiet = self._told[record.queue], self._quiet[record.queue]
        # A queue's first failure has a place; of later ones some are only counted.
        end = start + 1 if start == quiet else len(entries)
        for index in range(start, min(end, len(entries))):
            if (entries[index].status, entries[index].count) == (record.status, record.count):
                self._told[record.queue] = index + 1
                return
        if start >= len(entries):
            self.mismatch(f"the error log has {_show_record(record)}, and the model no such entry.")
        else:
            self.mismatch(f"the error log has {_show_record(record)}, expected {_show_record(entries[start])}"
                          f"{'' if start == quiet else ' or a later one'}.")

    @property
    def popped(self):
        """Entries popped from the error log."""
        return self._popped.total()

    # Comparing

    def difference(self, queue, state):
        """What is different between a :class:`QueueState` and the model, or None."""
        expected = self.model.state(queue)
        wrong = {name: (value, getattr(state, name)) for name, value in expected.items()
                 if getattr(state, name) != value}
        if not wrong:
            return None
        return ", ".join(f"{name} is {_show_field(name, got)} instead of {_show_field(name, value)}"
                         for name, (value, got) in wrong.items())

    async def state(self, queue):
        """:class:`QueueState` of a queue."""
        state = await self.driver.state(queue)
        self.known[queue] = state.count
        if state != self._states.get(queue):
            self._states[queue], self._moved[queue] = state, self.cycle
        self.trace(f"{state} of queue {queue}")
        return state

    def _last_move(self, queue):
        """Cycle in which the queue, or one that may go before it, was last seen to change."""
        return max(self._moved[other] for other in range(self.config.queues)
                   if self._classes[other] >= self._classes[queue])

    async def settle(self, queue, *, patience=20_000):
        """Wait until a queue shows what the model does, and its words stand in memory.

        ``patience`` is the number of cycles without any change after which the wait ends with a mismatch. Changes
        of other queues count unless their class is lower: while those have something to do, this one may have to wait.
        Returns whether it got there.
        """
        q = self.model.queues[queue]
        start = self.cycle
        while True:
            # The words are cheap to look at, the registers are not.
            if self._words_missing(queue) is None or self.cycle - max(start, self._moved[queue]) > 256:
                state = await self.state(queue)
                # What has begun behind a failed request stays in flight until the queue is cleared.
                moving = state.in_flight and q.held is None and not self.memory.withheld
                if self.difference(queue, state) is None and not moving and not self._words_missing(queue):
                    self.check_moved(queue, q.count, f"queue {queue} came to rest")
                    return True
                if self.cycle - max(start, self._last_move(queue)) > patience:
                    what = self.difference(queue, state) or self._words_missing(queue) or "still in flight"
                    self.mismatch(f"queue {queue} stands still: {what} (in flight {state.in_flight}, waiting "
                                  f"{state.waiting}, running {state.running}).")
                    return False
            changed = self.poller.changed(queue)
            changed.clear()
            await self.until(changed, 64)

    def _words_missing(self, queue):
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

    async def wait_log(self, *, patience=5_000):
        """Wait until the hardware's log has told of every failure that the model's has, or counted it as lost."""
        start = self.cycle
        while self.popped + self._lost < len(self.model.log):
            if self.cycle - start > patience:
                self.mismatch(f"the error log told of {self.popped} failures and lost {self._lost} of "
                              f"{len(self.model.log)}.")
                return
            await self.wait(32)
            self._lost = await self.driver.lost()
        if self.popped + self._lost > len(self.model.log):
            self.mismatch(f"the error log told of {self.popped} failures and lost {self._lost}, but there were "
                          f"{len(self.model.log)}.")
        # There is room for a failure of each queue again.
        for queue, failures in Counter(entry.queue for entry in self.model.log).items():
            if self._told[queue] == self._quiet[queue] < failures:
                self.mismatch(f"queue {queue} failed, and the error log does not tell.")
            self._told[queue] = self._quiet[queue] = failures

    def check_memory(self):
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

    def _whose(self, address):
        for number, region in self.model.regions.items():
            if region.covers(self.model.pages, address):
                return f", region {number}"
        for queue, q in enumerate(self.model.queues):
            if address & -8 in (q.sc, q.rc):
                return f", a completion word of queue {queue}"
        return ", in no region"

    async def finish(self):
        """Wait for the end of everything, compare all state, the log, the counters and the memory."""
        for queue in range(self.config.queues):
            await self.settle(queue)
        await self.wait_log()
        # A completion word may be written once more with the value that it has.
        start = self.cycle
        while not self.memory.idle() and self.cycle - start < WORDS_PATIENCE:
            await self.wait(50)
        if not self.memory.idle():
            self.mismatch("the engine shows nothing in flight, but the memory has bursts to answer.")
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

    async def acknowledge_completion(self):
        self.model.irq_completion = False
        await self.driver.acknowledge(completion=True)

    async def check_interrupt(self):
        """Compare the completion interrupt, when all that could raise it has."""
        raised = bool((await self.driver.interrupts())["completion"])
        if raised != self.model.irq_completion:
            self.mismatch(f"the completion interrupt is {'' if raised else 'not '}raised.")

    async def check_counters(self, queue):
        """Compare the counters of a queue that has come to rest and holds nothing back."""
        q = self.model.queues[queue]
        if q.held is not None or q.waiting:
            return
        counted = await self.driver.queue_counters(queue)
        for name, low, high in (("requests", q.count, q.count), ("failed", q.failed, q.failed),
                                ("bytes", q.bytes, q.bytes + q.bytes_unknown)):
            if not low <= getattr(counted, name) <= high:
                self.mismatch(f"queue {queue} has counted {getattr(counted, name):,} {name} instead of "
                              f"{low:,}{f' to {high:,}' if high > low else ''}.")

    def assert_equal(self):
        """Fail the test with the mismatches, if there are any."""
        if self.mismatches:
            listed = "\n  ".join(self.mismatches[:8])
            raise AssertionError(f"{len(self.mismatches)} mismatches with seed {self.seed}:\n  {listed}")


def _show_field(name, value):
    return f"{_status(value)}" if name == "status" else value


def _status(value):
    try:
        return Status(value).name
    except ValueError:
        return f"{value:#x}"


def _show_word(word):
    return f"(count {word.count}, failed {word.failed}, {_status(word.status)})"


def _show_record(record):
    return f"{_status(record.status)} of queue {record.queue} at count {record.count}"


def _show_request(request):
    word = request.word
    if word is None:
        return f"one that is {request.fault.name} on its face"
    return (f"{word.length} bytes, region {word.src_region}+{word.src_offset:#x} to "
            f"{word.dst_region}+{word.dst_offset:#x}, flags {word.flags:#x}")
