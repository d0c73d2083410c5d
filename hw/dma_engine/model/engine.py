# SPDX-License-Identifier: Apache-2.0
"""Golden model of the DMA engine: predicts the observable results of requests.

It models bytes, words, counters and statuses, but no time: a request executes when it is posted, as soon as no earlier
request of its queue is pending. The model is independent of the gateware and of the way in which the engine splits
requests. Bytes that the engine may or may not have written (the destination of a request that failed with a memory
error, or that a RESET discarded) are undefined until written again.
"""

from itertools import chain
from typing import Any

from hw.common.sizes import PAGE_BYTES
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.descriptors import RingLocation
from hw.dma_engine.queue_settings import QUEUE_SETTINGS
from hw.dma_engine.words import ARK_FLAG_BYTES, ArkWord, Command, NativeWord, Opcode, RequestFlag, Status

from .ark import ArkQueue, Connection, ark_requests
from .checks import Checks
from .memory import Memory
from .regions import Region, present
from .rings import Ring
from .state import LogEntry, Queue, Request

__all__ = ["DmaModel"]

WORD_BYTES = 16
ALL_STROBES = (1 << WORD_BYTES) - 1
SCHEDULING_SETTINGS = [setting.name for setting in QUEUE_SETTINGS if setting.scheduling]


