# SPDX-License-Identifier: Apache-2.0
"""Two endpoints in RTL as machines, with RoCEv2 over an Ethernet switch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hw.endpoint.config import PRESETS, EndpointConfig
from hw.rdma.config import PRESETS as RDMA_PRESETS
from sim.ace.endpoints import Memory
from sim.ace.shared_library import Library
from sim.endpoint.cluster import EndpointCluster, library
from sim.rdma.network import Faults, Line
from sim.rdma.wire import LINE_RATES

from .rdma import connect_rdma
from .simulated import SimulatedMachine, SimulatedMachines

__all__ = ["Ethernet", "EthernetMachines", "build", "ethernet_machines"]


@dataclass(frozen=True, kw_only=True)
class Ethernet:
    """Two endpoints at a switch.

    Parameters
    ----------
    config : str
        Preset of the endpoints and of their RoCEv2 units.
    line_rate : float or None
        Bytes per cycle of each segment, by default that of ``LINE_RATES``.
    line_latency : int
        Cycles of each of the two segments between the endpoints.
    memory_latency : int
        Cycles of both memories, for reads and for writes.
    loss : float
        Probability that a frame is lost, in both directions.
    selective : bool
        Repeat lost packets selectively.
    timeout : int
        Local ACK timeout of the queue pairs, see :class:`dmace.drivers.rdma.Connection`.
    period : int
        Cycles between two polls by software.
    seed : int
    """

    config: str = "tiny"
    line_rate: float | None = None
    line_latency: int = 50
    memory_latency: int = 100
    loss: float = 0.0
    selective: bool = False
    timeout: int = 4
    period: int = 16
    seed: int = 1

    @property
    def endpoint(self) -> EndpointConfig:
        """Sizes of each endpoint."""
        return PRESETS[self.config].with_rdma(RDMA_PRESETS[self.config])

    @property
    def rate(self) -> float:
        """Bytes per cycle of each segment."""
        return LINE_RATES[self.config] if self.line_rate is None else self.line_rate


class EthernetMachines:
    """Both machines, ``machines``, their ``cluster``, and its ``setting``."""

    def __init__(self, setting: Ethernet, cluster: EndpointCluster, machines: list[SimulatedMachine]) -> None:
        self.setting, self.cluster, self.machines = setting, cluster, machines

    def lose(self, probability: float) -> None:
        """Lose frames of both directions with that probability from now on."""
        for port in range(2):
            self.cluster.network.fault(port, Faults(loss=probability))


def build(setting: Ethernet, status: Callable[[str, int, int], None] | None = None) -> Library:
    """Library of a setting's endpoints, built if it is not there; ``status`` as for :class:`EndpointCluster`."""
    return library(setting.endpoint, status=status)


@contextmanager
def ethernet_machines(setting: Ethernet, *, pool_bytes: int = 1 << 20,
                      limit: int = 2_000_000) -> Iterator[EthernetMachines]:
    """``with`` two machines that reach each other; options of :class:`SimulatedMachines`."""
    memory = Memory(read_latency=setting.memory_latency, write_latency=setting.memory_latency)
    lines = [Line(bytes_per_cycle=setting.rate, latency=setting.line_latency)] * 2
    with EndpointCluster(setting.endpoint, (2,), library=build(setting), lines=lines, memory=memory,
                         seed=setting.seed) as cluster:
        connect = partial(connect_rdma, timeout=setting.timeout, selective=setting.selective)
        made = SimulatedMachines(cluster, connect, pool_bytes=pool_bytes, period=setting.period, limit=limit)
        both = EthernetMachines(setting, cluster, made.machines)
        both.lose(setting.loss)
        yield both
