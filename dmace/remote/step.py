# SPDX-License-Identifier: Apache-2.0
"""Runs a graph over machines, step by step, with the plan of the analyzer.

::

    devices = open_devices(machines)
    with Step(graph, analyze(graph, devices), devices) as step:
        for batch in batches:
            outcome = step.run({"x": batch, "w": weights})
            weights = outcome.values["w2"]

All machines belong to this process, which runs the operations of all of them. With one process per machine, each would
exchange the addresses of buffers and words once, before the first step.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from dmace.runtime.errors import DmaceError

from .device import RemoteDevice
from .future import Tasks, wait_all
from .graph import Graph
from .incoming import Incoming
from .local import LocalDevice
from .machine import Machine
from .mechanism import Receiver, Sender
from .outgoing import Outgoing
from .plan import MECHANISMS, Block, Plan
from .worker import Worker

__all__ = ["Outcome", "Step", "open_devices"]


class Outcome(NamedTuple):
    """A step's results.

    ``values``: the graph's results by name. ``cycles``: clock cycles of the machines, None where they have none.
    ``sent_bytes``: payload between machines. ``copied_bytes``: bytes that were copied into registered memory because
    their operation did not write them there. ``transfers``: of blocks, each destination counted.
    """

    values: dict[str, Any]
    cycles: int | None
    sent_bytes: int
    copied_bytes: int
    transfers: int


def open_devices(machines: Iterable[Machine]) -> dict[int, LocalDevice]:
    """Number -> device of machines that this process drives together."""
    tasks = Tasks()
    return {machine.number: LocalDevice(machine, tasks=tasks) for machine in machines}


class Step:
    """A partitioned graph with its buffers, which exist from now until :meth:`close`. A context manager.

    After an error the state of the machines' buffers is undefined, and every later :meth:`run` is refused.

    Parameters
    ----------
    graph : Graph
    plan : Plan
        Of this graph over these machines.
    devices : dict
        Number of each machine -> its :class:`LocalDevice`; see :func:`open_devices`.
    """

    def __init__(self, graph: Graph, plan: Plan, devices: Mapping[int, LocalDevice]) -> None:
        if missing := [number for number in plan.order if number not in devices]:
            raise DmaceError(f"The plan uses machine {missing[0]}, for which there is no device.")
        self._devices, self._usable, self._results = devices, True, graph.results
        ends = {block: [self._connect(block, number) for number in block.destinations] for block in plan.blocks}
        self._workers = []
        for number, order in plan.order.items():
            outgoing = [Outgoing(devices[number], block, [sender for sender, _ in ends[block]])
                        for block in plan.from_machine(number)]
            incoming = [Incoming(block, ends[block][block.destinations.index(number)][1], graph.conversion)
                        for block in plan.to_machine(number)]
            self._workers.append((devices[number], Worker(graph, number, order, outgoing, incoming)))
        self._transfers = sum(len(block.destinations) for block in plan.blocks)

    def _connect(self, block: Block, destination: int) -> tuple[Sender, Receiver]:
        source, target = self._devices[block.source], self._devices[destination]
        return MECHANISMS[block.mechanism](RemoteDevice(source, destination, target.pool),
                                           RemoteDevice(target, block.source, source.pool), block.payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is None:
            self.close()

    def run(self, feeds: Mapping[str, Any]) -> Outcome:
        """Run one step: ``feeds`` are values by name. It ends when all operations have run; the acknowledgements of the
        last transfers are part of the next step.

        Raises
        ------
        DmaceError
            For a value that is missing or of another shape or type than the graph describes.
        RequestFailed, RequestTimeout, PoolExhausted
        """
        if not self._usable:
            raise DmaceError("A step has failed or was closed, so no other step can be run.")
        self._usable = False
        first = next(iter(self._devices.values())).machine
        begin = first.cycle
        results = wait_all([device.tasks.start(device.machine, worker.step(feeds)) for device, worker in self._workers],
                           others=True)
        self._usable = True
        end = first.cycle
        workers = [worker for _, worker in self._workers]
        values = {name: value for found in results for name, value in found.items()}
        return Outcome({name: values[name] for name in self._results},
                       None if begin is None or end is None else end - begin,
                       sum(block.sent_bytes for worker in workers for block in worker.outgoing),
                       sum(worker.copied_bytes for worker in workers), self._transfers)

    def close(self) -> None:
        """Wait until all transfers and acknowledgements have completed, and free all memory. A second call does
        nothing."""
        if not self._usable:
            return
        self._usable = False
        for device, _ in self._workers:
            tasks = device.tasks

            def settled(tasks: Tasks = tasks) -> bool:
                tasks.poll()
                return tasks.idle

            tasks.run(device.machine, settled)
        for _, worker in self._workers:
            for outgoing in worker.outgoing:
                outgoing.close()
            for incoming in worker.incoming:
                incoming.close()
