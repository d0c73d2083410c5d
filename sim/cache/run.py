# SPDX-License-Identifier: Apache-2.0
"""Run kernels on the model under policies, alone or beside copies of a DMA engine.

::

    rows = measure(build_model(), ["gemm"], ["uncached", "cache-r"], MachineConfig())
    row = beside(build_beside(BASE), KERNELS["gemm"].kernel(), "cache-r", MachineConfig(), Copy(allocate=False))
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.errors import UserError
from sim.verilator.program import Program

from .config import MachineConfig
from .kernels import KERNELS
from .policies import POLICIES
from .trace import Kernel

__all__ = ["ALLOCATE", "NO_ALLOCATE", "Copy", "ModelFailed", "beside", "execute", "idle_kernel", "measure"]

Row = dict[str, Any]

ALLOCATE, NO_ALLOCATE = 0b1111, 0b0011
"""AxCACHE of Write-Back memory with Read- and Write-Allocate, and of Normal Non-cacheable Bufferable memory."""


class ModelFailed(UserError):
    """The model stopped, or a copy was wrong."""

    status = 1


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Copies of a DMA engine without end.

    Parameters
    ----------
    allocate : bool
        AxCACHE of source and destination regions.
    rate : float
        Bytes per cycle that are posted; 0 for as many as the engine copies.
    queues, size, depth : int
        Queues, bytes of a request, and requests of a queue in flight.
    slots : int
        Requests until a queue copies the same bytes again.
    """

    allocate: bool
    rate: float = 0
    queues: int = 4
    size: int = 4096
    depth: int = 8
    slots: int = 64

    def argument(self) -> str:
        """Option of the program."""
        cache = ALLOCATE if self.allocate else NO_ALLOCATE
        return (f"queues={self.queues},size={self.size},depth={self.depth},slots={self.slots},rate={self.rate},"
                f"read_cache={cache},write_cache={cache}")


def execute(program: Program, trace: Path, arguments: Sequence[str], *, limit: int = 100_000_000,
            timeout: float = 1800) -> Row:
    """Run one of the programs on the file of a trace and return its counts.

    Raises
    ------
    ModelFailed
        If the program fails, takes longer than ``timeout`` seconds, or the trace takes more than ``limit`` cycles.
    """
    command = [str(program.path), str(trace), *arguments, "--limit", str(limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ModelFailed(f"The cache model was stopped after {timeout:g} s without an end.") from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise ModelFailed(f"The cache model stopped: {lines[-1] if lines else f'status {done.returncode}.'}")
    result: Row = json.loads(done.stdout)
    return result


def measure(program: Program, kernels: Sequence[str], policies: Sequence[str], machine: MachineConfig, *,
            quick: bool = False, progress: Callable[[str], object] = lambda note: None) -> list[Row]:
    """A row of counts and shares for each kernel and policy, by name.

    Parameters
    ----------
    quick : bool
        Kernels of small shapes, for tests.
    progress : callable
        Receives a note after each run.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="dmace-caches-") as folder:
        for name in kernels:
            kernel = KERNELS[name].kernel(quick)
            trace = Path(folder) / name
            kernel.write(trace)
            for policy in policies:
                arguments = machine.arguments(groups=kernel.groups, policy=POLICIES[policy].options)
                result = execute(program, trace, arguments)
                rows.append(_row(kernel, policy, machine, result))
                progress(f"{name}, {policy}")
            trace.unlink()
    return rows


def idle_kernel(cycles: int = 40_000) -> Kernel:
    """Arithmetic alone: beside it a DMA engine has the machine to itself."""
    kernel = Kernel("idle", groups=1)
    array = kernel.array("x", 64)
    with kernel.group():
        kernel.load(array, 0, 64)
        kernel.compute(cycles)
    return kernel


def beside(program: Program, kernel: Kernel, policy: str, machine: MachineConfig, copy: Copy) -> Row:
    """A row as of :func:`measure` for a kernel beside the copies of ``program``'s engine, until the kernel ends.

    Raises
    ------
    ModelFailed
        Also if a copied byte is wrong, or the engine refused or failed a request.
    """
    with tempfile.TemporaryDirectory(prefix="dmace-caches-") as folder:
        trace = Path(folder) / "trace"
        kernel.write(trace)
        result = execute(program, trace, [*machine.arguments(groups=kernel.groups, policy=POLICIES[policy].options),
                                          "--copy", copy.argument()])
    for name, what in (("wrong_bytes", "bytes were copied wrong"), ("refused", "requests were refused"),
                       ("failed", "requests failed")):
        if result[name]:
            raise ModelFailed(f"The engine is wrong behind the L2: {result[name]:,} {what}.")
    return {**_row(kernel, policy, machine, result), "allocate": copy.allocate, "rate": copy.rate,
            "copied_per_cycle": result["copied"] / result["executed"]}


def _row(kernel: Kernel, policy: str, machine: MachineConfig, result: Row) -> Row:
    columns = result["row_hits"] + result["row_misses"] + result["row_conflicts"]
    requests = result["loads"] + result["stores"]
    hits = result["load_hits"] + result["load_merges"] + result["store_hits"]
    busy = result["cycles"] * machine.dram.channels
    return {"kernel": kernel.name, "policy": policy, **result, "hit_rate": hits / requests,
            "row_hit_rate": result["row_hits"] / columns if columns else 0.0,
            "dram_share": result["dram_busy"] / busy,
            "arithmetic_share": result["arithmetic"] / (result["cycles"] * machine.units.units),
            "bytes_accessed": kernel.bytes_accessed}
