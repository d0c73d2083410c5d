"""From the doorbell to chunks and back to completion words: intake, decoder, operations, chunker and transfers, with
Python for memory and FSMs."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.sim import Simulator

from hw.ace.chunker import Chunker
from hw.ace.communicators import Communicators, shape_layout, share_layout
from hw.ace.config import DIRECTORY_WIDTH, SEQUENCE_WIDTH, TINY
from hw.ace.decoder import Decoder, directory_layout
from hw.ace.extents import ExtentLayout, Extents
from hw.ace.intake import Intake
from hw.ace.layouts import chunk_layout, done_layout
from hw.ace.numerics.formats import DType, Reduction, growth, width
from hw.ace.operations import Operations, word_layout
from hw.ace.programs.schedule import assemble
from hw.ace.programs.store import Programs
from hw.ace.standing import standing_layout
from hw.ace.transfers import job_layout
from hw.ace.words import PROGRAM_WIDTH, Collective, CommandWord, HeaderWord, Status
from hw.common.doorbell import store_layout
from hw.common.regions import RegionEntry, RegionTable
from hw.common.words import CompletionWord

CONFIG = TINY
SHAPE, PLACE = (3, 2), (2, 1)
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
"""First row -> what the rows from there on have of send and receive buffer."""
STOPPED = Status.LINK_DOWN
"""What a communicator is stopped with, whatever the cause was."""


class _Front(wiring.Component):
    """All that lies between doorbell, memory and FSMs."""

    def __init__(self, first_chunk=0):
        self.first_chunk = first_chunk

        def event(layout):
            return In(wiring.Signature({"valid": Out(1), "payload": Out(layout)}))

        super().__init__({
            "stores": In(stream.Signature(store_layout(CONFIG))),
            "program_write": In(1), "program_address": In(CONFIG.program_bits), "program_word": In(PROGRAM_WIDTH),
            "directory_write": In(1), "directory_number": In(DIRECTORY_WIDTH + CONFIG.communicator_bits),
            "directory_entry": In(directory_layout(CONFIG)),
            "extent_write": In(1), "extent_row": In(CONFIG.extent_bits),
            "send_extent": In(ExtentLayout), "receive_extent": In(ExtentLayout),
            "communicator_write": In(1), "region_write": In(1), "region_id": In(CONFIG.region_bits),
            "region": In(RegionEntry), "queue_write": In(1), "queue": In(CONFIG.queue_bits), "sc": In(64),
            "domain": In(8), "clear": In(1), "clear_queue": In(CONFIG.queue_bits),
            "fills": Out(stream.Signature(job_layout(CONFIG))), "drains": Out(stream.Signature(job_layout(CONFIG))),
            "filled": event(done_layout(CONFIG)), "drained": event(done_layout(CONFIG)),
            "chunks": Out(stream.Signature(chunk_layout(CONFIG))), "busy": In(CONFIG.fsms),
            "through": In(stream.Signature(CONFIG.slot_bits)),
            "words": Out(stream.Signature(word_layout(CONFIG))),
            "standing": In(standing_layout(CONFIG)), "failed": Out(1), "left": Out(1),
            "unwritten": In(1), "unwritten_queue": In(CONFIG.queue_bits),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.intake = intake = Intake(CONFIG)
        m.submodules.decoder = decoder = Decoder(CONFIG)
        m.submodules.operations = operations = Operations(CONFIG)
        m.submodules.chunker = chunker = Chunker(CONFIG, first=self.first_chunk)
        m.submodules.communicators = communicators = Communicators(CONFIG, shares=2)
        m.submodules.regions = regions = RegionTable(CONFIG)
        m.submodules.programs = programs = Programs(CONFIG, clients=2)
        m.submodules.extents = extents = Extents(CONFIG)
        for ports, part in ((extents.sends, decoder.send_extents), (extents.receives, decoder.receive_extents)):
            connect(m, part, ports[1])
        for name, part in (("stores", intake.i), ("fills", chunker.fills), ("drains", chunker.drains),
                           ("chunks", chunker.chunks), ("words", operations.words), ("through", chunker.through)):
            if name in ("stores", "through"):
                connect(m, flipped(getattr(self, name)), part)
            else:
                connect(m, part, flipped(getattr(self, name)))
        connect(m, intake.o, decoder.i)
        connect(m, decoder.o, operations.i)
        for client, part in zip(programs.reads, (chunker, decoder), strict=True):
            connect(m, part.program, client)
            m.d.comb += part.program_data.eq(programs.data)
        for look, port in zip(communicators.share_reads, (chunker.cut_share, chunker.start_share), strict=True):
            m.d.comb += [look.number.eq(port.number), port.share.eq(look.share)]
        m.d.comb += [
            programs.write.eq(self.program_write), programs.write_address.eq(self.program_address),
            programs.write_data.eq(self.program_word),
            communicators.write.eq(self.communicator_write),
            communicators.share.eq(share_layout(CONFIG).const({
                "fsm_mask": CONFIG.fsms - 1, "slot_mask": CONFIG.slots - 1})),
            communicators.shape.eq(shape_layout(CONFIG).const({
                "valid": 1, "domain": 7, "sizes": [2, 1, 0], "place": [*PLACE, 0], "root_widths": [2, 1, 0],
                "ranks": RANKS})),
            extents.write.eq(self.extent_write), extents.write_row.eq(self.extent_row),
            extents.write_send.eq(self.send_extent), extents.write_receive.eq(self.receive_extent),
            decoder.directory_write.eq(self.directory_write), decoder.directory_number.eq(self.directory_number),
            decoder.directory_entry.eq(self.directory_entry),
            decoder.domain_write.eq(self.queue_write), decoder.domain_queue.eq(self.queue),
            decoder.domain.eq(self.domain),
            operations.pending.eq(intake.some | decoder.pending),
            decoder.shape.eq(communicators.shape_read), communicators.shape_number.eq(decoder.shape_number),
            regions.write.eq(self.region_write), regions.write_id.eq(self.region_id),
            regions.write_data.eq(self.region),
            regions.src_id.eq(decoder.src_id), regions.dst_id.eq(decoder.dst_id),
            decoder.src.eq(regions.src), decoder.dst.eq(regions.dst),
            operations.configure.eq(self.queue_write), operations.configure_queue.eq(self.queue),
            operations.sc_address.eq(self.sc), operations.sc_enable.eq(1),
            intake.configure.eq(self.queue_write), intake.configure_queue.eq(self.queue), intake.enabled.eq(1),
            *(part.clear.eq(self.clear) for part in (intake, operations)),
            *(part.clear_queue.eq(self.clear_queue) for part in (intake, operations)),
            intake.free.eq(operations.free), intake.places.eq(operations.places),
            operations.refused.eq(intake.refused), operations.refused_queue.eq(intake.refused_queue),
            operations.refused_status.eq(intake.refused_status),
            chunker.begun.eq(operations.begun), chunker.row_number.eq(operations.row_number),
            *(port.row.eq(row) for port, row in zip(
                operations.reads, (chunker.row, chunker.drain_row), strict=True)),
            chunker.operation.eq(operations.reads[0].operation),
            chunker.drain_operation.eq(operations.reads[1].operation),
            operations.issued.eq(chunker.issued), operations.issued_row.eq(chunker.issued_row),
            operations.issued_last.eq(chunker.issued_last),
            operations.ended.eq(chunker.ended), operations.ended_row.eq(chunker.ended_row),
            operations.ended_status.eq(chunker.ended_status),
            chunker.busy.eq(self.busy),
            *(part.standing.eq(self.standing) for part in (decoder, operations, chunker)),
            operations.cutting.eq(chunker.cutting), chunker.restart.eq(self.communicator_write),
            operations.unwritten.eq(self.unwritten), operations.unwritten_queue.eq(self.unwritten_queue),
            self.failed.eq(chunker.unread.valid | chunker.unwritten.valid),
            self.left.eq((operations.held | chunker.cutting | decoder.looking).any()),
            *(getattr(getattr(chunker, name), part).eq(getattr(getattr(self, name), part))
              for name in ("filled", "drained") for part in ("valid", "payload")),
        ]
        return m


class _Host:
    """Tables, commands, and what becomes of them."""

    def __init__(self, seed, first_chunk=0):
        self.rng = random.Random(seed)
        self.dut = _Front(first_chunk)
        self.assembly = assemble(CONFIG, SHAPE, (0, 1), PLACE)
        self.jobs, self.drained, self.chunks, self.words = [], [], [], []
        self.errors = {}                    # number of a job -> (read error, write error)
        self.stopped = None                 # cycle in which the communicator is stopped, if it ever is
        self.reopens, self.unwritten = False, False
        self.stores, self.clears = deque(), deque()
        self.done = lambda: False

    def run(self, limit=6_000):
        sim = Simulator(self.dut)
        sim.add_clock(1e-6)
        self.limit = limit
        sim.add_testbench(self._live)
        sim.run()

    async def _live(self, ctx):
        dut = self.dut

        async def pulse(strobe, **values):
            for name, value in values.items():
                ctx.set(getattr(dut, name), value)
            ctx.set(getattr(dut, strobe), 1)
            await ctx.tick()
            ctx.set(getattr(dut, strobe), 0)

        for offset, word in enumerate(self.assembly.words):
            await pulse("program_write", program_address=offset, program_word=word)
        for collective, entry in self.assembly.directory.items():
            await pulse("directory_write", directory_number=int(collective), directory_entry={
                "plus": entry.plus, "minus": entry.minus, "both": entry.both, "valid": 1})
        await pulse("communicator_write")
        for row, (send, receive) in EXTENTS.items():
            await pulse("extent_write", extent_row=row, **{
                f"{side}_extent": {"count": count, "displacement": displacement}
                for side, (count, displacement) in (("send", send), ("receive", receive))})
        for number, base in BASES.items():
            await pulse("region_write", region_id=number, region={
                "base_page": base >> 12, "length": LENGTH, "domain": 7, "readable": 1, "writable": number == 2,
                "valid": 1})
        await pulse("region_write", region_id=3, region={
            "base_page": 0, "length": LENGTH, "domain": 6, "readable": 1, "writable": 1, "valid": 1})
        for queue, address in SC.items():
            await pulse("queue_write", queue=queue, sc=address, domain=7)

        filling, running, waiting, draining = deque(), {}, deque(), deque()
        for now in range(self.limit):
            self._stand(ctx, now)
            if self.done():
                for _ in range(50):
                    await ctx.tick()
                return
            ctx.set(dut.stores.valid, bool(self.stores))
            if self.stores:
                queue, word, strb = self.stores[0]
                halves = [strb >> 8 * half & 0xFF for half in range(2)]
                ctx.set(dut.stores.payload, {
                    "queue": queue, "data": word, "some": sum((byte != 0) << half for half, byte in enumerate(halves)),
                    "whole": sum((byte == 0xFF) << half for half, byte in enumerate(halves))})
                self.stores.popleft()
            ctx.set(dut.clear, bool(self.clears))
            if self.clears:
                ctx.set(dut.clear_queue, self.clears.popleft())

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
            ctx.set(dut.busy, sum(1 << fsm for fsm in running))
            ctx.set(dut.words.ready, self.rng.random() < 0.5)
            if ctx.get(dut.words.ready) and ctx.get(dut.words.valid):
                word = ctx.get(dut.words.payload)
                self.words.append((word.address, CompletionWord.unpack(word.data)))
            await ctx.tick()
        raise AssertionError(f"Not done in {self.limit} cycles: {len(self.jobs)} fills, {len(self.drained)} drains, "
                             f"words {self.words}")


    def _stand(self, ctx, now):
        """Stop the communicator some cycles after an error; open it again when that is asked for."""
        dut = self.dut
        if ctx.get(dut.failed) and self.stopped is None:
            self.stopped = now + self.rng.randint(1, 60)
        stopped = self.stopped is not None and now >= self.stopped
        ctx.set(dut.communicator_write, stopped and self.reopens)
        if stopped and self.reopens:
            assert not ctx.get(dut.left)
            self.stopped = self.reopens = None
        ctx.set(dut.standing, {"stopped": int(stopped), "statuses": [STOPPED] * CONFIG.communicators})
        ctx.set(dut.unwritten, self.unwritten)
        self.unwritten = False


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
        # No more than the queue has room for.
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
    # Beyond the table; their lower bits are those of regions that there are.
    ({"src_region": CONFIG.regions + 1}, Status.SRC_REGION), ({"dst_region": CONFIG.regions + 2}, Status.DST_REGION),
    ({"src_region": 129}, Status.SRC_REGION),
    ({"src_region": 3}, Status.SRC_DOMAIN), ({"src_offset": LENGTH // 4 - 99}, Status.SRC_BOUNDS),
    ({"dst_region": 4}, Status.DST_REGION), ({"dst_region": 3}, Status.DST_DOMAIN),
    ({"dst_region": 1}, Status.DST_RIGHTS), ({"dst_offset": LENGTH // 4 - 99}, Status.DST_BOUNDS),
    ({"collective": 3, "count": LENGTH // 4 // RANKS + 1}, Status.DST_BOUNDS),
    ({"collective": 2, "count": LENGTH // 4 // RANKS + 1}, Status.SRC_BOUNDS),
], ids=str)
def test_refusals(change, status):
    """A bad command ends with its status; its queue holds until it is cleared, and then goes on."""
    host = _Host(1)
    good = _command(Collective.ALL_REDUCE, count=100)
    host.stores.extend((0, command.pack(), 0xFFFF) for command in (good, good._replace(**change), good))
    told = []

    def done():
        if len(host.words) == 2 and not told:
            told.append(len(host.jobs))
            host.clears.append(0)
        return len(host.words) == 4

    host.done = done
    host.run()
    assert [word for _, word in host.words] == [(1, 0, 0), (1, 1, status), (2, 1, 0), (3, 1, 0)]
    assert told == [len(host.jobs) // 2]


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
    """Of buffers of one part, only the first row counts; where a count is 0, no displacement does."""
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
    """A communicator's rows may end with the table, and not behind it."""
    monkeypatch.setitem(globals(), "RANKS", ranks)
    host = _Host(6)
    host.stores.append((0, _command(Collective.ALL_GATHER, count=11, flags=9, root=root).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (int(not status), int(bool(status)), status))]


