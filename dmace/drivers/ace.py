# SPDX-License-Identifier: Apache-2.0
"""Register-level driver of the collectives accelerator: what a kernel driver does, over any bus."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, Protocol

from dmace.drivers.ace_states import CommunicatorStatus, Fault, FsmState, LinkStatus, Pending, QueueState, SlotState
from dmace.drivers.registers import Bus, Lock, RegisterDriver
from hw.ace.collectives import Numbered
from hw.ace.config import DIMENSIONS, MOST_FSMS, MOST_SLOTS, ONE_SHOT_BYTES, AceConfig
from hw.ace.programs.schedule import ORDER, Assembly, assemble
from hw.ace.registers import COUNTERS, LINK_COUNTERS, register_map
from hw.ace.sizing import needs
from hw.ace.words import (
    Collective,
    CommandWord,
    CommunicatorState,
    LinkCause,
    LinkState,
    OneShot,
    Ordered,
    Stage,
    Status,
    Waits,
)
from hw.common.sizes import PAGE_BYTES

__all__ = ["WATCHDOG", "AceBus", "AceDriver", "Share", "root_code", "share_for"]

EPOCHS = 16

WATCHDOG = 1 << 30
"""Cycles without progress after which communicators end, by default: some seconds, longer than ranks are apart in a
step of training."""


class AceBus(Bus, Protocol):
    """Registers, and stores of whole 16-byte words to the doorbell port."""

    @property
    def store(self) -> Callable[..., Awaitable[None]]:
        """Store bytes at an address; options of :meth:`AceDriver.post` are passed on to it."""


class Share(NamedTuple):
    """FSMs and slots reserved for a communicator: the first of each, and their counts, which are powers of two."""

    first_fsm: int
    fsms: int
    first_slot: int
    slots: int


def share_for(config: AceConfig, shape: Sequence[int], *, link_rate: float, link_latency: int, memory_latency: int,
              first_fsm: int = 0, fsms: int = MOST_FSMS, first_slot: int = 0, slots: int = MOST_SLOTS) -> Share:
    """The FSMs and slots that a communicator needs by the rule of :mod:`hw.ace.sizing`, and no more than are free.

    Parameters
    ----------
    config : AceConfig
    shape : sequence of int
        The communicator's.
    link_rate : float
        Beats per cycle in each direction of a link, headers included.
    link_latency, memory_latency : int
        Cycles.
    first_fsm, first_slot : int
        The first that are free.
    fsms, slots : int
        How many are free at most.
    """
    need = needs(config, shape, link_rate=link_rate, link_latency=link_latency, memory_latency=memory_latency,
                 chunk_bytes=config.chunk_bytes)

    def part(wanted: int, free: int) -> int:
        return min(wanted, 1 << max(free, 1).bit_length() - 1)

    own = part(need.fsms, min(fsms, config.fsms - first_fsm))
    return Share(first_fsm, own, first_slot, max(own, part(need.slots, min(slots, config.slots - first_slot))))


def root_code(shape: Sequence[int], root: Sequence[int]) -> int:
    """The field ``root`` of a command, from the root's coordinates."""
    code = 0
    for size, coordinate in zip(shape, root, strict=True):
        code = code << (size - 1).bit_length() | coordinate
    return code


