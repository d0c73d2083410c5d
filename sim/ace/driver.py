"""Register-level driver of the collectives accelerator: what a kernel driver does, over any bus."""

from contextlib import nullcontext
from functools import lru_cache
from math import prod
from typing import NamedTuple, Protocol

from hw.ace.config import DIMENSIONS
from hw.ace.registers import COUNTERS, LINK_COUNTERS, register_map
from hw.ace.schedule import ORDER, assemble
from hw.ace.words import Collective, LinkState, Ordered, Status
from hw.dma_engine.config import PAGE_BYTES
from sim.registers import Bus, RegisterDriver

__all__ = ["AceBus", "AceDriver", "FsmState", "LinkStatus", "QueueState", "Share", "root_code"]


class AceBus(Bus, Protocol):
    """Registers, and stores of whole 16-byte words to the doorbell port."""

    async def store(self, address: int, data: bytes) -> None: ...


class Share(NamedTuple):
    """What a communicator has for itself: the first FSM and slot, and how many, which are powers of two."""

    first_fsm: int
    fsms: int
    first_slot: int
    slots: int


class QueueState(NamedTuple):
    """QUEUE_STATE and QUEUE_COUNT of a queue."""

    status: Status
    waiting: int
    active: int
    count: int


class FsmState(NamedTuple):
    """FSM_STATE and FSM_STEPS of an FSM."""

    busy: int
    wants: int
    granted: int
    ready: int
    phase: int
    port: int
    communicator: int
    sequence: int
    sent: int
    received: int

    def __str__(self):
        where = f"chunk {self.sequence} of communicator {self.communicator}, phase {self.phase}"
        done = f"{self.sent} sends and {self.received} receives done"
        if not self.wants:
            waits = "waits to receive"
        elif not self.granted:
            waits = f"waits for a GRANT to send at port {self.port}"
        elif not self.ready:
            waits = f"waits for what it is to send at port {self.port}"
        else:
            waits = f"waits for port {self.port}"
        return f"{where}, {waits}; {done}"


class LinkStatus(NamedTuple):
    """LINK_STATE of a port, and what it has counted since reset, up to 65,535."""

    state: LinkState
    unacknowledged: int
    credits: int
    replays: int
    crc_errors: int
    sequence_errors: int
    duplicates: int
    timeouts: int


