# SPDX-License-Identifier: Apache-2.0
"""Execution traces of MLCommons Chakra and of PyTorch, read and written as a :class:`~sim.system.graph.Graph`.

A Chakra trace of a rank is a file of protobuf messages, each after its length: metadata, then nodes. Traces are files
``PREFIX.0.et``, ``PREFIX.1.et``, ..., one for each rank. PyTorch's observer writes ``PREFIX.0.json``, ... of its own
(:mod:`.pytorch`).

===================  ============================================================================================
node                 contents
===================  ============================================================================================
compute              COMP; ``duration_micros``, and in attributes ``duration_seconds`` (exact), ``num_ops`` and
                     ``tensor_size``; with ``roofline`` these two give the duration; with ``is_cpu_op`` it is a
                     delay, which does not take the processor
collective           COMM_COLL; attributes ``comm_type``, ``comm_size``, ``comm_priority``, ``pg_name``, and in
                     traces of ours ``comm_group``; ``involved_dim`` must have all dimensions
message              COMM_SEND and COMM_RECV; attributes ``comm_src``, ``comm_dst``, ``comm_tag``, ``comm_size``
process groups       METADATA, see :mod:`.groups`; the others take no time
===================  ============================================================================================

Sizes are as :class:`~sim.system.workloads.Exchange` has them. A node needs its ``ctrl_deps`` and ``data_deps``.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from hw.errors import UserError
from sim.system.graph import Graph

from . import files, groups
from .assemble import graph_of
from .pytorch import read_pytorch
from .read import read_trace
from .write import Rounding, rounding, write

__all__ = ["PREFIXES", "Rounding", "is_trace", "read", "rounding", "write"]

PREFIXES = ("chakra:", "pytorch:")

DURATIONS = {"auto": None, "recorded": True, "shapes": False}


def is_trace(workload: str) -> bool:
    """Whether the name of a workload is one of traces."""
    return workload.endswith(".et") or workload.startswith(PREFIXES)


def read(workload: str | Path, shape: Sequence[int] | None = None, **settings: object) -> Graph:
    """:class:`Graph` of ``FILE.et``, ``chakra:PREFIX`` or ``pytorch:PREFIX``; any other name is a PREFIX of Chakra
    traces.

    Parameters
    ----------
    workload : str or Path
    shape : sequence of int or None
        Ranks along each dimension; None: any.
    **settings
        ``groups``: a communicator file of ASTRA-sim, JSON: name of a process group -> its ranks. ``durations``, of
        PyTorch's traces: ``recorded``, ``shapes``, or ``auto`` (recorded where there are files of the profiler).

    Raises
    ------
    UserError
        For files that are missing or no traces, and for ranks that do not match.
    """
    text = str(workload)
    pytorch = text.startswith("pytorch:")
    known = ("groups", "durations") if pytorch else ("groups",)
    for name in settings:
        if name not in known:
            raise UserError(f"the traces {text} have no setting {name!r}; they have {' and '.join(known)}.")
    durations = settings.get("durations", "auto")
    if durations not in DURATIONS:
        raise UserError(f"durations of a trace must be {', '.join(DURATIONS)}, not {durations!r}.")
    path = Path(text.removeprefix("pytorch:").removeprefix("chakra:"))
    # A run reads its traces several times; the key changes with the files.
    paths = [path, *path.parent.glob(f"{path.name}.*"), *(Path(str(value)) for name, value in settings.items()
                                                          if name == "groups")]
    stamps = tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in sorted(paths) if one.is_file())
    return _read(text, None if shape is None else tuple(shape), str(durations), settings.get("groups"), stamps)


@lru_cache(maxsize=4)
def _read(text: str, shape: tuple[int, ...] | None, durations: str, communicators: object,
          stamps: tuple[tuple[str, int, int], ...]) -> Graph:
    extra = None if communicators is None else groups.communicators(Path(str(communicators)))
    path = Path(text.removeprefix("pytorch:").removeprefix("chakra:"))
    if text.startswith("pytorch:"):
        return graph_of(read_pytorch(path, DURATIONS[durations]), shape, extra)
    if path.suffix == ".et":
        return graph_of([read_trace(path)], shape, extra)
    traces = [read_trace(one, rank) for rank, one in enumerate(files.ranks(path, (".et",)))]
    return graph_of(traces, shape, extra)
