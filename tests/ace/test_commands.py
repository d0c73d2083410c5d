# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""From the doorbell to chunks and back to completion words: intake, decoder, operations, chunker and transfers, with
memory and FSMs in Python."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.sim import Simulator

from hw.ace.chunker import Chunker
from hw.ace.command_path import CommandPath
from hw.ace.config import SEQUENCE_WIDTH, TINY
from hw.ace.numerics.formats import DType, Reduction, growth, width
from hw.ace.programs.schedule import assemble
from hw.ace.tables import PROGRAM_READERS, SHARE_READERS, Tables
from hw.ace.words import Collective, CommandWord, HeaderWord, Status
from hw.common.wiring import Wiring
from hw.common.words import CompletionWord

CONFIG = TINY
SHAPE, COORDINATES = (3, 2), (2, 1)
RANKS, RANK = 6, 5
BASES = {1: 0x10_0000, 2: 0x40_0000}
LENGTH = 0x20_0000
SC = {0: 0x1000, 1: 0x2008}
WORDS = LENGTH // 4
EXTENTS = {
    **{row: ((10, 10 * row), (10, 10 * row)) for row in range(6)},
    # The last part of the send buffer, or of the receive buffer, ends a word beyond the region; the first is too long.
    **{16 + row: ((10, WORDS - 9 if row == 5 else 0), (10, 0)) for row in range(6)},
    **{32 + row: ((0, WORDS), (10, WORDS - 9 if row == 5 else 0)) for row in range(6)},
    **{48 + row: ((11 if row == 0 else 10, 0), (10, 0)) for row in range(6)},
}
"""First row -> extents of the send and receive buffers in the rows from there on."""
STOPPED = Status.LINK_DOWN
"""Status of the stopped communicator, whatever the cause was."""


class _FrontEnd(wiring.Component):
    """The command path, its tables and the chunker: all stages between doorbells, memory and FSMs."""

    FROM_CHUNKER = ("fills", "drains", "filled", "drained", "chunks", "busy", "through", "unread", "unwritten")
    FROM_COMMANDS = ("doorbells", "registers", "held", "decoding")

    def __init__(self, first_chunk=0):
        self.first_chunk = first_chunk
        commands, chunker, tables = (part(CONFIG).signature.members for part in (CommandPath, Chunker, Tables))
        super().__init__({
            **{name: commands[name] for name in self.FROM_COMMANDS},
            **{name: chunker[name] for name in self.FROM_CHUNKER},
            "words": commands["collectives"].signature.members["words"],
            "tables": tables["registers"], "communicator": tables["communicator"],
            "communicator_status": commands["communicator_status"], "cutting": chunker["cutting"],
        })

    def elaborate(self, platform):
        m = Module()
        wires = Wiring(m, self)
        wires.add(commands=CommandPath(CONFIG), tables=Tables(CONFIG),
                  chunker=Chunker(CONFIG, first=self.first_chunk))
        for part in ("commands", "tables", "chunker"):
            wires.tie_off(f"{part}.init", "the simulation begins with tables that are clear")
        for name in self.FROM_COMMANDS:
            wires.connect(f"self.{name}", f"commands.{name}")
        for name in self.FROM_CHUNKER:
            wires.connect(f"self.{name}", f"chunker.{name}")
        wires.connect("self.tables", "tables.registers")
        wires.broadcast("self.communicator", "tables.communicator", "chunker.restart")
        wires.broadcast("self.communicator_status", "commands.communicator_status", "chunker.communicator_status")
        wires.broadcast("chunker.cutting", "commands.cutting", "self.cutting")

        # -- Between the command path and the chunker.
        wires.connect("commands.collectives.to_cut", "chunker.to_cut")
        wires.connect("chunker.operation", "commands.collectives.cut")
        wires.connect("chunker.drain_operation", "commands.collectives.drained")
        wires.connect("chunker.issued", "commands.collectives.issued")
        wires.connect("chunker.ended", "commands.collectives.ended")
        wires.connect("commands.collectives.words", "self.words")

        # -- Tables.
        wires.connect("commands.shape", "tables.shape")
        wires.connect("commands.program", "tables.decoder_program")
        wires.connect("chunker.program", f"tables.programs[{PROGRAM_READERS - 1}]")
        wires.connect("chunker.cut_share", f"tables.shares[{SHARE_READERS - 2}]")
        wires.connect("chunker.start_share", f"tables.shares[{SHARE_READERS - 1}]")
        absent = [*(f"tables.programs[{number}]" for number in range(PROGRAM_READERS - 1)),
                  *(f"tables.shares[{number}]" for number in range(SHARE_READERS - 2))]
        if CONFIG.varying:
            for side in ("send_extents", "receive_extents"):
                wires.connect(f"commands.{side}", f"tables.{side}[1]")
                absent.append(f"tables.{side}[0]")
        for port in absent:
            wires.idle(port, "its reader is not here")

        # -- Outputs that are not used here.
        for port in ("commands.work", "commands.irq", "chunker.movers", "chunker.progress", "chunker.counts"):
            wires.leave_open(port, "not used here")
        for port in ("chunker.slot", "chunker.count"):
            wires.idle(port, "no debug look-ups here")
        wires.finish()
        return m


