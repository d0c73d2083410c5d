# SPDX-License-Identifier: Apache-2.0
"""What a machine is made of: shape, links, endpoints, rules."""

from dataclasses import asdict, dataclass, field, fields, replace
from math import prod
from typing import Any

from hw.ace.config import DIMENSIONS
from hw.errors import UserError

from .calibration import Calibration

__all__ = ["ENDPOINTS", "MAX_RANKS", "EndpointKind", "LinkConfig", "MachineConfig", "Npu"]

MAX_RANKS = 1024
GB = 1e9
ORDERS = ("priority-lifo", "lifo", "fifo", "priority")
ALGORITHMS = ("hierarchical", "five-phase", "flat")
TURNS = ("age", "message")
SHARING = ("reserved", "demand")


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """Each direction of each link of a dimension.

    Parameters
    ----------
    bytes_per_s : float
        Payload and headers together.
    latency_s : float
        From the last byte at the sender until it has arrived.
    """

    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, kw_only=True)
class Npu:
    """The accelerator that computes. Defaults are from memory of the ACE paper's system, not checked: inputs.

    Parameters
    ----------
    memory_bytes_per_s : float
        Of its memory, for reads; and as much for writes.
    bus_bytes_per_s : float
        Between memory and communication, each way.
    sms : int
        Cores.
    clock_hz : float
    sm_bytes : int
        That a core can move in a cycle.
    flops : float
        Of all cores, for rooflines.
    memory_latency_s : float
        From a read to its first data, and from a write's last to its answer.
    """

    memory_bytes_per_s: float = 900 * GB
    bus_bytes_per_s: float = 500 * GB
    sms: int = 80
    clock_hz: float = 1.245e9
    sm_bytes: int = 64
    flops: float = 120e12
    memory_latency_s: float = 400e-9

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < float("inf") and not (one.name == "memory_latency_s" and value == 0):
                raise UserError(f"{one.name} of an accelerator must be more than 0, not {value!r}.")