class AceDriver(RegisterDriver):
    """Drives one accelerator.

    Parameters
    ----------
    bus : :class:`AceBus`
        Access to registers and doorbells.
    config : :class:`AceConfig`
        The accelerator's sizes.
    lock : callable returning an async context manager, optional
        Held around sequences of accesses that belong together, where several tasks use the driver.
    watchdog : int
        Cycles that the first :meth:`define_communicator` sets the watchdog to; 0 for none.
    """

    def __init__(self, bus: AceBus, config: AceConfig, *, lock: Lock = nullcontext,
                 watchdog: int | None = WATCHDOG) -> None:
        super().__init__(bus, register_map(config), lock=lock)
        self.bus: AceBus = bus
        self.config = config
        self._watchdog = watchdog
        self._program_words = 0
        self._entries: dict[int, dict[str, dict[str, int]]] = {}

    async def check_identity(self) -> None:
        """Raise RuntimeError unless this is an accelerator that the driver knows, of the expected sizes."""
        await self._check_identity("SIZES", "FEATURES")

    async def define_region(self, number: int, *, base: int, length: int, domain: int = 0, readable: bool = True,
                            writable: bool = True, valid: bool = True) -> None:
        """Write an entry of the region table."""
        if base % PAGE_BYTES:
            raise ValueError(f"Base of a region must be a multiple of {PAGE_BYTES}, not {base:#x}")
        self._check_address("A region", base + length)
        async with self._lock():
            await self._write_pair("REGION_BASE", base)
            await self._write_pair("REGION_LENGTH", length)
            await self.write("REGION_ACCESS", domain=domain, readable=int(readable), writable=int(writable),
                             valid=int(valid))
            await self.write("REGION_COMMIT", region=number)

    def _check_address(self, what: str, end: int) -> None:
        if end > 1 << self.config.address_width:
            raise ValueError(f"{what} must be within the accelerator's {self.config.address_width} bits of address, "
                             f"not end at {end:#x}")

    async def define_communicator(self, number: int, *, shape: Sequence[int], coordinates: Sequence[int], share: Share,
                                  dimensions: Sequence[int] | None = None, domain: int = 0, both: bool = True,
                                  collectives: Sequence[Numbered] = ORDER,
                                  priority: int = 0, one_shot: int = ONE_SHOT_BYTES) -> dict[Numbered, str]:
        """Write an entry of the communicator table with its programs, behind the programs already stored.

        Parameters
        ----------
        shape, coordinates : tuple of int
            The communicator's shape, and this rank's coordinates in it.
        share : :class:`Share`
            FSMs and slots; no other communicator may have any of them.
        dimensions : tuple of int
            The torus dimension of each of the communicator's dimensions; by default they are the same.
        both : bool
            Send half of all columns in each direction.
        collectives : sequence of Collective, Ordered and OneShot
            Collectives to store programs for, in order of preference.
        priority : int
            0 to 3: higher ones go first at memory and ports; the same on all ranks.
        one_shot : int
            Bytes of the longest one-shot all-reduce; 0 for none; the same on all ranks.

        Returns
        -------
        dict
            Collective, Ordered or OneShot -> why there is no program for it, as a sentence.
        """
        dimensions = tuple(range(len(shape)) if dimensions is None else dimensions)
        for dimension in dimensions:
            if dimension >= self.config.dimensions:
                raise ValueError(f"The accelerator has ports for {self.config.dimensions} of a torus's dimensions: "
                                 f"there is none numbered {dimension}")
        made = _assembled(self.config, tuple(shape), dimensions, tuple(coordinates), both, self._program_words,
                          tuple(collectives))
        if self._watchdog is not None:
            await self.set_watchdog(self._watchdog)
        ones = (1,) * (DIMENSIONS - len(shape))
        sizes, places = (*shape, *ones), (*coordinates, *(0 for _ in ones))
        async with self._lock():
            for address, word in enumerate(made.words, made.base):
                await self._write_pair("PROGRAM_WORD", word)
                await self.write("PROGRAM_COMMIT", address=address)
            for collective in (*Collective, *Ordered, *OneShot):
                entry = made.directory.get(collective)
                fields = {} if entry is None else {"plus": entry.plus, "minus": entry.minus, "both": int(entry.both),
                                                   "valid": 1}
                await self.write("DIRECTORY_ENTRY", **fields)
                await self.write("DIRECTORY_COMMIT", collective=collective, communicator=number)
        rank, used = 0, 0
        for size, place, dimension in zip(shape, coordinates, dimensions, strict=True):
            rank, used = rank * size + place, used | (0b11 << 2 * dimension if size > 1 else 0)
        self._entries[number] = {
            "COMMUNICATOR_SHAPE": {f"size_{d}": size - 1 for d, size in enumerate(sizes)},
            "COMMUNICATOR_PLACE": {f"rank_{d}": place for d, place in enumerate(places)},
            "COMMUNICATOR_SHARE": {
                "fsm_first": share.first_fsm, "fsm_bits": (share.fsms - 1).bit_length(),
                "slot_first": share.first_slot, "slot_bits": (share.slots - 1).bit_length(), "domain": domain,
                "valid": 1},
            "COMMUNICATOR_ROOT": {"ranks": prod(sizes),
                                  **{f"width_{d}": (size - 1).bit_length() for d, size in enumerate(sizes)}},
            "COMMUNICATOR_ONE_SHOT": {"bytes": one_shot},
            "COMMUNICATOR_MODE": {"epoch": 0, "priority": priority, "ports": used, "rank": rank},
        }
        await self._commit(number)
        self._program_words += len(made.words)
        return made.left_out

    async def _commit(self, number: int) -> None:
        async with self._lock():
            for register, fields in self._entries[number].items():
                await self.write(register, **fields)
            await self.write("COMMUNICATOR_COMMIT", communicator=number)

    async def set_watchdog(self, cycles: int) -> None:
        """End communicators that have work but make no progress for this number of cycles; 0 for never."""
        await self.write("WATCHDOG", cycles=cycles)
        self._watchdog = None

    async def revoke(self, number: int) -> None:
        """End a communicator's collectives in progress on all its ranks; no effect if it is not open."""
        await self.write("COMMUNICATOR_REVOKE", communicator=number)

    async def reopen(self, number: int) -> None:
        """Open a communicator that was REVOKED on all ranks, with the next epoch. All ranks must open it before any of
        them posts. Raises RuntimeError while one of its collectives is still in progress."""
        state = (await self.communicator_state(number)).state
        if state != CommunicatorState.REVOKED:
            raise RuntimeError(f"Communicator {number} must be REVOKED to be opened again, but is {state.name}")
        mode = self._entries[number]["COMMUNICATOR_MODE"]
        mode["epoch"] = (mode["epoch"] + 1) % EPOCHS
        await self._commit(number)

    async def communicator_state(self, number: int) -> CommunicatorStatus:
        """:class:`CommunicatorStatus` of a communicator."""
        async with self._lock():
            await self.write("COMMUNICATOR_SELECT", communicator=number)
            found: dict[str, Any] = await self.read("COMMUNICATOR_STATE")
        return CommunicatorStatus(**{**found, "state": CommunicatorState(found["state"])})

    async def fault(self, number: int) -> Fault | None:
        """:class:`Fault` that ended a communicator, or None if it is open."""
        async with self._lock():
            await self.write("COMMUNICATOR_SELECT", communicator=number)
            if (await self.read("COMMUNICATOR_STATE"))["state"] <= CommunicatorState.OPEN:
                return None
            found: dict[str, Any] = {**await self.read("FAULT"), **await self.read("FAULT_CHUNK")}
        return Fault(number, **{**found, "status": Status(found["status"])})

    async def define_extents(self, first: int, rows: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Write rows of the extents table, from ``first`` on: ``((count, displacement), (count, displacement))`` of a
        rank's part of the send buffer and of the receive buffer."""
        async with self._lock():
            for number, parts in enumerate(rows, first):
                for side, (count, displacement) in zip(("SEND", "RECEIVE"), parts, strict=True):
                    await self.write(f"EXTENT_{side}_COUNT", count=count)
                    await self.write(f"EXTENT_{side}_PLACE", displacement=displacement)
                await self.write("EXTENT_COMMIT", row=number)

    async def configure_queue(self, queue: int, *, domain: int = 0, sc: int | None = None,
                              enabled: bool = True) -> None:
        """Give a queue its domain and the address of its completion word (None for no such word)."""
        self._check_address("A completion word", (sc or 0) + 8)
        async with self._lock():
            await self._write_pair("QUEUE_SC", sc or 0)
            await self.write("QUEUE_CONFIG", domain=domain, sc_enable=int(sc is not None), enabled=int(enabled))
            await self.write("QUEUE_COMMIT", queue=queue)

    async def post(self, queue: int, command: CommandWord, **options: Any) -> None:
        """Store a :class:`CommandWord` to a queue; options are for the bus."""
        await self.bus.store(queue * PAGE_BYTES, command.to_bytes(), **options)

    async def clear(self, queue: int) -> None:
        """Let a queue resume after a failed command."""
        await self.write("QUEUE_CLEAR", queue=queue)

    async def queue_state(self, queue: int) -> QueueState:
        """:class:`QueueState` of a queue. Its registers are read one after the other, COUNT last."""
        async with self._lock():
            await self.write("QUEUE_SELECT", queue=queue)
            state = await self.read("QUEUE_STATE")
            count = (await self.read("QUEUE_COUNT"))["count"]
        return QueueState(Status(state["status"]), state["waiting"], state["active"], count)

    async def fsm_state(self, fsm: int) -> FsmState:
        """:class:`FsmState` of an FSM; of one at work, the two registers may be some cycles apart."""
        async with self._lock():
            await self.write("FSM_SELECT", fsm=fsm)
            found: dict[str, Any] = {**await self.read("FSM_STATE"), **await self.read("FSM_STEPS")}
        return FsmState(**{**found, "waits": Waits(found["waits"])})

    async def slot_state(self, slot: int) -> SlotState:
        """:class:`SlotState` of a slot."""
        async with self._lock():
            await self.write("SLOT_SELECT", slot=slot)
            found: dict[str, Any] = await self.read("SLOT_STATE")
        return SlotState(**{**found, "stage": Stage(found["stage"])})

    async def pending(self) -> Pending:
        """:class:`Pending`: all work in progress, and what it waits for; registers are read one after the other."""
        fsms = {number: await self.fsm_state(number) for number in range(self.config.fsms)}
        slots = {number: await self.slot_state(number) for number in range(self.config.slots)}
        queues = {number: await self.queue_state(number) for number in range(self.config.queues)}
        communicators = {number: await self.communicator_state(number) for number in range(self.config.communicators)}
        faults = [await self.fault(number) for number in communicators]
        links = {port: await self.link_state(port) for port in range(self.config.ports)}
        return Pending(
            {number: state for number, state in queues.items() if state.status or state.waiting or state.active},
            {number: state for number, state in communicators.items() if state.state != CommunicatorState.CLOSED},
            {number: state for number, state in slots.items() if state.stage != Stage.FREE},
            {number: state for number, state in fsms.items() if state.busy},
            [fault for fault in faults if fault is not None],
            {port: state for port, state in links.items() if state.state == LinkState.DOWN or state.unacknowledged})

    async def set_link_patience(self, *, timeout: int, tries: int) -> None:
        """Cycles after which packets that were not acknowledged are sent again, and how often in a row at most."""
        await self.write("LINK_PATIENCE", timeout=timeout, tries=tries)

    async def start_links(self, ports: Iterable[int]) -> None:
        """Bring the links at these ports up, when their other ends are started, too."""
        await self.write("LINK_START", ports=sum(1 << port for port in ports))

    async def stop_links(self, ports: Iterable[int]) -> None:
        """Take the links at these ports down."""
        await self.write("LINK_STOP", ports=sum(1 << port for port in ports))

    async def link_state(self, port: int) -> LinkStatus:
        """:class:`LinkStatus` of a port. Its registers are read one after the other."""
        async with self._lock():
            await self.write("LINK_SELECT", port=port)
            state = await self.read("LINK_STATE")
            counts = {name: (await self.read(f"LINK_{name.upper()}"))["count"] for name, _ in LINK_COUNTERS}
        return LinkStatus(LinkState(state["state"]), LinkCause(state["cause"]), state["unacknowledged"],
                          state["credits"], **counts)

    async def counters(self) -> dict[str, int]:
        """All counters, name -> value."""
        found = {}
        for name, _ in COUNTERS:
            low, high = [(await self.read(f"COUNT_{name}_{half}"))["value"] for half in ("LO", "HI")]
            found[name.lower()] = high << 32 | low
        return found


@lru_cache(maxsize=4096)
def _assembled(config: AceConfig, shape: tuple[int, ...], dimensions: tuple[int, ...], coordinates: tuple[int, ...],
               both: bool, base: int, collectives: tuple[Numbered, ...]) -> Assembly:
    made: Assembly = assemble(config, shape, dimensions, coordinates, both=both, base=base, collectives=collectives)
    return made
