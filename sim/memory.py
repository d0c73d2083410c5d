# SPDX-License-Identifier: Apache-2.0
"""The memory behind ``m_axi`` in cocotb: cocotbext-axi's subordinate, with faults, latency and stalls.

cocotbext-axi receives the bursts from the pins and determines the bytes of each beat. This module adds the
timing of the responses: a set latency with any number of bursts in flight, and out of order between IDs where
that is allowed. Responses for a withheld page are never sent; those for a faulty page are errors. Written bytes
become visible with their response, so an engine that does not wait for responses fails.
"""

import heapq
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import cocotb
from cocotb.handle import LogicObject
from cocotb.simulator import get_sim_time
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiResp
from cocotbext.axi.axi_channels import AxiBSource, AxiRSource
from cocotbext.axi.axi_slave import AxiSlaveRead, AxiSlaveWrite
from cocotbext.axi.sparse_memory import SparseMemory

__all__ = ["STALLS", "Memory", "Stalls", "Writes"]

PAGE_BYTES = 4096
STALLS = ("none", "patterned", "random")
"""Stall patterns of a memory or a doorbell manager: none; short and periodic; random, sometimes long."""


Pins = tuple[tuple[str, int], ...]
"""Name and value of each pin of a channel."""

Beat = tuple[Pins, bool]
"""Content of a beat, and whether it is the last."""

Effect = Callable[[], object]
"""Called as the last beat of a response goes out."""

Writes = Sequence[tuple[int, bytes]]
"""Address and bytes of each beat of a burst."""


def now() -> int:
    """Simulated time in steps."""
    high, low = get_sim_time()
    return high << 32 | low


class Stalls:
    """Pauses channels of cocotbext-axi, all of them from one task.

    Parameters
    ----------
    clock : handle
        The channels' clock.
    channels : iterable
        Sources and sinks with a ``pause`` attribute.
    kind : str
        One of :data:`STALLS`.
    rng : :class:`random.Random`
        Where the lengths come from.
    """

    PATTERNS = ((3, 1), (1, 2), (2, 2), (5, 3), (1, 1))

    def __init__(self, clock: LogicObject, channels: Iterable[Any], kind: str, rng: random.Random | None) -> None:
        self.clock, self.channels, self.rng = clock, list(channels), rng
        if kind not in STALLS:
            raise ValueError(f"Stalls must be one of {', '.join(STALLS)}, not {kind!r}")
        if kind != "none":
            lengths = self._patterned if kind == "patterned" else self._random
            self._task = cocotb.start_soon(self._run([lengths(index) for index in range(len(self.channels))]))

    def _patterned(self, index: int) -> Iterator[int]:
        go, stop = self.PATTERNS[index % len(self.PATTERNS)]
        while True:
            yield go
            yield stop

    def _random(self, index: int) -> Iterator[int]:
        rng = self.rng
        assert rng is not None
        while True:
            yield 1 + int(rng.expovariate(1 / 6))
            short = rng.random() < 0.98
            yield 1 + int(rng.expovariate(1 / 3)) if short else rng.randrange(20, 80)

    async def _run(self, lengths: Sequence[Iterator[int]]) -> None:
        cycle, due = 0, [(next(length), index) for index, length in enumerate(lengths)]
        heapq.heapify(due)
        edge = RisingEdge(self.clock)
        while True:
            wait = due[0][0] - cycle
            await (edge if wait == 1 else ClockCycles(self.clock, wait))
            cycle += wait
            while due[0][0] == cycle:
                index = due[0][1]
                self.channels[index].pause = not self.channels[index].pause
                heapq.heapreplace(due, (cycle + next(lengths[index]), index))


