# SPDX-License-Identifier: Apache-2.0
"""Kinds of endpoints: those that the ACE paper compares, and the accelerator as it is built."""

from dataclasses import dataclass
from typing import Any

from hw.ace.config import BASE, PIPES, ULTRA, WIDE, WIRE_HEADER_BYTES, AceConfig
from hw.errors import UserError

from .parts import GB, check

__all__ = ["BUILT", "ENDPOINTS", "PAPER", "EndpointKind", "kind_of", "rules", "rules_of"]

SWITCHED = ("ring", "direct", "in-network")
"""Algorithms over switches."""


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
        Bandwidth that is reserved for communication, by the convention ``memory_pool``; None for no limit but that of
        ``port_bytes``.
    sms : int
        Cores reserved for communication.
    overlap : bool
        Communication and computation overlap. Otherwise they alternate (:class:`.alternation.Alternation`), and each
        uses all resources while it runs.
    sram_bytes, fsms : int or None
        With ``sram``: capacity for chunks; maximum of chunks on the links. None for no limit.
    pipes : int
        With ``sram``: pipes between links and SRAM, with a part of the ports each: :class:`hw.ace.config.AceConfig`.
    receive_bytes : int or None
        With ``sram``: bytes per clock cycle that the lanes of a pipe accept from its ports together, and that it reads
        for them; None for no limit.
    port_bytes : int or None
        With ``sram``: bytes per clock cycle and direction of its memory port; None for no limit.
    per_dimension : int or None
        Maximum of chunks in the phases of each dimension, as in ASTRA-sim's queues; folded machines only. None for no
        limit.
    switched : str
        Its algorithm in dimensions of the kind ``switch``, one of :data:`SWITCHED`. ``ring``: as on a ring. ``direct``:
        each rank sends to each other one, without forwarding. ``in-network``: switches that can reduce add and
        multicast; as ``direct`` at others, and for an all-to-all. Not for an accelerator, whose programs are rings.
        Broadcasts, reduces and barriers always go along a ring.
    launch_s, sync_s : float
        Seconds from a collective's issue until it starts, such as for the launch of a kernel, and from its end until
        its rank can use the result. Cores that it needs are ``sms``: always, or while it runs (``sharing``).
    """

    name: str
    engine: str
    memory_bytes_per_s: float | None = None
    sms: int = 0
    overlap: bool = True
    sram_bytes: int | None = None
    fsms: int | None = None
    pipes: int = 1
    receive_bytes: int | None = None
    port_bytes: int | None = None
    per_dimension: int | None = None
    switched: str = "ring"
    launch_s: float = 0.0
    sync_s: float = 0.0

    def __post_init__(self) -> None:
        if self.engine not in ("sram", "memory", "ideal"):
            raise UserError(f"The engine of an endpoint must be sram, memory or ideal, not {self.engine!r}.")
        if self.pipes not in PIPES:
            raise UserError(f"pipes of the endpoint {self.name} must be {' or '.join(map(str, PIPES))}, "
                            f"not {self.pipes!r}.")
        check(f"the endpoint {self.name}", self, "memory_bytes_per_s", "sms", "sram_bytes", "fsms", "receive_bytes",
              "port_bytes", "per_dimension", "launch_s", "sync_s")
        if self.switched not in SWITCHED:
            raise UserError(f"switched of the endpoint {self.name} must be one of {', '.join(SWITCHED)}, "
                            f"not {self.switched!r}.")


PAPER = {kind.name: kind for kind in (
    EndpointKind(name="noovl", engine="memory", memory_bytes_per_s=900 * GB, sms=80, overlap=False),
    EndpointKind(name="commopt", engine="memory", memory_bytes_per_s=450 * GB, sms=6),
    EndpointKind(name="compopt", engine="memory", memory_bytes_per_s=128 * GB, sms=2),
    EndpointKind(name="ace", engine="sram", memory_bytes_per_s=128 * GB, sram_bytes=4 << 20, fsms=32,
                 receive_bytes=4 * 64),
    EndpointKind(name="ideal", engine="ideal"),
)}
"""The endpoints that the ACE paper compares. Shares of memory, cores, SRAM, FSMs and lanes are recalled from the paper
and not checked against it: inputs, printed with each result."""

BUILT = {"base": BASE, "wide": WIDE, "ultra": ULTRA}
"""Presets of the RTL that are endpoints."""

SHARES = {"ultra": PAPER["ace"].memory_bytes_per_s}
"""Memory bandwidth of those that have a share of it, less than their memory port could use: an input, as that of
``ace``."""


def kind_of(accelerator: AceConfig, name: str, memory_bytes_per_s: float | None = None) -> EndpointKind:
    """:class:`EndpointKind` of an ``AceConfig``, with a share of memory bandwidth, or without a limit but its port's, a
    beat per cycle in each direction."""
    return EndpointKind(
        name=name, engine="sram", memory_bytes_per_s=memory_bytes_per_s,
        sram_bytes=accelerator.slots * accelerator.chunk_bytes, fsms=accelerator.fsms, pipes=accelerator.pipes,
        receive_bytes=4 * accelerator.lanes, port_bytes=accelerator.beat_bytes)


def rules_of(accelerator: AceConfig) -> dict[str, Any]:
    """Values of :class:`.MachineConfig` that an ``AceConfig`` determines."""
    return {"chunk_bytes": accelerator.chunk_bytes, "message_bytes": accelerator.message_bytes,
            "packet_bytes": accelerator.packet_bytes, "header_bytes": WIRE_HEADER_BYTES,
            "beat_bytes": accelerator.beat_bytes}


def rules(endpoint: str) -> dict[str, Any]:
    """Those of an endpoint as it is built; none for another one."""
    return rules_of(BUILT[endpoint]) if endpoint in BUILT else {}


ENDPOINTS = {**PAPER, **{name: kind_of(accelerator, name, SHARES.get(name)) for name, accelerator in BUILT.items()}}
"""All endpoints by name."""