@dataclass(frozen=True, kw_only=True)
class EndpointKind:
    """How a rank takes part in collectives, and what that takes from computing.

    Parameters
    ----------
    name : str
    engine : str
        ``sram``: the accelerator; each byte is read from memory once and written once. ``memory``: partial sums are
        in memory; two bytes are read for each that is sent in a reduce-scatter, one in an all-gather, and what comes is
        written. ``ideal``: only the links take time.
    memory_bytes_per_s : float or None
        Of reads, and of writes, that communication has for itself; None for no limit.
    sms : int
        Cores that communication has for itself.
    overlap : bool
        Else communication waits until nothing is computed, and each has everything while it runs.
    sram_bytes, fsms : int or None
        Of ``sram``: room for chunks; chunks on the links at a time. None: any number.
    receive_bytes : int or None
        Of ``sram``: bytes that its lanes take in a clock cycle, from all ports together, and that are read for all
        ports; None for no limit.
    per_dimension : int or None
        Chunks in a phase of each dimension at a time, as in ASTRA-sim's queues; only of a folded machine. None for any
        number.
    """

    name: str
    engine: str
    memory_bytes_per_s: float | None = None
    sms: int = 0
    overlap: bool = True
    sram_bytes: int | None = None
    fsms: int | None = None
    receive_bytes: int | None = None
    per_dimension: int | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("sram", "memory", "ideal"):
            raise UserError(f"The engine of an endpoint must be sram, memory or ideal, not {self.engine!r}.")
        for name in ("memory_bytes_per_s", "sram_bytes", "fsms", "receive_bytes", "per_dimension"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise UserError(f"{name} of the endpoint {self.name} must be more than 0, not {value!r}.")


ENDPOINTS = {kind.name: kind for kind in (
    EndpointKind(name="noovl", engine="memory", memory_bytes_per_s=900 * GB, sms=80, overlap=False),
    EndpointKind(name="commopt", engine="memory", memory_bytes_per_s=450 * GB, sms=6),
    EndpointKind(name="compopt", engine="memory", memory_bytes_per_s=128 * GB, sms=2),
    EndpointKind(name="ace", engine="sram", memory_bytes_per_s=128 * GB, sram_bytes=4 << 20, fsms=32,
                 receive_bytes=4 * 64),
    EndpointKind(name="ideal", engine="ideal"),
)}
"""Those that the ACE paper compares. Shares of memory, cores, SRAM, FSMs and lanes are from memory of it, not checked:
inputs, printed with each result."""


def _default_links() -> tuple[LinkConfig, ...]:
    clock = Npu().clock_hz
    between = LinkConfig(bytes_per_s=25 * GB, latency_s=500 / clock)
    return (LinkConfig(bytes_per_s=200 * GB, latency_s=90 / clock), between, between)


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """A torus of equal ranks.

    Parameters
    ----------
    shape : tuple of int
        Ranks along each of one to three dimensions, 2 to 1,024 in all. Rank numbers count the last dimension fastest.
    endpoint : EndpointKind or str
        One of :data:`ENDPOINTS`, or your own.
    links : LinkConfig, or one for each dimension
        By default: the first dimension inside a package (200 GB/s, 90 cycles), the others between packages (25 GB/s,
        500 cycles), from memory of the ACE paper. A single dimension has the first unless told.
    npu : Npu
    order : str
        Which collective's chunks begin first: ``fifo``, ``lifo`` (the latest issued), ``priority`` (the highest, then
        the earliest), or ``priority-lifo`` (the highest, then the latest).
    chunk_bytes : int
        Of a buffer that are worked on together: the slot of the accelerator.
    message_bytes : int
        Most that a chunk sends before others have their turn, and what an event of the simulation stands for.
    packet_bytes, header_bytes : int
        A packet's payload, and what it takes on the link besides.
    both : bool
        Half of all columns go each way round the rings.
    algorithm : str
        ``hierarchical``: the accelerator's programs. ``five-phase``: all-reduce as reduce-scatters in all dimensions
        but the last, all-reduce there, and all-gathers back. ``flat``: a whole all-reduce in each dimension.
    cut_through : bool
        What has come of a step's data is sent on before the rest has; else whole steps.
    blocking : bool
        A rank sends the next block when the one before has arrived.
    turns : str
        Who goes first at a port: ``age`` (who began first), or ``message`` (who had the latest packet of all ports
        until its message is over or it has to wait, then who began first: the accelerator).
    receive_buffer_bytes : int or None
        Of a port, for payload: a packet begins when there is room for the longest, as far as the neighbour has told.
        None for any number. Only with ``whole_packets``.
    whole_packets : bool
        Simulate each packet, never across the end of a place of the slot; else runs of up to ``message_bytes``.
    sharing : str
        What communication takes of cores and memory bandwidth it has always (``reserved``), or while a collective is
        under way on the rank (``demand``).
    clock_hz : float
        Of the accelerator.
    beat_bytes : int
        That the accelerator moves in a cycle: its data width.
    calibration : Calibration or None
        Of the accelerator; None takes the file that comes with the simulator.
    fold : bool
        One rank stands for all while all do the same. What only some ranks do needs ``fold=False``.
    """

    shape: tuple[int, ...]
    endpoint: EndpointKind | str = "ace"
    links: tuple[LinkConfig, ...] | LinkConfig = field(default_factory=_default_links)
    npu: Npu = Npu()
    order: str = "priority-lifo"
    chunk_bytes: int = 64 << 10
    message_bytes: int = 8 << 10
    packet_bytes: int = 256
    header_bytes: int = 16
    both: bool = True
    algorithm: str = "hierarchical"
    cut_through: bool = True
    blocking: bool = False
    turns: str = "age"
    whole_packets: bool = False
    receive_buffer_bytes: int | None = None
    beat_bytes: int = 64
    sharing: str = "reserved"
    clock_hz: float = 1.245e9
    calibration: Calibration | None = None
    fold: bool = True

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.endpoint, EndpointKind):
            if self.endpoint not in ENDPOINTS:
                raise UserError(f"The endpoint must be one of {', '.join(ENDPOINTS)}, not {self.endpoint!r}.")
            put("endpoint", ENDPOINTS[self.endpoint])
        put("shape", tuple(self.shape))
        if not 1 <= len(self.shape) <= DIMENSIONS or not all(isinstance(size, int) and size > 0 for size in self.shape):
            raise UserError(f"A machine must have one to {DIMENSIONS} dimensions of 1 rank or more, "
                            f"not the shape {self.shape!r}.")
        if not 2 <= prod(self.shape) <= MAX_RANKS:
            raise UserError(f"A machine must have 2 to {MAX_RANKS:,} ranks, not {prod(self.shape):,}.")
        links = (self.links,) * len(self.shape) if isinstance(self.links, LinkConfig) else tuple(self.links)
        if len(links) < len(self.shape):
            raise UserError(f"There must be links for each of {len(self.shape)} dimensions, not for {len(links)}.")
        put("links", links[:len(self.shape)])
        for link in self.dimension_links:
            if not link.bytes_per_s > 0 or not link.latency_s >= 0:
                raise UserError(f"A link must have a bandwidth above 0 and a latency of 0 or more, not {link!r}.")
        for name, choices in (("order", ORDERS), ("algorithm", ALGORITHMS), ("turns", TURNS),
                              ("sharing", SHARING)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}.")
        for name, low in (("chunk_bytes", 64), ("message_bytes", 64), ("packet_bytes", 1), ("beat_bytes", 1),
                          ("header_bytes", 0)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < low:
                raise UserError(f"{name} must be an integer of at least {low}, not {getattr(self, name)!r}.")
        kind = self.kind
        if kind.overlap and not (kind.sms < self.npu.sms and
                                 (kind.memory_bytes_per_s or 0) < self.npu.memory_bytes_per_s):
            raise UserError(f"The endpoint {kind.name} must leave some of {self.npu.sms} cores and of "
                            f"{self.npu.memory_bytes_per_s:g} bytes/s of memory bandwidth to compute, not take "
                            f"{kind.sms} and {kind.memory_bytes_per_s:g}.")
        if kind.per_dimension is not None and not self.fold:
            raise UserError("per_dimension of an endpoint needs a machine with fold=True: ranks could wait for each "
                            "other.")
        if not self.clock_hz > 0:
            raise UserError(f"clock_hz must be more than 0, not {self.clock_hz!r}.")
        if kind.engine == "sram" and self.slots is not None and self.slots < 1:
            raise UserError(f"SRAM of {kind.sram_bytes:,} bytes has no room for a chunk of "
                            f"{self.chunk_bytes:,} bytes.")

    @property
    def ranks(self) -> int:
        return prod(self.shape)

    @property
    def kind(self) -> EndpointKind:
        """``endpoint``, of which the constructor has looked up the name."""
        assert isinstance(self.endpoint, EndpointKind)
        return self.endpoint

    @property
    def dimension_links(self) -> tuple[LinkConfig, ...]:
        """``links``, of which the constructor has made one for each dimension."""
        assert isinstance(self.links, tuple)
        return self.links

    @property
    def slots(self) -> int | None:
        """Chunks that are in the SRAM at a time, or None for any number."""
        size = self.kind.sram_bytes
        return None if size is None else size // self.chunk_bytes

    def with_(self, **changes: Any) -> "MachineConfig":
        """A copy with other values."""
        return replace(self, **changes)

    def inputs(self) -> dict[str, Any]:
        """All values, as plain data: what a result is printed with and stored by."""
        return asdict(replace(self, calibration=self.calibration or Calibration.load()))
