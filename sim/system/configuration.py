# SPDX-License-Identifier: Apache-2.0
"""Configuration of a machine: shape, links, endpoints, rules."""

from dataclasses import asdict, dataclass, field, replace
from math import ceil, prod
from typing import Any

from hw.ace.config import DIMENSIONS, AceConfig
from hw.ace.sizing import needs
from hw.errors import UserError

from .calibration import Calibration
from .endpoint_kinds import ENDPOINTS, EndpointKind
from .memory import POOLS
from .networks import LinkConfig, check_network, default_links
from .parts import Npu, check
from .stragglers import Stragglers

__all__ = ["ABORT_BEATS", "ENDPOINTS", "MAX_RANKS", "EndpointKind", "LinkConfig", "MachineConfig", "Npu"]

MAX_RANKS = 1024
ORDERS = ("priority-lifo", "lifo", "fifo", "priority")
ALGORITHMS = ("hierarchical", "five-phase", "flat")
TURNS = ("message", "age", "fifo")
SIZES = ("endpoint", "rule")
SHARING = ("reserved", "demand")
MOST_CYCLES = 1_000_000
ABORT_BEATS = 2
"""Free entries, besides those for a packet, of the memory of packets that are not acknowledged: for ABORTs."""
BEATS = (8, 16, 32, 64, 128)
"""Bytes of a beat that an accelerator can have."""


