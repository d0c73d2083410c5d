# SPDX-License-Identifier: Apache-2.0
"""Traces of kernels: work groups of loads, stores and arithmetic, as the compute units of the model execute them.

::

    kernel = Kernel("copy", groups=4)
    source, target = kernel.array("source", 1 << 20), kernel.array("target", 1 << 20)
    with kernel.group():
        kernel.load(source, 0, 1024)
        kernel.compute(16)
        kernel.store(target, 0, 1024)
    kernel.write(path)

The addresses are those that reach the L2: registers, LDS and the L1 have served the reuse within a work group unless
a kernel says otherwise.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["ALIGNMENT", "OPERATION", "Array", "Kernel"]

ALIGNMENT = 1 << 21
"""Bytes to which an array's first address is aligned: a large page."""

OPERATION = np.dtype([("address", "<u8"), ("amount", "<u4"), ("kind", "u1"), ("pc", "u1"), ("allocate", "u1"),
                      ("unused", "u1")])
"""An operation in the file of a trace, as in ``compute.h``."""

_LOAD, _STORE, _COMPUTE, _WAIT, _DRAIN = range(5)
_PCS = 256


@dataclass(frozen=True)
class Array:
    """A kernel's array, a region of memory.

    Attributes
    ----------
    reused : str
        The region's attribute, which the program knows: ``r``, ``w``, ``rw`` where loads, stores or both allocate;
        empty where its lines are streamed.
    """

    name: str
    base: int
    length: int
    reused: str


class Kernel:
    """Operations of a kernel, by work group, and its arrays.

    Parameters
    ----------
    name : str
        Name of the kernel.
    groups : int
        Work groups that a compute unit executes at a time: its occupancy.
    """

    def __init__(self, name: str, *, groups: int) -> None:
        self.name, self.groups = name, groups
        self.arrays: list[Array] = []
        self._operations: list[tuple[int, int, int, int, int, int]] = []
        self._sizes: list[tuple[int, int]] = []
        self._pcs: dict[tuple[str, str, str], int] = {}
        self._next = ALIGNMENT

    def array(self, name: str, length: int, reused: str = "") -> Array:
        """A new array of ``length`` bytes."""
        made = Array(name, self._next, length, reused)
        self.arrays.append(made)
        self._next += -(-length // ALIGNMENT) * ALIGNMENT
        return made

    @contextmanager
    def group(self, phase: int = 0) -> Iterator[None]:
        """``with`` a new work group; it starts when all groups of earlier phases have ended."""
        first = len(self._operations)
        yield
        self._sizes.append((phase, len(self._operations) - first))

    def load(self, array: Array, offset: int, length: int, site: str = "") -> None:
        """Load ``length`` consecutive bytes; ``site`` distinguishes instructions that load from one array."""
        self._access(_LOAD, array, offset, length, site)

    def store(self, array: Array, offset: int, length: int, site: str = "") -> None:
        """Store ``length`` consecutive bytes."""
        self._access(_STORE, array, offset, length, site)

    def compute(self, cycles: int) -> None:
        """Wait for the group's loads, then occupy the unit's arithmetic for some cycles."""
        self._operations.append((0, cycles, _COMPUTE, 0, 0, 0))

    def wait(self) -> None:
        """Wait for the group's loads and stores."""
        self._operations.append((0, 0, _WAIT, 0, 0, 0))

    def drain(self) -> None:
        """Wait until nothing is in flight in the machine."""
        self._operations.append((0, 0, _DRAIN, 0, 0, 0))

    @property
    def operations(self) -> npt.NDArray[np.void]:
        """All operations, as an array of ``OPERATION``."""
        return np.array(self._operations, OPERATION)

    @property
    def bytes_accessed(self) -> int:
        """Bytes of all loads and stores."""
        return sum(amount for _, amount, kind, *_ in self._operations if kind in (_LOAD, _STORE))

    def write(self, path: Path) -> None:
        """Write the trace for the model."""
        with open(path, "wb") as file:
            file.write(struct.pack("<2I", len(self._sizes), len(self._operations)))
            file.write(np.array(self._sizes, "<u4").tobytes())
            file.write(self.operations.tobytes())

    def _access(self, kind: int, array: Array, offset: int, length: int, site: str) -> None:
        if length < 1 or offset < 0 or offset + length > array.length:
            raise ValueError(f"{self.name} accesses bytes {offset} to {offset + length - 1} of {array.name}, which has "
                             f"{array.length}")
        letter = "rw"[kind]
        pc = self._pcs.setdefault((array.name, letter, site), len(self._pcs))
        if pc >= _PCS:
            raise ValueError(f"{self.name} has more than {_PCS} loads and stores")
        self._operations.append((array.base + offset, length, kind, pc, int(letter in array.reused), 0))
