# SPDX-License-Identifier: Apache-2.0
"""A software port of a network as an end of a virtual machine's Ethernet segment, so that RTL is the guest's peer.

::

    with Cluster(library, lines, units=1) as cluster:
        guest.peer = Bridge(cluster, 1)
"""

from collections.abc import Iterator
from typing import Protocol

__all__ = ["Bridge", "SteppedNetwork"]


class SteppedNetwork(Protocol):
    """A :class:`~sim.rdma.cluster.Cluster` or :class:`~sim.rdma.network.SoftwareNetwork`."""

    def send(self, port: int, frame: bytes) -> None:
        """Send from a port."""

    def receive(self, port: int) -> Iterator[tuple[bytes, bool]]:
        """Frames that have arrived at a port."""

    def run(self, cycles: int) -> object:
        """Advance."""


class Bridge:
    """Frames of the guest enter the network at ``port``, and those that arrive there go to the guest.

    Parameters
    ----------
    network : SteppedNetwork
        Its time advances when the guest's end is polled, and has no relation to the guest's.
    port : int
        A software port.
    cycles : int
        Cycles of each poll.
    """

    def __init__(self, network: SteppedNetwork, port: int, *, cycles: int = 1000) -> None:
        self.network, self.port, self.cycles = network, port, cycles

    def receive(self, frame: bytes, now: float) -> None:
        """A frame of the guest."""
        self.network.send(self.port, frame)

    def transmit(self, now: float, limit: int = 1 << 30) -> list[bytes]:
        """Advance the network, and return what has arrived; frames whose FCS is wrong are dropped."""
        self.network.run(self.cycles)
        return [frame for frame, bad in self.network.receive(self.port) if not bad]
