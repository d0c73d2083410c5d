# SPDX-License-Identifier: Apache-2.0
"""Packets to the beats of an interface, for tests of the monitor without a simulator."""

from hw.pcie.pins import cc_user_layout, cq_user_layout, rc_user_layout, rq_user_layout
from hw.pcie.tlp import CompleterCompletion, CompleterRequest, RequesterCompletion, RequesterRequest
from sim.pcie.stream import Packet

__all__ = ["Beat", "beats", "descriptor", "packet"]

_USERS = {"cq": cq_user_layout, "cc": cc_user_layout, "rq": rq_user_layout, "rc": rc_user_layout}
_DESCRIPTORS = {"cq": CompleterRequest, "cc": CompleterCompletion, "rq": RequesterRequest, "rc": RequesterCompletion}
_SIZES = {"cq": 4, "cc": 3, "rq": 4, "rc": 3}


class Beat:
    """Pins of a beat, with ``tuser`` by name of field."""

    def __init__(self, name, width):
        self.layout = _USERS[name](width)
        self.data = self.keep = self.last = self.user = 0

    def set(self, field, value):
        one = self.layout[field]
        self.user = self.user & ~((1 << one.width) - 1 << one.offset) | value << one.offset

    def mark(self, kind, number, pointer):
        """Mark a start or an end."""
        self.set(f"{kind}s", (1 << number + 1) - 1)
        self.set(f"{kind}_{number}", pointer)

    @property
    def pins(self):
        return self.data, self.keep, self.last, self.user


def descriptor(name, **fields):
    """Double words of a descriptor."""
    raw = sum(value << _DESCRIPTORS[name][field].offset for field, value in fields.items())
    return [raw >> 32 * number & 0xFFFFFFFF for number in range(_SIZES[name])]


def packet(name, payload=(), *, first_be=0, last_be=0, **fields):
    return Packet(first_be, last_be, words=[*descriptor(name, **fields), *payload])


def beats(name, width, packets, *, segments=1):
    """Consecutive beats; a packet starts in the first of the ``segments`` behind the end of the former one."""
    made, lanes = [], width // 32
    grid = lanes // segments
    beat, lane, starts, ends = None, 0, 0, 0
    for one in packets:
        for number, word in enumerate(one.words):
            if lane == 0:
                beat, starts, ends = Beat(name, width), 0, 0
                made.append(beat)
            if number == 0:
                if width == 512:
                    beat.mark("start", starts, lane // 4)
                if name in ("rq", "cq"):
                    suffix = f"_{starts}" if width == 512 else ""
                    beat.set(f"first_be{suffix}", one.first_be)
                    beat.set(f"last_be{suffix}", one.last_be)
                starts += 1
            beat.data |= word << 32 * lane
            beat.keep |= 1 << lane
            if number == len(one.words) - 1:
                if width == 512:
                    beat.mark("end", ends, lane)
                ends += 1
                beat.last = int(segments == 1)
                lane += -(lane + 1) % grid
            lane = (lane + 1) % lanes
    return made
