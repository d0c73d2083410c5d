# SPDX-License-Identifier: Apache-2.0
"""Phases for the bench of one FSM."""

from dataclasses import dataclass, replace

from hw.ace.config import TINY

__all__ = ["CONFIG", "PACKET", "SPANS", "Coming", "Phase", "Send", "ahead", "both_ways", "phase_of"]

CONFIG = replace(TINY, packet_bytes=64, chunk_bytes=1024, message_bytes=64)
PACKET = CONFIG.packet_beats
SPANS = (1, PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, 3 * PACKET - 3)


@dataclass(frozen=True)
class Send:
    source: int
    target: int
    need: int
    grants: int
    reduce: int
    back: int = 0
    local: int = 0
    ahead: int = 0
    next: int = 0
    next_both: int = 0


@dataclass(frozen=True)
class Phase:
    """A phase of a program, in beats. ``granted`` and the sends together grant the receives to the neighbour.
    ``returns``: receives of sends that go back, which the other neighbour sends."""

    port: int
    span: int
    granted: int
    sends: tuple[Send, ...]
    receives: int
    returns: int = 0


@dataclass
class Coming:
    """The next phase, whose receives are granted: what has arrived of it, in beats, forward and back."""

    phase: Phase
    signalled: list
    arrived: list
    incoming: list


def both_ways(rng, size, *, span=None):
    """Sends to both neighbours, and sums in the loopback, as a one-shot program has them."""
    up, down = size // 2, (size - 1) // 2
    sends = [(hops, 0, 0, back, 0) for hops in range(up) for back in (0, 1) if hops < (up, down)[back]]
    sends += [(down, 0, 1, 1, 1)] * (size - 1)
    made = tuple(Send(rng.randrange(CONFIG.sram_beats // 2), rng.randrange(CONFIG.chunk_beats // 2), *send)
                 for send in sends)
    return Phase(2 * rng.randrange(CONFIG.ports // 2), rng.choice(SPANS) if span is None else span, len(made), made, up,
                 down)


def phase_of(rng, *, sends=None, span=None):
    sends, made = rng.randrange(4) if sends is None else sends, []
    granted = safe = rng.randrange(3)
    for _ in range(sends):
        grants = rng.choice((0, 0, 1, 2))
        made.append(Send(rng.randrange(CONFIG.sram_beats // 2), rng.randrange(CONFIG.chunk_beats // 2),
                         rng.randint(0, safe), grants, rng.randrange(2)))
        safe += grants
    return Phase(rng.randrange(CONFIG.ports), rng.choice(SPANS) if span is None else span, granted, tuple(made), safe)


def ahead(rng, phases):
    """These phases, most of which grant all receives of the next one, in another dimension, with one of their sends."""
    made = [replace(phases[0], port=rng.randrange(CONFIG.ports))]
    for phase in phases[1:]:
        before = made[-1]
        if rng.random() < 0.2:
            made.append(replace(phase, port=rng.randrange(CONFIG.ports)))
            continue
        port = (before.port + 2 * rng.randrange(1, CONFIG.ports // 2)) % CONFIG.ports
        at = rng.randrange(len(before.sends))
        sends = tuple(replace(send, ahead=1, next=port // 2, next_both=phase.returns > 0) if number == at else send
                      for number, send in enumerate(before.sends))
        made[-1] = replace(before, sends=sends)
        # A phase that is granted ahead grants nothing more.
        made.append(replace(phase, port=port, granted=phase.receives,
                            sends=tuple(replace(send, grants=0) for send in phase.sends)))
    return made
