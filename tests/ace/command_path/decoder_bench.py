# SPDX-License-Identifier: Apache-2.0
"""The tables and streams around the decoder, and the documented meaning of a command."""

import random
from math import prod

from hw.ace.collectives import Collective, those
from hw.ace.config import TINY
from hw.ace.decoder import Decoder
from hw.ace.numerics.formats import DType, Op, Reduction, reductions, types
from hw.ace.words import CommandFlag, HeaderWord, RoleWord, Status
from tests.harness.cell import run_cell

__all__ = ["DOMAIN", "OTHER", "SIZES", "Bench", "alone"]

COLUMN = 64
SIZES = [(3, 2, 5), (4, 1, 1), (2, 2, 8), (1, 7, 1)]
"""Shapes of the communicators, in turn."""
DOMAIN, OTHER = 5, 6
ROLES = 27
"""Programs of a rooted collective: one for each role in three dimensions."""
LIMIT = 600


def _role(collective, ordered, coordinates, root, size, *, up):
    """The field of ``ROLE_FIELDS`` for one dimension."""
    if ordered:
        return 0 if coordinates == root else 1 if coordinates > root else 2
    distance = (coordinates - root if up == (collective == Collective.BROADCAST) else root - coordinates) % size
    return 0 if distance == 0 else 2 if distance == size - 1 else 1


