# SPDX-License-Identifier: Apache-2.0
"""Random legal configurations: each size at its minimum, at its maximum and between, in every three of them.

::

    for config in configurations(DMA_START, rounds=2, seed=1):
        DmaEngine(config)

The ranges are not repeated here: a configuration's own checks decide which values are legal. Sizes that depend on each
other are chosen in random order, so that each of them meets its absolute limits in some configurations.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, TypeVar

from hw.ace import config as ace
from hw.ace.config import AceConfig
from hw.common.timing import TimingOptions
from hw.dma_engine import config as dma
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.timing import DmaTimingOptions
from hw.endpoint.config import EndpointConfig
from hw.rdma import config as rdma

__all__ = ["ACE_START", "COMPARABLE", "DMA_START", "configuration", "configurations", "copies", "endpoints",
           "legal_values", "show", "sizes_of"]

Config = TypeVar("Config", bound=DmaConfig | AceConfig | EndpointConfig)

DMA_START = replace(dma.TINY, queues=2, window=4, entries=4096, extended=2, data_width=128, segment_bytes=512,
                    buffer_beats=4096)
"""Sizes that leave the most freedom to each of the others."""

ACE_START = replace(ace.TINY, fsms=2, slots=64, message_bytes=1024, chunk_bytes=32768, packet_bytes=128,
                    link_beats=4096, replay_beats=4096, pipes=1, dimensions=3, lanes=1)
"""The same for accelerators."""

COMPARABLE = {"queues": 4, "regions": 16, "pages": 32}
"""Smallest tables that hold the regions, pages and queues of ``dmace compare dma``; smaller ones have the copies of
``dmace soak dma``."""

_CANDIDATES = sorted({1 << power for power in range(17)} | set(range(1, 64, 2)))

_LEVELS = ("minimum", "between", "maximum")


def _changed(config: Config, changes: Mapping[str, Any]) -> Config:
    return replace(config, **changes)


def legal_values(config: Config, name: str) -> list[Any]:
    """Values of a size, in rising order, or of a choice, that the configuration accepts beside its other values."""
    found = []
    for value in (False, True) if isinstance(getattr(config, name), bool) else _CANDIDATES:
        try:
            _changed(config, {name: value})
        except ValueError:
            continue
        found.append(value)
    return found


def configurations(start: Config, *, rounds: int, seed: int, fixed: Mapping[str, object] | None = None,
                   least: Mapping[str, int] | None = None) -> Iterator[Config]:
    """Yield three configurations per round; in a round each size has its minimum, a value between, and its maximum.

    Where sizes exclude each other, those chosen later have the nearest legal value.

    Parameters
    ----------
    start : DmaConfig, AceConfig or EndpointConfig
        Sizes to start from; those of other types than integers and choices remain.
    rounds : int
        At least 1.
    seed : int
    fixed : mapping, optional
        Name -> value of sizes that do not vary.
    least : mapping, optional
        Name -> smallest value, in place of the legal minimum.
    """
    rng, fixed, least = random.Random(f"configurations {seed}"), fixed or {}, least or {}
    start = _changed(start, fixed)
    start = _changed(start, {name: max(value, getattr(start, name)) for name, value in least.items()})
    names = [field.name for field in fields(start) if field.name not in fixed
             and isinstance(getattr(start, field.name), int)]
    for _ in range(rounds):
        levels = {name: rng.sample(_LEVELS, 3) for name in names}
        for number in range(3):
            config = start
            for name in rng.sample(names, len(names)):
                values = [value for value in legal_values(config, name) if value >= least.get(name, 0)]
                config = _changed(config, {name: _value(rng, values, levels[name][number])})
            yield _with_timing(config, rng)


def _value(rng: random.Random, values: Sequence[Any], level: str) -> Any:
    """An odd one between, if there is one."""
    if level == "minimum":
        return values[0]
    if level == "maximum":
        return values[-1]
    inner = values[1:-1] or values
    return rng.choice([value for value in inner if value % 2] or inner)


def _with_timing(config: Config, rng: random.Random) -> Config:
    """Each timing option on or off."""
    options = getattr(config, "timing", None)
    if not isinstance(options, TimingOptions):
        return config
    chosen = {name: rng.random() < 0.5 for name in options.names()}
    return _changed(config, {"timing": type(options)(**chosen)})


def endpoints(*, rounds: int, seed: int) -> Iterator[EndpointConfig]:
    """Three endpoints per round, of engines from :func:`configurations`; every third has a RoCEv2 unit."""
    rng = random.Random(f"endpoints {seed}")
    engines = configurations(DMA_START, rounds=rounds, seed=rng.getrandbits(32))
    # Engines and trigger counters have at most 128 pages, which is always so: 64 queues and 16.
    for number, engine in enumerate(engines):
        accelerator = next(configurations(ACE_START, rounds=1, seed=rng.getrandbits(32), fixed={
            "data_width": engine.data_width, "address_width": 64, "link_channels": 2,
            "packet_bytes": max(128, engine.beat_bytes)}))
        start = EndpointConfig(dma=engine, ace=accelerator)
        made = list(configurations(start, rounds=1, seed=rng.getrandbits(32)))[number % 3]
        yield made.with_rdma(rdma.TINY) if number % 3 == 2 else made


def sizes_of(config: DmaConfig) -> dict[str, Any]:
    """Sizes and timing options as plain values, ready for JSON."""
    return asdict(config)


def configuration(sizes: Mapping[str, Any]) -> DmaConfig:
    """The DMA engine's configuration of :func:`sizes_of`. Raises ValueError if it is not legal."""
    return DmaConfig(**{**sizes, "timing": DmaTimingOptions(**sizes["timing"])})


def copies(config: DmaConfig, *, seed: int, requests: int) -> list[dict[str, Any]]:
    """Rows of ``dmace soak dma`` on this configuration, of at least ``requests`` requests in each run.

    Queues beyond those that have two regions each are idle. Raises :class:`sim.cpp.HarnessFailed` where anything is
    wrong.
    """
    from sim.cpp import build_harness
    from sim.dma.soak import runs

    harness = build_harness(config)
    return [soak.run(harness, seed) for soak in runs(config, requests, requests)]


def show(config: Any) -> str:
    """The sizes on one line, for messages: ``queues=4 queue_depth=8 ...``; timing options that are on."""
    words = []
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, TimingOptions):
            words.append("timing=" + ("+".join(name for name in value.names() if getattr(value, name)) or "none"))
        else:
            words.append(f"{field.name}={f'({show(value)})' if is_dataclass(value) else value}")
    return " ".join(words)
