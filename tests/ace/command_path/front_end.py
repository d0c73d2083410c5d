# SPDX-License-Identifier: Apache-2.0
"""From the doorbell to chunks and back to completion words: queues, decoder, operations, chunker and transfers, with
memory and FSMs in Python."""

import random
from collections import deque

from amaranth import *
from amaranth.lib import wiring
from amaranth.sim import Simulator

from hw.ace.chunker import Chunker
from hw.ace.command_path import CommandPath
from hw.ace.config import TINY
from hw.ace.numerics.formats import DType, Reduction, growth, width
from hw.ace.programs.schedule import assemble
from hw.ace.tables import PROGRAM_READERS, Tables, share_readers
from hw.ace.words import Collective, CommandWord, HeaderWord, Status
from hw.common.wiring import Wiring
from hw.common.words import CompletionWord

__all__ = ["BASES", "CONFIG", "LENGTH", "RANKS", "SC", "STOPPED", "WORDS", "FrontEnd", "Host", "make_command",
           "pieces", "widening"]

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


class FrontEnd(wiring.Component):
    """The command path, its tables and the chunker: all stages between doorbells, memory and FSMs."""

    FROM_CHUNKER = ("fills", "drains", "filled", "drained", "chunks", "busy", "through", "unread", "unwritten")
    FROM_COMMANDS = ("doorbells", "registers", "held", "decoding")

    def __init__(self, config, first_chunk=0):
        self.config, self.first_chunk = config, first_chunk
        commands, chunker, tables = (part(config).signature.members for part in (CommandPath, Chunker, Tables))
        super().__init__({
            **{name: commands[name] for name in self.FROM_COMMANDS},
            **{name: chunker[name] for name in self.FROM_CHUNKER},
            "words": commands["collectives"].signature.members["words"],
            "tables": tables["registers"], "communicator": tables["communicator"],
            "communicator_status": commands["communicator_status"], "cutting": chunker["cutting"],
        })

    def elaborate(self, platform):
        m = Module()
        config, wires = self.config, Wiring(m, self)
        wires.add(commands=CommandPath(config), tables=Tables(config), chunker=Chunker(config, first=self.first_chunk))
        for part in ("commands", "tables", "chunker"):
            wires.tie_off(f"{part}.init", "the simulation begins with tables that are clear")
        for name in self.FROM_COMMANDS:
            wires.connect(f"self.{name}", f"commands.{name}")
        for name in self.FROM_CHUNKER:
            wires.connect(f"self.{name}", f"chunker.{name}")
        wires.connect("self.tables", "tables.registers")
        wires.broadcast("self.communicator", "commands.communicator", "tables.communicator", "chunker.restart")
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
        shares = share_readers(config)
        wires.connect("chunker.cut_share", f"tables.shares[{shares - 2}]")
        wires.connect("chunker.start_share", f"tables.shares[{shares - 1}]")
        absent = [*(f"tables.programs[{number}]" for number in range(PROGRAM_READERS - 1)),
                  *(f"tables.shares[{number}]" for number in range(shares - 2))]
        if config.varying:
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


