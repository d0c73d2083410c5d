# SPDX-License-Identifier: Apache-2.0
"""Runs of a cluster for the accelerator's mutants: registers, commands that are refused, work in progress, counters.

Each takes the library of a cluster, and raises an exception if something is wrong. They run on the netlist that holds
all mutants, which tests of blocks do not.
"""

import random
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from dmace.drivers.ace import AceBus, AceDriver
from dmace.drivers.registers import wait
from hw.ace.collectives import Collective
from hw.ace.config import TINY
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.operations import ROWS
from hw.ace.words import CommandFlag, CommandWord, CommunicatorState, LinkState, Stage, Status, Waits
from hw.errors import UserError
from hw.regs import Access
from sim.ace.cluster import Cluster, CollectiveFailed
from sim.ace.endpoints import Endpoints
from sim.ace.shared_library import Library

__all__ = ["ELEMENTS", "SETTLE", "do", "expect", "refusals", "registers", "work"]

C = Collective
ACCESS = 40
"""Cycles in which an access to a register certainly ends."""
SETTLE = 600
"""Cycles in which a link comes up."""


class Wrong(UserError):
    """A result that is not the expected one."""


def expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Wrong(f"{what} is {found}, not {wanted}.")


def do(endpoints: Endpoints, coroutine: Coroutine[Any, Any, Any]) -> Any:
    result, = endpoints.do(coroutine)
    return result


# Registers


class _Bus:
    """A bus whose writes may be refused."""

    def __init__(self, endpoints: Endpoints, library: Library, rank: int) -> None:
        self._endpoints, self._bus = endpoints, endpoints.bus(rank)
        self._library, self._at = library, (endpoints._handle, rank)

    async def write(self, offset: int, value: int) -> None:
        await self._bus.write(offset, value)
        self._endpoints.run(ACCESS)

    async def read(self, offset: int) -> int:
        self._library.read_register(*self._at, offset)
        self._endpoints.run(ACCESS)
        value: int = self._library.take_value(*self._at)
        return value

    async def store(self, address: int, data: bytes) -> None:
        raise NotImplementedError


def registers(library: Library) -> None:
    """Values after reset, values that are read as they were written, refused writes and their interrupt."""
    rng = random.Random(1)
    with Endpoints(TINY, (2,), library=library) as endpoints:
        endpoints.run(3 * SETTLE)
        bus: AceBus = _Bus(endpoints, library, 1)
        driver = AceDriver(bus, TINY)
        up = {"LINK_STATE": {"state": LinkState.UP, "cause": 0, "unacknowledged": 0, "credits": TINY.link_beats}}
        plain = []
        for register in driver.map.registers:
            if not register.has(Access.PULSE) and register.name != "FSM_STATE":     # whose `ready` has no meaning yet
                expect(register.name, wait(driver.read(register.name)),
                       up.get(register.name, register.unpack(register.reset)))
            if all(field.access == Access.RW for field in register.fields):
                plain.append(register)
        for _ in range(2):
            values = {register.name: {field.name: int(rng.choice(field.legal or range(1 << field.width)))
                                      for field in register.fields} for register in plain}
            for name, fields in values.items():
                wait(driver.write(name, **fields))
            for name, fields in values.items():
                expect(name, wait(driver.read(name)), fields)
        _refused_writes(endpoints, driver)


def _refused_writes(endpoints: Endpoints, driver: AceDriver) -> None:
    """They change nothing, the first one is recorded, and they interrupt while that is enabled."""
    for number, register in enumerate(driver.map.registers):
        field = next((one for one in register.fields if one.legal and one.legal.stop < 1 << one.width), None)
        if field is None:
            continue
        enabled = number % 2
        wait(driver.enable_interrupts(register=bool(enabled), completion=True, error=True))
        before, word = wait(driver.read(register.name)), (field.legal.stop if field.legal else 0) << field.lsb
        wait(driver.bus.write(register.offset, word))
        wait(driver.bus.write(register.offset, word | 1 << field.msb))
        expect("irq", endpoints.interrupted(1) is not None, bool(enabled))
        expect("IRQ_STATUS", wait(driver.interrupts()), {"error": 0, "completion": 0, "register": 1})
        expect("the refused write", wait(driver.refused_write()),
               f"The write of {word:#x} to {register.name} was refused: {register.illegal(word)}")
        expect("the refused write", wait(driver.refused_write()), None)
        expect(register.name, wait(driver.read(register.name)), before)
        wait(driver.acknowledge(register=True))
        expect("irq", endpoints.interrupted(1), None)


# Commands that are refused


def _command(collective: int = C.ALL_REDUCE, flags: int = CommandFlag.SC, **fields: int) -> CommandWord:
    return CommandWord(collective, flags, **{
        "communicator": 0, "dtype": DType.FP32, "op": Reduction.SUM, "widen": 0, "root": 0, "src_region": 2,
        "src_offset": 0, "dst_region": 3, "dst_offset": 0, "count": 100, **fields})


LENGTH = 0x3004
"""Bytes of the regions of refused commands."""