class _Host:
    """Tables, commands, and their results."""

    def __init__(self, seed, first_chunk=0):
        self.rng = random.Random(seed)
        self.dut = _FrontEnd(first_chunk)
        self.assembly = assemble(CONFIG, SHAPE, (0, 1), COORDINATES)
        self.jobs, self.drained, self.chunks, self.words = [], [], [], []
        self.errors = {}                    # number of a job -> (read error, write error)
        self.stopped = None                 # cycle in which the communicator is stopped, or None
        self.reopens, self.unwritten = False, False
        self.stores, self.clears = deque(), deque()
        self.offered = {"aw", "w"}          # channels on which the oldest store is not yet accepted
        self.done = lambda: False

    def run(self, limit=6_000):
        sim = Simulator(self.dut)
        sim.add_clock(1e-6)
        self.limit = limit
        sim.add_testbench(self._live)
        sim.run()

    async def _live(self, ctx):
        dut = self.dut

        async def write(table, **entry):
            for name, value in {**entry, "valid": 1}.items():
                ctx.set(getattr(table, name), value)
            await ctx.tick()
            ctx.set(table.valid, 0)

        for offset, word in enumerate(self.assembly.words):
            await write(dut.tables.program, address=offset, word=word)
        for collective, entry in self.assembly.directory.items():
            await write(dut.registers.directory, number=int(collective), entry={
                "plus": entry.plus, "minus": entry.minus, "both": entry.both, "valid": 1})
        await write(
            dut.communicator, share={"fsm_mask": CONFIG.fsms - 1, "slot_mask": CONFIG.slots - 1},
            shape={"valid": 1, "domain": 7, "sizes": [2, 1, 0], "coordinates": [*COORDINATES, 0],
                   "root_widths": [2, 1, 0],
                   "ranks": RANKS})
        for row, (send, receive) in EXTENTS.items() if CONFIG.varying else ():
            await write(dut.tables.extent, row=row, **{
                side: {"count": count, "displacement": displacement}
                for side, (count, displacement) in (("send", send), ("receive", receive))})
        for number, base in BASES.items():
            await write(dut.registers.region, region=number, entry={
                "base_page": base >> 12, "length": LENGTH, "domain": 7, "readable": 1, "writable": number == 2,
                "valid": 1})
        await write(dut.registers.region, region=3, entry={
            "base_page": 0, "length": LENGTH, "domain": 6, "readable": 1, "writable": 1, "valid": 1})
        for queue, address in SC.items():
            await write(dut.registers.queue, queue=queue, sc_address=address, sc_enable=1, enabled=1, domain=7)
        ctx.set(dut.doorbells.bready, 1)

        filling, running, waiting, draining = deque(), {}, deque(), deque()
        for now in range(self.limit):
            self._stand(ctx, now)
            if self.done():
                for _ in range(50):
                    await ctx.tick()
                return
            self._store(ctx)
            ctx.set(dut.registers.clear.valid, bool(self.clears))
            if self.clears:
                ctx.set(dut.registers.clear.payload, self.clears.popleft())

            for name, log, line in (("fills", self.jobs, filling), ("drains", self.drained, draining)):
                port = getattr(dut, name)
                ready = self.rng.random() < 0.5
                ctx.set(port.ready, ready)
                if ready and ctx.get(port.valid):
                    job = ctx.get(port.payload)
                    log.append({field: job[field] for field in (
                        "list", "runs", "base", "shard_bytes", "column", "limit", "piece_bytes", "piece_beats", "slot",
                        "dtype", "widen", "divide", "varying", "row", "size")})
                    line.append((now + self.rng.randint(1, 40), job.slot, len(log) - 1))
            for name, line, side in (("filled", filling, 0), ("drained", draining, 1)):
                port = getattr(dut, name)
                due = bool(line) and line[0][0] <= now
                ctx.set(port.valid, due)
                if due:
                    _, slot, number = line.popleft()
                    ctx.set(port.payload, {"slot": slot, "error": self.errors.get(number, (0, 0))[side]})
            ctx.set(dut.chunks.ready, 1)
            if ctx.get(dut.chunks.valid):
                chunk = ctx.get(dut.chunks.payload)
                assert chunk.fsm not in running
                running[chunk.fsm] = (now + self.rng.randint(1, 60), chunk.slot)
                self.chunks.append({field: chunk[field] for field in (
                    "sequence", "slot", "fsm", "piece_beats", "program", "phases")})
            for fsm, (due, slot) in list(running.items()):
                if due <= now and not waiting:
                    waiting.append((fsm, slot))
            ctx.set(dut.through.valid, bool(waiting))
            if waiting:
                ctx.set(dut.through.payload, waiting[0][1])
                if ctx.get(dut.through.ready):
                    del running[waiting.popleft()[0]]
            ctx.set(dut.busy.fsms, sum(1 << fsm for fsm in running))
            ctx.set(dut.words.ready, self.rng.random() < 0.5)
            if ctx.get(dut.words.ready) and ctx.get(dut.words.valid):
                word = ctx.get(dut.words.payload)
                self.words.append((word.address, CompletionWord.unpack(word.data)))
            await ctx.tick()
        raise AssertionError(f"Not done in {self.limit} cycles: {len(self.jobs)} fills, {len(self.drained)} drains, "
                             f"words {self.words}")


    def _store(self, ctx):
        """The oldest store, as a burst of one beat; address and data may be accepted in different cycles."""
        bus, self.offered = self.dut.doorbells, self.offered if self.stores else {"aw", "w"}
        for channel in ("aw", "w"):
            ctx.set(getattr(bus, f"{channel}valid"), bool(self.stores) and channel in self.offered)
        if self.stores:
            queue, word, strb = self.stores[0]
            for name, value in (("awaddr", queue << 12), ("wdata", word), ("wstrb", strb), ("wlast", 1)):
                ctx.set(getattr(bus, name), value)
            self.offered -= {channel for channel in ("aw", "w") if ctx.get(getattr(bus, f"{channel}ready"))}
            if not self.offered:
                self.stores.popleft()
                self.offered = {"aw", "w"}

    def _stand(self, ctx, now):
        """Stop the communicator some cycles after an error; open it again on request."""
        dut = self.dut
        if (ctx.get(dut.unread.valid) or ctx.get(dut.unwritten.valid)) and self.stopped is None:
            self.stopped = now + self.rng.randint(1, 60)
        stopped = self.stopped is not None and now >= self.stopped
        ctx.set(dut.communicator.valid, stopped and self.reopens)
        if stopped and self.reopens:
            assert not self.left(ctx)
            self.stopped = self.reopens = None
        ctx.set(dut.communicator_status.stopped, int(stopped))
        ctx.set(dut.communicator_status.statuses, [STOPPED] * CONFIG.communicators)
        ctx.set(dut.words.failed, self.unwritten)
        self.unwritten = False

    def left(self, ctx):
        """Whether any work of a communicator is in progress."""
        return any(ctx.get(port.communicators) for port in (self.dut.held, self.dut.cutting, self.dut.decoding))