def test_a_command_in_the_decoder_is_under_way(monkeypatch):
    """From when it is taken from its queue on, also while all its rows are looked at."""
    monkeypatch.setitem(globals(), "RANKS", 64)
    monkeypatch.setitem(globals(), "CONFIG", replace(CONFIG, extent_rows=128))
    host, left = _Host(8), []
    stand = host._stand

    def watch(ctx, now):
        stand(ctx, now)
        left.append(ctx.get(host.dut.left))

    host._stand = watch
    host.stores.append((0, _command(Collective.ALL_GATHER, count=11, flags=9, root=4).pack(), 0xFFFF))
    host.done = lambda: len(host.words) == 1
    host.run()
    assert host.words == [(SC[0], (1, 0, 0))]
    begins = left.index(1)
    assert begins < 10 and all(left[begins:begins + 250])


def test_numbers_wrap():
    """After chunk 65,535 comes chunk 0, in the next slot and FSM."""
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
    """A count of 0 ends at once, between collectives that have chunks; a barrier has one chunk without moves."""
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
    """A word too many is refused, and those after it; what was taken is done."""
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
    """An error stops the communicator: what is under way is let go, later commands are refused, until it is opened."""
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
    # Every chunk that was cut has gone through; the last collective's are whole, and count from 0.
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
    """It is told when all before has ended, and the queue holds."""
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