class DmaModel(Checks):
    """An engine with its memory.

    Parameters
    ----------
    config : :class:`DmaConfig`
        The engine's sizes.
    The engine's memory; empty by default.
        The memory that the engine moves, empty if not given.
    """

    def __init__(self, config: DmaConfig, memory: Memory | None = None) -> None:
        super().__init__(config)
        self.memory = Memory() if memory is None else memory
        self.connections: dict[int, Connection] = {}
        #: Every failure; the hardware logs one of each queue at a time and counts the rest.
        self.log: list[LogEntry] = []
        self.irq_error = self.irq_completion = False
        #: IRQ_MODERATION, and the number of requests whose interrupt it delays.
        self.moderation = (0, 0)
        self.irqs_waiting = 0
        self.words = self.refused = 0

    def release(self, address: int) -> None:
        self._withheld.discard(address - address % PAGE_BYTES)
        for queue in range(self.config.queues):
            self._advance(queue)

    # Registers

    def define_region(self, number: int, **values: Any) -> None:
        self.regions[number] = Region(**values)

    def define_page(self, number: int, frame: int | None) -> None:
        """Map a page to an address, or unmap it if that is None."""
        self.pages.pop(number, None)
        if frame is not None:
            self.pages[number] = frame

    def define_connection(self, number: int, **values: Any) -> None:
        self.connections[number] = Connection(**values)

    def configure_queue(self, queue: int, *, domain: int = 0, sc: int | None = None, rc: int | None = None,
                        skip_errors: bool = False, ark: int | None = None, ring: RingLocation | None = None,
                        **scheduling: int) -> bool:
        """Configure a queue; settings that only affect scheduling change nothing here.

        Returns False if that is refused: two rings of a pair of queues, one of them with ``pair``, or a change of
        ``pair`` without RESET.
        """
        if others := [name for name in scheduling if name not in SCHEDULING_SETTINGS]:
            raise TypeError(f"Setting of a queue that the model ignores must be one of "
                            f"{', '.join(SCHEDULING_SETTINGS)}, not {others[0]!r}")
        q = self.queues[queue]
        if queue >= self.config.extended:
            ark = ring = None
        if ring is not None:
            beside = self.queues[queue ^ 1].pair
            if (beside is not None and (ring.pair or beside)) or (q.enabled and q.pair not in (None, ring.pair)):
                return False
            q.pair = ring.pair
        elif not q.enabled:
            q.pair = None
        q.ark = None if ark is None else ArkQueue(ark, sc)
        q.domain, q.sc, q.rc, q.skip_errors = domain, sc if ark is None else None, rc, skip_errors
        q.ring = None if ring is None else Ring(ring)
        return True

    def moderate_interrupts(self, *, count: int = 0, cycles: int = 0) -> None:
        self.moderation = (count, cycles)
        self._raise_completion()

    def _raise_completion(self) -> None:
        """Set the completion interrupt if enough requests want it; the time criterion counts as met."""
        count, cycles = self.moderation
        if self.irqs_waiting and (cycles or self.irqs_waiting >= count):
            self.irq_completion, self.irqs_waiting = True, 0

    def command(self, queue: int, command: int) -> None:
        getattr(self, f"_{Command(command).name.lower()}")(queue)

    def _start(self, queue: int) -> None:
        q = self.queues[queue]
        if not q.enabled:
            q.refusing = False
        q.enabled = q.running = True
        self._advance(queue)

    def _pause(self, queue: int) -> None:
        self.queues[queue].running = False

    def _clear(self, queue: int) -> None:
        q = self.queues[queue]
        q.held, q.refusing, q.status = None, False, Status.OK
        # A request that merely timed out has not completed; any other failed one completes now.
        if q.failed_request is not None:
            q.ended.append(q.failed_request)
            q.count, q.failed_request = q.count + 1, None
        self._note(queue)
        self._publish(queue, "sc", "rc")
        self._advance(queue)

    def freeze(self, queue: int) -> None:
        """Execute no more requests of a queue, which is about to be reset with requests in flight."""
        self.queues[queue].frozen = True

    def _reset(self, queue: int) -> None:
        q = self.queues[queue]
        if q.frozen and q.waiting:
            for address in filter(None, (q.sc, q.rc)):
                self.memory.discard(address, 8)
        for request in q.waiting:
            word = request.word
            if request.may_have_begun and word is not None and self.check(queue, word) is Status.OK:
                self._discard(word)
                for address in request.flags:
                    self.memory.discard(address, ARK_FLAG_BYTES)
        ring = None
        if q.ring is not None:
            ring = Ring(q.ring.location)
            if q.frozen and q.waiting and ring.location.records is not None:
                self.memory.discard(ring.location.records, 8 * ring.location.entries)
        self.queues[queue] = Queue(domain=q.domain, sc=q.sc, rc=q.rc, skip_errors=q.skip_errors, ark=q.ark, ring=ring,
                                   pair=None if ring is None else ring.location.pair)

    def state(self, queue: int) -> dict[str, int]:
        """Values of QUEUE_STATE, QUEUE_COUNT and QUEUE_RESULT when the queue is idle."""
        q = self.queues[queue]
        return {"enabled": int(q.enabled), "held": int(q.held is not None), "refusing": int(q.refusing),
                "resetting": 0, "count": q.count, "failed": q.failed, "status": int(q.status)}

    # Doorbells

    def post(self, queue: int, word: NativeWord | ArkWord | int, *, strobes: int = ALL_STROBES,
             accepted: bool | None = None) -> bool:
        """Store a word, two ARK words or a ring's tail to a queue's page; returns whether all of them are accepted.

        Parameters
        ----------
        word : :class:`NativeWord`, :class:`ArkWord` or int
            The stored value; an ARK word in the lower half.
        strobes : int
            The 16 byte strobes of the store. A store without any has no effect and is not refused.
        accepted : bool or None
            The hardware's decision. It is used only where it depends on time: a running queue may or may not be full.
        """
        q = self.queues[queue]
        if q.ring is not None and q.enabled and strobes:
            return self._post_tail(queue, word if isinstance(word, int) else word.pack(), strobes)
        requests = self._requests(queue, word, strobes)
        return all([self._accept(queue, request, accepted) for request in requests])

    def _requests(self, queue: int, word: NativeWord | ArkWord | int, strobes: int) -> list[Request]:
        """Requests of a store."""
        q = self.queues[queue]
        if strobes == 0:
            return []
        if q.ark is not None:
            if isinstance(word, ArkWord):
                strobes &= 0xFF
            stored = word if isinstance(word, int) else word.pack()
            found = ark_requests(stored, strobes, q.ark, q.domain, self.connections)
            return [Request(request.word, 0, fault=request.fault, flags=request.flags) for request in found]
        if strobes != ALL_STROBES:
            return [Request(None, 0, fault=Status.MALFORMED)]
        if isinstance(word, ArkWord):
            word = word.pack()
        return [Request(NativeWord.unpack(word) if isinstance(word, int) else word, 0)]

    def _accept(self, queue: int, request: Request, accepted: bool | None) -> bool:
        q = self.queues[queue]
        if not q.enabled:
            if not q.refusing:
                q.refusing = True
                self._log(queue, Status.DISABLED)
            self.refused += 1
            return False
        full = len(q.waiting) > self.config.queue_depth if not q.running else accepted is False
        if q.refusing or full:
            if not q.refusing:
                q.refusing = True
                self._fail(queue, Status.OVERFLOW)
            self.refused += 1
            return False
        request.number, request.may_have_begun = q.posted, q.running
        q.posted += 1
        self.words += 1
        q.waiting.append(request)
        self._advance(queue)
        return True

    def _post_tail(self, queue: int, store: int, strobes: int) -> bool:
        """The lower half of the first 8 stored bytes, or the lower half of the other 8."""
        q, shift = self.queues[queue], 0 if strobes & 0xFF else 8
        assert q.ring is not None
        found = None
        if strobes >> shift & 15 == 15 and not q.refusing:
            found = q.ring.advance_to(store >> 8 * shift & 0xFFFF_FFFF, self.memory,
                                      lambda address: address - address % PAGE_BYTES in self.faults["read"])
        if found is None:
            if not q.refusing:
                q.refusing = True
                self._fail(queue, Status.RING_RANGE)
            self.refused += 1
            return False
        for ring_word in chain.from_iterable(found):
            fault = ring_word.status if ring_word.word is None else None
            q.waiting.append(Request(ring_word.word, q.posted, may_have_begun=q.running, ring_word=ring_word,
                                     fault=fault))
            q.posted += 1
            self.words += 1
        self._advance(queue)
        return True

    def time_out(self, queue: int) -> None:
        """Let the watchdog find a queue without progress."""
        q = self.queues[queue]
        if not (q.running and q.waiting and q.held is None):
            raise ValueError(f"Queue {queue} must be waiting for memory to time out")
        q.held = Status.TIMEOUT
        self._fail(queue, Status.TIMEOUT)

    # Requests

    def _discard(self, word: NativeWord) -> None:
        for address, length in present(self.destination(word)):
            self.memory.discard(address, length)

    def predict(self, queue: int, word: NativeWord | ArkWord | int, strobes: int = ALL_STROBES) -> Status:
        """Status of a store's request with memory in its present state."""
        request, = self._requests(queue, word, strobes)
        return self._predict(queue, request)

    def _advance(self, queue: int) -> None:
        """Complete requests from the head of the queue as far as possible."""
        q = self.queues[queue]
        while q.running and q.waiting:
            for request in q.waiting:
                request.may_have_begun = True
            if q.frozen or q.held is not None or self.is_withheld(queue, q.waiting[0].word):
                return
            request = q.waiting.popleft()
            request.status = self._predict(queue, request)
            self._carry_out(queue, request)
            self._end(queue, request)
            if request.ring_word is not None:
                length = request.word.length if request.word is not None else 0
                assert q.ring is not None
                record = q.ring.end(request.status, length, request.ring_word)
                if record is not None:
                    self._write(queue, *record)

    def _carry_out(self, queue: int, request: Request) -> None:
        word = request.word
        if request.status is Status.OK:
            assert word is not None
            undefined = None
            if word.opcode == Opcode.SIGNAL:
                data = (word.src_region << 36 | word.src_offset).to_bytes(8, "little")
            else:
                data, undefined = self.memory.gather(present(self.source(word)))
            request.moved, position = [], 0
            for address, length in present(self.destination(word)):
                part = slice(position, position + length)
                self.memory.write(address, data[part], None if undefined is None else undefined[part])
                request.moved.append((address, data[part]))
                position += length
            self.queues[queue].bytes += word.length
        elif word is not None and self.check(queue, word) is Status.OK:
            self._discard(word)
            self.queues[queue].bytes_unknown += word.length

    def _end(self, queue: int, request: Request) -> None:
        q, status = self.queues[queue], request.status
        assert status is not None
        if status is not Status.OK:
            if q.skip_errors:
                q.ended.append(request)
            else:
                q.held, q.failed_request = status, request
            self._fail(queue, status, counts=q.skip_errors)
            return
        q.ended.append(request)
        q.count += 1
        self._note(queue)
        assert request.word is not None
        flags = request.word.flags
        self._publish(queue, *(name for name, flag in (("sc", RequestFlag.SC), ("rc", RequestFlag.RC))
                               if flags & flag))
        self.irqs_waiting += bool(flags & RequestFlag.IRQ)
        self._raise_completion()
        for address in request.flags:
            if self._write(queue, address, (1).to_bytes(ARK_FLAG_BYTES, "little")):
                q.flagged.append((address, request))

    def _fail(self, queue: int, status: Status, *, counts: bool = False) -> None:
        q = self.queues[queue]
        self._log(queue, status)
        q.failed, q.status, q.count = q.failed + 1, status, q.count + counts
        self._note(queue)
        self._publish(queue, "sc", "rc")

    def _log(self, queue: int, status: Status) -> None:
        self.log.append(LogEntry(queue, status, self.queues[queue].count))
        self.irq_error = True

    def _note(self, queue: int) -> None:
        q = self.queues[queue]
        if not q.history or q.history[-1] != q.word:
            q.history.append(q.word)

    def _publish(self, queue: int, *names: str) -> None:
        """Write completion words; one that memory refuses becomes undefined and is logged."""
        q = self.queues[queue]
        for name in names:
            address = getattr(q, name)
            if address is None:
                continue
            q.published[name] = q.word
            self._write(queue, address, q.word.pack().to_bytes(8, "little"))

    def _write(self, queue: int, address: int, data: bytes) -> bool:
        """Write to memory; returns whether memory accepted it."""
        if address - address % PAGE_BYTES in self.faults["write"]:
            self.memory.discard(address, len(data))
            self._log(queue, Status.COMPLETION_ERROR)
            return False
        self.memory.write(address, data)
        return True
