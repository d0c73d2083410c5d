# SPDX-License-Identifier: Apache-2.0
"""The register-level driver of a unit in a simulated network."""

from dmace.drivers.rdma import RdmaDriver
from sim.rdma.cluster import Cluster

__all__ = ["unit_driver"]


class _UnitBus:
    """The registers of a unit."""

    def __init__(self, cluster: Cluster, unit: int) -> None:
        self._cluster, self._unit = cluster, unit

    async def read(self, offset: int) -> int:
        return self._cluster.read_register(self._unit, offset)

    async def write(self, offset: int, value: int) -> None:
        self._cluster.write_register(self._unit, offset, value)


def unit_driver(cluster: Cluster, unit: int) -> RdmaDriver:
    """Driver of a unit; :func:`dmace.drivers.registers.wait` runs its coroutines."""
    return RdmaDriver(_UnitBus(cluster, unit), cluster.config)
