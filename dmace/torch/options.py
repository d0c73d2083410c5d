# SPDX-License-Identifier: Apache-2.0
"""Options of the backend, given to torch or in the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod

from dmace.cluster_client.launch import Settings
from dmace.runtime.errors import DmaceError

__all__ = ["Options"]

PREFIX = "DMACE_TORCH_"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How collectives are done, and by which cluster.

    All ranks give the same ones. Those from ``topology`` on describe the cluster that rank 0 starts; they have no
    effect with ``socket``.

    Parameters
    ----------
    rank_order : bool
        Combine strictly in rank order: the same bits in every run, for every bucket and position. On a ring.
    widen : bool
        Add floats of 16 and 8 bits as FP32, and round once.
    fallback : str
        ``"gloo"``: what the accelerator does not do, Gloo does. ``""``: it is an error.
    socket : str
        Path of the socket of ``dmace cluster``; ``""``: rank 0 starts a cluster.
    start_timeout : float
        Seconds until all ranks have connected; the first time, the simulator is built.
    topology : str
        Ranks along each dimension, as ``2x2``; ``""``: a ring of all.
    preset : str
        Of the accelerator: ``tiny``, ``base`` or ``wide``.
    link_latency, memory_latency : int
        Cycles.
    link_rate : float
        Bytes per cycle; 0 for a beat.
    faults : str
        Of links, as ``dmace cluster --faults`` has them.
    seed : int
        Of the simulation.
    memory : int
        MiB of each rank's simulated memory, up to 256.
    puts : bool
        Simulate whole endpoints, whose DMA engines do ``send`` and ``recv`` by puts. Collectives take some cycles more
        than on accelerators alone, and the simulation more time.
    """

    rank_order: bool = False
    widen: bool = False
    fallback: str = ""
    socket: str = ""
    start_timeout: float = 900.0
    topology: str = ""
    preset: str = "tiny"
    link_latency: int = 20
    memory_latency: int = 100
    link_rate: float = 0.0
    faults: str = ""
    seed: int = 1
    memory: int = 256
    puts: bool = False

    def __post_init__(self) -> None:
        if self.fallback not in ("", "gloo"):
            raise DmaceError(f"The fallback must be gloo or empty, not {self.fallback!r}.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Options":
        """Options in variables such as ``DMACE_TORCH_RANK_ORDER=1``; the others have their defaults."""
        given: dict[str, bool | int | float | str] = {}
        for field in fields(cls):
            text = environment.get(PREFIX + field.name.upper())
            if text is None:
                continue
            try:
                given[field.name] = bool(int(text)) if field.type is bool else field.type(text)  # type: ignore[operator]
            except ValueError:
                raise DmaceError(f"{PREFIX}{field.name.upper()} must be a number, not {text!r}.") from None
        return cls(**given)  # type: ignore[arg-type]  # each is converted to its field's type

    def shape(self, size: int) -> tuple[int, ...]:
        """Shape of the torus of this number of ranks."""
        parts = self.topology.split("x") if self.topology else [str(size)]
        if not all(part.isdecimal() for part in parts) or prod(map(int, parts)) != size:
            raise DmaceError(f"The topology of {size} ranks must be sizes with this product, such as {size}, not "
                             f"{self.topology!r}.")
        return tuple(map(int, parts))

    def settings(self, size: int) -> Settings:
        """The cluster of this number of ranks."""
        return Settings(nodes=self.shape(size), config=self.preset, link_latency=self.link_latency,
                        link_rate=self.link_rate, latency=self.memory_latency, faults=self.faults or None,
                        seed=self.seed, memory=self.memory, puts=self.puts)
