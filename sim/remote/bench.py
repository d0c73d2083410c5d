# SPDX-License-Identifier: Apache-2.0
"""Cycles of a tensor by each mechanism between two endpoints in RTL, one at a time and with several in flight.

Every byte is compared. Operations take no time; software polls in intervals of the setting's ``period``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from dmace.remote.device import RemoteDevice
from dmace.remote.future import Future, Turns, completion, wait_all
from dmace.remote.local import Local
from dmace.remote.mechanism import Receiver, Sender
from dmace.remote.plan import MECHANISMS
from dmace.remote.rpc import FRAGMENT_BYTES, SLOTS
from dmace.remote.step import open_devices
from dmace.remote.tensor import Tensor
from hw.common.sizes import PAGE_BYTES
from hw.errors import UserError

from .bound import latency_bound, rate_bound
from .ethernet import Ethernet, EthernetMachines, ethernet_machines

__all__ = ["DEPTH_BYTES", "bench_machines", "depth_of", "latency", "rate"]

DEPTH_BYTES = 1 << 20
"""Bytes that all tensors in flight have at most, unless two have more."""

_LIMIT = 20_000_000
_RING_BYTES = 2 * SLOTS * FRAGMENT_BYTES
"""More than a connection's message buffer, and than all of its words."""


class BytesDiffer(UserError):
    """A tensor has arrived with wrong bytes."""

    status = 1


class _Pair:
    """Both machines with connections of one mechanism, which carry tensors of ``size`` bytes from machine 0 to 1."""

    def __init__(self, both: EthernetMachines, mechanism: str, size: int, connections: int) -> None:
        self.cluster, self.size = both.cluster, size
        self.devices = open_devices(both.machines)
        here, there = self.devices[0], self.devices[1]
        self.tasks = here.tasks
        forth, back = RemoteDevice(here, 1, there.pool), RemoteDevice(there, 0, here.pool)
        self._base = np.random.default_rng(size).integers(0, 256, size + 251, np.uint8)
        self.ends: list[tuple[Sender, Receiver, Local]] = []
        for number in range(connections):
            tensor = Tensor(f"tensor {number}", (size if mechanism == "static" else None,), np.dtype(np.uint8))
            self.ends.append((*MECHANISMS[mechanism](forth, back, tensor), here.allocate(max(1, size))[:size]))

    @property
    def cycle(self) -> int:
        return self.cluster.cycle

    def contents(self, number: int) -> npt.NDArray[np.uint8]:
        """Bytes of tensor ``number``, others than those of the one before."""
        first = number % 251
        return self._base[first:first + self.size]

    def start(self, connection: int, number: int) -> Future[None]:
        sender, _, memory = self.ends[connection]
        memory.store(self.contents(number))
        return sender.send(memory, (self.size,))

    def check(self, found: Local, number: int) -> None:
        if not np.array_equal(found.load(), self.contents(number)):
            raise BytesDiffer(f"Tensor {number} of {self.size:,} bytes has arrived with wrong bytes.")

    def settle(self) -> None:
        """Until all signals have been stored."""
        def settled() -> bool:
            self.tasks.poll()
            return self.tasks.idle

        self.tasks.run(self.devices[0].machine, settled)


@contextmanager
def bench_machines(setting: Ethernet, most: int, depth: int) -> Iterator[EthernetMachines]:
    """``with`` machines whose pools are long enough for ``depth`` tensors in flight of up to ``most`` bytes each, as
    :func:`depth_of` limits them."""
    pool = PAGE_BYTES + depth * _RING_BYTES + 2 * max(DEPTH_BYTES, 2 * most)
    with ethernet_machines(setting, pool_bytes=-(-pool // PAGE_BYTES) * PAGE_BYTES, limit=_LIMIT) as both:
        yield both


def latency(both: EthernetMachines, mechanism: str, size: int, *, count: int = 4) -> dict[str, Any]:
    """One tensor at a time, from the start of the send until the receiver may use it.

    Returns
    -------
    dict
        Mean ``cycles``, and ``bound`` of :func:`latency_bound`, and what ``binds``.
    """
    total, pair = 0, _Pair(both, mechanism, size, 1)
    for number in range(count):
        begin = pair.cycle
        sent = pair.start(0, number)
        _, receiver, _ = pair.ends[0]
        arrival = receiver.receive().wait()
        total += pair.cycle - begin
        pair.check(arrival.memory, number)
        receiver.release()
        sent.wait()
        pair.settle()
    bound = latency_bound(both.setting, mechanism, size)
    return {"mechanism": mechanism, "bytes": size, "cycles": round(total / count, 1), "bound": round(bound.cycles, 1),
            "binds": bound.binds}


def depth_of(size: int, depth: int) -> int:
    """Tensors of a size that are in flight: ``depth``, but no more than ``DEPTH_BYTES`` if two are enough for that."""
    return max(1, min(depth, max(2, DEPTH_BYTES // max(1, size))))


def rate(both: EthernetMachines, mechanism: str, size: int, *, depth: int, rounds: int) -> dict[str, Any]:
    """Tensors on ``depth`` connections, ``rounds`` on each.

    Returns
    -------
    dict
        ``cycles`` per tensor, from the start of the first send until all tensors have been released;
        ``bytes_per_cycle``; ``bound`` of :func:`rate_bound`, what ``binds``, and the ``share`` of the bound.
    """
    pair = _Pair(both, mechanism, size, depth)
    begin, machine = pair.cycle, pair.devices[0].machine

    def send(connection: int) -> Turns[None]:
        for turn in range(rounds):
            yield from completion(pair.start(connection, turn * depth + connection))

    def receive(connection: int) -> Turns[None]:
        receiver = pair.ends[connection][1]
        for turn in range(rounds):
            arrival = yield from completion(receiver.receive())
            pair.check(arrival.memory, turn * depth + connection)
            receiver.release()

    wait_all([pair.tasks.start(machine, work(connection)) for connection in range(depth) for work in (receive, send)])
    pair.settle()
    cycles = (pair.cycle - begin) / (rounds * depth)
    bound = rate_bound(both.setting, mechanism, size, depth)
    return {"mechanism": mechanism, "bytes": size, "depth": depth, "cycles": round(cycles, 1),
            "bytes_per_cycle": round(size / cycles, 3), "bound": round(bound.cycles, 1), "binds": bound.binds,
            "share": round(bound.cycles / cycles, 4)}