def root_code(shape, root):
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
    """

    def __init__(self, bus, config, *, lock=nullcontext):
        super().__init__(bus, register_map(config), lock=lock)
        self.config = config
        self._program_words = 0

    async def check_identity(self):
        """Raise RuntimeError unless this is an accelerator that the driver knows, of the expected sizes."""
        await self._check_identity("SIZES")

    async def define_region(self, number, *, base, length, domain=0, readable=True, writable=True, valid=True):
        """Write an entry of the region table."""
        if base % PAGE_BYTES:
            raise ValueError(f"Base of a region must be a multiple of {PAGE_BYTES}, not {base:#x}")
        async with self._lock():
            await self._write_pair("REGION_BASE", base)
            await self._write_pair("REGION_LENGTH", length)
            await self.write("REGION_ACCESS", domain=domain, readable=int(readable), writable=int(writable),
                             valid=int(valid))
            await self.write("REGION_COMMIT", region=number)

    async def define_communicator(self, number, *, shape, coordinates, share, dimensions=None, domain=0, both=True,
                                  collectives=ORDER):
        """Write an entry of the communicator table with its programs, behind those that are there already.

        Parameters
        ----------
        shape, coordinates : tuple of int
            Of the communicator, and this rank's place in it.
        share : :class:`Share`
            FSMs and slots; no other communicator may have any of them.
        dimensions : tuple of int
            Which dimension of the torus each of the communicator's is; by default they are the same.
        both : bool
            Send half of all columns each way.
        collectives : sequence of Collective and Ordered
            Which are wanted; the first ones have room first.

        Returns
        -------
        dict
            Collective or Ordered -> why there is no program for it, as a sentence.
        """
        dimensions = tuple(range(len(shape)) if dimensions is None else dimensions)
        made = _assembled(self.config, tuple(shape), dimensions, tuple(coordinates), both, self._program_words,
                          tuple(collectives))
        ones = (1,) * (DIMENSIONS - len(shape))
        sizes, places = (*shape, *ones), (*coordinates, *(0 for _ in ones))
        async with self._lock():
            for address, word in enumerate(made.words, made.base):
                await self._write_pair("PROGRAM_WORD", word)
                await self.write("PROGRAM_COMMIT", address=address)
            for collective in (*Collective, *Ordered):
                entry = made.directory.get(collective)
                fields = {} if entry is None else {"plus": entry.plus, "minus": entry.minus, "both": int(entry.both),
                                                   "valid": 1}
                await self.write("DIRECTORY_ENTRY", **fields)
                await self.write("DIRECTORY_COMMIT", collective=collective, communicator=number)
            await self.write("COMMUNICATOR_SHAPE", **{f"size_{d}": size - 1 for d, size in enumerate(sizes)})
            await self.write("COMMUNICATOR_PLACE", **{f"rank_{d}": place for d, place in enumerate(places)})
            await self.write("COMMUNICATOR_SHARE", fsm_first=share.first_fsm, fsm_bits=(share.fsms - 1).bit_length(),
                             slot_first=share.first_slot, slot_bits=(share.slots - 1).bit_length(), domain=domain,
                             valid=1)
            await self.write("COMMUNICATOR_ROOT", ranks=prod(sizes),
                             **{f"width_{d}": (size - 1).bit_length() for d, size in enumerate(sizes)})
            await self.write("COMMUNICATOR_COMMIT", communicator=number)
        self._program_words += len(made.words)
        return made.left_out

    async def define_extents(self, first, rows):
        """Write rows of the extents table, from ``first`` on: ``((count, displacement), (count, displacement))`` of a
        rank's part of the send buffer and of the receive buffer."""
        async with self._lock():
            for number, parts in enumerate(rows, first):
                for side, (count, displacement) in zip(("SEND", "RECEIVE"), parts, strict=True):
                    await self.write(f"EXTENT_{side}_COUNT", count=count)
                    await self.write(f"EXTENT_{side}_PLACE", displacement=displacement)
                await self.write("EXTENT_COMMIT", row=number)

    async def configure_queue(self, queue, *, domain=0, sc=None, enabled=True):
        """Give a queue its domain and the address of its completion word (None for no such word)."""
        async with self._lock():
            await self._write_pair("QUEUE_SC", sc or 0)
            await self.write("QUEUE_CONFIG", domain=domain, sc_enable=int(sc is not None), enabled=int(enabled))
            await self.write("QUEUE_COMMIT", queue=queue)

    async def post(self, queue, command, **options):
        """Store a :class:`CommandWord` to a queue; options are for the bus."""
        await self.bus.store(queue * PAGE_BYTES, command.to_bytes(), **options)

    async def clear(self, queue):
        """Let a queue whose command failed go on."""
        await self.write("QUEUE_CLEAR", queue=queue)

    async def queue_state(self, queue):
        """:class:`QueueState` of a queue. Its registers are read one after the other, COUNT last."""
        async with self._lock():
            await self.write("QUEUE_SELECT", queue=queue)
            state = await self.read("QUEUE_STATE")
            count = (await self.read("QUEUE_COUNT"))["count"]
        return QueueState(Status(state["status"]), state["waiting"], state["active"], count)

    async def fsm_state(self, fsm):
        """:class:`FsmState` of an FSM; of one at work, the two registers may be some cycles apart."""
        async with self._lock():
            await self.write("FSM_SELECT", fsm=fsm)
            return FsmState(**await self.read("FSM_STATE"), **await self.read("FSM_STEPS"))

    async def set_link_patience(self, *, timeout, tries):
        """Cycles after which packets that were not acknowledged are sent again, and how often in a row at most."""
        await self.write("LINK_PATIENCE", timeout=timeout, tries=tries)

    async def start_links(self, ports):
        """Bring the links at these ports up, when their other ends are started, too."""
        await self.write("LINK_START", ports=sum(1 << port for port in ports))

    async def stop_links(self, ports):
        """Take the links at these ports down."""
        await self.write("LINK_STOP", ports=sum(1 << port for port in ports))

    async def link_state(self, port):
        """:class:`LinkStatus` of a port. Its registers are read one after the other."""
        async with self._lock():
            await self.write("LINK_SELECT", port=port)
            state = await self.read("LINK_STATE")
            counts = {name: (await self.read(f"LINK_{name.upper()}"))["count"] for name, _ in LINK_COUNTERS}
        return LinkStatus(LinkState(state["state"]), state["unacknowledged"], state["credits"], **counts)

    async def counters(self):
        """All counters, name -> value."""
        found = {}
        for name, _ in COUNTERS:
            low, high = [(await self.read(f"COUNT_{name}_{half}"))["value"] for half in ("LO", "HI")]
            found[name.lower()] = high << 32 | low
        return found


@lru_cache(maxsize=4096)
def _assembled(config, shape, dimensions, coordinates, both, base, collectives):
    return assemble(config, shape, dimensions, coordinates, both=both, base=base, collectives=collectives)
