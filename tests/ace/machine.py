# SPDX-License-Identifier: Apache-2.0
"""Runs the words of all ranks of a communicator, packet by packet in random order.

It knows the rules of programs (needs, grants) and not how a schedule was made. Violations raise AssertionError: reading
or combining unwritten data, a receive that was not granted or that overwrites data still to be sent, a deadlock.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

import numpy as np

from hw.ace.model.numerics import combine
from hw.ace.numerics.formats import DType, Op, growth, width
from hw.ace.words import HeaderWord, Ordered, PhaseWord, RoleWord, SendWord, TransferWord

__all__ = ["Machine"]


class Machine:
    """All ranks of a communicator, with the words that ``assemble`` made for each, in rank order."""

    def __init__(self, config, shape, dimensions, assemblies, rng):
        self.config, self.shape, self.dimensions, self.rng = config, shape, dimensions, rng
        self.neighbours = {(rank, port): self._neighbour(rank, port) for rank in range(prod(shape))
                           for dimension in dimensions for port in (2 * dimension, 2 * dimension + 1)}
        self.memories = [dict(enumerate(one.words, one.base)) for one in assemblies]
        self.directories = [one.directory for one in assemblies]

    def run(self, collective, inputs, *, dtype=DType.INT8, count=0, op=Op.SUM, root=None, widen=False):
        """Receive buffers in rank order; None where nothing was written."""
        ranks, inside = range(prod(self.shape)), DType.FP32 if widen else dtype
        outputs = [None for _ in ranks]
        header = self._read(0, collective, root, True).header
        size, grown = width(dtype) // 8, growth(dtype) if widen else 0
        shard = 64 * -(-count * size // (64 * header.shards)) if header.split else count * size
        total = count * size if header.split else shard * header.shards
        for up, column, length in self._cuts(collective, header, shard, grown):
            programs = [self._read(rank, collective, root, up) for rank in ranks]
            beats = -(-(length << grown) // self.config.beat_bytes)
            chunk = _Chunk(self, programs, beats, inside, op, trust=not collective.info.moves_data)
            cut = _Cut(shard, total, column, length, size, chunk.piece)
            for rank in ranks:
                for buffer, slot in cut.parts(programs[rank].fills, programs[rank].header.src_whole):
                    chunk.slots[rank][slot] = _converted(inputs[rank][buffer], dtype, inside)
            chunk.run()
            for rank in ranks:
                whole = programs[rank].header.dst_whole
                for buffer, slot in cut.parts(programs[rank].drains, whole):
                    if outputs[rank] is None:
                        outputs[rank] = np.zeros((total if whole else shard) // size, f"u{size}")
                    assert chunk.held[rank][slot].all(), f"rank {rank} keeps unwritten data"
                    outputs[rank][buffer] = _converted(chunk.slots[rank][slot], inside, dtype)
        return outputs

    def _neighbour(self, rank, port):
        coordinates = list(np.unravel_index(rank, self.shape))
        dimension = self.dimensions.index(port // 2)
        coordinates[dimension] = (coordinates[dimension] + (-1 if port % 2 else 1)) % self.shape[dimension]
        return int(np.ravel_multi_index(coordinates, self.shape))

    def _cuts(self, collective, header, shard, grown):
        """Direction, first column and length of each chunk."""
        if not collective.info.moves_data:
            return [(True, 0, 1)]
        half = min(64 * -(-shard // 128), shard) if self.directories[0][collective].both else shard
        piece = header.piece * 64 >> grown
        return [(up, column, min(piece, end - column)) for up, first, end in ((True, 0, half), (False, half, shard))
                for column in range(first, end, piece)]

    def _read(self, rank, collective, root, up):
        memory, entry = self.memories[rank], self.directories[rank][collective]
        address = entry.plus if up else entry.minus
        if collective == Ordered.REDUCE:
            here = map(int, np.unravel_index(rank, self.shape))
            number = sum(3 ** dimension * (at > to) + 2 * 3 ** dimension * (at < to)
                         for dimension, (at, to) in enumerate(zip(here, root, strict=True)))
            address = RoleWord.unpack(memory[address + number]).program
        elif collective.info.rooted:
            number = 0
            for dimension, size in enumerate(self.shape):
                ahead = int(np.unravel_index(rank, self.shape)[dimension]) - root[dimension]
                distance = ahead if up == collective.info.from_root else -ahead
                number += 3 ** dimension * ([0] + [1] * (size - 2) + [2] * (size > 1))[distance % size]
            address = RoleWord.unpack(memory[address + number]).program
        words = iter(range(address, address + len(memory)))
        header = HeaderWord.unpack(memory[next(words)])
        fills, drains = ([TransferWord.unpack(memory[next(words)]) for _ in range(count)]
                         for count in (header.fills, header.drains))
        phases, sends = [], []
        for _ in range(header.phases):
            phases.append(PhaseWord.unpack(memory[next(words)]))
            sends.append([SendWord.unpack(memory[next(words)]) for _ in range(phases[-1].sends)])
        return _Read(header, fills, drains, phases, sends)


@dataclass
class _Read:
    """A program in memory."""

    header: HeaderWord
    fills: list
    drains: list
    phases: list
    sends: list


@dataclass
class _Cut:
    """A range of columns. All in bytes, except ``piece``: elements between consecutive positions of a slot."""

    shard: int
    total: int
    column: int
    length: int
    size: int
    piece: int

    def parts(self, transfers, whole):
        """Elements in the buffer and in the slot, of each piece that starts before the end."""
        for transfer in transfers:
            for number in range(transfer.count):
                assert whole or transfer.shard + number == 0
                first = (transfer.shard + number) * self.shard + self.column
                end = min(first + self.length, self.total)
                slot = (transfer.position + number) * self.piece
                if first < end:
                    yield slice(first // self.size, end // self.size), slice(slot, slot + (end - first) // self.size)


def _converted(elements, from_type, to_type):
    return elements if from_type == to_type else combine(Op.MAX, elements, elements, a_type=from_type, o_type=to_type)


@dataclass
class _Rank:
    """A rank's progress in its program. By phase: ``came``, receives of each side, with the elements of those in
    progress; ``promised``, receives that it has granted; ``granted``, sends that others have."""

    phase: int = -1
    sent: int = 0
    packets: int = 0
    filled: bool = False
    fills: int = 0
    marks: int = 0
    opened: bool = False
    came: dict = field(default_factory=lambda: defaultdict(lambda: ([0, 0], [0, 0])))
    promised: dict = field(default_factory=lambda: defaultdict(int))
    granted_back: set = field(default_factory=set)
    granted: dict = field(default_factory=dict)

    def received(self, back=0):
        """Receives of this phase."""
        return self.came[self.phase][back][0]


class _Chunk:
    """A chunk in all ranks. Packets of a link stay in order; between links and ranks, any order is possible.

    Actors are ranks that start or send, and links that deliver data or grants. ``ready`` are those that may be able to
    act; the most eager of a random few acts, so that others fall far behind.
    """

    def __init__(self, machine, programs, beats, dtype, op, *, trust):
        self.machine, self.rng, self.programs = machine, machine.rng, programs
        self.dtype, self.op, self.trust = dtype, op, trust
        beat = machine.config.beat_bytes * 8 // width(dtype)
        self.piece = beats * beat
        self.packet = beat * int(self.rng.choice([1, 2, 3, 8]))
        longest = machine.config.chunk_beats * beat
        self.slots = [np.full(longest, 0xA5, f"u{width(dtype) // 8}") for _ in programs]
        self.held = [np.zeros(longest, bool) for _ in programs]
        self.ranks = [_Rank() for _ in programs]
        self.links, self.signals = {}, {}
        self.crowd = int(self.rng.choice([1, 3, 24]))
        self.eagerness, self.ready, self.waiting = {}, [], set()
        for rank, program in enumerate(programs):
            for fill in program.fills:
                self.held[rank][fill.position * self.piece:(fill.position + fill.count) * self.piece] = True
        # Receives may not change these before the fill has ended, and sends not read them.
        self.filling = [held.copy() for held in self.held]
        self.parts = {}                             # what was drained before the last receive

    def run(self):
        acts = {"start": self._start, "fill": self._fill, "send": self._send, "land": self._land,
                "report": self._report}
        for number in range(len(self.ranks)):
            self._wake("start", number)
        while self.ready:
            at = int(self.rng.random() * len(self.ready))
            if self.crowd > 1:
                others = range(len(self.ready)) if self.crowd > len(self.ready) else \
                    [int(one * len(self.ready)) for one in self.rng.random(self.crowd)]
                at = max(others, key=lambda one: self.eagerness[self.ready[one]])
            act, key = actor = self.ready[at]
            if not acts[act](key):
                self.ready[at] = self.ready[-1]
                self.ready.pop()
                self.waiting.remove(actor)
        for number, rank in enumerate(self.ranks):
            assert rank.phase == len(self.programs[number].phases), f"rank {number} makes no progress: {rank}"
            assert not self.programs[number].header.parts or number in self.parts
        for number, drained in self.parts.items():
            for place, elements in drained:
                assert (self.slots[number][place] == elements).all(), f"rank {number} changes what it has drained"
        assert not any(self.links.values())

    def _wake(self, act, key):
        actor = act, key
        if actor not in self.waiting:
            self.waiting.add(actor)
            self.ready.append(actor)
            self.eagerness.setdefault(actor, self.rng.random())

    def _start(self, number):
        if self.ranks[number].phase < 0:
            self._wake("fill", number)
            self._enter(number, 0)
        return False

    def _fill(self, number):
        """A fill ends: what it writes was in the slot from the start, but it was not used. Marks may be missed."""
        rank, phases, fills = self.ranks[number], self.programs[number].phases, self.programs[number].fills
        if rank.fills < len(fills) - 1:
            fill = fills[rank.fills]
            rank.fills += 1
            self.filling[number][fill.position * self.piece:(fill.position + fill.count) * self.piece] = False
            if fill.mark and self.rng.random() < 0.9:
                rank.marks, rank.opened = (rank.marks if rank.marks and not rank.opened else 2 * rank.marks + 1,
                                           rank.marks > 0)
                if rank.phase == 0:
                    self._grant(number, 0, rank.marks)
                self._wake("send", number)
            return True
        rank.filled, self.filling[number][:] = True, False
        if rank.phase == 0 and phases and not self.programs[number].header.early:
            self._grant(number, 0, phases[0].granted)
        self._grant_ahead(number)
        self._wake("send", number)
        if rank.phase < len(phases):
            self._leave(number)
        return False

    def _enter(self, number, phase):
        rank, phases = self.ranks[number], self.programs[number].phases
        rank.phase, rank.sent, rank.packets = phase, 0, 0
        if phase < len(phases):
            if rank.filled or self.programs[number].header.early:
                self._grant(number, phase, phases[phase].granted)
            self._grant_ahead(number)
            self._wake("send", number)
            self._leave(number)
        else:
            # A rank that leaves a barrier knows that all ranks have started it.
            assert not self.trust or all(rank.phase >= 0 for rank in self.ranks)

    def _leave(self, number):
        rank = self.ranks[number]
        phase = self.programs[number].phases[rank.phase]
        if self.programs[number].header.parts and rank.phase == len(self.programs[number].phases) - 1 and \
                number not in self.parts and rank.sent == phase.sends and rank.received() + 1 >= phase.receives:
            places = [slice(drain.position * self.piece, (drain.position + drain.count) * self.piece)
                      for drain in self.programs[number].drains[:-1]]
            self.parts[number] = [(place, self.slots[number][place].copy()) for place in places]
        if rank.filled and rank.sent == phase.sends and rank.received() == phase.receives:
            self._enter(number, rank.phase + 1)

    def _grant(self, number, in_phase, total):
        rank, phase = self.ranks[number], self.programs[number].phases[in_phase]
        if total <= rank.promised[in_phase]:
            return
        rank.promised[in_phase] = total
        assert total <= (phase.receives if not self.sums(number, in_phase) else phase.sends)
        for back in range(1 + phase.both):
            # At the port of the sender, whose sends leave there.
            link = number, self.machine.neighbours[number, phase.port ^ 1 ^ back], back
            self.signals.setdefault(link, []).append((in_phase, phase.port, total))
            self._wake("report", link)

    def _grant_ahead(self, number):
        """The send that is next grants all receives of the next phase."""
        rank, program = self.ranks[number], self.programs[number]
        if (not rank.filled and not program.header.early) or not 0 <= rank.phase < len(program.phases):
            return
        for send in program.sends[rank.phase][:rank.sent + 1]:
            if send.next:
                following = program.phases[rank.phase + 1]
                assert (send.next - 1, send.next_both) == (following.port // 2, following.both)
                assert following.port % 2 == program.phases[rank.phase].port % 2
                self._grant(number, rank.phase + 1, following.granted)

    def sums(self, number, phase):
        """Whether it is a phase in which a rank adds what it has received."""
        return any(send.local for send in self.programs[number].sends[phase])

    def _report(self, link):
        if not self.signals[link]:
            return False
        phase, port, granted = self.signals[link].pop(0)
        assert self.programs[link[1]].phases[phase].port == port
        if link[2]:
            self.ranks[link[1]].granted_back.add(phase)
        else:
            self.ranks[link[1]].granted[phase] = granted
        self._wake("send", link[1])
        return True

    def _send(self, number):
        rank, program = self.ranks[number], self.programs[number]
        if not 0 <= rank.phase < len(program.phases) or rank.sent == program.phases[rank.phase].sends or \
                not (rank.filled or (rank.opened and rank.sent <= rank.marks)):
            return False
        phase, send = program.phases[rank.phase], program.sends[rank.phase][rank.sent]
        if send.local:
            return self._add(number, rank, phase, send)
        may = rank.phase in rank.granted_back if send.back else rank.sent < rank.granted.get(rank.phase, 0)
        if not may:
            return False
        length = phase.span * self.piece
        first = rank.packets * self.packet
        last = min(first + self.packet, length)
        # The last required receive, as far as its data has arrived; all earlier ones are complete.
        received, part = rank.came[rank.phase][send.back]
        if received < send.need and (received < send.need - 1 or part < last):
            return False
        source = slice(send.source * self.piece + first, send.source * self.piece + last)
        target = slice(send.target * self.piece + first, send.target * self.piece + last)
        assert self.trust or self.held[number][source].all(), f"rank {number} sends unwritten data: {send}"
        assert self.trust or not self.filling[number][source].any(), f"rank {number} sends what it has yet to fill"
        payload = self.slots[number][source].copy()
        link = number, phase.port ^ send.back
        self.links.setdefault(link, []).append((rank.phase, target, payload, send.reduce))
        self._wake("land", link)
        rank.packets += 1
        if last == length:
            rank.sent, rank.packets = rank.sent + 1, 0
            if send.grants:
                self._grant(number, rank.phase, rank.promised[rank.phase] + send.grants)
            self._grant_ahead(number)
            self._leave(number)
        return True

    def _add(self, number, rank, phase, send):
        """A sum of two positions of the rank's own slot; all that it has received has arrived."""
        if rank.received() < phase.receives or rank.received(1) < send.need:
            return False
        source, target = (slice(at * self.piece, (at + phase.span) * self.piece) for at in (send.source, send.target))
        slot, held = self.slots[number], self.held[number]
        assert held[source].all() and held[target].all(), f"rank {number} adds unwritten data: {send}"
        assert send.reduce and source != target
        slot[target] = combine(self.op, slot[target], slot[source], a_type=self.dtype)
        rank.sent += 1
        self._leave(number)
        return True

    def _land(self, link):
        if not self.links[link]:
            return False
        in_phase = self.links[link][0][0]
        number, target, payload = self._arrived(link, *self.links[link].pop(0))
        rank = self.ranks[number]
        self.slots[number][target], self.held[number][target] = payload, True
        phase = self.programs[number].phases[in_phase]
        came = rank.came[in_phase][link[1] != phase.port]
        came[1] += len(payload)
        if came[1] == phase.span * self.piece:
            came[:] = came[0] + 1, 0
        self._wake("send", number)
        self._leave(number)
        return True

    def _arrived(self, link, in_phase, target, payload, reduce):
        """Rank, position and new content, if the packet may be stored now."""
        number = self.machine.neighbours[link]
        rank, program = self.ranks[number], self.programs[number]
        assert rank.phase in (in_phase, in_phase - 1), f"rank {number} is not at phase {in_phase}: {rank}"
        phase, sends = program.phases[in_phase], program.sends[in_phase]
        assert phase.port == link[1] or (phase.both and phase.port ^ 1 == link[1])
        assert rank.came[in_phase][0][0] < rank.promised[in_phase], f"rank {number} did not grant it: {rank}"
        assert target.stop <= len(self.slots[number])
        assert not self.filling[number][target].any(), f"rank {number} receives what it has yet to fill: {rank}"
        early = in_phase > rank.phase
        if early and not self.trust:
            # Nothing that this phase has yet to read or to write.
            span, left = program.phases[rank.phase].span, program.sends[rank.phase][rank.sent:]
            places = [one.source for one in left] + [one.target for one in left if one.local]
            assert not reduce and all(target.stop <= first * self.piece or (first + span) * self.piece <= target.start
                                      for first in places), f"rank {number} has yet to use {target}: {rank}"
        sent, packets = (0, 0) if early else (rank.sent, rank.packets)
        for send in range(sent, phase.sends if not self.trust else 0):
            if sends[send].local or sends[send].need > rank.came[in_phase][sends[send].back][0]:
                break
            first = sends[send].source * self.piece + (packets * self.packet if send == sent else 0)
            last = (sends[send].source + phase.span) * self.piece
            assert target.stop <= first or last <= target.start, f"rank {number} has yet to send {sends[send]}: {rank}"
        if not reduce:
            return number, target, payload
        assert self.held[number][target].all(), f"rank {number} combines with unwritten data: {rank}"
        return number, target, combine(self.op, self.slots[number][target], payload, a_type=self.dtype)