_ELEMENTS = LENGTH // 4

REFUSED: Sequence[tuple[dict[str, int], Status]] = (
    ({"collective": 0}, Status.MALFORMED), ({"collective": 9}, Status.MALFORMED), ({"dtype": 3}, Status.MALFORMED),
    ({"op": 6}, Status.MALFORMED), ({"widen": 1}, Status.MALFORMED), ({"flags": 0x21 & 0xF | 8}, Status.MALFORMED),
    ({"collective": C.ALL_GATHER, "flags": 5}, Status.MALFORMED),
    ({"collective": C.ALL_TO_ALL, "flags": 9, "root": 4, "count": 10}, Status.MALFORMED),
    ({"communicator": 1}, Status.COMMUNICATOR), ({"communicator": 4}, Status.COMMUNICATOR),
    ({"communicator": 8}, Status.COMMUNICATOR),
    ({"src_region": 9}, Status.SRC_REGION), ({"src_region": TINY.regions + 2}, Status.SRC_REGION),
    ({"src_region": 130}, Status.SRC_REGION), ({"dst_region": 9}, Status.DST_REGION),
    ({"dst_region": TINY.regions + 3}, Status.DST_REGION),
    ({"src_region": 4}, Status.SRC_DOMAIN), ({"dst_region": 4}, Status.DST_DOMAIN),
    ({"src_region": 3}, Status.SRC_RIGHTS), ({"dst_region": 2}, Status.DST_RIGHTS),
    ({"src_offset": _ELEMENTS - 99}, Status.SRC_BOUNDS), ({"dst_offset": _ELEMENTS - 99}, Status.DST_BOUNDS),
    ({"src_offset": (1 << 28) - 1}, Status.SRC_BOUNDS), ({"dst_offset": (1 << 28) - 1}, Status.DST_BOUNDS),
    ({"collective": C.ALL_GATHER, "count": _ELEMENTS // 2 + 1}, Status.DST_BOUNDS),
    ({"collective": C.REDUCE_SCATTER, "count": _ELEMENTS // 2 + 1}, Status.SRC_BOUNDS),
)


def refusals(library: Library) -> None:
    """A refused command holds its queue with the right status and word until it is cleared, as does one beyond the
    queue's depth, of a disabled queue, or of half a word; the next command is judged on its own."""
    with Cluster(TINY, (2,), library=library) as cluster:
        driver, queue = cluster.drivers[0], 1
        for one in cluster.drivers:
            cluster.do(one.define_region(2, base=3 << 32, length=LENGTH, writable=False))
            cluster.do(one.define_region(3, base=4 << 32, length=LENGTH, readable=False))
            cluster.do(one.define_region(4, base=5 << 32, length=LENGTH, domain=1))
        for rank in range(2):
            for base in (3, 4):
                cluster.write_memory(rank, base << 32, bytes(LENGTH))
        do(cluster, driver.enable_interrupts(error=True))
        done = 0
        for change, status in REFUSED:
            do(cluster, driver.post(queue, _command(**change)))
            done = _held(cluster, status, done, f"after {change}")
        do(cluster, driver.bus.store(queue << 12, _command().to_bytes()[:8]))
        done = _held(cluster, Status.MALFORMED, done, "after half a command")
        do(cluster, driver.configure_queue(queue, sc=cluster.completion_address(queue), enabled=False))
        do(cluster, driver.post(queue, _command()))
        _held(cluster, Status.DISABLED, done, "of a disabled queue", counted=0, failed=1)
        do(cluster, driver.configure_queue(queue, domain=1, sc=cluster.completion_address(queue)))
        do(cluster, driver.post(queue, _command()))
        done = _held(cluster, Status.COMMUNICATOR, done, "of a queue of another domain", failed=1)
        do(cluster, driver.configure_queue(queue, sc=cluster.completion_address(queue)))
        for _ in range(32):
            do(cluster, driver.post(queue, _command(C.BARRIER)))
        cluster.run(500)
        begun = _state(cluster, queue)[1:3]
        # The error is reported after them.
        expect("status of a queue that refuses a command", _state(cluster, queue)[::3], (Status.OK, done))
        expect("its other commands", (begun[0] >= TINY.queue_depth - 1, begun[1]), (True, ROWS))
        for _ in range(sum(begun)):
            do(cluster, cluster.drivers[1].post(queue, _command(C.BARRIER)))
        cluster.run(4000)
        expect("queue whose other commands are done", _state(cluster, queue),
               (Status.OVERFLOW, 0, 0, done + sum(begun)))


def _held(cluster: Cluster, status: Status, done: int, what: str, *, counted: int = 1, failed: int = 0) -> int:
    """Check queue 1 of rank 0, which has completed ``done`` commands, and clear it; returns the new number.

    ``counted`` is 1 if the failed command counts, ``failed`` the number of earlier ones that did not.
    """
    driver, queue = cluster.drivers[0], 1
    cluster.run(300)
    expect(f"the queue {what}", _state(cluster, queue), (status, 0, counted, done))
    word = cluster.completion(0, queue)
    expect(f"the word {what}", (word.count, word.failed, word.status),
           (done, done + failed + (not failed or counted), status))
    expect(f"irq {what}", cluster.interrupted(0) is not None, True)
    do(cluster, driver.clear(queue))
    do(cluster, driver.acknowledge(error=True))
    cluster.run(100)
    expect(f"the queue cleared {what}", _state(cluster, queue), (Status.OK, 0, 0, done + counted))
    expect("irq", cluster.interrupted(0), None)
    return done + counted


def _state(cluster: Cluster, queue: int) -> tuple[int, int, int, int]:
    state = do(cluster, cluster.drivers[0].queue_state(queue))
    return state.status, state.waiting, state.active, state.count


# Work in progress

ELEMENTS, FEW = 12_000, 768


def work(library: Library) -> None:
    """Registers while collectives wait for a rank, counters, and interrupts of completions."""
    with Cluster(TINY, (3,), library=library, one_shot=0) as cluster:
        pending = cluster.submit(C.ALL_REDUCE, [np.ones(ELEMENTS, np.int32)] * 3, delay=[0, 8000, 0],
                                 flags=CommandFlag.SC | CommandFlag.IRQ)
        later = cluster.submit(C.BARRIER, delay=[40, 8000, 40])
        for driver in cluster.drivers:
            do(cluster, driver.enable_interrupts(completion=True))
        cluster.run(7000)
        found = do(cluster, cluster.drivers[0].pending())
        expect("queues", found.queues, {0: (Status.OK, 0, 2, 0)})
        expect("communicators", {number: tuple(state)[:4] for number, state in found.communicators.items()},
               {0: (CommunicatorState.OPEN, 1, 0, 0)})
        expect("stages", {state.stage for state in found.slots.values()}, {Stage.FILLED, Stage.LINKS})
        expect("chunks of slots", sorted(state.sequence for state in found.slots.values()), list(range(TINY.slots)))
        expect("FSMs", {(fsm, state.wants, state.granted, state.ready, state.phase, state.port, state.waits,
                         state.communicator, state.sequence, state.sent, state.received)
                        for fsm, state in found.fsms.items()},
               {(fsm, 1, 1, 0, 0, 1, Waits.DATA, 0, fsm, 1, 0) if fsm % 2 else
               (fsm, 1, 0, 1, 0, 0, Waits.GRANT, 0, fsm, 0, 1) for fsm in range(TINY.fsms)})
        cluster.wait(pending, later, limit=100_000)
        for rank in range(3):
            expect("irq", cluster.interrupted(rank) is not None, True)
            do(cluster, cluster.drivers[rank].acknowledge(completion=True))
        cluster.run(100)
        expect("irq", [cluster.interrupted(rank) for rank in range(3)], [None] * 3)
        _counters(cluster, ELEMENTS)
        cluster.fail_write(1)
        try:
            cluster.collective(C.BARRIER, limit=20_000)
        except CollectiveFailed as error:
            expect("statuses", error.statuses, [Status.OK, Status.COMPLETION_ERROR, Status.OK])
        else:
            raise Wrong("A completion word that cannot be written is not reported.")
    for shape in ((1, 3), (1, 1, 3)):
        with Cluster(TINY, shape, library=library, one_shot=0) as cluster:
            cluster.collective(C.ALL_REDUCE, [np.ones(FEW, np.int32)] * 3, limit=20_000)
            _counters(cluster, FEW)


def _counters(cluster: Cluster, elements: int) -> None:
    """Counters after an all-reduce among three ranks, against those of the memories and links."""
    statistics = cluster.statistics()
    states = cluster.do(*(driver.communicator_state(0) for driver in cluster.drivers))
    for rank, counts in enumerate(cluster.do(*(driver.counters() for driver in cluster.drivers))):
        memory = statistics["memories"][rank]
        sent = {link["port"]: link["payload_bytes"] // TINY.beat_bytes for link in statistics["links"]
                if link["rank"] == rank}
        received = sum(link["payload_bytes"] // TINY.beat_bytes for link in statistics["links"] if link["to"] == rank)
        expect("bytes read", counts["read_bytes"], elements * 4)
        expect("bytes written", counts["write_bytes"], elements * 4)
        expect("beats read", memory["read_beats"], elements * 4 // TINY.beat_bytes)
        expect("beats sent", [counts[f"sent_beats_{port}"] for port in range(6)],
               [sent.get(port, 0) for port in range(6)])
        expect("beats received", counts["reduced_beats"] + counts["copied_beats"], received)
        expect("beats that were combined", counts["reduced_beats"], elements * 4 // TINY.beat_bytes * 2 // 3)
        expect("chunks", counts["chunks"] & 0xFFFF, states[rank].chunks)
        expect("dropped packets", (counts["late_packets"], counts["bad_packets"], counts["unexpected"]), (0, 0, 0))
        expect("active for longer than starved", 0 < counts["starved_cycles"] < counts["active_cycles"]
               < statistics["cycle"], True)
