# SPDX-License-Identifier: Apache-2.0
"""FSM pools of several ranks, with everything between them in Python: SRAMs, links, and their delays."""

import random
from collections import deque
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped
from amaranth.sim import Simulator

from hw.ace.communicators import Communicators, share_layout
from hw.ace.config import TINY
from hw.ace.layouts import PacketKind
from hw.ace.pool.pool import FsmPool
from hw.ace.programs.program import encode
from hw.ace.programs.schedule import plan, role_of
from hw.ace.programs.store import Programs, ProgramWrite
from hw.ace.words import Collective, OneShot

CONFIG = replace(TINY, pipes=2)
FSM_MASK, SLOT_MASK = CONFIG.fsms - 1, CONFIG.slots - 1
COMMUNICATOR = 2
LIMIT = 20_000
DELAY = 1_000
"""Cycles on a slow link: enough for several chunks."""


class _Rank(wiring.Component):
    """A pool with its programs, and one communicator that has all slots."""

    def __init__(self, fsm_mask):
        self.fsm_mask = fsm_mask
        pool = FsmPool(CONFIG).signature.members
        super().__init__({"write": In(ProgramWrite(CONFIG)), **{name: pool[name] for name in (
            "chunks", "filled", "done", "sends", "signals", "grant", "landed", "turns")}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.pool = pool = FsmPool(CONFIG)
        m.submodules.programs = programs = Programs(CONFIG, clients=1)
        m.submodules.communicators = communicators = Communicators(CONFIG, shares=CONFIG.pipes + 1)
        connect(m, pool.program, programs.reads[0])
        for name in ("chunks", "filled", "grant"):
            connect(m, flipped(getattr(self, name)), getattr(pool, name))
        for name in ("done", "signals", "turns"):
            connect(m, getattr(pool, name), flipped(getattr(self, name)))
        for number in range(CONFIG.pipes):
            connect(m, flipped(self.landed[number]), pool.landed[number])
            connect(m, pool.sends[number], flipped(self.sends[number]))
            connect(m, pool.lookup_shares[number], communicators.shares[number])
        connect(m, flipped(self.write), programs.write)
        connect(m, pool.grant_share, communicators.shares[CONFIG.pipes])
        m.d.comb += [
            communicators.write.valid.eq(self.write.valid), communicators.write.number.eq(COMMUNICATOR),
            communicators.write.share.eq(share_layout(CONFIG).const({
                "fsm_mask": self.fsm_mask, "slot_mask": SLOT_MASK})),
        ]
        return m


class _World:
    """All ranks of a torus, beat by beat; a beat is a number, and a reduction is an addition."""

    def __init__(self, shape, programs, chunks, *, seed, slow, fsm_mask, delayed=()):
        self.rng = random.Random(seed)
        self.shape, self.programs, self.chunks, self.slow = shape, programs, chunks, slow
        self.fsm_mask, self.delayed = fsm_mask, delayed
        self.ranks = [_Rank(fsm_mask) for _ in programs]
        self.srams = [{} for _ in programs]
        self.reading = [[deque() for _ in range(CONFIG.pipes)] for _ in programs]
        self.links = {}                     # (rank, its port) -> packets in flight to it
        self.sending = [[None] * CONFIG.pipes for _ in programs]
        self.landing = [[None] * CONFIG.pipes for _ in programs]    # packets whose last beat is to arrive
        self.through = [[] for _ in programs]
        self.parts = [[] for _ in programs]

    def neighbour(self, rank, port):
        ranks_at = list(product(*map(range, self.shape)))
        entry = list(ranks_at[rank])
        dimension = port // 2
        entry[dimension] = (entry[dimension] + (-1 if port % 2 else 1)) % self.shape[dimension]
        return ranks_at.index(tuple(entry))

    def run(self):
        top = Module()
        for number, rank in enumerate(self.ranks):
            top.submodules[f"rank_{number}"] = rank
        sim = Simulator(top)
        sim.add_clock(1e-6)
        sim.add_testbench(self._live)
        sim.run()

    async def _live(self, ctx):
        for rank, words in zip(self.ranks, self.programs, strict=True):
            ctx.set(rank.write.valid, 1)
            for address, word in enumerate(words):
                ctx.set(rank.write.address, address)
                ctx.set(rank.write.word, word)
                await ctx.tick()
            ctx.set(rank.write.valid, 0)
        waiting = [deque(chunks) for chunks in self.chunks]
        for now in range(LIMIT):
            if all(len(done) == len(chunks) for done, chunks in zip(self.through, self.chunks, strict=True)):
                return
            for number, rank in enumerate(self.ranks):
                self._rank(ctx, now, number, rank, waiting[number])
            await ctx.tick()
        states = [[chunk["sequence"] for chunk in left] for left in waiting]
        raise AssertionError(f"Not done in {LIMIT} cycles: through {self.through}, waiting {states}")

    def _delay(self, to):
        return DELAY if to in self.delayed else self.rng.randint(1, 60) if self.slow else 2

    def _rank(self, ctx, now, number, rank, waiting):
        """One cycle of one rank: its outputs now, and its inputs for the next edge."""
        # A chunk starts when its slot is free: here, when the previous chunk of the slot has completed.
        offered = bool(waiting) and waiting[0]["sequence"] - len(self.through[number]) < CONFIG.fsms
        ctx.set(rank.chunks.valid, offered)
        if offered:
            ctx.set(rank.chunks.payload, waiting[0])
            if ctx.get(rank.chunks.ready):
                waiting.popleft()
        ctx.set(rank.done.ready, 1)
        if ctx.get(rank.done.valid):
            done = ctx.get(rank.done.payload)
            if done.part:
                self.parts[number].append(done.slot)
            else:
                assert all(report is None or report["fsm"] != done.slot & self.fsm_mask
                           for report in self.landing[number]), "A chunk is done before a packet of it has ended"
                self.through[number].append(done.slot)
        ctx.set(rank.signals.free, self.rng.getrandbits(CONFIG.ports) if self.slow else -1)
        ctx.set(rank.signals.ready, 1)
        if ctx.get(rank.signals.valid):
            signal = ctx.get(rank.signals.payload)
            self._put(number, now, signal.port, signal.header, None)
        offering = ctx.get(rank.turns.offering)
        assert not offering or self.chunks[number][0]["sequence"] not in {chunk["sequence"] for chunk in waiting}
        for pipe in range(CONFIG.pipes):
            self._send(ctx, now, number, pipe, rank.sends[pipe], offering)

        ctx.set(rank.grant.valid, 0)
        granted, landed = False, set()
        for pipe, ports in enumerate(CONFIG.pipe_ports):
            ctx.set(rank.landed[pipe].valid, 0)
            if self.landing[number][pipe]:
                self._end(ctx, number, pipe, rank.landed[pipe])
                continue
            for port in ports:
                link = self.links.get((number, port))
                if not link or link[0][0] > now:
                    continue
                if link[0][1].kind == PacketKind.GRANT:
                    if granted:
                        continue
                    granted = True
                    _, header, _ = link.popleft()
                    ctx.set(rank.grant.valid, 1)
                    ctx.set(rank.grant.payload, {"port": port, "grant": {name: header[name] for name in (
                        "communicator", "sequence", "phase", "granted")}})
                else:
                    _, header, beats = link.popleft()
                    fsm = header.sequence & self.fsm_mask
                    # An FSM receives in one dimension in each phase.
                    assert (fsm, header.phase % 2, port % 2) not in landed, "An FSM cannot count both packets"
                    landed.add((fsm, header.phase % 2, port % 2))
                    self._land(ctx, number, pipe, rank.landed[pipe], header, beats, port)
                break

    def _send(self, ctx, now, number, pipe, sends, offering):
        """One cycle of one pipe."""
        ports = CONFIG.ports + 1
        free = self.rng.getrandbits(ports) if self.slow else (1 << ports) - 1
        ctx.set(sends.free, free & sum(1 << port for port in CONFIG.pipe_ports[pipe]))
        # A packet is visible here in the cycle after its offer, as ``offering`` is.
        send = ctx.get(sends.payload) if ctx.get(sends.valid) else None
        if send is not None and self.sending[number][pipe] is None:
            assert offering == 1 << send.header.communicator and send.port in CONFIG.pipe_ports[pipe]

        reading = self.reading[number][pipe]
        busy = len(reading) > 3
        self.sending[number][pipe] = send if busy else None
        ctx.set(sends.ready, not busy)
        if send is not None and not busy:
            before = reading[-1][0] if reading else now
            reading.append((before + self.rng.randint(1, 20 if self.slow else 2), send))

        ctx.set(sends.read, 0)
        if reading and reading[0][0] <= now:
            _, send = reading.popleft()
            ctx.set(sends.read, 1)
            ctx.set(sends.fsm, send.fsm)
            beats = [self.srams[number].pop(send.address + beat, None) for beat in range(send.header.beats + 1)]
            for beat, value in enumerate(beats):
                assert value is not None, "A beat that never came is sent"
                self.srams[number][send.address + beat] = value
            self._put(number, now, send.port, send.header, beats)

    def _put(self, number, now, port, header, beats):
        to = (number, port) if port == CONFIG.local_port else (self.neighbour(number, port), port ^ 1)
        link = self.links.setdefault(to, deque())
        link.append((max(now + self._delay(to), link[-1][0] if link else 0), header, beats))

    def _end(self, ctx, number, pipe, landed):
        """Some cycles after the first beat of a packet, the last one."""
        report = self.landing[number][pipe]
        if self.rng.random() < (0.1 if self.slow else 0.5):
            self.landing[number][pipe] = None
            ctx.set(landed.valid, 1)
            ctx.set(landed.payload, {**report, "begin": 0, "end": 1})

    def _land(self, ctx, number, pipe, landed, header, beats, port):
        slot = header.sequence & SLOT_MASK
        for beat, value in enumerate(beats):
            at = slot * CONFIG.chunk_beats + header.offset + beat
            here = self.srams[number].get(at)
            if header.reduce:
                assert here is not None, "A beat is reduced where nothing is"
                value += here
            self.srams[number][at] = value
        local = port == CONFIG.local_port
        report = {"fsm": header.sequence & self.fsm_mask, "beats": len(beats) - 1, "odd": port % 2, "local": local,
                  "final": header.final, "odd_phase": header.phase & 1, "begin": 1, "end": local or len(beats) == 1}
        ctx.set(landed.valid, 1)
        ctx.set(landed.payload, report)
        if not report["end"]:
            self.landing[number][pipe] = report


def _program(collective, shape, entry, root, up):
    dimensions = tuple(range(len(shape)))
    if collective.info.rooted:
        role = tuple(role_of(collective, here, there, size, up=up)
                     for here, there, size in zip(entry, root, shape, strict=True))
        return plan(collective, shape, dimensions, entry, up=up, role=role)
    return plan(collective, shape, dimensions, entry, up=up)


def _expected(collective, values, rank, root, ranks):
    """Shard -> value that a rank must have in the end."""
    return {
        OneShot.ALL_REDUCE: {0: sum(values[r][0] for r in range(ranks))},
        Collective.ALL_REDUCE: {s: sum(values[r][s] for r in range(ranks)) for s in range(ranks)},
        Collective.REDUCE_SCATTER: {0: sum(values[r][rank] for r in range(ranks))},
        Collective.ALL_GATHER: {s: values[s][0] for s in range(ranks)},
        Collective.ALL_TO_ALL: {s: values[s][rank] for s in range(ranks)},
        Collective.BROADCAST: {0: values[root][0]},
        Collective.REDUCE: {0: sum(values[r][0] for r in range(ranks))} if rank == root else {},
    }[collective]


def _play(shape, kinds, pieces, *, root=0, fsm_mask=FSM_MASK, **world):
    """Chunks of these ``kinds``, (collective, whether it goes up), each with pieces of at most as many beats as
    ``pieces`` gives."""
    rng = random.Random(f"{shape} {kinds}")
    ranks_at = list(product(*map(range, shape)))
    ranks = len(ranks_at)
    words, begins, programs = [], [], {}
    for rank, entry in enumerate(ranks_at):
        mine, starts = [], {}
        for kind in dict.fromkeys(kinds):
            programs[rank, kind] = program = _program(kind[0], shape, entry, ranks_at[root], kind[1])
            starts[kind] = len(mine) + 1 + len(program.fills) + len(program.drains)
            mine += encode(program, CONFIG)
        words.append(mine)
        begins.append(starts)
    worst = max(program.positions for program in programs.values())
    pieces = [min(piece, CONFIG.chunk_beats // worst) for piece in pieces]
    chunks = [[{
        "communicator": COMMUNICATOR, "sequence": number, "fsm": number & fsm_mask, "slot": number & SLOT_MASK,
        "arithmetic": {"dtype": 0, "op": 0}, "piece_beats": pieces[number],
        "program": begins[rank][kind], "phases": len(programs[rank, kind].phases), "ended": 1, "filled": 1,
        "parts": programs[rank, kind].parts,
    } for number, kind in enumerate(kinds)] for rank in range(ranks)]
    world = _World(shape, words, chunks, seed=f"{shape} {kinds}", fsm_mask=fsm_mask, **world)

    def beats(run, number):
        """Shard, address and number of each beat of a run of the program."""
        for index in range(run.count):
            for beat in range(pieces[number]):
                yield run.shard + index, (number & SLOT_MASK) * CONFIG.chunk_beats + (
                    run.position + index) * pieces[number] + beat, beat

    values = {}                             # for each chunk: rank -> shard -> value of each beat
    for number, kind in enumerate(kinds):
        values[number] = [[rng.randrange(1 << 20) for _ in range(ranks)] for _ in range(ranks)]
        for rank in range(ranks):
            for run in programs[rank, kind].fills:
                for shard, at, beat in beats(run, number):
                    world.srams[rank][at] = values[number][rank][shard] + (beat << 32)
    world.run()

    for rank in range(ranks):
        parted = [number & SLOT_MASK for number, kind in enumerate(kinds) if programs[rank, kind].parts]
        assert sorted(world.parts[rank]) == sorted(parted)
    for number, kind in enumerate(kinds):
        for rank in range(ranks):
            want = _expected(kind[0], values[number], rank, root, ranks)
            found = {}
            for run in programs[rank, kind].drains:
                for shard, at, _ in beats(run, number):
                    found.setdefault(shard, set()).add(world.srams[rank][at] & 0xFFFF_FFFF)
            assert {shard: {value} for shard, value in want.items()} == found, (number, rank)


@pytest.mark.parametrize("shape, slow", [
    ((2,), True), ((3,), True), pytest.param((3, 2), True, marks=pytest.mark.long),
    pytest.param((4,), False, marks=pytest.mark.soak),
    pytest.param((2, 2), True, marks=pytest.mark.soak)], ids=str)
@pytest.mark.parametrize("collective", [*(one for one in Collective if one.info.moves_data), *OneShot], ids=repr)
def test_collectives(collective, shape, slow):
    rng = random.Random(f"{collective} {shape} {slow}")
    chunks = range(6)
    _play(shape, [(collective, bool(rng.randrange(2))) for _ in chunks],
          [rng.choice((1, 3, CONFIG.packet_beats, CONFIG.packet_beats + 5)) for _ in chunks],
          root=rng.randrange(prod(shape)), slow=slow)


@pytest.mark.long
def test_half_of_a_torus_a_chunk_ahead():
    """An ALL_GATHER begins with the dimension with which the next collective ends, so the half of the torus beyond it
    can be in the last phase of the second chunk while ranks here wait in the middle of the first one: GRANTs of two
    neighbours for the same phase of an FSM are present at the same time.
    """
    _play((2, 2, 2), [(Collective.ALL_GATHER, True), (Collective.REDUCE_SCATTER, True)], [1, 1], fsm_mask=0,
          slow=False, delayed={(0, 2), (0, 3)})
