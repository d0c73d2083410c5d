# SPDX-License-Identifier: Apache-2.0
"""From the beats of a packet interface to packets, with every rule of the interface (PG213, 512-bit and others).

Independent of the library's parsing, and of cocotb: the caller passes the pins of each cycle as integers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from amaranth.lib import data

from hw.pcie.pins import cc_user_layout, cq_user_layout, rc_user_layout, rq_user_layout

__all__ = ["INTERFACES", "Packet", "PacketStream", "Pins", "Violation", "fields_of"]


class Violation(AssertionError):
    """A rule of PCI Express or of PG213 was broken; the message names the TLP and the rule."""


Pins = tuple[int, int, int, int]
"""``tdata``, ``tkeep``, ``tlast`` and ``tuser``."""

_LAYOUTS: dict[str, Callable[[int], data.StructLayout]] = {
    "cq": cq_user_layout, "cc": cc_user_layout, "rq": rq_user_layout, "rc": rc_user_layout}

INTERFACES = tuple(_LAYOUTS)
"""CQ and RC come from the hard block, CC and RQ from the card."""

_DESCRIPTORS = {"cq": 4, "cc": 3, "rq": 4, "rc": 3}


def fields_of(layout: data.StructLayout) -> dict[str, tuple[int, int]]:
    """Offset and mask of each field of a layout."""
    return {str(name): (one.offset, (1 << one.width) - 1) for name, one in layout}


@dataclass
class Packet:
    """One TLP on an interface.

    Attributes
    ----------
    words : list of int
        Double words: the descriptor, and the payload.
    first_be, last_be : int
        On RQ and CQ, from ``tuser``.
    byte_enables : list of int
        On RC and CQ: of each double word.
    discontinue : bool
        Whether any beat was marked so.
    lane : int
        Double word of the beat in which it started.
    """

    first_be: int = 0
    last_be: int = 0
    lane: int = 0
    discontinue: bool = False
    words: list[int] = field(default_factory=list)
    byte_enables: list[int] = field(default_factory=list)

    def descriptor(self, dwords: int) -> int:
        return sum(word << 32 * number for number, word in enumerate(self.words[:dwords]))


class PacketStream:
    """The rules of one interface, and its packets.

    Parameters
    ----------
    name : str
        One of :data:`INTERFACES`.
    data_width : int
        128, 256 or 512.
    segments : int
        Packets that may start in a beat: 1 without straddling, 2 or 4 with 512 bits.
    """

    def __init__(self, name: str, data_width: int, *, segments: int = 1) -> None:
        if segments not in ((1, 2, 4) if data_width == 512 else (1,)):
            raise ValueError(f"{name} with {data_width} bits cannot have {segments} packets in a beat")
        self.name, self.segments, self.lanes = name, segments, data_width // 32
        self._from_card = name in ("cc", "rq")
        self._fields = fields_of(_LAYOUTS[name](data_width))
        self._wide = data_width == 512
        self._open: Packet | None = None
        self._waiting: Pins | None = None
        self._marked = False    # without straddling: whether this packet sets the fields of starts and ends

    @property
    def idle(self) -> bool:
        """Whether no packet is open and no beat waits."""
        return self._open is None and self._waiting is None

    def reset(self) -> None:
        """Drop the open packet."""
        self._open, self._waiting = None, None

    def cycle(self, valid: int, ready: int, pins: Pins = (0, 0, 0, 0)) -> Iterator[tuple[Packet, bool]]:
        """Take the pins at one clock edge; yields each packet whose descriptor, or whose end, this beat transfers.

        The flag is True at the packet's end. A packet of one beat is yielded twice.
        """
        waiting, self._waiting = self._waiting, None
        if not valid:
            if waiting is not None:
                self._fail("tvalid must stay asserted until tready")
            if self._open is not None and self._from_card:
                self._fail("tvalid must stay asserted for the duration of a packet", self._open)
            return
        if waiting is not None and pins != waiting:
            names = [name for name, old, new in zip(("tdata", "tkeep", "tlast", "tuser"), waiting, pins, strict=True)
                     if old != new]
            self._fail(f"{' and '.join(names)} must be stable while tvalid waits for tready")
        if not ready:
            self._waiting = pins
            return
        yield from self._straddled(pins) if self.segments > 1 else self._alone(pins)

    def _fail(self, rule: str, packet: Packet | None = None) -> None:
        words = [] if packet is None else packet.words[:4]
        where = f", TLP {' '.join(f'{word:08x}' for word in words)}" if words else ""
        raise Violation(f"{self.name.upper()}{where}: {rule}")

    def _get(self, pins: Pins, name: str) -> int:
        if name not in self._fields:
            return 0
        offset, mask = self._fields[name]
        return pins[3] >> offset & mask

    def _begin(self, pins: Pins, number: int, lane: int) -> Packet:
        suffix = f"_{number}" if self._wide else ""
        return Packet(self._get(pins, f"first_be{suffix}"), self._get(pins, f"last_be{suffix}"), lane)

    def _take(self, packet: Packet, pins: Pins, lanes: range) -> bool:
        """Append double words; whether the descriptor became complete."""
        before = len(packet.words)
        packet.words += [pins[0] >> 32 * lane & 0xFFFFFFFF for lane in lanes]
        if "byte_en" in self._fields:
            enables = self._get(pins, "byte_en")
            packet.byte_enables += [enables >> 4 * lane & 15 for lane in lanes]
        packet.discontinue |= bool(self._get(pins, "discontinue"))
        return before < _DESCRIPTORS[self.name] <= len(packet.words)

    def _end(self, packet: Packet) -> None:
        if len(packet.words) < _DESCRIPTORS[self.name]:
            self._fail(f"a packet must hold its descriptor of {_DESCRIPTORS[self.name]} DW, not {len(packet.words)} DW",
                       packet)

    def _alone(self, pins: Pins) -> Iterator[tuple[Packet, bool]]:
        """A beat of one packet at most, which ``tlast`` ends."""
        _, keep, last, _ = pins
        count = keep.bit_length()
        first = self._open is None
        packet = self._begin(pins, 0, 0) if self._open is None else self._open
        if not keep or keep != (1 << count) - 1:
            self._fail(f"tkeep must be ones from bit 0 on, not {keep:#b}", packet)
        if not last and count != self.lanes:
            self._fail(f"tkeep must be all ones before the last beat, not {keep:#b}", packet)
        if self._wide:
            self._check_marks(pins, packet, first, count)
        if self._take(packet, pins, range(count)):
            yield packet, False
        self._open = None if last else packet
        if last:
            self._end(packet)
            yield packet, True

    def _check_marks(self, pins: Pins, packet: Packet, first: bool, count: int) -> None:
        """Without straddling, the fields of starts and ends are all 0, or as ``tlast`` and ``tkeep`` have it."""
        starts, ends = self._get(pins, "starts"), self._get(pins, "ends")
        if first:
            self._marked = bool(starts)
        expected = (int(first and self._marked), int(bool(pins[2]) and self._marked))
        if (starts, ends) != expected:
            self._fail(f"is_sop and is_eop must be {expected[0]:#b} and {expected[1]:#b} in this beat, "
                       f"not {starts:#b} and {ends:#b}", packet)
        if starts and self._get(pins, "start_0"):
            self._fail(f"a packet must start in DW 0, not in DW {4 * self._get(pins, 'start_0')}", packet)
        if ends and self._get(pins, "end_0") != count - 1:
            self._fail(f"is_eop0_ptr must be the last DW of tkeep, {count - 1}, not {self._get(pins, 'end_0')}", packet)

    def _positions(self, pins: Pins, kind: str, scale: int) -> list[int]:
        """DW of the starts or ends of a beat, in order."""
        marks = self._get(pins, f"{kind}s")
        count = marks.bit_length()
        if marks != (1 << count) - 1:
            name = "sop" if kind == "start" else "eop"
            self._fail(f"is_{name} must be ones from bit 0 on, not {marks:#b}", self._open)
        if count > self.segments:
            self._fail(f"at most {self.segments} packets may {kind} in a beat, not {count}", self._open)
        found = [scale * self._get(pins, f"{kind}_{number}") for number in range(count)]
        if found != sorted(set(found)):
            self._fail(f"the {kind}s of a beat must be in ascending order, not {found}", self._open)
        return found

    def _straddled(self, pins: Pins) -> Iterator[tuple[Packet, bool]]:
        """A beat with the end of one packet and the starts of others."""
        starts, ends = self._positions(pins, "start", 4), self._positions(pins, "end", 1)
        grid = self.lanes // self.segments
        packet, position, number = self._open, 0, 0
        if packet is None and not starts:
            self._fail("a beat outside of a packet must start one")
        if packet is None and starts[0]:
            self._fail(f"a packet may start in DW {starts[0]} only behind the end of another in the same beat")
        while packet is not None or starts:
            if packet is None:
                position = starts.pop(0)
                if position % grid:
                    self._fail(f"a packet must start in a multiple of {grid} DW, not in DW {position}")
                packet, number = self._begin(pins, number, position), number + 1
            if not ends or (starts and ends[0] >= starts[0]):
                if starts:
                    self._fail(f"a packet must end before the next one starts in DW {starts[0]}", packet)
                if self._take(packet, pins, range(position, self.lanes)):
                    yield packet, False
                break
            end = ends.pop(0)
            if end < position:
                self._fail(f"a packet that starts in DW {position} must not end in DW {end}", packet)
            if self._take(packet, pins, range(position, end + 1)):
                yield packet, False
            self._end(packet)
            yield packet, True
            packet = None
        if ends:
            self._fail(f"a packet ends in DW {ends[0]} that did not start")
        self._open = packet
