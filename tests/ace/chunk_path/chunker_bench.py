# SPDX-License-Identifier: Apache-2.0
"""The chunker's bench: software opens and stops communicators, and starts collectives; then cycle by cycle."""


from amaranth.hdl import ResetInserter, Signal

from hw.ace.chunker import Chunker
from hw.ace.operations import ROWS
from hw.ace.words import PROGRAM_WIDTH, HeaderWord, Stage
from tests.ace.chunk_path.chunker_model import PATTERNS, Communicator
from tests.ace.chunk_path.chunker_ports import SETTLED, Ports
from tests.harness.cell import run_bench

__all__ = ["Bench", "run"]

PATIENCE = 200
"""Cycles without any event after which the chunker is stuck."""


class Bench(Ports):
    """Software, and one cycle at a time; each output is checked."""

    # -- Software.

    async def reset(self):
        """Reset in any state, with the tables as they are, and the sweep."""
        ctx, dut = self.ctx, self.dut
        self.clear()
        for signal in (dut.to_cut.begun, dut.communicator_status.stopped, dut.filled.valid, dut.drained.valid,
                       dut.through.valid, dut.restart.valid, dut.busy.fsms):
            self.set(signal, 0)
        self.set(self.rst, 1)
        await ctx.tick()
        self.set(self.rst, 0)
        self.set(dut.init.active, 1)
        for address in range(self.config.sweep_rows):
            self.set(dut.init.address, address)
            if address:
                for signal in (dut.fills.valid, dut.chunks.valid, dut.drains.valid, dut.issued.valid, dut.program.valid,
                               dut.counts.active_cycles, dut.cutting.communicators, dut.movers[0].holder):
                    assert not ctx.get(signal), f"{signal} in the sweep"
            await ctx.tick()
        self.set(dut.init.active, 0)
        for number in range(self.config.communicators):
            self.set(dut.count.communicator, number)
            assert ctx.get(dut.count.chunks) == 0, "A count of chunks is not swept"
        self.seen["resets"] += 1

    def may_open(self, number, *, fsm, slot):
        """Whether the entry may be written with ``(first, count)`` of the FSMs and of the slots."""
        communicator = self.communicators[number]
        others = [each for each in self.communicators if each.open and each is not communicator]
        return communicator.idle >= SETTLED and not any(
            _overlap((each.share[f"{name}_first"], each.share[f"{name}_mask"] + 1), own)
            for each in others for name, own in (("fsm", fsm), ("slot", slot)))

    async def open(self, number, *, fsm, slot, priority=0, stalls=PATTERNS["none"]):
        """Write a communicator's entry: it restarts with the new share."""
        while self.communicators[number].idle < SETTLED:
            await self.step(stalls)
        assert self.may_open(number, fsm=fsm, slot=slot)
        first = self.dut.first
        share = {"fsm_first": fsm[0], "fsm_mask": fsm[1] - 1, "slot_first": slot[0], "slot_mask": slot[1] - 1}
        await self.step(stalls, restart=number)
        self.communicators[number] = Communicator(
            number, share, priority, open=True, following=first, starting=first)

    def stop(self, number):
        """End a communicator; its entry may be written when it has no work."""
        self.communicators[number].stopped = True
        self.seen["stops"] += 1

    def post(self, number, collective):
        """Start a collective if there is a row for it; returns whether there was."""
        communicator = self.communicators[number]
        if not communicator.open or communicator.stopped or communicator.rows[communicator.to] is not None:
            return False
        collective.row = number * ROWS + communicator.to
        for side in ("plus", "minus"):
            address = collective.fields[side]
            header = HeaderWord(self.rng.randrange(5), *self._noise(8, 8, 1, 8, 1, 1, 11, 1, 1))
            self.words.setdefault(address, header._replace(drains=max(header.drains, header.parts)))
        communicator.rows[communicator.to] = collective
        communicator.to ^= 1
        return True

    def _noise(self, *widths):
        return [self.rng.getrandbits(width) for width in widths]

    @property
    def work(self):
        """Whether any chunk is in progress or remains to be cut."""
        return any(row is not None for each in self.communicators for row in each.rows)

    async def finish(self, stalls=PATTERNS["none"]):
        """Run until no collective is left; returns the cycles."""
        start = self.cycle
        while self.work:
            await self.step(stalls)
        return self.cycle - start

    async def drain(self):
        """Run until no collective and no chunk is left."""
        await self.finish()
        for _ in range(SETTLED):
            await self.step()
        assert not any(self.slots) and not self.ctx.get(self.dut.counts.active_cycles)

    # -- One cycle.

    async def step(self, stalls=PATTERNS["none"], *, restart=None):
        self.later = []
        self._drive(stalls, restart)
        progress = self._moved(stalls)
        progress |= self._cutting(stalls, restart)
        self._starting(stalls)
        self._draining(stalls)
        self._levels()
        self._lookups()
        await self.ctx.tick()
        self._advance(progress)
        self.cycle += 1
        assert not self.work or self.cycle - self.event_at < PATIENCE, "The chunker is stuck"

    def _drive(self, stalls, restart):
        ctx, dut, rng = self.ctx, self.dut, self.rng
        status, all_of = dut.communicator_status, self.communicators
        self.set(status.stopped, sum(each.stopped << each.number for each in all_of))
        self.set(status.priorities.as_value(), sum(each.priority << 2 * each.number for each in all_of))
        self.set(dut.to_cut.begun, sum(each.begun << each.number for each in all_of))
        self.set(dut.to_cut.row, sum(each.cutting << each.number for each in all_of))
        self.set(dut.restart.valid, restart is not None)
        self.set(dut.restart.number, rng.randrange(len(all_of)) if restart is None else restart)
        self.set(dut.busy.fsms, sum(1 << fsm for fsm in self.fsms))
        self.set(dut.program.word, rng.getrandbits(PROGRAM_WIDTH) if self.word is None else self.word)
        self.word = None
        for read, table in ((dut.cut_share, "share"), (dut.start_share, "share"), (dut.operation, "row"),
                            (dut.drain_operation, "row")):
            if table == "share":
                self.set(read.share, all_of[ctx.get(read.number)].share)
            else:
                number, row = divmod(ctx.get(read.row), ROWS)
                collective = all_of[number].rows[row]
                self.set(read.operation.as_value(), self.operations.pack(collective.fields) if collective else 0)
        for each in all_of:
            eligible = each.begun and not each.stopped and self.slots[each.own(each.following)[1]] is None
            each.since = None if not eligible else self.cycle if each.since is None else each.since
            if not eligible or any(other.begun and other.priority > each.priority for other in all_of):
                each.in_turn_from = self.cycle + SETTLED
                each.overtaken.clear()

    def _advance(self, progress):
        """The model after a cycle: stages that change by themselves, and rows that software may use again."""
        self.progress, cutting = progress, self.cut or 0
        self.free = {fsm for fsm in range(self.config.fsms) if fsm not in self.fsms}
        self.before = [(each.since is not None, each.begun and not each.stopped, each.stopped)
                       for each in self.communicators]
        for change in self.later:
            change()
        for each in self.communicators:
            if each.stopped and not cutting >> each.number & 1:
                for collective in filter(None, each.rows):
                    collective.whole = True
                each.cutting = each.to
            for row, collective in enumerate(each.rows):
                if collective and collective.whole and not collective.chunks:
                    each.rows[row] = None
                    self.seen["collectives"] += not collective.pieces
            each.idle = each.idle + 1 if not any(each.rows) else 0
            each.open = each.open and not (each.stopped and each.idle >= SETTLED)
        for chunk in self.slots:
            if chunk and chunk.drain_from == self.cycle + 1:
                chunk.stage = Stage.DRAINING


def _overlap(one, other):
    return one[0] < sum(other) and other[0] < sum(one)


def run(config, rng, body, *, first=0):
    """Run ``body`` on a bench, and return its counts of the cases that occurred."""
    dut, reset = Chunker(config, first=first), Signal()

    async def after_reset(bench):
        await bench.reset()
        await body(bench)

    return run_bench(ResetInserter(reset)(dut), lambda ctx: Bench(ctx, dut, reset, rng), after_reset)
