# SPDX-License-Identifier: Apache-2.0
"""The stages around the chunker, each with its checks: operations, programs, both movers and the FSMs; all stall."""

from collections import Counter, deque

from hw.ace.layouts import chunk_layout, done_layout
from hw.ace.operations import operation_layout
from hw.ace.transfers import job_layout
from hw.ace.words import Stage, Status
from tests.ace.chunk_path.chunker_model import NUMBERS, Chunk, Communicator
from tests.harness.cell import CellBench
from tests.harness.fields import Fields

__all__ = ["SETTLED", "Ports"]

FILL, DRAIN = 0, 1
SCAN = 24
"""Cycles in which a chunk starts whose FSM is free, while ``chunks`` does not stall."""
HANDOVER = 6
"""Cycles from the end of a chunk's FSM to its drain's job, while ``drains`` does not stall."""
SETTLED = 4
"""Cycles after which a choice takes a communicator's state into account; and those without work after which software
may write its entry."""


class Ports(CellBench):
    """The ports in one cycle, and what the chunker has in progress."""

    def __init__(self, ctx, dut, reset, rng):
        super().__init__(ctx, rng)
        self.dut, self.rst, self.config = dut, reset, dut.config
        self.operations, self.jobs, self.payloads, self.done = (
            Fields(layout(self.config)) for layout in (operation_layout, job_layout, chunk_layout, done_layout))
        self.cycle, self.words = 0, {}
        self.turns = []                             # communicators of the chunks that were cut
        self.held = None                            # communicator whose FSMs do not complete
        self.clear()

    def clear(self):
        config = self.config
        self.communicators = [Communicator(number) for number in range(config.communicators)]
        self.slots = [None] * config.slots
        self.moving = deque(), deque()              # chunks in each mover
        self.parts = deque()                        # whether each job in the drain is a part
        self.queued = []                            # jobs to drain: first cycle, chunk, whether it is a part
        self.latest = [None, None]                  # communicator of the latest job
        self.held_by = [None, None]                 # holder of each mover in the previous cycle
        self.unseen = [Counter(), Counter()]        # cycles in which a waiting communicator was not reported
        self.fsms = {}                              # FSM -> chunk
        self.free = set(range(config.fsms))         # as of the previous cycle
        self.cut = self.chunk = self.word = self.start = self.job = None
        self.requested = self.offered = False
        self.progress, self.undrained, self.drained_at, self.event_at, self.later = 0, 0, self.cycle, self.cycle, []
        # Previous cycle, for each communicator: a chunk could be cut; chunks remained to be cut; it was stopped.
        self.before = [(False, False, False)] * config.communicators

    # -- Both movers, in order of the jobs.

    def _moved(self, stalls):
        """Chunks that were filled or drained, and the reports of it; returns the communicators."""
        ctx, dut, progress = self.ctx, self.dut, 0
        self.filled_now = None
        for mover, (event, failure, withheld, error) in enumerate((
                (dut.filled, dut.unread, stalls.filled, stalls.read_error),
                (dut.drained, dut.unwritten, stalls.drained, stalls.write_error))):
            chunk = self.moving[mover][0] if self.moving[mover] and not self.chance(withheld) else None
            failed = self.chance(error) if chunk else self.rng.randrange(2)
            self.set(event.valid, chunk is not None)
            slot = chunk.slot if chunk else self.rng.randrange(self.config.slots)
            part = self.rng.randrange(2) if chunk is None else mover == DRAIN and self.parts[0]
            self.set(event.payload.as_value(), self.done.pack({"slot": slot, "error": failed, "part": part}))
            assert ctx.get(failure.valid) == (chunk is not None and failed)
            assert ctx.get(dut.movers[mover].moved) == (chunk is not None)
            if mover == DRAIN:
                assert ctx.get(dut.ended.valid) == (chunk is not None and not part)
            if chunk is None:
                continue
            if failed:
                name = ctx.get(failure.payload)
                assert (name.communicator, name.sequence) == (chunk.communicator, chunk.sequence)
                self.seen["read errors" if mover == FILL else "write errors"] += 1
            if mover == FILL:
                self.filled_now = chunk, failed
            else:
                ended = ctx.get(dut.ended.payload)
                wanted = Status.READ_ERROR if chunk.unread else (
                    Status.WRITE_ERROR if failed or chunk.unwritten else Status.OK)
                assert part or (ended.row, ended.status) == (chunk.collective.row, wanted)
                self.seen["write errors in a part"] += part and failed
            progress |= 1 << chunk.communicator
            self.later.append(lambda chunk=chunk, mover=mover, failed=failed: self._moved_on(chunk, mover, failed))
        return progress

    def _moved_on(self, chunk, mover, failed):
        self.moving[mover].popleft()
        self.event_at = self.cycle
        if mover == FILL:
            chunk.stage, chunk.unread = Stage.LINKS if chunk.started else Stage.FILLED, bool(failed)
        elif self.parts.popleft():
            chunk.unwritten = bool(failed)
        else:
            chunk.stage, self.slots[chunk.slot] = Stage.FREE, None
            chunk.collective.chunks -= 1
            self.seen["chunks"] += 1

    # -- Cutting.

    def _cutting(self, stalls, restart):
        """The chunk that is being cut, its program and its job; returns its communicator when it is cut."""
        ctx, dut = self.ctx, self.dut
        cutting = ctx.get(dut.cutting.communicators)
        if self.cut:
            assert cutting == self.cut, "The chunk that is being cut changes"
        elif cutting:
            self._chosen(cutting)
        chunk = self.chunk
        granted, ready = not self.chance(stalls.program), not self.chance(stalls.fills)
        self.set(dut.program.ready, granted)
        self.set(dut.fills.ready, ready)
        if ctx.get(dut.program.valid):
            assert chunk and not self.requested, "A word is requested that no chunk needs"
            assert ctx.get(dut.program.address) == chunk.collective.fields[chunk.side]
            if granted:
                self.requested, self.word = True, self.words[chunk.collective.fields[chunk.side]].pack()
        valid = ctx.get(dut.fills.valid)
        assert valid or not self.offered or restart is not None, "A job is withdrawn"
        issued = valid and ready
        assert ctx.get(dut.issued.valid) == issued
        self.offered = valid and not ready
        self.seen["restarts at a job"] += restart is not None and self.requested and self.word is None and ready
        if not valid:
            return 0
        assert chunk and self.requested and self.word is None, "A job without the header of its program"
        fields, header = chunk.collective.fields, self.words[chunk.collective.fields[chunk.side]]
        wanted = {name: fields[name] for name in ("shard_bytes", "varying", "row", "size", "dtype", "widen")} | {
            "list": fields[chunk.side] + 1, "runs": header.fills, "base": fields["src_base"],
            "limit": fields["src_limit"], "column": chunk.column, "piece_bytes": chunk.size,
            "piece_beats": self._beats(chunk), "slot": chunk.slot, "divide": 0}
        assert ctx.get(dut.fills.payload.as_value()) == self.jobs.pack(wanted), chunk
        if not issued:
            return 0
        payload = ctx.get(dut.issued.payload)
        assert (payload.row, payload.last) == (chunk.collective.row, chunk.last)
        self.later.append(self._issue)
        self.seen[chunk.side] += 1
        self.seen["widened"] += bool(fields["widen"])
        return 1 << chunk.communicator

    def _beats(self, chunk):
        return -(-chunk.size * chunk.collective.growth // self.config.beat_bytes)

    def _chosen(self, cutting):
        """A communicator's next chunk is being cut: in turn, among those of the highest priority."""
        number = cutting.bit_length() - 1
        assert cutting == 1 << number, "Chunks of two communicators are cut at the same time"
        chosen = self.communicators[number]
        assert self.before[number][0], "A chunk is cut that has no slot, or of a stopped communicator"
        for each in self.communicators:
            if each is chosen or each.since is None or each.since > self.cycle - SETTLED:
                continue
            assert each.priority <= chosen.priority, f"Communicator {number} overtakes one of a higher priority"
            self.seen["overtakes"] += each.priority < chosen.priority
            if each.priority == chosen.priority and each.in_turn_from <= self.cycle:
                each.overtaken[number] += 1
                assert each.overtaken[number] == 1, f"Communicator {number} is chosen twice before {each.number}"
        chosen.overtaken.clear()
        collective, sequence = chosen.rows[chosen.cutting], chosen.following % NUMBERS
        column, size, side = collective.pieces[0]
        fsm, slot = chosen.own(sequence)
        self.cut, self.requested = cutting, False
        self.chunk = Chunk(number, collective, sequence, fsm, slot, column, size, side, len(collective.pieces) == 1)

    def _issue(self):
        chunk = self.chunk
        communicator = self.communicators[chunk.communicator]
        chunk.collective.pieces.popleft()
        chunk.collective.chunks += 1
        chunk.collective.cut += 1
        chunk.stage, self.slots[chunk.slot], chunk.issued_at = Stage.FILLING, chunk, self.cycle
        communicator.following = chunk.sequence + 1
        if chunk.last:
            chunk.collective.whole = True
            communicator.cutting ^= 1
        self.moving[FILL].append(chunk)
        self.turns.append(chunk.communicator)
        self.latest[FILL], self.event_at = chunk.communicator, self.cycle
        self.cut = self.chunk = None
        self.requested = False

    # -- The FSMs.

    def _starting(self, stalls):
        """Chunks that start, in order, each on its own FSM; and those that are filled and whose FSM has completed."""
        ctx, dut, config = self.ctx, self.dut, self.config
        ready = not self.chance(stalls.chunks)
        self.set(dut.chunks.ready, ready)
        valid = ctx.get(dut.chunks.valid)
        assert valid or self.start is None, "A chunk is withdrawn"
        if valid:
            payload = ctx.get(dut.chunks.payload)
            chunk = self.start or self._started(payload)
            phases = 0 if chunk.stop_seen else self.words[chunk.collective.fields[chunk.side]].phases
            assert ctx.get(dut.chunks.payload.as_value()) == self.payloads.pack(self._payload(chunk, phases)), chunk
            self.start = None if ready else chunk
            if ready:
                self.later.append(lambda: self._run(chunk))
        for communicator in self.communicators:
            waiting = self._next_to_start(communicator)
            if waiting:
                waiting.startable += not valid or ready
                assert waiting.startable <= SCAN, f"{waiting} does not start"

        finished = [chunk for chunk in self.fsms.values() if chunk.communicator != self.held
                    and chunk.stage is Stage.LINKS
                    and (not chunk.unread or self.communicators[chunk.communicator].stopped)]
        finished = self.rng.choice(finished) if finished and not self.chance(stalls.through) else None
        self.set(dut.through.valid, finished is not None)
        part = self._has_part(finished) if finished else self.rng.randrange(2)
        self.set(dut.through.payload, {"slot": finished.slot if finished else self.rng.randrange(config.slots),
                                       "part": part})
        assert ctx.get(dut.through.ready)
        if finished:
            self.later.append(lambda: self._through(finished, part))

    def _has_part(self, chunk):
        """Whether the FSM now reports all but the last drain; if the communicator is stopped, it may leave that out."""
        header = self.words[chunk.collective.fields[chunk.side]]
        return bool(header.parts and not chunk.parted and not (
            self.communicators[chunk.communicator].stopped and self.rng.randrange(2)))

    def _payload(self, chunk, phases):
        fields, header = chunk.collective.fields, self.words[chunk.collective.fields[chunk.side]]
        now, failed = self.filled_now or (None, False)
        ended = now is chunk or chunk.stage is not Stage.FILLING
        self.seen["started at the end of the fill"] += now is chunk
        self.seen["started before"] += not ended
        return {"early": header.early, "parts": header.parts, "ended": ended,
                "filled": ended and not (failed if now is chunk else chunk.unread),
                "communicator": chunk.communicator, "sequence": chunk.sequence, "fsm": chunk.fsm, "slot": chunk.slot,
                "arithmetic.dtype": fields["arithmetic.dtype"], "arithmetic.op": fields["arithmetic.op"],
                "piece_beats": self._beats(chunk), "phases": phases,
                "program": fields[chunk.side] + 1 + header.fills + header.drains}

    def _next_to_start(self, communicator):
        """The communicator's next chunk, if it may start: it has been cut, and its FSM is free."""
        fsm, slot = communicator.own(communicator.starting)
        chunk = self.slots[slot]
        may = (communicator.open and chunk and not chunk.started and fsm in self.free and fsm not in self.fsms)
        return chunk if may else None

    def _started(self, payload):
        """A chunk is offered to its FSM that was chosen in the previous cycle."""
        communicator = self.communicators[payload.communicator]
        chunk = self.slots[communicator.own(communicator.starting)[1]]
        assert chunk and chunk.communicator == communicator.number and not chunk.started, (
            f"Communicator {communicator.number} has no chunk to start")
        assert chunk.sequence == communicator.starting % NUMBERS and chunk.fsm in self.free
        chunk.stop_seen = self.before[communicator.number][2]
        assert chunk.issued_at < self.cycle - 1
        chunk.started = True
        chunk.stage = Stage.FILLING if chunk.stage is Stage.FILLING else Stage.LINKS
        communicator.starting += 1
        self.seen["stopped chunks"] += chunk.stop_seen
        return chunk

    def _run(self, chunk):
        self.fsms[chunk.fsm], self.event_at = chunk, self.cycle

    def _through(self, chunk, part):
        self.event_at = self.cycle
        begin = self.cycle + 1 + self.config.timing.registered_drain_requests
        self.queued.append((begin, chunk, part))
        if part:
            chunk.parted = True
            self.seen["parts"] += 1
        else:
            del self.fsms[chunk.fsm]
            chunk.drain_from = begin

    # -- Draining.

    def _draining(self, stalls):
        """Jobs of the drain: slots of the highest priority first, and of one priority in order."""
        ctx, dut = self.ctx, self.dut
        ready = not self.chance(stalls.drains)
        self.set(dut.drains.ready, ready)
        valid = ctx.get(dut.drains.valid)
        assert valid or self.job is None, "A job is withdrawn"
        if valid:
            job = self.job or self._drain_chosen(ctx.get(dut.drains.payload.slot), ctx.get(dut.drains.payload.part))
            _, chunk, part = job
            fields, header = chunk.collective.fields, self.words[chunk.collective.fields[chunk.side]]
            wanted = {name: fields[name] for name in (
                "shard_bytes", "varying", "row", "size", "dtype", "widen", "divide")} | {
                "list": fields[chunk.side] + header.fills + (
                    header.drains if header.parts and not part else 1), "part": part,
                "runs": 0 if chunk.stop_seen else header.drains - 1 if part else 1 if header.parts else header.drains,
                "base": fields["dst_base"], "limit": fields["dst_limit"], "column": chunk.column,
                "piece_bytes": chunk.size, "piece_beats": self._beats(chunk), "slot": chunk.slot}
            assert ctx.get(dut.drains.payload.as_value()) == self.jobs.pack(wanted), chunk
            self.job = None if ready else job
            if ready:
                self.later.append(lambda: self._drain_issued(job))
        self.undrained = 0 if valid or not self._waiting() else self.undrained + 1
        assert self.undrained <= HANDOVER, "A chunk is not drained"

    def _waiting(self):
        """Jobs that wait for the drain."""
        return [job for job in self.queued if job[0] <= self.cycle]

    def _drain_chosen(self, slot, part):
        waiting = self._waiting()
        chosen = next((job for job in waiting if job[1].slot == slot and job[2] == part), None)
        assert chosen, f"Slot {slot} has nothing to drain"
        begin, chunk, _ = chosen
        priority = self.communicators[chunk.communicator].priority
        for since, each, _ in waiting:
            other = self.communicators[each.communicator].priority
            if other == priority:
                assert since >= begin, f"Slot {slot} overtakes one of the same priority"
            elif since < min(self.drained_at, self.cycle - HANDOVER):
                assert other < priority, f"Slot {slot} overtakes one of a higher priority"
            self.seen["drain overtakes"] += other < priority and since < begin
        chunk.stop_seen = self.before[chunk.communicator][2]
        return chosen

    def _drain_issued(self, job):
        _, chunk, part = job
        self.queued.remove(job)
        self.parts.append(part)
        self.moving[DRAIN].append(chunk)
        self.latest[DRAIN], self.drained_at, self.event_at = chunk.communicator, self.cycle, self.cycle

    # -- Levels and look-ups.

    def _levels(self):
        """The movers' state for the watchdog, and ``stop`` for the address generators."""
        ctx, dut = self.ctx, self.dut
        found = ctx.get(dut.progress.communicators)
        assert found == self.progress, f"Progress of {found:b} instead of {self.progress:b}"
        assert ctx.get(dut.counts.active_cycles) == any(self.slots), "active_cycles"
        for mover, (jobs, stage) in enumerate(((dut.fills, Stage.FILLING), (dut.drains, Stage.DRAINING))):
            latest = self.latest[mover]
            assert ctx.get(jobs.stop) == (latest is not None and self.communicators[latest].stopped)
            holder = self.moving[mover][0].communicator if self.moving[mover] else None
            assert ctx.get(dut.movers[mover].holder) == (0 if holder is None else 1 << holder)
            blocked, others = ctx.get(dut.movers[mover].blocked), set()
            moving = [chunk for chunk in self.slots if chunk and chunk.stage is stage]
            if holder is not None and not self.communicators[holder].stopped:
                others = {chunk.communicator for chunk in moving}
                if mover == FILL:
                    others |= {number for number, (_, begun, _) in enumerate(self.before) if begun}
                others -= {holder}
            assert not blocked & ~sum(1 << number for number in others), "A communicator is blocked that does not wait"
            unseen = self.unseen[mover]
            for number in list(unseen):
                if number not in others or self.held_by[mover] != holder:
                    del unseen[number]
            for number in others:
                unseen[number] = 0 if blocked >> number & 1 else unseen[number] + 1
                self.seen["blocked"] += blocked >> number & 1
                since = self.communicators[number].since if mover == FILL else None
                cuttable = since is not None and since <= self.cycle - SETTLED
                if not cuttable and not any(chunk.communicator == number for chunk in moving):
                    unseen[number] = 0
                assert unseen[number] <= (0 if cuttable else len(self.slots)), (
                    f"Communicator {number} is blocked, but not reported")
            self.held_by[mover] = holder

    def _lookups(self):
        """A slot and a communicator, as software sees them."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        slot, number = rng.randrange(self.config.slots), rng.randrange(self.config.communicators)
        self.set(dut.slot.slot, slot)
        self.set(dut.count.communicator, number)
        state, chunk = ctx.get(dut.slot.state), self.slots[slot]
        assert state.stage == (chunk.stage if chunk else Stage.FREE), f"slot {slot}: {chunk}"
        if chunk:
            assert (state.name.communicator, state.name.sequence) == (chunk.communicator, chunk.sequence)
        assert ctx.get(dut.count.chunks) == self.communicators[number].following % NUMBERS
