# SPDX-License-Identifier: Apache-2.0
"""A software station that attacks unit 0 of a cluster with packets of all kinds, and checks its memory and its packets.

The C++ is in ``hostile``; :mod:`sim.rdma.soak` is the software of the units. Each queue pair that it knows has a
protection domain of its own, and two regions.
"""

import ctypes
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sim.rdma.cluster import Cluster
from sim.verilator.build import execute
from sim.verilator.program import Program
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root, find_compiler

__all__ = ["Attacker", "AttackerCounts", "AttackerSettings", "Queue", "QueueStatus", "Region", "Role", "pattern"]

_HERE = Path(__file__).parent
_CPP, _HOSTILE = _HERE.parent / "cpp", _HERE / "hostile"
_OPTIONS = ("-std=gnu++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared")

_Handle, _Number, _Count = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64


class Role(IntEnum):
    """Peer of a queue pair: another unit; the attacker, which keeps all rules; the attacker, which keeps none."""

    GOOD = 0
    HONEST = 1
    HOSTILE = 2


@dataclass(frozen=True, kw_only=True)
class AttackerSettings:
    """A station at ``port``, whose line has ``rate`` bytes per cycle.

    ``grace``: cycles from the revocation of memory until bursts in flight are complete. ``patience``: cycles without
    progress until an honest queue pair repeats its requests; a hundred times as long is an error. ``macs`` and
    ``ipv4s``: of unit 0, of the attacker, and of the peer of good queue pairs.
    """

    port: int
    beat_bytes: int
    most: int
    window: int
    pairs: int
    regions: int
    count: int
    rate: float
    seed: int
    grace: int
    patience: int
    macs: tuple[int, int, int]
    ipv4s: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue pair of unit 0, as software has opened it.

    ``request_psn``, ``response_psn``: PSN of the attacker's first request, and of the unit's. ``vlan``: -1 for none.
    ``ring``, ``records``: address and length of the ring of records, 0 for none.
    """

    index: int
    role: int
    qpn: int
    peer_qpn: int
    request_psn: int
    response_psn: int
    mtu: int
    selective: int
    ipv6: int
    remote_write: int
    remote_read: int
    max_reads: int
    rnr_us: int
    vlan: int
    ring: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Region:
    """Region ``which``, 0 or 1, of queue pair ``index``."""

    index: int
    which: int
    rkey: int
    readable: int
    writable: int
    valid: int
    va: int
    length: int
    address: int


@dataclass(frozen=True)
class QueueStatus:
    """A queue pair at the attacker.

    ``probing``: its first WRITE was not acknowledged yet. ``idle``: all valid requests are complete. ``failed``: a NAK
    has ended it. ``records``: that were compared since it was opened. Then packets of valid requests that are complete
    and compared, and requests of the unit.
    """

    probing: int
    idle: int
    failed: int
    reserved: int
    records: int
    batches: int
    writes: int
    reads: int
    immediates: int
    bytes: int
    repeats: int
    rnrs: int
    served_writes: int
    served_reads: int
    served_bytes: int
    duplicates: int
    early: int
    returned: int
    acknowledgements: int
    probes: int


@dataclass(frozen=True)
class AttackerCounts:
    """Frames that the attacker has sent, by what the unit's parser must make of them, and accesses to memory.

    ``late_beats``, ``latest``: accesses behind the revocation of memory, and after how many cycles at most.
    """

    frames: int
    sent_bytes: int
    packets: int
    refused: int
    other: int
    delayed: int
    received: int
    notifications: int
    read_bytes: int
    write_beats: int
    read_bursts: int
    late_beats: int
    latest: int
    failed_accesses: int
    findings: int


class _Functions(ctypes.Structure):
    _fields_ = [(name, _Handle) for name in ("network", "cluster", "send", "receive", "load")]


class _Settings(ctypes.Structure):
    _fields_ = [(name, _Number) for name in ("port", "beat_bytes", "most", "window", "pairs", "regions", "count")]
    _fields_ += [("rate", ctypes.c_double), *((name, _Count) for name in ("seed", "grace", "patience")),
                 ("macs", _Count * 3), ("ipv4s", _Number * 3)]


class _Queue(ctypes.Structure):
    _fields_ = [(field.name, ctypes.c_int32 if field.name == "vlan" else _Number) for field in fields(Queue)[:-2]]
    _fields_ += [("ring", _Count), ("records", _Count)]


class _Region(ctypes.Structure):
    _fields_ = [*((field.name, _Number) for field in fields(Region)[:6]), *((name, _Count) for name in (
        "va", "length", "address"))]


class _Status(ctypes.Structure):
    _fields_ = [*((field.name, _Number) for field in fields(QueueStatus)[:4]),
                *((field.name, _Count) for field in fields(QueueStatus)[4:])]


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "create": (_Handle, ctypes.POINTER(_Functions), ctypes.POINTER(_Settings)),
    "destroy": (None, _Handle),
    "observer": (_Handle, _Handle),
    "open": (None, _Handle, ctypes.POINTER(_Queue)),
    "close": (None, _Handle, _Number),
    "region": (None, _Handle, ctypes.POINTER(_Region)),
    "hint": (None, _Handle, _Number, _Number),
    "stop": (None, _Handle, _Number),
    "status": (None, _Handle, _Number, ctypes.POINTER(_Status)),
    "allow": (_Count, _Handle, _Number, _Count, _Count, _Number, _Number, _Number),
    "revoke": (None, _Handle, _Count),
    "consume": (None, _Handle, _Count, _Count),
    "fail": (None, _Handle, _Count, _Count),
    "kinds": (_Number,),
    "kind_name": (ctypes.c_char_p, _Number),
    "kind_counts": (None, _Handle, ctypes.POINTER(_Count)),
    "counts": (None, _Handle, ctypes.POINTER(_Count)),
    "finding": (ctypes.c_char_p, _Handle, _Number),
}


def pattern(qp: int, va: int, count: int) -> bytes:
    """Bytes from ``va`` on of the attacker's memory, to which its queue pair ``qp`` gives access."""
    return bytes(qp << 4 | (at * 2654435761 % (1 << 64)) >> 13 & 15 for at in range(va, va + count))