class _Responder:
    """Chooses which response goes out in a cycle; mixed into a source of cocotbext-axi.

    A response is ``(due, number, identifier, beats, effect)``. Those of one identifier keep their order.
    """

    # Attributes of the source that uses this mixin.
    clock: Any
    bus: Any
    valid: Any
    ready: Any
    pause: bool
    active_event: Any

    def __init__(self, *args: Any, memory: "Memory", **kwargs: Any) -> None:
        self.memory = memory
        self._number = count()
        # Heap of responses.
        self._due: list[tuple[int, int, int, Sequence[Beat], Effect | None]] = []
        # Identifier -> when its latest response is due.
        self._latest: dict[int, int] = {}
        # Identifier -> responses behind a withheld page, each with its page.
        self._blocked: dict[int, list[tuple[int, Sequence[Beat], Effect | None]]] = {}
        # Iterators of the bursts in progress, and their identifiers.
        self._active: list[tuple[int, Iterator[Beat], Effect | None]] = []
        self._shown: dict[str, int] = {}
        super().__init__(*args, **kwargs)

    def respond(self, due: int, identifier: int, beats: Sequence[Beat], page: int,
                effect: Effect | None = None) -> None:
        """Take a response of one or several beats that concerns ``page``."""
        if identifier in self._blocked or page in self.memory.withheld:
            begun = min(self.memory.begun.get(page, 0), len(beats) - 1)
            if identifier not in self._blocked and begun:
                shown = [(beat, number == begun) for number, (beat, _) in enumerate(beats[:begun], 1)]
                self._queue(due, identifier, shown, None)
                beats = beats[begun:]
            self._blocked.setdefault(identifier, []).append((page, beats, effect))
        else:
            self._queue(due, identifier, beats, effect)

    def release(self) -> None:
        """Let go what is not withheld any more."""
        for identifier, blocked in list(self._blocked.items()):
            while blocked and blocked[0][0] not in self.memory.withheld:
                _, beats, effect = blocked.pop(0)
                self._queue(now(), identifier, beats, effect)
            if not blocked:
                del self._blocked[identifier]

    def outstanding(self) -> int:
        """Responses that have not gone out."""
        return len(self._due) + len(self._active) + sum(map(len, self._blocked.values()))

    def _queue(self, due: int, identifier: int, beats: Sequence[Beat], effect: Effect | None) -> None:
        due = max(due, self._latest.get(identifier, 0))
        self._latest[identifier] = due
        heapq.heappush(self._due, (due, next(self._number), identifier, beats, effect))
        self.active_event.set()

    def _next(self, time: int) -> Pins | None:
        """The beat to show now, or None."""
        spread = self.memory.interleave
        while self._due and self._due[0][0] <= time and len(self._active) < spread:
            identifier = self._due[0][2]
            if any(identifier == other for other, _, _ in self._active):
                break
            _, _, _, whole, effect = heapq.heappop(self._due)
            self._active.append((identifier, iter(whole), effect))
        if not self._active:
            return None
        index = self.memory.rng.randrange(len(self._active)) if len(self._active) > 1 else 0
        _, beats, effect = self._active[index]
        beat, last = next(beats)
        if last:
            del self._active[index]
            if effect is not None:
                effect()
        return beat

    async def _run(self) -> None:
        edge = RisingEdge(self.clock)
        valid, ready = self.valid, self.ready
        step = self.memory.step
        shown = False
        while True:
            await edge
            if shown and not int(ready.value):
                continue
            beat = None if self.pause else self._next(now() + step)
            if beat is not None:
                for name, value in beat:
                    if self._shown.get(name) != value:
                        self._shown[name] = value
                        getattr(self.bus, name).value = value
            if shown != (beat is not None):
                shown = beat is not None
                valid.value = int(shown)
            if not shown and not self._due and not self._active:
                self.active_event.clear()
                await self.active_event.wait()


class _ReadResponder(_Responder, AxiRSource):
    pass


class _WriteResponder(_Responder, AxiBSource):
    pass


