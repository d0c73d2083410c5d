# SPDX-License-Identifier: Apache-2.0
"""A memory behind a PCIe function: writes in order of arrival, reads after a latency, in legal pieces, with errors.

The library's own completers respond at once and in order. This one is legal but unhelpful: it delays, reorders
requests, splits completions at read completion boundaries (PCI Express Base 2.3.1.1), and fills bytes outside of a
request with noise. Completions of one request keep their order. A write becomes visible as it arrives, hence a read
sees all writes that arrived before it; it may see later ones, as its data is read when its completion leaves.
"""

import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.triggers import Event, Timer
from cocotbext.axi.sparse_memory import SparseMemory
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpAttr
from cocotbext.pcie.core.utils import PcieId

from sim.pcie.faults import Fault, Injection

__all__ = ["SPLITS", "Completer", "CompleterSettings", "enabled_bytes", "pieces"]

SPLITS = ("never", "always", "random")
"""Where completions are split: as rarely as the payload size allows, at every boundary, or at random boundaries."""


@dataclass(frozen=True)
class CompleterSettings:
    """How a completer behaves.

    Parameters
    ----------
    latency_ns : (int, int)
        Least and most time from a request to its first completion.
    concurrency : int or None
        Reads in service at a time; others wait, and their latency begins later. None for no limit.
    reorder : bool
        Let requests overtake each other, and interleave their completions.
    split : str
        One of :data:`SPLITS`.
    rcb : int
        Read completion boundary, 64 or 128 bytes. Only a root complex may have 64.
    """

    latency_ns: tuple[int, int] = (300, 300)
    concurrency: int | None = None
    reorder: bool = False
    split: str = "never"
    rcb: int = 128

    def __post_init__(self) -> None:
        low, high = self.latency_ns
        if not 0 <= low <= high:
            raise ValueError(f"latency_ns must be a range of times from 0, not {self.latency_ns!r}")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1 or None, not {self.concurrency!r}")
        if self.split not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, not {self.split!r}")
        if self.rcb not in (64, 128):
            raise ValueError(f"rcb must be 64 or 128, not {self.rcb!r}")


def enabled_bytes(first_be: int, last_be: int, dwords: int) -> tuple[int, int]:
    """Offset of the first enabled byte of a request, and bytes up to the last one; ``(0, 1)`` if none is enabled."""
    mask = first_be | (last_be << 4 * (dwords - 1) if dwords > 1 else 0)
    if not mask:
        return 0, 1
    first = (mask & -mask).bit_length() - 1
    return first, mask.bit_length() - first


