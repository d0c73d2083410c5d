# SPDX-License-Identifier: Apache-2.0
"""The Ethernet model of ``network.h`` in Python: settings, faults, counts, and a network of software stations alone.

::

    with SoftwareNetwork([Line(bytes_per_cycle=50)] * 2, Switch(mark_bytes=20_000), seed=1) as network:
        network.fault(0, Faults(loss=0.01))
        network.send(0, frame)
        network.run(1000)
        frames = network.receive(1)
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hw.errors import UserError
from sim.verilator.build import execute
from sim.verilator.program import Program
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root, find_compiler

__all__ = ["ANY_FRAME", "ANY_ROCE", "FUNCTIONS", "HEADERS", "FaultAction", "Faults", "Line", "Network", "NetworkFailed",
           "PortCounts", "SoftwareNetwork", "Switch", "closed", "load", "network_arguments"]

_HERE = Path(__file__).parent
_CPP = _HERE.parent / "cpp"
HEADERS = (*(_HERE / f"{name}.h" for name in ("frame", "segment", "capture", "network", "network_api")),
           _CPP / "memory.h", _CPP / "library.h")
"""Sources of the network for a library that contains it."""
_OPTIONS = ("-std=gnu++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared")

ANY_ROCE, ANY_FRAME = -1, -2
"""In place of an opcode: each RoCEv2 frame; each frame."""

_FRAME_LIMIT, _ALL_PORTS = 1 << 15, (1 << 32) - 1


class NetworkFailed(UserError):
    """The network cannot be made or used like this."""

    status = 1


@dataclass(frozen=True, kw_only=True)
class Line:
    """The segment of one port, the same in both directions: its rate, and its latency in cycles."""

    bytes_per_cycle: float
    latency: int = 10


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Options of the switch.

    Parameters
    ----------
    queue_bytes : int
        Limit of each output queue; frames beyond it are dropped.
    mark_bytes : int
        Frames capable of ECN that find more than this in their queue are marked.
    receive_bytes : int
        Limit of the receive FIFO of a station of RTL; frames beyond it are dropped.
    forward_cycles : int
        From a frame's last byte at one port to the output queue of another.
    learning : bool
        The switch learns addresses from their frames.
    """

    queue_bytes: int = 1 << 18
    mark_bytes: int = (1 << 64) - 1
    receive_bytes: int = 1 << 16
    forward_cycles: int = 1
    learning: bool = True


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Probabilities per frame of one direction of a segment.

    ``corrupt``: one bit behind the Ethernet addresses is flipped, with a right FCS. ``bad_fcs``: the FCS is wrong: the
    switch drops the frame, and a station receives it as corrupt. ``reorder``: it is delayed by up to
    ``reorder_cycles``, and later ones may pass it.
    """

    loss: float = 0.0
    corrupt: float = 0.0
    bad_fcs: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_cycles: int = 0

    def __post_init__(self) -> None:
        for name in ("loss", "corrupt", "bad_fcs", "duplicate", "reorder"):
            if not 0 <= getattr(self, name) <= 1:
                raise NetworkFailed(f"The probability {name} must be from 0 to 1, not {getattr(self, name)!r}.")


class FaultAction(IntEnum):
    """Faults of chosen frames."""

    DROP = 0
    CORRUPT = 1
    BAD_FCS = 2
    DUPLICATE = 3
    DELAY = 4


@dataclass(frozen=True)
class PortCounts:
    """Counts of one port since the start.

    ``sent``: by its station, before faults. ``received``: taken by its station. ``payload``: bytes of RoCEv2 packets
    behind their headers. ``queue``: most bytes in the output queue towards the station. ``gaps``: cycles in a sent
    frame without a beat. ``latency``: cycles from the start of a frame at its sender to its last byte. Those that
    begin with ``up`` and ``down`` are faults from and to the station.
    """

    sent: int
    sent_bytes: int
    sent_payload: int
    received: int
    received_bytes: int
    received_payload: int
    tail_drops: int
    marks: int
    queue: int
    fcs_drops: int
    filtered: int
    flooded: int
    overruns: int
    gaps: int
    latency_sum: int
    latency_most: int
    up_dropped: int
    up_corrupted: int
    up_bad_fcs: int
    up_duplicated: int
    up_reordered: int
    up_directed: int
    down_frames: int
    down_dropped: int
    down_corrupted: int
    down_bad_fcs: int
    down_duplicated: int
    down_reordered: int
    down_directed: int

    @property
    def latency(self) -> float:
        """Mean latency of the received frames in cycles."""
        return self.latency_sum / self.received if self.received else 0.0


class _Segment(ctypes.Structure):
    _fields_ = [("bytes_per_cycle", ctypes.c_double), ("latency", ctypes.c_uint32)]


class _Switch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("queue_bytes", "mark_bytes", "receive_bytes", "seed")]
    _fields_ += [(name, ctypes.c_uint32) for name in ("forward_cycles", "learning", "ports")]


class _Faults(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("loss", "corrupt", "bad_fcs", "duplicate", "reorder")]
    _fields_ += [("reorder_cycles", ctypes.c_uint64)]


class _Directed(ctypes.Structure):
    _fields_ = [("opcode", ctypes.c_int32), *((name, ctypes.c_uint32) for name in ("skip", "count", "action")),
                ("cycles", ctypes.c_uint64)]


_Handle, _Number, _Count, _Text = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p
_Functions = dict[str, tuple[Any, ...]]
FUNCTIONS: _Functions = {
    "network_error": (_Text,),
    "network_faults": (ctypes.c_int, _Handle, _Number, _Number, ctypes.POINTER(_Faults)),
    "network_direct": (ctypes.c_int, _Handle, _Number, _Number, ctypes.POINTER(_Directed)),
    "network_assign": (ctypes.c_int, _Handle, _Count, _Number),
    "network_capture": (ctypes.c_int, _Handle, _Text, _Number, ctypes.c_double),
    "network_flush": (ctypes.c_int, _Handle),
    "network_send": (ctypes.c_int, _Handle, _Count, _Number, _Text, _Count),
    "network_receive": (ctypes.c_int64, _Handle, _Count, _Number, _Handle, _Count, ctypes.POINTER(_Number)),
    "network_counts": (ctypes.c_int, _Handle, _Number, ctypes.POINTER(_Count)),
}
"""Function of ``network_api.h`` -> result and arguments; a result of less than 0 is an error."""
_BENCH_FUNCTIONS: _Functions = {
    "bench_create": (_Handle, ctypes.POINTER(_Switch), ctypes.POINTER(_Segment)),
    "bench_destroy": (None, _Handle),
    "bench_network": (_Handle, _Handle),
    "bench_cycle": (_Count, _Handle),
    "bench_flow": (ctypes.c_int, _Handle, _Number, _Text, _Count, _Count, _Count),
    "bench_sink": (ctypes.c_int, _Handle, _Number),
    "bench_run": (ctypes.c_int, _Handle, _Count),
}


def closed() -> dict[str, Callable[..., Any]]:
    """Functions of a network that was destroyed, which raise :class:`NetworkFailed`."""
    return _Closed()


def load(path: Path, functions: _Functions) -> dict[str, Callable[..., Any]]:
    """The functions of a library with a network; they raise :class:`NetworkFailed`."""
    loaded = ctypes.CDLL(str(path))
    made: dict[str, Callable[..., Any]] = {}

    def checked(function: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if result is None if function.restype is _Handle else isinstance(result, int) and result < 0:
                raise NetworkFailed(made["network_error"]().decode())
            return result

        return call

    for name, (result, *arguments) in {**FUNCTIONS, **functions}.items():
        function = loaded[name]
        function.restype, function.argtypes = result, arguments
        made[name] = checked(function)
    return made


def network_arguments(lines: Sequence[Line], switch: Switch, seed: int) -> tuple[Any, Any]:
    """The first arguments of a function that makes a network: of the switch, and of the segments."""
    for line in lines:
        if not line.bytes_per_cycle > 0 or line.latency < 1:
            raise NetworkFailed("A line has a rate of more than 0 bytes per cycle and a latency of at least 1 cycle, "
                                f"not {line.bytes_per_cycle} and {line.latency}.")
    segments = (_Segment * len(lines))(*(_Segment(line.bytes_per_cycle, line.latency) for line in lines))
    return ctypes.byref(_Switch(switch.queue_bytes, switch.mark_bytes, switch.receive_bytes, seed,
                                switch.forward_cycles, switch.learning, len(lines))), segments


class _Closed(dict[str, Callable[..., Any]]):
    """In place of the functions of a network that was destroyed."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        raise NetworkFailed("The network is closed.")