class Host:
    """Tables, commands, and their results. ``ranks`` is what the communicator's table entry says."""

    def __init__(self, seed, *, config=CONFIG, ranks=RANKS, first_chunk=0):
        self.rng, self.config, self.ranks = random.Random(seed), config, ranks
        self.dut = FrontEnd(config, first_chunk)
        self.assembly = assemble(config, SHAPE, (0, 1), COORDINATES)
        self.jobs, self.drained, self.chunks, self.words = [], [], [], []
        self.errors = {}                    # number of a job -> (read error, write error)
        self.stopped = None                 # cycle in which the communicator is stopped, or None
        self.reopens, self.unwritten = False, False
        self.stores, self.clears, self.domains = deque(), deque(), dict.fromkeys(SC, 7)
        self.offered = {"aw", "w"}          # channels on which the oldest store is not yet accepted
        self.done = lambda: False

    def run(self, limit=6_000):
        sim = Simulator(self.dut)
        sim.add_clock(1e-6)
        self.limit = limit
        sim.add_testbench(self._live)
        sim.run()

    async def _live(self, ctx):
        dut, config = self.dut, self.config

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
            dut.communicator, share={"fsm_mask": config.fsms - 1, "slot_mask": config.slots - 1},
            shape={"valid": 1, "domain": 7, "sizes": [2, 1, 0], "coordinates": [*COORDINATES, 0],
                   "root_widths": [2, 1, 0], "ranks": self.ranks})
        for row, (send, receive) in EXTENTS.items() if config.varying else ():
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
            await write(dut.registers.queue, queue=queue, sc_address=address, sc_enable=1, enabled=1,
                        domain=self.domains[queue])
        ctx.set(dut.doorbells.bready, 1)

        filling, running, waiting, draining, parts = deque(), {}, deque(), deque(), {}
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
                    fields = {field: job[field] for field in (
                        "list", "runs", "base", "shard_bytes", "column", "limit", "piece_bytes", "piece_beats", "slot",
                        "dtype", "widen", "divide", "varying", "row", "size")}
                    if job.part:
                        parts[job.slot] = fields
                    else:
                        log.append(self._whole(parts.pop(job.slot, None), fields))
                    line.append((now + self.rng.randint(1, 40), job.slot, job.part, len(log) - (not job.part)))
            for name, line, side in (("filled", filling, 0), ("drained", draining, 1)):
                port = getattr(dut, name)
                due = bool(line) and line[0][0] <= now
                ctx.set(port.valid, due)
                if due:
                    _, slot, part, number = line.popleft()
                    error = 0 if part else self.errors.get(number, (0, 0))[side]
                    ctx.set(port.payload, {"slot": slot, "error": error, "part": part})
            ctx.set(dut.chunks.ready, 1)
            if ctx.get(dut.chunks.valid):
                chunk = ctx.get(dut.chunks.payload)
                assert chunk.fsm not in running
                running[chunk.fsm] = (now + self.rng.randint(1, 60), chunk.slot, chunk.parts)
                self.chunks.append({field: chunk[field] for field in (
                    "sequence", "slot", "fsm", "piece_beats", "program", "phases")})
            for fsm, (due, slot, part) in list(running.items()):
                if due <= now and not waiting:
                    waiting.append((fsm, slot, part))
            ctx.set(dut.through.valid, bool(waiting))
            if waiting:
                fsm, slot, part = waiting[0]
                ctx.set(dut.through.payload, {"slot": slot, "part": part})
                if ctx.get(dut.through.ready):
                    waiting.popleft()
                    if part:
                        running[fsm] = (now + self.rng.randint(1, 20), slot, 0)
                    else:
                        del running[fsm]
            ctx.set(dut.busy.fsms, sum(1 << fsm for fsm in running))
            ctx.set(dut.words.ready, self.rng.random() < 0.5)
            if ctx.get(dut.words.ready) and ctx.get(dut.words.valid):
                word = ctx.get(dut.words.payload)
                self.words.append((word.address, CompletionWord.unpack(word.data)))
            await ctx.tick()
        raise AssertionError(f"Not done in {self.limit} cycles: {len(self.jobs)} fills, {len(self.drained)} drains, "
                             f"words {self.words}")

    @staticmethod
    def _whole(part, rest):
        """The drain of a chunk of which a part came before, or None; its last run follows those of the part."""
        if part is None:
            return rest
        assert {**part, "list": 0, "runs": 0} == {**rest, "list": 0, "runs": 0}
        assert not rest["runs"] or rest["list"] == part["list"] + part["runs"]
        return {**rest, "list": part["list"], "runs": part["runs"] + rest["runs"]}

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
        ctx.set(dut.communicator_status.statuses, [STOPPED] * self.config.communicators)
        ctx.set(dut.words.failed, self.unwritten)
        self.unwritten = False

    def left(self, ctx):
        """Whether any work of a communicator is in progress."""
        return any(ctx.get(port.communicators) for port in (self.dut.held, self.dut.cutting, self.dut.decoding))


def make_command(collective, *, count, dtype=DType.FP32, op=Reduction.SUM, flags=1, communicator=0, root=0, widen=0,
                 src=(1, 0), dst=(2, 0)):
    return CommandWord(int(collective), flags, communicator, int(dtype), int(op), widen, root, *src, *dst, count)


def widening(word):
    """Log2 of bytes in the SRAM per byte of memory."""
    return growth(DType(word.dtype)) if word.widen else 0


def pieces(assembly, word):
    """Columns of each chunk of a collective: ``(down, column, bytes, header)``, from the documentation."""
    entry = assembly.directory[Collective(word.collective)]
    header = HeaderWord.unpack(assembly.words[entry.plus])
    size = width(DType(word.dtype)) // 8
    length = word.count * size
    shard = -(-length // (64 * header.shards)) * 64 if header.split else length
    half = min(-(-shard // 128) * 64, shard) if entry.both else shard
    piece = header.piece * 64 >> widening(word)
    ups = [(False, column, min(piece, half - column)) for column in range(0, half, piece)]
    downs = [(True, column, min(piece, shard - column)) for column in range(half, shard, piece)]
    order = []
    while ups or downs:
        order += [ups.pop(0)] if ups else []
        order += [downs.pop(0)] if downs else []
    return [(down, column, count, shard, header) for down, column, count in order]