def pieces(address: int, length: int, *, max_payload: int, rcb: int, split: str,
           rng: random.Random) -> Iterator[tuple[int, int]]:
    """Address and bytes of each completion of a read: cut at multiples of ``rcb`` only, each within ``max_payload``."""
    position, end = address, address + length
    while position < end:
        limit = (position & -4) + max_payload
        cuts = list(range((position // rcb + 1) * rcb, min(limit, end), rcb))
        if limit >= end:
            cuts.append(end)
        elif limit % rcb == 0:
            cuts.append(limit)
        cut = {"never": cuts[-1], "always": cuts[0]}.get(split) or rng.choice(cuts)
        yield position, cut - position
        position = cut


class Completer:
    """Serves the memory requests of one function.

    Parameters
    ----------
    send : coroutine function
        Sends a completion.
    locate : callable
        Address of a TLP -> address in ``memory``.
    identity : callable
        Returns the completer ID.
    max_payload : callable
        Returns the function's maximum payload size in bytes.
    size : int
        Bytes of memory.
    settings : :class:`CompleterSettings`
        May be replaced at any time.
    seed : int
        Of the random choices.

    Attributes
    ----------
    memory : :class:`cocotbext.axi.sparse_memory.SparseMemory`
        The bytes, for the backdoor.
    written : callable or None
        Called with the address and the bytes of each write.
    reads, writes : int
        Requests received.
    injected : Counter
        Fault -> reads that have had it.
    """

    def __init__(self, send: Callable[[Tlp], Awaitable[None]], *, locate: Callable[[int], int],
                 identity: Callable[[], PcieId], max_payload: Callable[[], int], size: int,
                 settings: CompleterSettings, seed: int = 0) -> None:
        self.memory: Any = SparseMemory(size)
        self.settings = settings
        self.written: Callable[[int, bytes], None] | None = None
        self.reads = self.writes = 0
        self.injected: Counter[Fault] = Counter()
        self._send, self._locate, self._identity, self._max_payload = send, locate, identity, max_payload
        self._rng = random.Random(f"completer {seed}")
        self._injections: list[list[Any]] = []      # [injection, matching reads so far]
        self._waiting: deque[tuple[Tlp, list[Injection], Event | None, Event]] = deque()
        self._busy = 0
        self._latest: Event | None = None
        self._changed = Event()

    def inject(self, *injections: Injection) -> None:
        """Add to the schedule of errors."""
        self._injections += [[injection, 0] for injection in injections]

    def withdraw(self, injection: Injection) -> bool:
        """Remove an error from the schedule; whether it was still there."""
        before = len(self._injections)
        self._injections = [entry for entry in self._injections if entry[0] is not injection]
        return len(self._injections) < before

    def idle(self) -> bool:
        """Whether every read has completed, as far as it does."""
        return not self._busy and not self._waiting

    async def poll(self, address: int, length: int, until: Callable[[bytes], bool]) -> bytes:
        """Wait until ``until`` accepts the bytes at ``address``; checked after each write."""
        while not until(data := self.memory.read(address, length)):
            self._changed.clear()
            await self._changed.wait()
        return bytes(data)

    # Handlers: they return at once, so that no request waits behind a read.

    async def handle_write(self, tlp: Tlp) -> None:
        """A memory write; a poisoned one is dropped."""
        self.writes += 1
        if tlp.ep:
            return
        address, data = self._locate(tlp.address), bytes(tlp.get_data())
        enables = (tlp.first_be, *(15,) * (tlp.length - 2), *(tlp.last_be,) * (tlp.length > 1))
        enabled = bytes(be >> lane & 1 for be in enables for lane in range(4))
        start = enabled.find(1)
        while start >= 0:
            stop = end if (end := enabled.find(0, start)) >= 0 else len(enabled)
            self.memory.write(address + start, data[start:stop])
            if self.written is not None:
                self.written(address + start, data[start:stop])
            start = enabled.find(1, stop)
        self._changed.set()

    async def handle_read(self, tlp: Tlp) -> None:
        """A memory read."""
        self.reads += 1
        offset, length = enabled_bytes(tlp.first_be, tlp.last_be, tlp.length)
        address = self._locate(tlp.address) + offset
        before, self._latest = self._latest, Event()
        self._waiting.append((tlp, self._due_faults(address, length), before, self._latest))
        self._start()

    def _due_faults(self, address: int, length: int) -> list[Injection]:
        found = []
        for entry in list(self._injections):
            injection, count = entry
            if injection.touches(address, length):
                entry[1] += 1
                if count >= injection.after:
                    found.append(injection)
                if injection.times is not None and entry[1] >= injection.after + injection.times:
                    self._injections.remove(entry)
        return found

    def _start(self) -> None:
        limit = self.settings.concurrency
        while self._waiting and (limit is None or self._busy < limit):
            self._busy += 1
            cocotb.start_soon(self._serve(*self._waiting.popleft()))

    async def _serve(self, tlp: Tlp, injections: list[Injection], before: Event | None, done: Event) -> None:
        low, high = self.settings.latency_ns
        if high:
            await Timer(max(self._rng.randint(1000 * low, 1000 * high), 1), "ps")
        if before is not None and not self.settings.reorder:
            await before.wait()
        await self._complete(tlp, injections)
        done.set()
        self._busy -= 1
        self._start()

    async def _complete(self, tlp: Tlp, injections: list[Injection]) -> None:
        offset, length = enabled_bytes(tlp.first_be, tlp.last_be, tlp.length)
        start, end = tlp.address + offset, tlp.address + offset + length
        parts = list(pieces(start, length, max_payload=self._max_payload(), rcb=self.settings.rcb,
                            split=self.settings.split, rng=self._rng))
        for number, (address, size) in enumerate(parts):
            faults = {injection.fault: injection for injection in injections
                      if min(injection.piece, len(parts) - 1) == number}
            self.injected.update(list(faults))
            if Fault.DROPPED in faults:
                return
            completion = self._completion(tlp, address, size, end - address)
            stop = self._spoil(completion, faults)
            if extra := faults.get(Fault.UNEXPECTED_TAG):
                wrong = Tlp(completion)
                wrong.tag = extra.extra_tag
                await self._send(wrong)
            if late := faults.get(Fault.DUPLICATE):
                cocotb.start_soon(self._send_late(Tlp(completion), late.delay_ns))
            await self._send(completion)
            if stop:
                return
            if self.settings.reorder and number + 1 < len(parts) and self._rng.random() < 0.5:
                await Timer(self._rng.randint(1, 100), "ns")

    def _completion(self, tlp: Tlp, address: int, size: int, remaining: int) -> Tlp:
        completion = Tlp.create_completion_data_for_tlp(tlp, self._identity())
        first, beyond = address & -4, -(-(address + size) // 4) * 4
        data = bytearray(self._rng.randbytes(beyond - first))
        where = self._locate(tlp.address) + address - tlp.address
        data[address - first:address - first + size] = self.memory.read(where, size)
        completion.set_data(data)
        completion.byte_count, completion.lower_address = remaining, address & 0x7F
        return completion

    def _spoil(self, completion: Tlp, faults: dict[Fault, Injection]) -> bool:
        """Apply faults to a completion; whether it is the last one for this reason."""
        for fault, status in ((Fault.UNSUPPORTED_REQUEST, CplStatus.UR), (Fault.COMPLETER_ABORT, CplStatus.CA),
                              (Fault.NO_DATA, CplStatus.SC)):
            if fault in faults:
                completion.status, completion.lower_address = status, 0
                completion.fmt, completion.length, completion.data = 0, 0, bytearray()
                return True
        if Fault.POISONED in faults:
            completion.ep = True
            completion.data = bytearray(self._rng.randbytes(len(completion.data)))
        if Fault.WRONG_BYTE_COUNT in faults:
            completion.byte_count += 4
        if Fault.WRONG_LOWER_ADDRESS in faults:
            completion.lower_address = (completion.lower_address + 4) & 0x7F
        if Fault.WRONG_ATTRIBUTES in faults:
            completion.attr = TlpAttr(int(completion.attr) ^ 2)
        return False

    async def _send_late(self, completion: Tlp, delay_ns: int) -> None:
        await Timer(max(delay_ns, 1), "ns")
        await self._send(completion)
