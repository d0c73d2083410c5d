# SPDX-License-Identifier: Apache-2.0
"""Units of transmission, and the phases that they form.

A *grain* is a run of bytes on a link at a time: a packet, or several packets of a message.
"""

from dataclasses import dataclass

from .configuration import MachineConfig

__all__ = ["Grain", "Leg", "Route", "packets_of"]


@dataclass(frozen=True, slots=True)
class Grain:
    """
    Attributes
    ----------
    size : int
        Bytes of payload.
    packets : int
    need : int
        Number of grains of this phase that must have arrived before.
    send : int
        Number of its send in the phase; GRANTs count sends.
    ends : bool
        It is the last grain of its send.
    reduce : bool
        It is combined with the data at its position.
    grants : int
        Number of receives that are safe after it has left.
    hop : int
        Ranks along the dimension to the receiver, in the direction of the port; 0: to the switch, which sends it to
        all.
    down : int
        Bytes that arrive of what the switch sends.
    source, target : int
        Bytes from the begin of the slots to where it is read and, at the receiver, where it is stored; of grains that
        are packets.
    """

    size: int
    packets: int
    need: int
    send: int
    ends: bool
    reduce: bool
    grants: int
    source: int = 0
    target: int = 0
    hop: int = 1
    down: int = 0

    @property
    def arriving(self) -> int:
        """Bytes that each receiver gets."""
        return self.size if self.hop else self.down


@dataclass(frozen=True, slots=True)
class Leg:
    """A phase: ``comes`` is the number of grains received in it, ``granted`` of receives that are safe on entry.
    ``ahead``: those of the next phase are granted on entry, too."""

    port: int
    grains: tuple[Grain, ...]
    comes: int
    granted: int
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Route of a chunk: numbers of pieces read from memory and written to memory, and the phases.

    ``marks``: of the pieces read, those up to each mark. ``part``: of the pieces written, those that need not wait for
    the last ``rest`` grains of the last phase.
    """

    fills: int
    drains: int
    legs: tuple[Leg, ...]
    marks: tuple[int, ...] = ()
    part: int = 0
    rest: int = 0


def packets_of(config: MachineConfig, size: int) -> int:
    """Packets for a number of bytes."""
    return -(-size // config.packet_bytes)
