# SPDX-License-Identifier: Apache-2.0
"""Sizes and times of the machine: compute units, L2, DRAM, predictor. All are inputs; cycles are those of one clock."""

from dataclasses import asdict, dataclass, field, fields

from hw.errors import UserError

__all__ = ["CacheSizes", "DramSizes", "MachineConfig", "Predictor", "Units"]


def _within(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UserError(f"{what} must be an integer from {low:,} to {high:,}, not {value!r}.")


def _power(what: str, value: int) -> None:
    if value & (value - 1):
        raise UserError(f"{what} must be a power of two, not {value!r}.")


@dataclass(frozen=True, kw_only=True)
class CacheSizes:
    """The L2.

    Parameters
    ----------
    sets, ways : int
        Of all banks together.
    line, sector : int
        Bytes, powers of two; a line has up to 16 sectors.
    banks : int
        Each accepts one request per cycle.
    mshrs : int
        Reads of DRAM in flight, of a bank.
    queue : int
        Requests that wait for a bank's decision.
    latency : int
        Cycles from the bank's decision, or the arrival of the data, to the response.
    """

    sets: int = 256
    ways: int = 16
    line: int = 64
    sector: int = 32
    banks: int = 8
    mshrs: int = 64
    queue: int = 8
    latency: int = 24

    def __post_init__(self) -> None:
        for name, low, high in (("sets", 1, 1 << 16), ("ways", 1, 64), ("line", 32, 256), ("sector", 8, 256),
                                ("banks", 1, 64), ("mshrs", 1, 4096), ("queue", 1, 1024), ("latency", 1, 10_000)):
            _within(f"cache.{name}", getattr(self, name), low, high)
        _power("cache.line", self.line)
        _power("cache.sector", self.sector)
        if not self.line // 16 <= self.sector <= self.line:
            raise UserError(f"cache.sector must be from {self.line // 16} to the {self.line} bytes of a line, "
                            f"not {self.sector}.")

    @property
    def bytes(self) -> int:
        return self.sets * self.ways * self.line


@dataclass(frozen=True, kw_only=True)
class DramSizes:
    """DRAM: channels of banks with row buffers.

    Parameters
    ----------
    channels, banks : int
        Banks are those of a channel, a power of two.
    row, interleave : int
        Bytes of a row of one channel, and of the pieces in which addresses alternate between channels.
    bus : int
        Bytes per cycle of a channel.
    reads, writes : int
        Entries of a channel's queues, among which its scheduler chooses.
    high, low : int
        Queued writes at which a channel starts and ends to write.
    cas, rcd, precharge, ras, recovery : int
        Cycles from a column command to its data, from an activation to a column command, of a precharge, from an
        activation to a precharge, and from the end of written data to a precharge.
    turnaround : int
        Cycles between reads and writes on the bus.
    age : int
        Cycles in a queue after which a request has its bank to itself.
    """

    channels: int = 2
    banks: int = 16
    row: int = 2048
    interleave: int = 256
    bus: int = 16
    reads: int = 64
    writes: int = 128
    high: int = 96
    low: int = 32
    cas: int = 14
    rcd: int = 14
    precharge: int = 14
    ras: int = 33
    recovery: int = 15
    turnaround: int = 8
    age: int = 1000

    def __post_init__(self) -> None:
        for name, low, high in (("channels", 1, 64), ("banks", 2, 64), ("row", 256, 1 << 16),
                                ("interleave", 32, 1 << 16), ("bus", 1, 256), ("reads", 1, 4096), ("writes", 2, 4096),
                                ("high", 1, 4096), ("low", 0, 4095), ("age", 1, 1 << 20)):
            _within(f"dram.{name}", getattr(self, name), low, high)
        for name in ("cas", "rcd", "precharge", "ras", "recovery", "turnaround"):
            _within(f"dram.{name}", getattr(self, name), 0, 10_000)
        _power("dram.banks", self.banks)
        if not self.low < self.high <= self.writes:
            raise UserError(f"dram.high must be above dram.low and at most dram.writes, but the three are {self.high}, "
                            f"{self.low} and {self.writes}.")

    @property
    def bytes_per_cycle(self) -> int:
        return self.channels * self.bus


@dataclass(frozen=True, kw_only=True)
class Units:
    """Compute units: their number, and outstanding lines of loads and stores of each."""

    units: int = 8
    loads: int = 64
    stores: int = 64

    def __post_init__(self) -> None:
        for name, high in (("units", 256), ("loads", 4096), ("stores", 4096)):
            _within(f"units.{name}", getattr(self, name), 1, high)


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """The predictor of reuse.

    Parameters
    ----------
    counter : int
        Largest and first count of a PC; at 0 the PC bypasses.
    reuse, waste : int
        Steps up at the first reuse of a line, and down at an eviction without reuse.
    sampled : int
        One of this number of sets allocates whatever is predicted.
    """

    counter: int = 7
    reuse: int = 2
    waste: int = 1
    sampled: int = 32

    def __post_init__(self) -> None:
        for name, high in (("counter", 255), ("reuse", 255), ("waste", 255), ("sampled", 1 << 16)):
            _within(f"predictor.{name}", getattr(self, name), 1, high)


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """All of the machine."""

    cache: CacheSizes = field(default_factory=CacheSizes)
    dram: DramSizes = field(default_factory=DramSizes)
    units: Units = field(default_factory=Units)
    predictor: Predictor = field(default_factory=Predictor)

    def __post_init__(self) -> None:
        for name in ("row", "interleave"):
            value = getattr(self.dram, name)
            if value % self.cache.line:
                raise UserError(f"dram.{name} must be a multiple of the {self.cache.line} bytes of a line, "
                                f"not {value}.")

    def arguments(self, *, groups: int, policy: dict[str, int]) -> list[str]:
        """Options of the model's programs; ``groups``: work groups of a compute unit at a time."""
        parts = {"cache": asdict(self.cache), "dram": asdict(self.dram),
                 "units": {**asdict(self.units), "groups": groups}, "policy": {**asdict(self.predictor), **policy}}
        return [word for name, values in parts.items()
                for word in (f"--{name}", ",".join(f"{key}={value}" for key, value in values.items()))]

    def inputs(self) -> dict[str, int]:
        """Name -> value of all."""
        return {f"{part.name}.{name}": value for part in fields(self)
                for name, value in asdict(getattr(self, part.name)).items()}
