# SPDX-License-Identifier: Apache-2.0
"""Configuration of a machine: shape, links, endpoints, rules."""

from dataclasses import asdict, dataclass, field, fields, replace
from math import prod
from typing import Any

from hw.ace.config import DIMENSIONS
from hw.errors import UserError

from .calibration import Calibration
from .memory import POOLS

__all__ = ["ENDPOINTS", "MAX_RANKS", "EndpointKind", "LinkConfig", "MachineConfig", "Npu"]

MAX_RANKS = 1024
GB = 1e9
ORDERS = ("priority-lifo", "lifo", "fifo", "priority")
ALGORITHMS = ("hierarchical", "five-phase", "flat")
TURNS = ("message", "age", "fifo")
SHARING = ("reserved", "demand")


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """Each direction of each link of a dimension.

    Parameters
    ----------
    bytes_per_s : float
        Bandwidth for payload and headers.
    latency_s : float
        Time from the departure of a packet's last byte until its arrival.
    """

    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, kw_only=True)
class Npu:
    """The processor that computes. Defaults are recalled from the ACE paper and not checked against it: inputs.

    Parameters
    ----------
    memory_bytes_per_s : float
        Bandwidth of its memory, for bytes read and bytes written together.
    bus_bytes_per_s : float
        Bandwidth between memory and communication in each direction.
    sms : int
        Number of cores.
    clock_hz : float
    sm_bytes : int
        Bytes that a core can move per cycle.
    flops : float
        Peak rate of all cores, for rooflines.
    memory_latency_s : float
        Time from a read to its first data, and from the last data of a write to its response.
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
    """Endpoint of a rank for collectives, and the resources that it takes from computation.

    Parameters
    ----------
    name : str
    engine : str
        ``sram``: the accelerator; each byte is read from memory once and written once. ``memory``: partial sums are in
        memory; for each byte sent, a reduce-scatter reads two bytes and an all-gather one; received bytes are written.
        ``ideal``: only the links take time.
    memory_bytes_per_s : float or None
        Bandwidth that is reserved for communication, by the convention ``memory_pool``; None for no limit.
    sms : int
        Cores reserved for communication.
    overlap : bool
        Communication and computation overlap. Otherwise they alternate (:class:`.alternation.Alternation`), and each
        uses all resources while it runs.
    sram_bytes, fsms : int or None
        With ``sram``: capacity for chunks; maximum of chunks on the links. None for no limit.
    receive_bytes : int or None
        With ``sram``: bytes per clock cycle that its lanes accept from all ports together, and that are read for all
        ports; None for no limit.
    per_dimension : int or None
        Maximum of chunks in the phases of each dimension, as in ASTRA-sim's queues; folded machines only. None for no
        limit.
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
"""The endpoints that the ACE paper compares. Shares of memory, cores, SRAM, FSMs and lanes are recalled from the paper
and not checked against it: inputs, printed with each result."""


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
        One of :data:`ENDPOINTS`, or a new one.
    links : LinkConfig, or one for each dimension
        By default: the first dimension inside a package (200 GB/s, 90 cycles), the others between packages (25 GB/s,
        500 cycles), recalled from the ACE paper. By default, a machine of one dimension has the links of the first.
    npu : Npu
    order : str
        Order in which the chunks of collectives start: ``fifo``, ``lifo`` (the latest issued first), ``priority`` (the
        highest, then the earliest), or ``priority-lifo`` (the highest, then the latest).
    chunk_bytes : int
        Bytes of a chunk: the size of an SRAM slot in the accelerator.
    chunks : int or None
        Cut every collective into this number of chunks of equal length instead, and a shorter one for the remainder.
        Not for an accelerator.
    message_bytes : int
        Maximum that a chunk sends before other chunks are served, and the size of a simulated transfer.
    packet_bytes, header_bytes : int
        Payload of a packet, and its overhead on the link.
    both : bool
        Send half of all columns in each direction of the rings.
    algorithm : str
        ``hierarchical``: the accelerator's programs. ``five-phase``: all-reduce as reduce-scatters in all dimensions
        but the last, all-reduce there, and all-gathers back. ``flat``: a whole all-reduce in each dimension.
    cut_through : bool
        Forward received data of a step before the remaining data of the step arrives; otherwise forward whole steps.
    blocking : bool
        A rank sends the next block only after the previous one has arrived.
    turns : str
        Arbitration at a port: ``message``, the accelerator's own (the chunk of the latest packet, over all ports, until
        its message ends or it stalls, then the one that started first; endpoints without an accelerator: as ``age``),
        or ``age`` (the collective that comes first in ``order``; of its chunks the oldest), or ``fifo`` (of its chunks
        the one that was ready first). ``per_dimension`` of an endpoint admits chunks by ``age`` or ``fifo``, too.
    receive_buffer_bytes : int or None
        Receive buffer of a port, for payload: a packet starts when the neighbour's credits suffice for the longest one.
        None for no limit. Only with ``whole_packets``.
    whole_packets : bool
        Simulate each packet, none of which crosses the end of a position in the slot; otherwise simulate runs of up to
        ``message_bytes``.
    sharing : str
        Communication holds its cores and memory bandwidth always (``reserved``), or only while a collective is in
        progress on the rank (``demand``).
    memory_pool : str
        What an endpoint's share of memory bandwidth is for, one of :data:`.memory.POOLS`: ``shared`` by reads and
        writes, or ``separate``, as much for each.
    clock_hz : float
        Clock of the accelerator.
    beat_bytes : int
        Bytes that the accelerator moves per cycle: its data width.
    calibration : Calibration or None
        Latencies of the accelerator; None loads the file that is part of the simulator.
    fold : bool
        One rank represents all, which must all do the same. Operations of some ranks only need ``fold=False``.
    """

    shape: tuple[int, ...]
    endpoint: EndpointKind | str = "ace"
    links: tuple[LinkConfig, ...] | LinkConfig = field(default_factory=_default_links)
    npu: Npu = Npu()
    order: str = "priority-lifo"
    chunk_bytes: int = 64 << 10
    chunks: int | None = None
    message_bytes: int = 8 << 10
    packet_bytes: int = 256
    header_bytes: int = 16
    both: bool = True
    algorithm: str = "hierarchical"
    cut_through: bool = True
    blocking: bool = False
    turns: str = "message"
    whole_packets: bool = False
    receive_buffer_bytes: int | None = None
    beat_bytes: int = 64
    sharing: str = "reserved"
    memory_pool: str = "shared"
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
                              ("sharing", SHARING), ("memory_pool", POOLS)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}.")
        for name, low in (("chunk_bytes", 64), ("message_bytes", 64), ("packet_bytes", 1), ("beat_bytes", 1),
                          ("header_bytes", 0)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < low:
                raise UserError(f"{name} must be an integer of at least {low}, not {getattr(self, name)!r}.")
        kind = self.kind
        if self.chunks is not None and (self.chunks < 1 or kind.engine == "sram"):
            raise UserError("chunks must be 1 or more, and is for endpoints without SRAM only, not "
                            f"{self.chunks!r} with the endpoint {kind.name}.")
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
            raise UserError(f"SRAM of {kind.sram_bytes:,} bytes cannot hold a chunk of {self.chunk_bytes:,} bytes.")

    @property
    def ranks(self) -> int:
        return prod(self.shape)

    @property
    def kind(self) -> EndpointKind:
        """``endpoint``, with a name already replaced by its entry in :data:`ENDPOINTS`."""
        assert isinstance(self.endpoint, EndpointKind)
        return self.endpoint

    @property
    def dimension_links(self) -> tuple[LinkConfig, ...]:
        """``links``, already expanded to one for each dimension."""
        assert isinstance(self.links, tuple)
        return self.links

    @property
    def reserved(self) -> bool:
        """Communication holds cores and memory bandwidth while it is idle, too."""
        return self.sharing == "reserved" and self.kind.overlap

    @property
    def slots(self) -> int | None:
        """Number of chunks that fit in the SRAM, or None for no limit."""
        size = self.kind.sram_bytes
        return None if size is None else size // self.chunk_bytes

    def with_(self, **changes: Any) -> "MachineConfig":
        """A copy with other values."""
        return replace(self, **changes)

    def inputs(self) -> dict[str, Any]:
        """All values as plain data, to be printed with a result and to form its key in a store."""
        return asdict(replace(self, calibration=self.calibration or Calibration.load()))