def _build() -> Program:
    compiler, main = find_compiler(), _HOSTILE / "attacker.cpp"
    sources = [(path.name, path.read_text(encoding="utf-8")) for path in (
        *sorted(_HOSTILE.glob("*.h")), main, _HERE / "observer.h", _CPP / "library.h", _CPP / "memory.h")]
    folder = build_root() / "sim" / f"rdma_attacker-{digest(sources, _OPTIONS, compiler.version)}"

    def make() -> None:
        execute([*compiler.command, *_OPTIONS, f"-I{_CPP}", f"-I{_HERE}", main, "-o", folder / "library.so"],
                folder=folder, log=folder / "compiler.log")

    reused, seconds = once(folder, make, product="library.so", name="rdma_attacker")
    return Program(folder / "library.so", reused, seconds)


class Attacker:
    """The station, from the start to the end of ``with``, which is inside that of its cluster."""

    def __init__(self, cluster: Cluster, settings: AttackerSettings) -> None:
        library = ctypes.CDLL(str(_build().path))
        self._call = {}
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = library[f"attacker_{name}"]
            function.restype, function.argtypes = result, arguments
            self._call[name] = function
        given = _Functions(cluster.network, cluster.handle, *(
            cluster.function(name) for name in ("network_send", "network_receive", "cluster_load")))
        values = (_Count * 3 if isinstance(value, tuple) and name == "macs" else _Number * 3 if isinstance(value, tuple)
                  else None for name, value in zip((field.name for field in fields(settings)), astuple(settings),
                                                   strict=True))
        self._handle = self._call["create"](ctypes.byref(given), ctypes.byref(_Settings(*(
            kind(*value) if kind else value for kind, value in zip(values, astuple(settings), strict=True)))))
        self._cluster = cluster

    def __enter__(self) -> Self:
        self._cluster.observe(self._call["observer"](self._handle))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._cluster.observe(None)
        self._call["destroy"](self._handle)

    def open(self, queue: Queue) -> None:
        """A queue pair is open."""
        self._call["open"](self._handle, ctypes.byref(_Queue(*astuple(queue))))

    def close(self, index: int) -> None:
        """A queue pair will be closed."""
        self._call["close"](self._handle, index)

    def region(self, region: Region) -> None:
        """A region is defined."""
        self._call["region"](self._handle, ctypes.byref(_Region(*astuple(region))))

    def hint(self, index: int, psn: int) -> None:
        """The next PSN that the unit expects on a good queue pair."""
        self._call["hint"](self._handle, index, psn)

    def stop(self, stopped: bool = True) -> None:
        """Send only what completes valid requests in progress."""
        self._call["stop"](self._handle, stopped)

    def status(self, index: int) -> QueueStatus:
        """State of a queue pair."""
        status = _Status()
        self._call["status"](self._handle, index, ctypes.byref(status))
        return QueueStatus(*(getattr(status, field.name) for field in fields(QueueStatus)))

    def allow(self, qp: int, first: int, end: int, *, readable: bool, writable: bool, ring: bool = False) -> int:
        """Memory that the unit may use for ``qp`` from now on; the result is for :meth:`revoke`."""
        return int(self._call["allow"](self._handle, qp, first, end, readable, writable, ring))

    def revoke(self, number: int) -> None:
        """The unit must not use this memory any more."""
        self._call["revoke"](self._handle, number)

    def consume(self, number: int, records: int) -> None:
        """Software has consumed this number of records of a ring, which :meth:`allow` returned as ``number``."""
        self._call["consume"](self._handle, number, records)

    def fail(self, first: int, end: int) -> None:
        """Let the next access to these bytes end with an error."""
        self._call["fail"](self._handle, first, end)

    def kinds(self) -> Counter[str]:
        """Frames of each kind that were sent, in the order of the kinds."""
        count = self._call["kinds"]()
        numbers = (_Count * count)()
        self._call["kind_counts"](self._handle, numbers)
        return Counter({self._call["kind_name"](kind).decode(): numbers[kind] for kind in range(count)})

    def counts(self) -> AttackerCounts:
        """All other counts."""
        numbers = (_Count * len(fields(AttackerCounts)))()
        self._call["counts"](self._handle, numbers)
        return AttackerCounts(*numbers)

    def findings(self) -> Iterator[str]:
        """The first violations of the contract, as sentences."""
        number = 0
        while (sentence := self._call["finding"](self._handle, number)) is not None:
            yield sentence.decode()
            number += 1