class Bench:
    """The tables around the decoder, and its two streams; all of them stall."""

    def __init__(self, ctx, dut, seed):
        self.ctx, self.dut, self.config = ctx, dut, dut.config
        self.rng = rng = random.Random(f"{seed} decoder")
        self.mood, self.words, self.regions, self.extents = 1.0, {}, {}, {}
        self.shapes = []
        for number in range(dut.config.communicators):
            sizes = SIZES[number % len(SIZES)]
            self.shapes.append({
                "valid": 1, "domain": DOMAIN, "sizes": [size - 1 for size in sizes],
                "coordinates": [rng.randrange(size) for size in sizes],
                "root_widths": [(size - 1).bit_length() for size in sizes], "ranks": prod(sizes)})
        self.domains = [DOMAIN] * dut.config.queues
        self.stopped, self.statuses = 0, [0] * dut.config.communicators
        self.directory = {}

    async def configure(self):
        """Write the domains of the queues, and an entry of the directory for each program of each communicator."""
        for queue, domain in enumerate(self.domains):
            await self.write(self.dut.configure, queue=queue, domain=domain)
        for number in range(self.config.communicators):
            for collective in Collective:
                for ordered in (False, True)[:1 + collective.info.reduces]:
                    await self.enter(number, collective, ordered)

    async def enter(self, communicator, collective, ordered, *, valid=1):
        rng, words = self.rng, self.config.program_words
        plus = rng.randrange(words)
        # The tables of both do not overlap.
        entry = {"plus": plus, "minus": (plus + rng.randint(ROLES, words - ROLES)) % words, "both": rng.randrange(2),
                 "valid": valid}
        self.directory[communicator, collective, ordered] = entry
        await self.write(self.dut.directory, entry=entry, number=collective | ordered << 3 | communicator << 4)

    async def write(self, port, **values):
        for name, value in {**values, "valid": 1}.items():
            self.ctx.set(getattr(port, name), value)
        await self.ctx.tick()
        self.ctx.set(port.valid, 0)

    async def decode(self, word, *, queue=0, whole=1, foreign=False):
        """The verdict on one command; commands for a communicator beyond the table are foreign, too."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        ctx.set(dut.communicator_status.stopped, self.stopped)
        ctx.set(dut.communicator_status.statuses, self.statuses)
        assert ctx.get(dut.i.ready) and not ctx.get(dut.pending.queues) and not ctx.get(dut.looking.communicators)
        ctx.set(dut.i.payload, {"queue": queue, "whole": whole, "word": word._asdict(),
                                "foreign": foreign or word.communicator >= self.config.communicators})
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.i.payload, {})
        ctx.set(dut.o.ready, 0)
        reads = [(dut.program, "address", "word", self.words)]
        if self.config.varying:
            reads += [(dut.send_extents, "row", "extent", self.extents.get("src")),
                      (dut.receive_extents, "row", "extent", self.extents.get("dst"))]
        verdict, shape, looked = None, {}, None
        for _ in range(LIMIT):
            assert ctx.get(dut.pending.queues) == 1 << queue
            assert ctx.get(dut.looking.communicators) == 1 << word.communicator % self.config.communicators
            assert not ctx.get(dut.i.ready)
            if shape is not (shape := self.shapes[ctx.get(dut.shape.number)]):
                ctx.set(dut.shape.shape, shape)
            looked, before = (ctx.get(dut.regions.src), ctx.get(dut.regions.dst)), looked
            after = []
            for port, index, value, rows in reads:
                ready = rng.random() < self.mood
                ctx.set(port.ready, ready)
                if ctx.get(port.valid) and ready:
                    after.append((getattr(port, value), rows[ctx.get(getattr(port, index))]))
                elif rng.random() < 0.1:
                    after.append((getattr(port, value), self._garbage(value)))
            if ctx.get(dut.o.valid):
                now = ctx.get(dut.o.payload)
                assert verdict is None or now.as_bits() == verdict.as_bits(), "A verdict changes while it is stalled"
                verdict = now
                if rng.random() < self.mood:
                    ctx.set(dut.o.ready, 1)
                    await ctx.tick()
                    ctx.set(dut.o.ready, 0)
                    return verdict
            await ctx.tick()
            for signal, value in after:
                ctx.set(signal, value)
            if looked != before:
                for name, region in zip(("src", "dst"), looked, strict=True):
                    ctx.set(getattr(dut.entries, name), self.regions[name].get(region, {}))
        raise AssertionError(f"No verdict in {LIMIT} cycles on {word}")

    def _garbage(self, value):
        return self.rng.getrandbits(48) if value == "word" else {"count": 1, "displacement": 3}

    async def check(self, word, *, header=None, queue=0, whole=1, foreign=False, regions=None, extents=None):
        """Decode a command in tables that fit it, but for what is given, and compare the verdict."""
        config, number = self.config, word.communicator % self.config.communicators
        shape = self.shapes[number]
        header = header or self.header(word, shape)
        ordered = bool(word.flags & CommandFlag.ORDERED)
        entry = self.directory.get((number, word.collective, ordered))
        short = self.directory.get((number, 0, True))
        if entry and entry["valid"] and self._is_short(word, shape) and short and short["valid"]:
            entry = short
        self.words, programs = {}, {}
        if entry:
            programs = {side: entry[side] for side in ("plus", "minus")}
            if word.collective in those(lambda info: info.rooted):
                at = {side: (entry[side] + self._roles(word, shape, up=side == "plus")) % config.program_words
                      for side in programs}
                free = [address for address in range(config.program_words) if address not in at.values()]
                programs = {side: self.rng.choice(free) for side in programs}
                self.words = {at[side]: RoleWord(programs[side]).pack() for side in programs}
            self.words[programs["plus"]] = header.pack()
        self.extents = extents or {}
        meant = self.meaning(word, header, shape, entry, programs)
        self.regions = {side: {word[7 if side == "src" else 9] % config.regions: {
            "valid": 1, "domain": DOMAIN, "readable": 1, "writable": 1, "base_page": self.rng.getrandbits(40),
            "length": meant["ends"].get(side, 1), **(regions or {}).get(side, {})}} for side in ("src", "dst")}
        wanted = self._status(word, header, shape, entry, meant, queue, whole, foreign)
        verdict = await self.decode(word, queue=queue, whole=whole, foreign=foreign)
        assert Status(verdict.status) is wanted, f"{Status(verdict.status)!r} instead of {wanted!r}: {word}"
        assert (verdict.queue, verdict.flags, verdict.communicator) == (queue, word.flags, number)
        if wanted is Status.OK:
            some = word.count > 0 or word.collective == Collective.BARRIER
            assert verdict.chunks == some
            if some:
                self._compare(verdict.operation, word, meant)
        return wanted

    def _is_short(self, word, shape):
        """Whether it is an all-reduce of at most the communicator's threshold."""
        size = DType(word.dtype).info.bytes if word.dtype in types(TINY) else 4
        return (word.collective == Collective.ALL_REDUCE and not word.flags & CommandFlag.ORDERED
                and word.count * size <= shape.get("one_shot", 0))

    def header(self, word, shape):
        """A program that moves the buffers that the collective has."""
        rng, ranks = self.rng, shape["ranks"]
        info = Collective(word.collective).info if 0 < word.collective <= max(Collective) else None
        split = word.collective in (Collective.ALL_REDUCE, Collective.REDUCE)
        return HeaderWord(rng.randrange(5), rng.randint(1, 3), rng.randint(1, 3), split,
                          1 if word.collective == Collective.REDUCE else ranks,
                          bool(info and info.sends_blocks), bool(info and info.receives_blocks),
                          rng.randint(1, 64))

    def _roles(self, word, shape, *, up):
        role, shift, root = 0, 0, []
        for width in reversed(shape["root_widths"]):
            root.insert(0, word.root >> shift & (1 << width) - 1)
            shift += width
        self.outside = word.root >> shift > 0 or any(
            where > last for where, last in zip(root, shape["sizes"], strict=True))
        for number, (where, coordinates, last) in enumerate(zip(root, shape["coordinates"], shape["sizes"],
                                                                strict=True)):
            role += 3 ** number * _role(word.collective, word.flags & CommandFlag.ORDERED, coordinates, where, last + 1,
                                        up=up)
        return role

    def meaning(self, word, header, shape, entry, programs):
        """The numbers that the chunks of a legal command have in common."""
        self.outside = False
        if word.collective in those(lambda info: info.rooted):
            self._roles(word, shape, up=True)
        barrier = word.collective == Collective.BARRIER
        dtype = word.dtype if word.dtype in types(TINY) else DType.FP32
        size = DType(dtype).info.bytes
        length = word.count * size
        shard = (self.config.beat_bytes if barrier else length if not header.split
                 else -(-length // (COLUMN * header.shards)) * COLUMN)
        whole = shard * header.shards
        half = min(-(-shard // (2 * COLUMN)) * COLUMN, shard) if entry and entry["both"] and not barrier else shard
        limits = {"src": whole if header.src_whole else shard, "dst": whole if header.dst_whole else shard}
        if header.split:
            limits = dict.fromkeys(limits, length)
        # A buffer that is not checked has no bytes.
        limits = {side: 0 if barrier or not runs else limits[side]
                  for side, runs in (("src", header.fills), ("dst", header.drains))}
        offsets = {"src": word.src_offset * size, "dst": word.dst_offset * size}
        return {"shard": shard, "half": half, "limits": limits, "size": size, "offsets": offsets, **programs,
                "piece": header.piece * COLUMN // (4 // size if word.widen and not barrier else 1) // 16,
                "ends": {side: offsets[side] + limits[side] for side in limits}}

    def _status(self, word, header, shape, entry, meant, queue, whole, foreign):
        """Status of a command: of its form, of its communicator, of its buffers."""
        config, flags = self.config, CommandFlag(word.flags)
        known = 0 < word.collective <= max(Collective)
        info = Collective(word.collective).info if known else None
        first, parts = word.root * 16, {}
        if not whole or not known or (CommandFlag.ORDERED in flags and not info.reduces):
            return Status.MALFORMED
        if CommandFlag.VARYING in flags and (
                not config.varying or not info.varying or first + shape["ranks"] > config.extent_rows):
            return Status.MALFORMED
        if info.moves_data and (
                word.dtype not in types(config) or word.op not in reductions(config) or self.outside
                or (word.widen and not (config.widen and DType(word.dtype).info.widens))):
            return Status.MALFORMED
        if (not entry or not entry["valid"] or not shape["valid"] or shape["domain"] != self.domains[queue]
                or foreign or word.communicator >= config.communicators):
            return Status.COMMUNICATOR
        if self.stopped >> word.communicator & 1:
            return Status(self.statuses[word.communicator])
        if not info.moves_data or not word.count:
            return Status.OK
        parts = {side: [(None, limit)] for side, limit in meant["limits"].items()}
        if CommandFlag.VARYING in flags:
            for side in parts:
                rows = [self.extents[side][first + row]
                        for row in range(shape["ranks"] if getattr(header, f"{side}_whole") else 1)]
                parts[side] = [(row["count"], (row["count"] + row["displacement"]) * meant["size"]
                                if row["count"] else 0) for row in rows]
        for side, right, number, moves in (("src", "readable", word.src_region, header.fills),
                                           ("dst", "writable", word.dst_region, header.drains)):
            region = self.regions[side][number % config.regions]
            for count, limit in parts[side]:
                if count is not None and count > word.count:
                    return Status.MALFORMED
                if not moves and not flags & CommandFlag.VARYING:
                    continue
                for name, bad in (
                        ("REGION", not region["valid"] or number >= config.regions),
                        ("DOMAIN", region["domain"] != self.domains[queue]), ("RIGHTS", not region[right]),
                        ("BOUNDS", meant["offsets"][side] + limit > region["length"])):
                    if bad:
                        return Status[f"{side.upper()}_{name}"]
        return Status.OK

    def _compare(self, operation, word, meant):
        config, varying = self.config, bool(word.flags & CommandFlag.VARYING)
        assert (operation.shard_bytes, operation.half, operation.piece) == (
            meant["shard"], meant["half"], meant["piece"])
        assert operation.plus == meant["plus"]
        assert operation.minus == meant["minus"]
        assert operation.varying == varying
        if word.collective == Collective.BARRIER:
            assert not operation.divide and not operation.widen
            assert not operation.src_limit and not operation.dst_limit
            return
        mask = (1 << config.address_width) - 1
        for side in ("src", "dst"):
            region, = self.regions[side].values()
            assert operation[f"{side}_base"] == (region["base_page"] << 12) + meant["offsets"][side] & mask
            assert varying or operation[f"{side}_limit"] == meant["limits"][side]
        assert 1 << operation.size == meant["size"] and (not varying or operation.row == word.root * 16)
        reduces = Collective(word.collective).info.reduces
        average = reduces and word.op == Reduction.AVG
        assert operation.divide == (self.shapes[word.communicator]["ranks"] if average else 0)
        assert (operation.dtype, operation.widen) == (word.dtype, word.widen)
        assert operation.arithmetic.dtype == (DType.FP32 if word.widen else word.dtype)
        assert operation.arithmetic.op == (Op.SUM if word.op == Reduction.AVG else word.op)


def alone(config, live, seed=0):
    dut = Decoder(config)

    async def testbench(ctx):
        bench = Bench(ctx, dut, seed)
        await bench.configure()
        await live(bench, bench.rng)

    run_cell(dut, testbench)
