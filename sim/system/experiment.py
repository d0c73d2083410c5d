# SPDX-License-Identifier: Apache-2.0
"""One run of a workload on a machine, from plain values to plain values: what ``dmace train`` and ``dmace sweep``
repeat."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

from hw.errors import UserError

from . import chakra, cost, sources
from . import settings as by_name
from .calibration import Calibration
from .configuration import MachineConfig
from .endpoint_kinds import rules
from .graph import Graph, unroll
from .networks import network
from .training import Run, dimensions_for, train
from .transformer_step import graph as transformer
from .workloads import MODELS, Processor, described, load

__all__ = ["Experiment", "parse_nodes", "row"]

MOST_CHUNKS = 24
"""Chunks of each of a transformer's collectives, unless it is set: they have up to gigabytes."""

_PREFIXES = ("workload.", "processor.")
_NETWORK = "network"
"""Setting that chooses all links, before others change them."""


def parse_nodes(text: object) -> tuple[int, ...]:
    """Shape of ``4x4x4``."""
    parts = str(text).lower().split("x")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UserError(f"nodes must be like 8, 4x2 or 4x2x2, not {text!r}.")
    return tuple(map(int, parts))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A workload and the machine that runs it.

    Parameters
    ----------
    workload : str
        Name of one of ours, a CSV file, Chakra traces (``FILE.et`` or ``chakra:PREFIX``), or PyTorch's execution
        traces (``pytorch:PREFIX``).
    shape : tuple of int
        Ranks along each dimension.
    endpoint : str
    steps : int
        Iterations.
    settings : dict
        By name, for the machine; ``network``, one of :data:`.networks.NETWORKS`; ``workload.NAME`` for a workload that
        is made from shapes; ``processor.efficiency``.
    """

    workload: str
    shape: tuple[int, ...]
    endpoint: str = "ace"
    steps: int = 2
    settings: dict[str, by_name.Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or not 1 <= self.steps <= 1000:
            raise UserError(f"steps must be from 1 to 1,000, not {self.steps}.")

    def config(self) -> MachineConfig:
        """:class:`MachineConfig`."""
        mine = {name: value for name, value in self.settings.items()
                if not name.startswith(_PREFIXES) and name != _NETWORK}
        config = MachineConfig(shape=self.shape, endpoint=self.endpoint, calibration=Calibration.load(),
                               links=network(self.settings.get(_NETWORK, "torus")), **rules(self.endpoint))
        if self.workload in MODELS:
            config = config.with_(most_chunks=MOST_CHUNKS)
        config = by_name.apply(config, mine)
        if chakra.is_trace(self.workload) and self.graph().ranks:
            # Ranks that differ are simulated each on its own.
            return config.with_(fold=False)
        if self.workload not in MODELS or (distinct := self.graph().distinct) is None:
            return config
        if not config.fold:
            raise UserError("fold=false simulates every rank, but this workload is made of one rank of each stage; "
                            "leave out fold.")
        return config.with_(distinct=distinct)

    def processor(self) -> Processor:
        """:class:`Processor`: the machine's, with ``processor.efficiency``."""
        npu = self.config().npu
        mine = self._for("processor.")
        if unknown := set(mine) - {"efficiency"}:
            raise UserError(f"there is no setting 'processor.{min(unknown)}'; there is processor.efficiency.")
        return by_name.apply(Processor(flops=npu.flops, memory=npu.memory_bytes_per_s), mine)

    def graph(self) -> Graph:
        """:class:`Graph` of all steps."""
        mine = self._for("workload.")
        if chakra.is_trace(self.workload):
            return chakra.read(self.workload, self.shape, **mine)
        if self.workload in MODELS:
            return _transformer(self.workload, tuple(sorted(mine.items())), self.shape, self.steps)
        return unroll(load(self.workload, **mine), self.steps)

    def described(self) -> dict[str, by_name.Setting]:
        """``workload.NAME`` -> value of all that describes a transformer and its parallelism; none of others."""
        if self.workload not in MODELS:
            return {}
        return {f"workload.{name}": value for one in described(self.workload, self._for("workload."))
                for name, value in by_name.flatten(one).items() if name != "source"}

    def _for(self, prefix: str) -> dict[str, by_name.Setting]:
        return {name.removeprefix(prefix): value for name, value in self.settings.items() if name.startswith(prefix)}

    def check(self) -> int:
        """Number of transfers that this simulates. Raise :class:`UserError` if it cannot be run, or not soon."""
        graph, config = self.graph(), self.config()
        self.processor()
        for exchange in {node.exchange for node in graph.nodes if node.exchange}:
            dimensions_for(exchange, graph, config)
        rooted = next((node for node in graph.nodes if node.exchange and node.exchange.collective.info.rooted), None)
        if rooted is not None and rooted.exchange is not None and config.fold:
            raise UserError(f"a {rooted.exchange.collective.name.lower()}, as in {rooted.part} of {rooted.layer}, has "
                            "a root, so one rank cannot represent all; set fold=false to simulate each rank.")
        return cost.check(graph, config)

    def run(self) -> Run:
        """:class:`Run`."""
        from .machine import Machine

        return train(self.graph(), Machine(self.config()), processor=self.processor())

    def inputs(self) -> dict[str, Any]:
        """All that the result depends on, as plain data."""
        graph = self.graph()
        return {"workload": self.workload, "source": graph.source, "nodes": "x".join(map(str, self.shape)),
                "endpoint": self.endpoint, "steps": graph.steps, "settings": dict(sorted(self.settings.items())),
                "processor": vars(self.processor()), "machine": self.config().inputs()}

    def key(self) -> str:
        """Hash of the inputs, of the workload's nodes and of the simulator's source, as another version may give
        another result: the key of a stored result."""
        nodes = repr(self.graph())
        text = json.dumps(self.inputs(), sort_keys=True, default=repr) + nodes + sources.digest(__name__)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=16)
def _transformer(name: str, settings: tuple[tuple[str, by_name.Setting], ...], shape: tuple[int, ...],
                 steps: int) -> Graph:
    return transformer(*described(name, dict(settings)), shape, steps)


def row(experiment: Experiment, run: Run) -> dict[str, Any]:
    """Headline figures of a run, as a flat dict: seconds, bytes and shares."""
    statistics = run.statistics
    dimensions = statistics.get("dimensions", [])
    made: dict[str, Any] = {
        "workload": experiment.workload, "nodes": "x".join(map(str, experiment.shape)), "ranks": prod(experiment.shape),
        "endpoint": experiment.endpoint, "steps": run.graph.steps, "step_seconds": run.step, "seconds": run.seconds,
        "compute_seconds": run.computed, "compute_alone_seconds": run.alone, "exposed_seconds": run.exposed,
        "communication_seconds": run.communicating,
        "network_bytes_per_s": statistics.get("network_bytes_per_s", 0.0),
        "link_utilisation": sum(dimensions) / len(dimensions) if dimensions else 0.0,
        "memory_read_bytes": sum(one["read_bytes"] for one in statistics.get("memory", [])[:1]),
        "memory_write_bytes": sum(one["write_bytes"] for one in statistics.get("memory", [])[:1]),
    }
    made |= {f"link_utilisation_{number}": value for number, value in enumerate(dimensions)}
    return made | {name: value for name, value in experiment.settings.items()}