class Network:
    """A network in a library: all that does not depend on the kind of its stations.

    Parameters
    ----------
    functions : dict
        From :func:`load`.
    handle : object
        The network.
    cycle : callable
        The present cycle.
    """

    def __init__(self, functions: dict[str, Callable[..., Any]], handle: object, cycle: Callable[[], int]) -> None:
        self._call: dict[str, Callable[..., Any]]
        self._call, self._network, self._cycle = functions, handle, cycle
        self._buffer = ctypes.create_string_buffer(_FRAME_LIMIT)

    def fault(self, port: int, faults: Faults, *, down: bool = False) -> None:
        """Set the faults of the frames from the station at ``port``, or of those to it."""
        self._call["network_faults"](self._network, port, down, ctypes.byref(_Faults(*astuple(faults))))

    def direct(self, port: int, action: FaultAction, *, opcode: int = ANY_ROCE, number: int = 1, count: int = 1,
               down: bool = False, cycles: int = 0) -> None:
        """A fault of the ``number``-th frame from now, and of those behind it, ``count`` in all, that match ``opcode``.

        ``cycles``: delay, for ``FaultAction.DELAY``.
        """
        if number < 1:
            raise NetworkFailed(f"Frames are counted from 1, not from {number}.")
        self._call["network_direct"](self._network, port, down,
                                     ctypes.byref(_Directed(opcode, number - 1, count, action, cycles)))

    def assign(self, mac: bytes, port: int) -> None:
        """Frames to ``mac`` leave at ``port``, whatever the switch learns."""
        self._call["network_assign"](self._network, int.from_bytes(mac, "big"), port)

    def capture(self, path: Path, *, port: int | None = None, ns_per_cycle: float = 4.0) -> None:
        """Record the frames that one station sends and receives, or those of all, in a pcap file from now on."""
        self._call["network_capture"](self._network, str(path).encode(), _ALL_PORTS if port is None else port,
                                      ns_per_cycle)

    def flush(self) -> None:
        """Write what is captured to the file."""
        self._call["network_flush"](self._network)

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame from a software station, behind those that it has sent."""
        self._call["network_send"](self._network, self._cycle(), port, frame, len(frame))

    def receive(self, port: int) -> Iterator[tuple[bytes, bool]]:
        """Frames that have arrived at a software station, and whether their FCS was wrong."""
        bad = _Number()
        while count := self._call["network_receive"](self._network, self._cycle(), port, self._buffer, _FRAME_LIMIT,
                                                     ctypes.byref(bad)):
            yield self._buffer.raw[:count], bool(bad.value)

    def counts(self, port: int) -> PortCounts:
        """Counts of a port."""
        numbers = (_Count * len(fields(PortCounts)))()
        count = self._call["network_counts"](self._network, port, numbers)
        assert count == len(numbers)
        return PortCounts(*numbers)


class SoftwareNetwork(Network):
    """A network without RTL; ``run`` advances its time.

    Parameters
    ----------
    lines : sequence of Line
        One for each port, 2 to 8.
    switch : Switch
    seed : int
        Of the faults.
    """

    def __init__(self, lines: Sequence[Line], switch: Switch | None = None, *, seed: int = 1) -> None:
        functions = load(_build().path, _BENCH_FUNCTIONS)
        self._bench = functions["bench_create"](*network_arguments(lines, switch or Switch(), seed))
        super().__init__(functions, functions["bench_network"](self._bench),
                         lambda: int(self._call["bench_cycle"](self._bench)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._call["bench_destroy"](self._bench)
        self._call = closed()

    @property
    def cycle(self) -> int:
        """The present cycle."""
        return self._cycle()

    def flow(self, port: int, frame: bytes, *, frames: int, interval: int = 0) -> None:
        """Send a frame repeatedly from now on, ``interval`` cycles apart, as fast as the segment accepts them."""
        self._call["bench_flow"](self._bench, port, frame, len(frame), interval, frames)

    def sink(self, port: int) -> None:
        """Take, count and drop all frames that arrive at a port."""
        self._call["bench_sink"](self._bench, port)

    def run(self, cycles: int) -> None:
        """Advance by a number of cycles."""
        self._call["bench_run"](self._bench, cycles)


def _build() -> Program:
    compiler, main = find_compiler(), _HERE / "network.cpp"
    sources = [(path.name, path.read_text(encoding="utf-8")) for path in (main, *HEADERS)]
    folder = build_root() / "sim" / f"rdma_network-{digest(sources, _OPTIONS, compiler.version)}"

    def make() -> None:
        execute([*compiler.command, *_OPTIONS, f"-I{_CPP}", main, "-o", folder / "library.so"], folder=folder,
                log=folder / "compiler.log")

    reused, seconds = once(folder, make, product="library.so", name="rdma_network")
    return Program(folder / "library.so", reused, seconds)