def _command(collective, *, count, dtype=DType.FP32, op=Reduction.SUM, flags=1, communicator=0, root=0, widen=0,
             src=(1, 0), dst=(2, 0)):
    return CommandWord(int(collective), flags, communicator, int(dtype), int(op), widen, root, *src, *dst, count)


def _growth(command):
    return growth(DType(command.dtype)) if command.widen else 0


def _pieces(assembly, command):
    """Columns of each chunk of a collective: ``(down, column, bytes, header)``, from the documentation."""
    entry = assembly.directory[Collective(command.collective)]
    header = HeaderWord.unpack(assembly.words[entry.plus])
    size = width(DType(command.dtype)) // 8
    length = command.count * size
    shard = -(-length // (64 * header.shards)) * 64 if header.split else length
    half = min(-(-shard // 128) * 64, shard) if entry.both else shard
    piece = header.piece * 64 >> _growth(command)
    ups = [(False, column, min(piece, half - column)) for column in range(0, half, piece)]
    downs = [(True, column, min(piece, shard - column)) for column in range(half, shard, piece)]
    order = []
    while ups or downs:
        order += [ups.pop(0)] if ups else []
        order += [downs.pop(0)] if downs else []
    return [(down, column, count, shard, header) for down, column, count in order]


@pytest.mark.parametrize("seed", range(3))
def test_chunks(seed):
    """Chunks of several collectives in flight, cut as documented, each in the slot and FSM of its number."""
    host = _Host(seed)
    rng = random.Random(seed)
    commands = [_command(
        rng.choice([Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER]),
        count=rng.choice((1, 17, 1000, rng.randint(1, 6000))),
        dtype=(dtype := rng.choice(list(DType))), op=rng.choice(list(Reduction)),
        widen=int(growth(dtype) > 0 and rng.random() < 0.5),
        src=(1, rng.randrange(1000)), dst=(2, rng.randrange(1000))) for _ in range(8)]
    expected = [(command, piece) for command in commands for piece in _pieces(host.assembly, command)]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands[:4])
    later = deque(commands[4:])

    def done():
        # No more words than the queue has free entries.
        if later and len(host.words) >= 4 - len(later):
            host.stores.append((0, later.popleft().pack(), 0xFFFF))
        return len(host.words) == len(commands)

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(number + 1, 0, 0) for number in range(len(commands))]
    assert {address for address, _ in host.words} == {SC[0]}
    assert len(host.jobs) == len(host.drained) == len(host.chunks) == len(expected)
    for number, (job, chunk, (command, (_, column, count, shard, header))) in enumerate(
            zip(host.jobs, host.chunks, expected, strict=True)):
        size = width(DType(command.dtype)) // 8
        beats = -(-(count << _growth(command)) // CONFIG.beat_bytes)
        assert (job["column"], job["piece_bytes"], job["shard_bytes"], job["piece_beats"]) == (
            column, count, shard, beats)
        assert job["base"] == BASES[1] + command.src_offset * size
        assert job["limit"] == (command.count * size if header.split else shard * (
            header.shards if header.src_whole else 1))
        assert job["runs"] == header.fills and job["divide"] == 0
        assert chunk["sequence"] == number and chunk["slot"] == number % CONFIG.slots
        assert chunk["fsm"] == number % CONFIG.fsms and chunk["piece_beats"] == beats
        assert chunk["phases"] == header.phases
    columns = sorted((job["base"], job["column"], job["piece_bytes"]) for job in host.drained)
    assert columns == sorted((BASES[2] + command.dst_offset * (width(DType(command.dtype)) // 8), column, count)
                             for command, (_, column, count, *_) in expected)
    for job in host.drained:
        assert job["divide"] in (0, RANKS)


@pytest.mark.parametrize("change, status", [
    ({"collective": 0}, Status.MALFORMED), ({"collective": 9}, Status.MALFORMED), ({"dtype": 3}, Status.MALFORMED),
    ({"op": 6}, Status.MALFORMED), ({"widen": 1}, Status.MALFORMED),
    ({"collective": 5, "root": 7}, Status.MALFORMED), ({"collective": 3, "flags": 5}, Status.MALFORMED),
    ({"flags": 5}, Status.COMMUNICATOR), ({"flags": 9}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 4, "count": 10}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 3, "count": 10}, Status.MALFORMED),
    ({"collective": 3, "flags": 9, "root": 3, "count": 10}, Status.MALFORMED),
    ({"collective": 4, "flags": 9, "root": 1, "count": 10}, Status.SRC_BOUNDS),
    ({"collective": 2, "flags": 9, "root": 1, "count": 10}, Status.SRC_BOUNDS),
    ({"collective": 4, "flags": 9, "root": 2, "count": 10}, Status.DST_BOUNDS),
    ({"collective": 3, "flags": 9, "root": 2, "count": 10}, Status.DST_BOUNDS),
    ({"communicator": 1}, Status.COMMUNICATOR), ({"communicator": 9}, Status.COMMUNICATOR),
    ({"src_region": 0}, Status.SRC_REGION), ({"src_region": 200}, Status.SRC_REGION),
    # Beyond the table; their lower bits are numbers of existing regions.
    ({"src_region": CONFIG.regions + 1}, Status.SRC_REGION), ({"dst_region": CONFIG.regions + 2}, Status.DST_REGION),
    ({"src_region": 129}, Status.SRC_REGION),
    ({"src_region": 3}, Status.SRC_DOMAIN), ({"src_offset": LENGTH // 4 - 99}, Status.SRC_BOUNDS),
    ({"dst_region": 4}, Status.DST_REGION), ({"dst_region": 3}, Status.DST_DOMAIN),
    ({"dst_region": 1}, Status.DST_RIGHTS), ({"dst_offset": LENGTH // 4 - 99}, Status.DST_BOUNDS),
    ({"collective": 3, "count": LENGTH // 4 // RANKS + 1}, Status.DST_BOUNDS),
    ({"collective": 2, "count": LENGTH // 4 // RANKS + 1}, Status.SRC_BOUNDS),
], ids=str)
def test_refusals(change, status):
    """A bad command completes with its status; its queue is held until it is cleared, and then resumes."""
    host = _Host(1)
    good = _command(Collective.ALL_REDUCE, count=100)
    host.stores.extend((0, command.pack(), 0xFFFF) for command in (good, good._replace(**change), good))
    reported = []

    def done():
        if len(host.words) == 2 and not reported:
            reported.append(len(host.jobs))
            host.clears.append(0)
        return len(host.words) == 4

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (1, 1, status), (2, 1, 0), (3, 1, 0)]
    assert reported == [len(host.jobs) // 2]


@pytest.mark.parametrize("op", [Reduction.PROD, Reduction.AVG])
def test_operations_may_be_left_out(monkeypatch, op):
    monkeypatch.setitem(globals(), "CONFIG", replace(CONFIG, **{op.name.lower(): False}))
    test_refusals({"op": op}, Status.MALFORMED)


@pytest.mark.parametrize("name, change", [
    ("fp8", {"dtype": DType.E5M2}), ("widen", {"dtype": DType.BF16, "widen": 1}),
    ("varying", {"collective": 4, "flags": 9, "root": 1, "count": 10})])
def test_what_may_be_left_out(monkeypatch, name, change):
    monkeypatch.setitem(globals(), "CONFIG", replace(CONFIG, **{name: False}))
    test_refusals(change, Status.MALFORMED)


def test_extents_within_bounds():
    """For buffers of one part, only the first row matters; with a count of 0, the displacement is ignored."""
    host = _Host(3)
    commands = [
        # Their last parts end with their regions.
        _command(Collective.ALL_TO_ALL, count=10, flags=9, root=0, src=(1, WORDS - 60), dst=(2, WORDS - 60)),
        _command(Collective.ALL_GATHER, count=10, flags=9, root=1),
        _command(Collective.REDUCE_SCATTER, count=10, flags=9, root=2),
    ]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands)
    host.done = lambda: len(host.words) == 3
    host.run()
    assert [word for _, word in host.words] == [(number + 1, 0, 0) for number in range(3)]
    assert [(job["varying"], job["row"], job["size"]) for job in host.jobs] == [(1, row, 2) for row in (0, 16, 32)]


@pytest.mark.parametrize("ranks, root, status", [
    (16, CONFIG.extent_rows // 16 - 1, Status.OK), (17, CONFIG.extent_rows // 16 - 1, Status.MALFORMED),
    (1, CONFIG.extent_rows // 16, Status.MALFORMED)])
def test_last_rows_of_extents(monkeypatch, ranks, root, status):
    """A communicator's rows may extend to the end of the table, but not beyond."""
    monkeypatch.setitem(globals(), "RANKS", ranks)
    host = _Host(6)
    host.stores.append((0, _command(Collective.ALL_GATHER, count=11, flags=9, root=root).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (int(not status), int(bool(status)), status))]


def test_a_command_in_the_decoder_is_in_progress(monkeypatch):
    """From the cycle in which it leaves its queue, also while all its rows are read."""
    monkeypatch.setitem(globals(), "RANKS", 64)
    monkeypatch.setitem(globals(), "CONFIG", replace(CONFIG, extent_rows=128))
    host, left = _Host(8), []
    stand = host._stand

    def watch(ctx, now):
        stand(ctx, now)
        left.append(host.left(ctx))

    host._stand = watch
    host.stores.append((0, _command(Collective.ALL_GATHER, count=11, flags=9, root=4).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (1, 0, 0))]
    begins = left.index(True)
    assert begins < 10 and all(left[begins:begins + 250])


def test_numbers_wrap():
    """Chunk 65,535 is followed by chunk 0, in the next slot and FSM."""
    host = _Host(7, first_chunk=0xFFFD)
    host.stores.extend((0, _command(Collective.ALL_REDUCE, count=3000).pack(), 0xFFFF) for _ in range(2))
    host.done = lambda: len(host.words) == 2
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (2, 0, 0)]
    assert len(host.chunks) > 6
    for number, chunk in enumerate(host.chunks, start=0xFFFD):
        number %= 1 << SEQUENCE_WIDTH
        assert (chunk["sequence"], chunk["slot"], chunk["fsm"]) == (number, number % CONFIG.slots, number % CONFIG.fsms)


def test_last_byte_is_within_bounds():
    host = _Host(2)
    host.stores.append((0, _command(Collective.BROADCAST, count=100, root=5, src=(1, LENGTH // 4 - 100),
                                    dst=(2, LENGTH // 4 - 100)).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (1, 0, 0))]


@pytest.mark.parametrize("strb", [0x00FF, 0x7FFF], ids=hex)
def test_halves_are_malformed(strb):
    host = _Host(3)
    host.stores.append((1, _command(Collective.ALL_REDUCE, count=1).pack(), strb))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[1], (0, 1, Status.MALFORMED))] and not host.jobs


def test_nothing_to_do():
    """A count of 0 completes at once, between collectives with chunks; a barrier has one chunk without moves."""
    host = _Host(4)
    commands = [_command(Collective.ALL_REDUCE, count=3000), _command(Collective.ALL_REDUCE, count=0),
                _command(Collective.BARRIER, count=0, dtype=0), _command(Collective.ALL_REDUCE, count=10)]
    host.stores.extend((0, command.pack(), 0xFFFF) for command in commands)
    host.done = lambda: len(host.words) == 4
    host.run()
    assert [word.count for _, word in host.words] == [1, 2, 3, 4]
    chunks = [len(_pieces(host.assembly, command)) for command in commands]
    assert len(host.jobs) == chunks[0] + 1 + chunks[3]
    barrier = host.jobs[chunks[0]]
    assert (barrier["runs"], barrier["piece_beats"]) == (0, 1)


def test_overflow():
    """A word for a full queue is refused, as are those after it; accepted commands complete."""
    host = _Host(5)
    good = _command(Collective.ALL_REDUCE, count=2000).pack()
    host.stores.extend((0, good, 0xFFFF) for _ in range(20))
    cleared = []

    def done():
        if host.words and host.words[-1][1].status and not cleared:
            cleared.append(host.words[-1][1].count)
            host.clears.append(0)
        return cleared and len(host.words) == cleared[0] + 2

    host.done = done
    host.run()
    taken = cleared[0]
    assert CONFIG.queue_depth <= taken < 20
    assert [word for _, word in host.words[-2:]] == [(taken, 1, Status.OVERFLOW), (taken, 1, 0)]


@pytest.mark.parametrize("side", [0, 1], ids=["read", "write"])
@pytest.mark.parametrize("number", [0, 2, 7])
def test_memory_errors(side, number):
    """An error stops the communicator: its work is dropped and later commands are refused until it is opened again."""
    host = _Host(6 + number)
    command = _command(Collective.ALL_REDUCE, count=6000).pack()
    host.stores.extend((0, command, 0xFFFF) for _ in range(3))
    host.errors[number] = (1, 0) if side == 0 else (0, 1)
    reasons = (STOPPED, (Status.READ_ERROR, Status.WRITE_ERROR)[side])
    failures, again = [], []

    def done():
        last = host.words[-1][1] if host.words else CompletionWord(0, 0, 0)
        if last.status and last.failed > len(failures):
            failures.append(last.status)
            host.clears.append(0)
        if (last.count, last.status) == (3, 0) and not again:
            again.append(len(host.jobs))
            host.reopens = True
            host.errors = {}
            host.stores.append((0, command, 0xFFFF))
        return last.count == 4

    host.done = done
    host.run()
    assert failures and set(failures) <= set(reasons) and STOPPED in failures
    assert host.words[-1][1] == (4, len(failures), 0)
    # Every chunk that was cut has completed; those of the last collective are whole, and count from 0.
    whole = len(_pieces(host.assembly, CommandWord.unpack(command)))
    assert len(host.jobs) == len(host.chunks) == len(host.drained) == again[-1] + whole
    assert [chunk["sequence"] for chunk in host.chunks[-whole:]] == list(range(whole))
    assert all(chunk["phases"] for chunk in host.chunks[-whole:])
    assert all(job["runs"] for job in host.drained[-whole:])
    assert again[-1] < 3 * whole
    if side == 0:
        assert not all(chunk["phases"] for chunk in host.chunks) and not all(job["runs"] for job in host.drained)


def test_stopped_communicators_take_no_commands():
    host = _Host(9)
    host.stopped = 0
    host.stores.append((1, _command(Collective.ALL_REDUCE, count=100).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[1], (0, 1, STOPPED))] and not host.jobs


def test_a_completion_word_that_is_not_written():
    """The error is reported when all earlier commands have completed, and the queue is held."""
    host = _Host(10)
    good = _command(Collective.ALL_REDUCE, count=100).pack()
    host.stores.append((0, good, 0xFFFF))
    steps = []

    def done():
        if len(host.words) == 1 and not steps:
            steps.append("unwritten")
            host.unwritten = True
        if len(host.words) == 2 and len(steps) == 1:
            steps.append("cleared")
            host.stores.append((0, good, 0xFFFF))
            host.clears.append(0)
        return len(host.words) == 4

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (1, 1, Status.COMPLETION_ERROR), (1, 1, 0), (2, 1, 0)]
