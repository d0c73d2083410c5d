# SPDX-License-Identifier: Apache-2.0
"""Machines of the test double with their devices, and tensors that cross between two of them."""

import numpy as np

from dmace.remote.device import RemoteDevice
from dmace.remote.dynamic import connect_dynamic
from dmace.remote.future import Tasks
from dmace.remote.local import LocalDevice
from dmace.remote.rpc import connect_rpc
from dmace.remote.static import connect_static
from sim.remote.double import FunctionalMachines

MECHANISMS = {"static": connect_static, "dynamic": connect_dynamic, "rpc": connect_rpc}


class Pair:
    """Machines 0 and 1 with their devices of each other."""

    def __init__(self, *, queues=None, piece=None, **options):
        self.cluster = FunctionalMachines(2, **options)
        self.tasks = Tasks()
        self.here, self.there = (LocalDevice(machine, queues, tasks=self.tasks) for machine in self.cluster.machines)
        pieces = {} if piece is None else {"piece": piece}
        self.forth = RemoteDevice(self.here, 1, self.there.pool, **pieces)
        self.back = RemoteDevice(self.there, 0, self.here.pool, **pieces)

    def connect(self, name, tensor, **options):
        return MECHANISMS[name](self.forth, self.back, tensor, **options)

    def stored(self, value):
        """Registered memory of machine 0 with the elements of an array."""
        memory = self.here.allocate(max(1, value.nbytes))[:value.nbytes]
        memory.store(value)
        return memory

    def settle(self):
        """Until nothing is in flight and all signals have been checked."""
        self.cluster.run(lambda: self.tasks.poll() or self.tasks.idle)


def random_array(rng, tensor, rows=40):
    """Random elements of the tensor's type; sizes that are not known are 0 to ``rows``."""
    shape = tuple(int(rng.integers(0, rows + 1)) if size is None else size for size in tensor.shape)
    return rng.integers(0, 256, tensor.count(shape), np.uint8).view(tensor.dtype).reshape(shape)