class _Collector:
    """Replaces a response channel of cocotbext-axi's subordinate, from which it receives each beat."""

    def __init__(self, original: Any, take: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        # The original must not drive the pins as well.
        original.assert_reset(True)
        self._transaction_obj = original._transaction_obj
        self.send = take

    def clear(self) -> None:
        pass


class _ReadPort(AxiSlaveRead):
    def __init__(self, bus: Any, clock: LogicObject, memory: "Memory") -> None:
        self._memory = memory
        super().__init__(bus, clock)
        self.ar_channel.queue_occupancy_limit = -1
        self._page: int | None = None
        self._resp = AxiResp.OKAY
        self._beats: list[Beat] = []
        self.r_channel: Any = _Collector(self.r_channel, self._take)
        self.responder = _ReadResponder(bus.r, clock, memory=memory)
        receive = self.ar_channel.recv

        async def receive_address() -> Any:
            ar = await receive()
            memory.issue("read", "ar", ar)
            return ar

        self.ar_channel.recv = receive_address

    async def _read(self, address: int, length: int) -> bytes:
        self._page = address & -PAGE_BYTES
        self._resp = self._memory.faults["read"].get(self._page, AxiResp.OKAY)
        # An error comes with data that must not get anywhere.
        return self._memory.store.read(address, length) if self._resp == AxiResp.OKAY else b"\xEE" * length

    async def _take(self, r: Any) -> None:
        self._beats.append(((("rid", r.rid), ("rdata", r.rdata), ("rresp", int(self._resp)),
                             ("rlast", int(r.rlast))), r.rlast))
        if r.rlast:
            assert self._page is not None
            self.responder.respond(self._memory.due("read"), r.rid, self._beats, self._page)
            self._beats = []


class _WritePort(AxiSlaveWrite):
    def __init__(self, bus: Any, clock: LogicObject, memory: "Memory") -> None:
        self._memory = memory
        super().__init__(bus, clock)
        self.aw_channel.queue_occupancy_limit = -1
        self.w_channel.queue_occupancy_limit = 4
        self._writes: list[tuple[int, bytes]] = []
        self._address: int | None = None
        self.b_channel: Any = _Collector(self.b_channel, self._take)
        self.responder = _WriteResponder(bus.b, clock, memory=memory)
        # The address of a burst is wanted even if none of its strobes is set.
        receive = self.aw_channel.recv

        async def receive_address() -> Any:
            aw = await receive()
            self._address = int(aw.awaddr)
            memory.issue("write", "aw", aw)
            return aw

        self.aw_channel.recv = receive_address

    async def _write(self, address: int, data: bytes) -> None:
        self._writes.append((address, data))

    async def _take(self, b: Any) -> None:
        assert self._address is not None
        page, writes, self._writes = self._address & -PAGE_BYTES, self._writes, []
        resp = self._memory.faults["write"].get(page, AxiResp.OKAY)
        beat = (("bid", b.bid), ("bresp", int(resp)))
        effect = None if resp != AxiResp.OKAY else lambda: self._memory.apply(writes)
        self.responder.respond(self._memory.due("write"), b.bid, [(beat, True)], page, effect)


class Memory:
    """64-bit memory on ``m_axi`` of ``dut``.

    Parameters
    ----------
    dut : handle
        Top with ports ``m_axi__*`` and ``clk``.
    period : int
        Clock period in simulation steps.
    latency : int or (int, int)
        Cycles from AR to the first R, and from the last W to B, at least 2.
    stalls : str
        One of :data:`STALLS`, on all five channels. Random stalls also respond out of order between IDs,
        interleave read bursts of different IDs, and vary the latency.
    seed : int
        Of the random stalls.

    Attributes
    ----------
    store : :class:`cocotbext.axi.sparse_memory.SparseMemory`
        The bytes, for the backdoor.
    written : callable or None
        Called with the list of ``(address, data)`` of a burst after they have become visible.
    issued : callable or None
        Called with "read" or "write", the ID, the address and ``(AxCACHE, AxPROT, AxQOS)`` of each burst.
    """

    def __init__(self, dut: Any, *, period: int, latency: int | tuple[int, int] = 8, stalls: str = "none",
                 seed: int = 0) -> None:
        self.store = SparseMemory(1 << 64)
        self.faults: dict[str, dict[int, AxiResp]] = {"read": {}, "write": {}}
        self.withheld: set[int] = set()
        self.begun: dict[int, int] = {}
        self.written: Callable[[Writes], None] | None = None
        self.issued: Callable[[str, int, int, tuple[int, ...]], None] | None = None
        self.step = period
        self.rng = random.Random(f"memory {seed}")
        read, write = (latency, latency) if isinstance(latency, int) else latency
        self._latency = {"read": max(read, 2), "write": max(write, 2)}
        self._jitter = stalls == "random"
        self.interleave = 3 if self._jitter else 1
        logging.getLogger(f"cocotb.{dut._name}.m_axi").setLevel(logging.ERROR)
        bus = AxiBus.from_prefix(dut, "m_axi", bus_separator="__")
        self.reads = _ReadPort(bus.read, dut.clk, self)
        self.writes = _WritePort(bus.write, dut.clk, self)
        self.stalls = Stalls(dut.clk, (self.reads.ar_channel, self.reads.responder, self.writes.aw_channel,
                                       self.writes.w_channel, self.writes.responder), stalls, self.rng)

    def due(self, kind: str) -> int:
        """Time of the response to a burst that was accepted now."""
        latency = self._latency[kind]
        if self._jitter:
            latency = self.rng.randrange(2, 2 * latency + 1) if self.rng.random() < 0.95 else 8 * latency
        return now() + latency * self.step

    def issue(self, kind: str, channel: str, transfer: Any) -> None:
        if self.issued is not None:
            identifier, address, *attributes = (int(getattr(transfer, channel + field))
                                                for field in ("id", "addr", "cache", "prot", "qos"))
            self.issued(kind, identifier, address, tuple(attributes))

    def apply(self, writes: Writes) -> None:
        for address, data in writes:
            self.store.write(address, data)
        if self.written is not None:
            self.written(writes)

    def fail_page(self, address: int, *, read: str | None = None, write: str | None = None) -> None:
        """Respond "SLVERR" or "DECERR" to reads or writes of the page that contains ``address``."""
        for kind, response in (("read", read), ("write", write)):
            if response is not None:
                self.faults[kind][address & -PAGE_BYTES] = AxiResp[response]

    def repair_page(self, address: int) -> None:
        """Respond OKAY again."""
        for faults in self.faults.values():
            faults.pop(address & -PAGE_BYTES, None)

    def withhold(self, address: int, *, begun: int = 0) -> None:
        """Send only ``begun`` beats of each burst to the page of ``address``, until it is released."""
        self.withheld.add(address & -PAGE_BYTES)
        self.begun[address & -PAGE_BYTES] = begun

    def release(self, address: int) -> None:
        self.withheld.discard(address & -PAGE_BYTES)
        self.begun.pop(address & -PAGE_BYTES, None)
        self.reads.responder.release()
        self.writes.responder.release()

    def idle(self) -> bool:
        """Whether no response is outstanding."""
        return not (self.reads.responder.outstanding() or self.writes.responder.outstanding())

    def read(self, address: int, length: int) -> bytes:
        """Bytes through the backdoor."""
        data: bytes = self.store.read(address, length)
        return data

    def write(self, address: int, data: bytes) -> None:
        self.store.write(address, data)