def by_rule(config: "MachineConfig") -> EndpointKind:
    """The endpoint of a machine with as many FSMs and slots as :func:`hw.ace.sizing.needs` says.

    Raises
    ------
    UserError
        If it is no accelerator, or of a width that none has.
    """
    kind, beat = config.endpoint, config.beat_bytes
    assert isinstance(kind, EndpointKind)
    if kind.engine != "sram" or beat not in BEATS:
        raise UserError(f"sizes=rule needs an endpoint with SRAM and beats of {', '.join(map(str, BEATS))} bytes, not "
                        f"the endpoint {kind.name} and {beat!r}.")
    links = [link for link, ranks in zip(config.dimension_links, config.shape, strict=True) if ranks > 1]
    try:
        width = AceConfig(data_width=8 * beat, packet_bytes=config.packet_bytes)
    except ValueError as error:
        raise UserError(f"sizes=rule: {error}.") from error
    found = needs(
        width, config.shape,
        link_rate=min(1.0, max(link.bytes_per_s for link in links) / beat / config.clock_hz),
        link_latency=ceil(max(link.latency_s for link in links) * config.clock_hz),
        memory_latency=ceil(config.npu.memory_latency_s * config.clock_hz), chunk_bytes=config.chunk_bytes)
    return replace(kind, fsms=found.fsms, sram_bytes=found.slots * config.chunk_bytes)


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """Ranks on a torus, or on switches.

    Parameters
    ----------
    shape : tuple of int
        Ranks along each of one to three dimensions, 2 to 1,024 in all. Rank numbers count the last dimension fastest.
    endpoint : EndpointKind or str
        One of :data:`ENDPOINTS`, or a new one.
    links : LinkConfig, or one for each dimension
        By default: the first dimension inside a package (200 GB/s, 90 cycles), the others between packages (25 GB/s,
        500 cycles), recalled from the ACE paper. By default, a machine of one dimension has the links of the first.
        :data:`.networks.NETWORKS` has others, with switches.
    npu : Npu
    order : str
        Order in which the chunks of collectives start: ``fifo``, ``lifo`` (the latest issued first), ``priority`` (the
        highest, then the earliest), or ``priority-lifo`` (the highest, then the latest).
    chunk_bytes : int
        Bytes of a chunk: the size of an SRAM slot in the accelerator.
    chunks : int or None
        Cut every collective into this number of chunks of equal length instead, and a shorter one for the remainder.
        Not for an accelerator.
    most_chunks : int or None
        Cut longer parts of a collective, in each direction of the rings, into about this number of chunks, of which
        those in the middle are long (:mod:`.coarse`); a send into this number of messages. None for no limit.
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
    replay_bytes : int or None
        Memory of a port, for payload of packets that wait or are not acknowledged. None for no limit. Only with
        ``receive_buffer_bytes``.
    whole_packets : bool
        Simulate each packet, none of which crosses the end of a position in the slot; otherwise simulate runs of up to
        ``message_bytes``.
    bank_stalls : bool
        Simulate the stalls by the banks of the SRAM, which depend on the positions of each rank: only with
        ``whole_packets`` and ``fold=False``.
    sizes : str
        FSMs and slots of an accelerator: those of its ``endpoint``, or ``rule``, as many as :func:`hw.ace.sizing.needs`
        says for the shape, ``chunk_bytes``, the fastest and the longest of the links, and the memory's latency.
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
    stragglers : Stragglers
        Slow ranks; only with ``fold=False``.
    fold : bool
        One rank represents all, which must all do the same. Operations of some ranks only need ``fold=False``.
    distinct : tuple of int
        With ``fold``, dimensions along which ranks differ, such as the stages of a pipeline: one rank represents those
        of the same coordinates there. Operations of some ranks need all of those that a rank represents.
    """

    shape: tuple[int, ...]
    endpoint: EndpointKind | str = "ace"
    links: tuple[LinkConfig, ...] | LinkConfig = field(default_factory=default_links)
    npu: Npu = field(default_factory=Npu)
    order: str = "priority-lifo"
    chunk_bytes: int = 64 << 10
    chunks: int | None = None
    most_chunks: int | None = None
    message_bytes: int = 8 << 10
    packet_bytes: int = 256
    header_bytes: int = 16
    both: bool = True
    algorithm: str = "hierarchical"
    cut_through: bool = True
    blocking: bool = False
    turns: str = "message"
    whole_packets: bool = False
    bank_stalls: bool = False
    receive_buffer_bytes: int | None = None
    replay_bytes: int | None = None
    beat_bytes: int = 64
    sizes: str = "endpoint"
    sharing: str = "reserved"
    memory_pool: str = "shared"
    clock_hz: float = 1.245e9
    calibration: Calibration | None = None
    stragglers: Stragglers = field(default_factory=Stragglers)
    fold: bool = True
    distinct: tuple[int, ...] = ()

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
        put("distinct", tuple(sorted(set(self.distinct))))
        if not set(self.distinct) <= set(range(len(self.shape))):
            raise UserError(f"distinct must be dimensions of {len(self.shape)}, counted from 0, not {self.distinct!r}.")
        check_network(links[:len(self.shape)], self.shape)
        for name, choices in (("order", ORDERS), ("algorithm", ALGORITHMS), ("turns", TURNS), ("sizes", SIZES),
                              ("sharing", SHARING), ("memory_pool", POOLS)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}.")
        check("a machine", self, "chunk_bytes", "chunks", "most_chunks", "message_bytes", "packet_bytes",
              "header_bytes", "receive_buffer_bytes", "replay_bytes", "beat_bytes", "clock_hz")
        put("_kind", by_rule(self) if self.sizes == "rule" else self.endpoint)
        self._check_together()

    def _check_together(self) -> None:
        """Values that must fit each other."""
        kind = self.kind
        if self.chunks is not None and kind.engine == "sram":
            raise UserError("chunks is for endpoints without SRAM; the length of an accelerator's chunks is "
                            f"chunk_bytes, so chunks must be none with the endpoint {kind.name}, not {self.chunks!r}.")
        if kind.overlap and not (kind.sms < self.npu.sms and self.memory_share < self.npu.memory_bytes_per_s):
            raise UserError(f"The endpoint {kind.name} must leave some of {self.npu.sms} cores and of "
                            f"{self.npu.memory_bytes_per_s:g} bytes/s of memory bandwidth to compute, not take "
                            f"{kind.sms} and {self.memory_share:g}.")
        if self.most_chunks is not None and (self.whole_packets or self.chunks is not None):
            raise UserError("most_chunks makes long chunks of long messages, so it must be none with "
                            f"whole_packets=true or chunks, not {self.most_chunks!r}.")
        for name, cycles in (self.calibration.cycles if self.calibration else {}).items():
            if not 0 <= cycles <= MOST_CYCLES:
                raise UserError(f"calibration.{name} must be from 0 to {MOST_CYCLES:,}, not {cycles!r}.")
        self._check_network()
        if kind.per_dimension is not None and (not self.fold or self.distinct):
            raise UserError("per_dimension of an endpoint needs a machine with fold=True: ranks could wait for each "
                            "other.")
        if self.receive_buffer_bytes is not None:
            if not self.whole_packets or kind.engine != "sram":
                raise UserError("receive_buffer_bytes counts packets of an accelerator, so it needs whole_packets=true "
                                f"and an endpoint with SRAM, not whole_packets={str(self.whole_packets).lower()} and "
                                f"the endpoint {kind.name}.")
            if self.receive_buffer_bytes < self.packet_bytes:
                raise UserError(f"receive_buffer_bytes must hold the longest packet of {self.packet_bytes:,} bytes, "
                                f"not {self.receive_buffer_bytes:,}.")
        if self.replay_bytes is not None:
            if self.receive_buffer_bytes is None:
                raise UserError("replay_bytes holds packets until a report acknowledges them, so it needs "
                                "receive_buffer_bytes.")
            if self.replay_bytes < (least := self.packet_bytes + ABORT_BEATS * self.beat_bytes):
                raise UserError(f"replay_bytes must hold the longest packet and {ABORT_BEATS} beats, {least:,} bytes, "
                                f"not {self.replay_bytes:,}.")
        if self.bank_stalls and (not self.whole_packets or self.fold or kind.engine != "sram"):
            raise UserError("bank_stalls are those of packets and of each rank in an SRAM, so they need "
                            "whole_packets=true, fold=false and an endpoint with SRAM, not whole_packets="
                            f"{str(self.whole_packets).lower()}, fold={str(self.fold).lower()} and the endpoint "
                            f"{kind.name}.")
        if kind.engine == "sram" and self.slots is not None and self.slots < 1:
            raise UserError(f"SRAM of {kind.sram_bytes:,} bytes cannot hold a chunk of {self.chunk_bytes:,} bytes.")

    def _check_network(self) -> None:
        """Switches and stragglers beside endpoint and rules."""
        kind, slow = self.kind, self.stragglers
        if slow.any and self.fold:
            raise UserError("stragglers need fold=false, as one rank cannot represent ranks that differ.")
        if slow.rank is not None and slow.rank >= self.ranks:
            raise UserError(f"stragglers.rank must be one of 0 to {self.ranks - 1}, not {slow.rank}.")
        switched = any(link.switched for link in self.dimension_links)
        if kind.switched != "ring" and kind.engine == "sram":
            raise UserError(f"switched={kind.switched} is not for an accelerator, whose programs are rings, so not for "
                            f"the endpoint {kind.name}.")
        if switched and self.whole_packets:
            raise UserError("whole_packets=true is for the accelerator's own links, which are rings, so not for links "
                            "of the kind switch.")
        if switched and (self.algorithm != "hierarchical" or self.blocking):
            raise UserError("algorithm and blocking are rules of simulators of rings; with links of the kind switch "
                            "they must be hierarchical and false, not "
                            f"{self.algorithm} and {str(self.blocking).lower()}.")

    @property
    def ranks(self) -> int:
        return prod(self.shape)

    @property
    def kind(self) -> EndpointKind:
        """``endpoint``, with a name already replaced by its entry in :data:`ENDPOINTS`, and with FSMs and slots by
        ``sizes``."""
        made: EndpointKind = self.__dict__["_kind"]
        return made

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
    def memory_share(self) -> float:
        """Bytes per second of memory bandwidth that communication takes from computation."""
        kind = self.kind
        if kind.memory_bytes_per_s is None:
            return 2 * kind.port_bytes * self.clock_hz if kind.port_bytes else 0.0
        return kind.memory_bytes_per_s

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
