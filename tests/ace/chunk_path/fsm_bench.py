# SPDX-License-Identifier: Apache-2.0
"""The bench of one FSM: the pool, Transmit, Receive and both neighbours in Python."""

import random
from collections import deque
from itertools import chain

from hw.ace.config import STEP_WIDTH
from hw.ace.layouts import PacketKind
from hw.ace.pool.fsm import Fsm
from hw.ace.pool.fsm_ports import StepKind
from tests.ace.chunk_path.fsm_phases import CONFIG, PACKET, Coming
from tests.harness.cell import run_cell

__all__ = ["SILENCE", "Bench", "alone"]

UNREAD = 8
"""Packets that Transmit holds at most."""
SILENCE = 100
"""Cycles for which a port is stalled."""
PROMPT = 3
"""Cycles in which a packet that may leave is offered."""
LIMIT = 4000


class Bench:
    """The pool, Transmit, Receive and both neighbours, for one chunk at a time."""

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng = ctx, dut, rng
        self.seen = {"cut through": 0, "taken and read": 0, "granted on entry": 0, "settled late": 0, "sums wait": 0,
                     "sums wait for beats": 0, "ends late": 0, "sent by a mark": 0, "granted by a mark": 0,
                     "granted ahead": 0, "ahead": 0, "outside of a phase": 0}

    async def run(self, phases, *, mood=1.0, reads=1.0, ends=None, stop=None, silent=None, waits=None, fill=None,
                  early=False, unread=False, marks=(), parts=False):
        """Take a chunk through its program; returns the cycles.

        ``mood``: how likely a neighbour acts in a cycle, ``reads``: how likely Transmit reads, ``ends``: how likely the
        last beat of a packet arrives. ``stop``: the cycle in which the communicator is stopped. ``silent``: a port that
        is stalled for ``SILENCE`` cycles; then the FSM reports that it ``waits`` for it. ``fill``: the cycle in which
        the fill ends, without one before the start; ``unread``: with an error. ``early``: GRANTs need not wait for it.
        ``marks``: cycles in which fills with a mark end. ``parts``: the drain of all but the last receive is reported
        by itself.
        """
        ctx, dut, rng = self.ctx, self.dut, self.rng
        self.phases, self.mood, self.epoch = phases, mood, rng.randrange(16)
        self.reads, self.ends = reads, mood if ends is None else ends
        self.chunk = {
            "communicator": rng.randrange(CONFIG.communicators), "sequence": rng.getrandbits(16),
            "fsm": rng.randrange(CONFIG.fsms), "slot": rng.randrange(CONFIG.slots),
            "arithmetic": {"dtype": rng.randrange(16), "op": rng.randrange(8)}, "piece_beats": rng.randint(1, PACKET),
            "program": rng.randrange(CONFIG.program_words - 100), "phases": len(phases), "early": early,
            "parts": parts, "ended": fill is None, "filled": fill is None}
        self.ended, self.filled, self.early = fill is None, fill is None, early
        self.marks, self.opened, self.parts = 0, False, parts
        self.address, self.number, self.finished = self.chunk["program"], -1, False
        self.expected = deque([StepKind.PHASE] if phases else [StepKind.FINISH])
        self.fetching, self.before, self.may_for, self.steps_after_stop = None, False, 0, 0
        self.offers_after_stop = 0
        self.coming = None
        self._enter(None)
        assert not ctx.get(dut.chunk.busy)
        ctx.set(dut.communicator.epoch, self.epoch)
        ctx.set(dut.start.payload, self.chunk)
        ctx.set(dut.start.valid, 1)
        await ctx.tick()
        ctx.set(dut.start.valid, 0)
        ctx.set(dut.start.payload, {})
        for cycle in range(LIMIT):
            if self.finished:
                break
            self.stopped_for = 0 if stop is None or cycle < stop else cycle - stop + 1
            # It is let go when the word that it waits for has arrived.
            self.let_go_for = 0 if not self.stopped_for or self.fetching else self.let_go_for + 1
            ctx.set(dut.communicator.stopped, self.stopped_for > 0)
            self.silent = silent if cycle < SILENCE else None
            # Other chunks, too, are filled all the time.
            other = rng.choice([slot for slot in range(CONFIG.slots) if slot != self.chunk["slot"]])
            ctx.set(dut.filled.valid, cycle == fill or rng.random() < 0.5)
            ctx.set(dut.filled.payload, {"slot": self.chunk["slot"] if cycle == fill else other,
                                         "error": unread if cycle == fill else rng.randrange(2)})
            ctx.set(dut.marked.valid, cycle in marks or rng.random() < 0.5)
            ctx.set(dut.marked.payload, self.chunk["slot"] if cycle in marks else other)
            if silent and cycle == SILENCE - 1:
                assert ctx.get(dut.state.waits) == waits
            self._cycle()
            await ctx.tick()
            if cycle in marks:
                self.marks, self.opened = (self.marks if self.marks and not self.opened else 2 * self.marks + 1,
                                           self.marks > 0)
            self.ended, self.filled = self.ended or cycle == fill, self.filled or (cycle == fill and not unread)
        assert self.finished, f"Not done: phase {self.number} of {phases}, sent {self.sent}, landed {self.landed}"
        for signal in (dut.communicator.stopped, dut.steps.ready, dut.packets.taken, dut.packets.read,
                       *chain(*dut.landed.valid, *dut.landed.end), dut.landed.local, dut.signals.ready,
                       dut.grants.valid, dut.grants.back, dut.filled.valid, dut.marked.valid):
            ctx.set(signal, 0)
        assert not ctx.get(dut.chunk.busy)
        return cycle

    def _enter(self, phase):
        self.phase, self.send, self.sent, self.offset = phase, None, 0, 0
        self.landed, self.allowed, self.signalled, self.entering = 0, 0, 0, False
        self.returned, self.allowed_back, self.signalled_back, self.looped = 0, False, False, 0
        self.back_in = self.rng.choice((0, 0, 20, 80))          # cycles until the GRANT for sends that go back
        # Whether more beats of a packet arrive, from the receiver's side and back.
        self.incoming = [False, False]
        if coming := self.coming:
            self.signalled, self.signalled_back, self.incoming = phase.granted, phase.returns > 0, coming.incoming
            self.landed, self.returned = coming.arrived
        self.coming = None
        self.unread = deque()                   # packets that were taken and not read: the number of their send
        self.looped_late = deque()              # packets in the loopback that were read

    @property
    def safe(self):
        """Receives that are safe: granted at first, and by each send whose packets have all been read."""
        return self.phase.granted + sum(
            send.grants for number, send in enumerate(self.phase.sends[:self.sent]) if number not in self.unread)

    @property
    def complete(self):
        phase = self.phase
        return phase is None or (
            self.sent == len(phase.sends) and not self.unread and self.landed == phase.receives * phase.span
            and self.signalled == self.safe and (self.signalled_back or not phase.returns) and not self.looped
            and not any(self.incoming) and (self.coming is None or all(self.coming.signalled)))

    def _acts(self, port):
        """Whether the neighbour at a port acts in this cycle."""
        chances = {"read": self.reads, "end": self.ends}
        return port != self.silent and self.rng.random() < chances.get(port, self.mood)

    def _cycle(self):
        ctx, dut = self.ctx, self.dut
        assert ctx.get(dut.chunk.busy)
        assert (ctx.get(dut.chunk.slot), ctx.get(dut.chunk.piece_beats)) == (
            self.chunk["slot"], self.chunk["piece_beats"])
        arithmetic = ctx.get(dut.chunk.arithmetic)
        assert {"dtype": arithmetic.dtype, "op": arithmetic.op} == self.chunk["arithmetic"]
        self._state()
        inside, entered = ctx.get(dut.grants.inside), ctx.get(dut.grants.entered)
        assert entered == self.entering, "A phase is entered in the cycle after its word"
        self.entering = False
        assert inside or self.complete or self.stopped_for, "An FSM is outside of a phase that is not complete"
        self._program(inside)
        self._signal()
        self._transmit()
        self._receive(inside, entered)

    def _state(self):
        """Check the state that software can read."""
        state = self.ctx.get(self.dut.state)
        assert (state.busy, state.communicator, state.sequence) == (
            1, self.chunk["communicator"], self.chunk["sequence"])
        if self.phase is not None and not self.entering and state.phase == self.number:
            ports = {self.phase.port} | {self.phase.port ^ send.back for send in self.phase.sends}
            assert state.port in ports and (self.stopped_for or state.sent == self.sent)
            assert not self.phase.span or state.received == self.landed // self.phase.span

    def _program(self, inside):
        """Serve words of the program, with garbage in the fields that the other kind has."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        for name in ("ready", "phase_valid", "send_valid"):
            ctx.set(getattr(dut.steps, name), 0)
        if self.fetching is not None and self._acts("fetched"):
            kind, self.fetching = self.fetching, None
            garbage = {name: rng.getrandbits(1) for name in (
                "source", "target", "need", "grants", "reduce", "ahead", "next", "next_both")}
            if kind is StepKind.PHASE:
                self.number += 1
                self._enter(phase := self.phases[self.number])
                self.entering = True
                ctx.set(dut.steps.fetched, {
                    **garbage, "port": phase.port, "span": phase.span, "sends": len(phase.sends),
                    "receives": phase.receives, "granted": phase.granted, "both": phase.returns > 0})
                ctx.set(dut.steps.phase_valid, 1)
                self.expected.extend([StepKind.SEND] * len(phase.sends))
                last = self.number + 1 == len(self.phases)
                self.expected.extend([StepKind.PART] * (last and self.parts))
                self.expected.append(StepKind.FINISH if last else StepKind.PHASE)
            else:
                self.send, self.offset = self.phase.sends[self.sent], 0
                ctx.set(dut.steps.fetched, {
                    "port": rng.randrange(CONFIG.ports), "span": rng.getrandbits(5), "sends": 1, "receives": 1,
                    "granted": 5, **vars(self.send)})
                ctx.set(dut.steps.send_valid, 1)
                if self.send.ahead:
                    following = self.phases[self.number + 1]
                    self.coming = Coming(following, [False, not following.returns], [0, 0], [False, False])
        elif ctx.get(dut.steps.valid):
            assert self.fetching is None, "A word is requested before the previous one has arrived"
            kind = StepKind(ctx.get(dut.steps.kind))
            assert inside == (kind in (StepKind.SEND, StepKind.PART))
            assert self.ended or kind is not StepKind.FINISH, "A chunk is let go that is still being filled"
            if self.stopped_for and kind is StepKind.FINISH:
                assert not self.unread, "A chunk is let go whose packets have not been read"
                assert not ctx.get(dut.packets.valid) and not ctx.get(dut.signals.valid)
            else:
                assert kind is self.expected[0], f"{kind} instead of {self.expected[0]}"
                assert kind in (StepKind.FINISH, StepKind.PART) or ctx.get(dut.steps.address) == self.address
                assert self.send is None, "The next word is requested before a send is done"
                assert kind in (StepKind.SEND, StepKind.PART) or self.complete, "A phase ends before its work is done"
                assert kind is not StepKind.PART or self._all_but_one(), "A part is drained that is not there"
            if self._acts("step"):
                ctx.set(dut.steps.ready, 1)
                self.expected.popleft()
                self.address += kind is not StepKind.PART
                self.finished = kind is StepKind.FINISH
                self.fetching = None if kind in (StepKind.FINISH, StepKind.PART) else kind
                self.steps_after_stop += not self.finished and self.stopped_for > 0
                assert self.steps_after_stop <= 2, "A chunk that is stopped continues its program"

    def _all_but_one(self):
        """Whether all but the last receive of the last phase have arrived, and everything was sent."""
        return (self.number + 1 == len(self.phases) and self.sent == len(self.phase.sends)
                and self.landed >= (self.phase.receives - 1) * self.phase.span and (
                    not any(self.incoming) or self.landed > (self.phase.receives - 1) * self.phase.span))

    def _transmit(self):
        """Take packets that are offered, and read them later, in order."""
        ctx, dut = self.ctx, self.dut
        offer, taken, read = ctx.get(dut.packets.valid), False, bool(self.unread) and self._acts("read")
        if self.send is not None and self.phase.span:
            send, phase = self.send, self.phase
            length = min(PACKET, phase.span - self.offset)
            enough = (send.need - 1) * phase.span + (phase.span if send.local else self.offset + length)
            allowed = send.local or (self.allowed_back if send.back else self.allowed > self.sent)
            permitted = self.filled or (self.opened and self.sent <= self.marks)
            may = permitted and allowed and (
                not send.need or (self.returned if send.back else self.landed) >= enough)
            if send.local:
                # Everything has arrived, and what was sent before has been read.
                others = [one for one in self.unread if not phase.sends[one].local]
                self.seen["sums wait"] += len(others) > 0
                may = may and not others and self.landed == phase.receives * phase.span and not any(self.incoming)
                self.seen["sums wait for beats"] += any(self.incoming)
        else:
            may = False
        self.may_for = self.may_for + 1 if may and not self.stopped_for else 0
        if offer:
            assert may, f"A packet of send {self.sent} is offered that may not leave"
            self.offers_after_stop += self.stopped_for > 1
            assert self.offers_after_stop <= 1, "A packet is offered of a chunk that is let go"
            header, phase = ctx.get(dut.packets.header), self.phase
            assert (ctx.get(dut.packets.port), ctx.get(dut.packets.address)) == (
                CONFIG.local_port if self.send.local else phase.port ^ self.send.back, self.send.source + self.offset)
            assert (header.kind, header.offset, header.beats) == (
                PacketKind.DATA, self.send.target + self.offset, length - 1)
            assert (header.reduce, header.phase, header.final) == (
                self.send.reduce, self.number, self.offset + length == self.phase.span)
            self._name(header)
            self.seen["cut through"] += self.send.need > 0 and self.landed < self.send.need * phase.span
            taken = len(self.unread) < UNREAD and self._acts("offer")
            self.seen["sent by a mark"] += taken and not self.filled
        else:
            assert self.may_for <= PROMPT, f"A packet of send {self.sent} may leave and is not offered"
        if self.before and not self.stopped_for:
            assert offer, "A packet is withdrawn"
        twice = read and len(self.unread) > 1 and self.phase.returns > 0 and self.rng.random() < 0.5
        for _ in range(read + twice):
            number = self.unread.popleft()
            self.looped_late.append(number) if self.phase.sends[number].local else None
        if taken:
            self.seen["taken and read"] += read
            self.unread.append(self.sent)
            self.looped += self.send.local
            self.offset += length
            self.may_for = 0
            if self.offset == self.phase.span:
                self.seen["settled late"] += len(self.unread) > 2 and self.send.grants > 0
                self.send, self.sent = None, self.sent + 1
        self.before = offer and not taken
        ctx.set(dut.packets.taken, taken)
        ctx.set(dut.packets.read, read + twice)

    def _name(self, header):
        assert (header.communicator, header.sequence, header.epoch) == (
            self.chunk["communicator"], self.chunk["sequence"], self.epoch)

    def _signal(self):
        """The neighbour upstream is granted receives when they are safe."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.signals.ready, 0)
        if not ctx.get(dut.signals.valid):
            return
        payload = ctx.get(dut.signals.payload)
        header = payload.header
        self._name(header)
        assert self.let_go_for <= 3, "A GRANT is offered of a chunk that is let go"
        if header.phase == self.number + 1:
            self._signal_ahead(payload)
            return
        assert (header.kind, header.phase) == (PacketKind.GRANT, self.number)
        if payload.port == self.phase.port and self.phase.returns:
            assert (self.filled or self.early) and not self.signalled_back and header.granted >= self.phase.returns
            if self._acts("signal"):
                self.signalled_back = True
                ctx.set(dut.signals.ready, 1)
            return
        assert payload.port == self.phase.port ^ 1
        whole = self.filled or self.early
        assert whole or self.marks, "Receives are granted before the fill"
        assert self.signalled < header.granted <= (self.safe if whole else self.marks), (
            "Receives are granted that are not safe")
        if self._acts("signal"):
            self.seen["granted by a mark"] += not whole
            self.signalled = header.granted
            ctx.set(dut.signals.ready, 1)

    def _signal_ahead(self, payload):
        """All receives of the next phase are granted, to the neighbours there."""
        coming = self.coming
        assert coming and payload.header.kind == PacketKind.GRANT and payload.header.granted == (1 << STEP_WIDTH) - 1
        assert self.filled or self.early, "Receives are granted before the fill"
        back = payload.port % 2 == coming.phase.port % 2
        assert payload.port == coming.phase.port ^ 1 ^ back and not coming.signalled[back]
        if self._acts("signal"):
            self.seen["granted ahead"] += 1
            coming.signalled[back] = True
            self.ctx.set(self.dut.signals.ready, 1)

    def _receive(self, inside, entered):
        """GRANTs of the neighbour downstream, and packets of the one upstream: only those that were granted, and none
        once the communicator is stopped."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        ctx.set(dut.grants.valid, 0)
        for valid in (*chain(*dut.landed.valid, *dut.landed.end), dut.landed.local, dut.grants.back):
            ctx.set(valid, 0)
        for number, phase, waiting in ((self.number, self.phase, self.incoming), *(
                [(self.number + 1, self.coming.phase, self.coming.incoming)] if self.coming else [])):
            for back, incoming in enumerate(waiting):
                # Once the communicator is stopped, the other beats are dropped.
                if incoming and not self.stopped_for and self._acts("end"):
                    waiting[back] = False
                    self.seen["ends late"] += 1
                    ctx.set(dut.landed.end[number % 2][_side(phase, back)], 1)
        if self.looped_late and self._acts("looped"):
            self.looped_late.popleft()
            self.looped -= 1
            ctx.set(dut.landed.local, 1)
        if self.coming and not self.stopped_for:
            coming = self.coming
            for back, total in enumerate((coming.phase.receives, coming.phase.returns)):
                if coming.signalled[back] and self._lands(
                        self.number + 1, coming.phase, back, coming.incoming, coming.arrived[back], total):
                    coming.arrived[back] += self.beats
                    self.seen["ahead"] += 1
                    self.seen["outside of a phase"] += not inside
        if not inside or self.stopped_for:
            return
        phase = self.phase
        if self.allowed < len(phase.sends) and self._acts("granted"):
            self.seen["granted on entry"] += entered
            self.allowed = rng.randint(self.allowed + 1, len(phase.sends))
            ctx.set(dut.grants.valid, 1)
            ctx.set(dut.grants.granted, self.allowed)
        if self._lands(self.number, phase, 0, self.incoming, self.landed, min(self.signalled, phase.receives)):
            self.landed += self.beats
        self.back_in = max(0, self.back_in - 1)
        if phase.returns and not self.allowed_back and not self.back_in and self._acts("granted"):
            self.allowed_back = True
            ctx.set(dut.grants.back, 1)
        if self.signalled_back and self._lands(self.number, phase, 1, self.incoming, self.returned, phase.returns):
            self.returned += self.beats

    def _lands(self, number, phase, back, incoming, arrived, receives):
        """Whether the next packet of a phase begins to arrive, after ``arrived`` beats of it. It has ``self.beats``."""
        ctx, landed, odd_phase, side = self.ctx, self.dut.landed, number % 2, _side(phase, back)
        if arrived >= receives * phase.span or incoming[back] or ctx.get(landed.end[odd_phase][side]) or not self._acts(
                "landed"):
            return False
        left = phase.span - arrived % phase.span
        self.beats = min(PACKET, left)
        incoming[back] = self.beats > 1 and self.rng.random() < 0.9
        ctx.set(landed.end[odd_phase][side], not incoming[back])
        ctx.set(landed.valid[odd_phase][side], 1)
        ctx.set(landed.beats[odd_phase][side], self.beats - 1)
        ctx.set(landed.final[odd_phase][side], self.beats == left)
        return True


def _side(phase, back):
    """1 if data of the phase arrives at an odd port."""
    return 1 - phase.port % 2 ^ back


def alone(*runs):
    """Chunks, one after the other; each is ``(phases, options of Bench.run)``. Returns what was seen, and cycles."""
    dut, cycles, seen = Fsm(CONFIG), [], {}

    async def live(ctx):
        bench = Bench(ctx, dut, random.Random(f"fsm {len(runs)}"))
        for phases, options in runs:
            cycles.append(await bench.run(phases, **options))
        seen.update(bench.seen)

    run_cell(dut, live)
    return seen, cycles
