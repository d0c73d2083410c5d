# SPDX-License-Identifier: Apache-2.0
"""Moves from the SRAM to memory: bytes from lane 0 of a beat, to any address; and completion words between them.

Move -> Bursts -> Drain -> AW; Sram -> (Divide) -> NarrowBeats -> Drain -> W; B -> Drain.  Latency: 3 cycles from a
move to AWVALID, 6 from a read of the SRAM to WVALID, 26 of a move that is divided.  Throughput: one beat of the SRAM or
of W per cycle, also when moves are short; but a move that is not divided starts when the divider is empty.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Outstanding
from hw.axi.lanes import rotate_up
from hw.common.delay import delayed
from hw.stream import CreditCounter, Queue

from .bursts import Bursts, burst_bytes
from .config import AceConfig
from .layouts import move_layout, widens
from .memory_port import MemoryWrite
from .mover_queue import MoverDone
from .numerics.convert_byte import is_byte, known
from .numerics.divide import DIVISOR_WIDTH, Divide
from .numerics.formats import TYPE_WIDTH, DType
from .numerics.narrow_beats import NarrowBeats, kind_layout
from .operations import CompletionWords
from .sram import SramReadSignature

__all__ = ["Drain", "DrainCounts", "reads_in_flight"]

WORD_BYTES = 8

WRITES = 512
"""Default limit of outstanding bursts: those issued, one beat each, during the latency of a slow memory."""

BURSTS = 32
"""Bursts whose address may be issued ahead of their data."""

MOVES = 4
"""Moves that wait for their turn at the SRAM."""

SLACK = 4
"""Beats that may wait behind the SRAM besides those in flight."""

OUTPUT_DEPTH = 4
"""Beats that may wait for W in LUT RAM, which keeps WREADY out of the timing paths of earlier stages."""


def reads_in_flight(config):
    """Beats in flight from the SRAM or waiting behind it, enough to read one in each cycle."""
    # The SRAM, the divider, the converter, the queue, and the return of the credit.
    latency = (config.sram_latency + config.avg * Divide.LATENCY + NarrowBeats.LATENCY + 1
               + 1 + config.timing.registered_drain_credits)
    return 1 << (latency + SLACK - 1).bit_length()


class DrainCounts(wiring.Signature):
    """Counts of Drain, each of the previous cycle: ``write_bytes`` of the accepted move, otherwise 0; ``chunks``, a
    chunk has completed; ``unexpected``, an unexpected response was dropped."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"write_bytes": Out(range(config.chunk_bytes + 1)), "chunks": Out(1), "unexpected": Out(1)})


class Drain(wiring.Component):
    """Read moves in order from the SRAM, rotate the beats, join each with the previous one, and write them to memory.

    Elements of a move with ``divide`` are divided first. With ``widen``, FP32 is then converted to 16-bit floats or
    FP8; the move's ``bytes`` counts the converted bytes.

    Parameters
    ----------
    config : AceConfig
    writes : int
        Maximum outstanding bursts.

    Members
    -------
    i : ``In(stream.Signature(move_layout))``
    words : ``In(CompletionWords)``
        Accepted between bursts, before moves. Responses are those of the previous cycle.
    read : ``Out(SramReadSignature)``, memory : ``Out(MemoryWrite)``
    done : ``Out(MoverDone)``
        The last response to a job's moves came in the previous cycle.
    counts : ``Out(DrainCounts)``
    """

    def __init__(self, config: AceConfig, *, writes: int = WRITES) -> None:
        self.config = config
        self.writes = writes
        super().__init__({
            "i": In(stream.Signature(move_layout(config))),
            "words": In(CompletionWords(config)), "read": Out(SramReadSignature(config)),
            "memory": Out(MemoryWrite(config)), "done": Out(MoverDone(config)), "counts": Out(DrainCounts(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, move = self.config, self.i.payload
        lane_bits = (config.beat_bytes - 1).bit_length()
        self._writing = data.StructLayout({
            "len": range(burst_bytes(config) // config.beat_bytes), "first": 1, "last": 1, "extra": 1,
            "lane": lane_bits, "end_lane": lane_bits, "word": 1,
        })

        # Each move has two parts: reads of the SRAM, and writes to memory.
        m.submodules.bursts = bursts = Bursts(config)
        self._reading = data.StructLayout({
            "address": config.sram_bits, "left": range(config.chunk_beats), "widen": 1, "dtype": TYPE_WIDTH,
            "divide": DIVISOR_WIDTH,
        })
        m.submodules.moves = moves = Queue(self._reading, depth=MOVES)
        quarters, grows = is_byte(known(config, move.dtype)), widens(config, move)
        m.d.comb += [
            bursts.i.payload.eq(move), bursts.i.valid.eq(self.i.valid & moves.i.ready),
            moves.i.payload.address.eq(move.sram),
            moves.i.payload.left.eq(Mux(
                grows, Mux(quarters, (move.bytes - 1) >> lane_bits - 2, (move.bytes - 1) >> lane_bits - 1),
                (move.bytes - 1) >> lane_bits)),
            *(moves.i.payload[name].eq(move[name]) for name in ("widen", "dtype", "divide")),
            moves.i.valid.eq(self.i.valid & bursts.i.ready & (move.bytes != 0)),
            self.i.ready.eq(moves.i.ready & bursts.i.ready),
            self.counts.write_bytes.eq(bursts.count),
        ]
        beats = self._read(m, moves.o)
        writing, texts, responses = self._issue(m, bursts.o)
        self._write(m, writing, texts, beats)
        self._respond(m, responses)
        return m

    def _read(self, m, moves):
        """Read beats for which an entry is free, and convert them to the beats that memory receives."""
        config = self.config
        m.submodules.beats = beats = Queue(config.data_width, depth=reads_in_flight(config))
        m.submodules.credit = credit = CreditCounter(reads_in_flight(config), max_take=1)
        m.submodules.narrow = narrow = NarrowBeats(config)

        # Only the last part of a beat takes an entry.
        move, some, over, taken = Signal(self._reading), Signal(), Signal(), Signal()
        quarter, step = Signal(2), Signal(2)
        inside, passes = Signal(range(Divide.LATENCY + 1)), Signal(init=1)
        kind, dtype, grows = Signal(kind_layout()), known(config, move.dtype), widens(config, move)
        m.d.comb += [
            over.eq(move.left == 0),
            step.eq(Mux(is_byte(dtype), 1, 2)),
            kind.narrow.eq(grows), kind.quarter.eq(quarter), kind.dtype.eq(dtype),
            kind.complete.eq(~grows | (quarter + step == 4) | over),
            self.read.valid.eq(some & (credit.available != 0) & passes), self.read.address.eq(move.address),
            taken.eq(self.read.valid & self.read.ready), credit.take.eq(1), credit.take_stb.eq(taken & kind.complete),
            moves.ready.eq(~some | (taken & over)),
        ]
        with m.If(taken):
            m.d.sync += quarter.eq(Mux(kind.complete, 0, quarter + step))
        with m.If(moves.ready):
            m.d.sync += [some.eq(moves.valid), move.eq(moves.payload)]
        with m.Elif(taken):
            m.d.sync += [move.address.eq(move.address + 1), move.left.eq(move.left - 1)]

        value, behind = self.read.data, config.sram_latency
        here, kind = delayed(m, taken, behind, name="taken", reset_less=False), delayed(m, kind, behind, name="kind")
        if config.avg:
            m.submodules.divide = divide = Divide(config.data_width)
            # The divider takes the divisor a cycle before the beat.
            ahead = config.sram_latency - 1
            divides = move.divide.any()
            # The last divided beat is in the divider for this number of cycles.
            m.d.comb += passes.eq(divides | (inside == 0))
            m.d.sync += inside.eq(Mux(taken & divides, Divide.LATENCY, inside - inside.any()))
            m.d.comb += [
                divide.divisor.eq(delayed(m, move.divide, ahead, name="divide")),
                divide.dtype.eq(delayed(m, Mux(grows, DType.FP32, dtype), ahead, name="dtype")),
                divide.i.eq(self.read.data),
            ]
            divided = here & delayed(m, divides, behind, name="divided")
            done = delayed(m, divided, Divide.LATENCY, name="done", reset_less=False)
            value = Mux(done, divide.o, value)
            kind = Mux(done, delayed(m, kind, Divide.LATENCY, name="kind_divided"), kind)
            here = (here & ~divided) | done
        m.d.comb += [
            narrow.valid.eq(here), narrow.kind.eq(kind), narrow.i.eq(value),
            beats.i.valid.eq(narrow.o_valid), beats.i.payload.eq(narrow.o),
        ]
        domain = "sync" if config.timing.registered_drain_credits else "comb"
        m.d[domain] += credit.give.eq(beats.o.valid & beats.o.ready)
        return beats.o

    def _issue(self, m, bursts):
        """Issue one burst after the other on AW, and queue it for its data and for its response."""
        burst, word, memory = bursts.payload, self.words.payload, self.memory
        m.submodules.writing = writing = Queue(self._writing, depth=BURSTS)
        m.submodules.texts = texts = Queue(8 * WORD_BYTES, depth=BURSTS)
        m.submodules.responses = responses = Queue(
            data.StructLayout({"empty": 1, "word": 1, "ends": 1, "part": 1,
                               "owner": max(self.config.slot_bits, self.config.queue_bits)}), depth=self.writes,
            output_register=self.config.timing.response_output_register)
        empty, free, go, first = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            first.eq(self.words.valid),
            empty.eq(burst.empty & ~first),
            free.eq(responses.i.ready & (empty | ((~memory.awvalid | memory.awready) & writing.i.ready
                                                  & texts.i.ready))),
            go.eq(free & (first | bursts.valid)),
            self.words.ready.eq(free), bursts.ready.eq(free & ~first),
            responses.i.valid.eq(go), writing.i.valid.eq(go & ~empty), texts.i.valid.eq(go & first),
            texts.i.payload.eq(word.data),
            responses.i.payload.empty.eq(empty), responses.i.payload.word.eq(first),
            responses.i.payload.ends.eq(burst.ends), responses.i.payload.part.eq(burst.part),
            responses.i.payload.owner.eq(Mux(first, word.queue, burst.slot)),
        ]
        self._issues = go & ~empty
        with m.If(self._issues):
            m.d.sync += [
                self.memory.awvalid.eq(1), self.memory.awaddr.eq(Mux(first, word.address, burst.address)),
                self.memory.awlen.eq(Mux(first, 0, burst.len)),
            ]
        with m.Elif(self.memory.awready):
            m.d.sync += self.memory.awvalid.eq(0)

        entry = writing.i.payload
        m.d.comb += [entry[name].eq(burst[name]) for name in ("len", "first", "last", "extra", "lane", "end_lane")]
        m.d.comb += entry.word.eq(first)
        with m.If(first):
            m.d.comb += [
                entry.len.eq(0), entry.first.eq(1), entry.last.eq(1), entry.extra.eq(0),
                entry.lane.eq(word.address), entry.end_lane.eq(word.address[:len(entry.lane)] | WORD_BYTES - 1),
            ]
        return writing.o, texts.o, responses.o

    def _write(self, m, writing, texts, beats):
        """For each beat of a burst: rotate the next beat of the SRAM, join it with the previous one, compute
        strobes."""
        config, lanes = self.config, self.config.beat_bytes
        m.submodules.out = out = Queue(
            data.StructLayout({"data": config.data_width, "strb": lanes, "last": 1}), depth=OUTPUT_DEPTH)

        # -- Stage 1: the burst, and its next beat.
        burst, some, number = Signal(self._writing), Signal(), Signal(range(burst_bytes(config) // lanes))
        opposite = Signal.like(burst.lane)          # as ``lane``, every bit inverted
        starts, final, over, take, step, advance = (Signal(name=name) for name in (
            "starts", "final", "over", "take", "step", "advance"))
        m.d.comb += [
            starts.eq(burst.first & (number == 0)), final.eq(number == burst.len), over.eq(final & burst.last),
            take.eq(~burst.word & ~(over & burst.extra)),
            step.eq(some & (~take | beats.valid) & advance),
            beats.ready.eq(some & take & advance), texts.ready.eq(step & burst.word),
            writing.ready.eq(~some | (step & final)),
        ]
        with m.If(writing.ready):
            m.d.sync += [some.eq(writing.valid), burst.eq(writing.payload), opposite.eq(~writing.payload.lane)]
        with m.If(step):
            m.d.sync += number.eq(Mux(final, 0, number + 1))

        # -- Stage 2: the rotated beat, the previous one, and masks. A word leaves the beats unchanged.
        now, before = (Signal(config.data_width, reset_less=True, name=name) for name in ("now", "before"))
        below = Signal(lanes, reset_less=True)      # lanes taken from the previous beat
        strobes = Signal(lanes, reset_less=True)
        word, is_word = Signal(8 * WORD_BYTES, reset_less=True), Signal()
        emit, last = Signal(), Signal()
        with m.If(advance):
            m.d.sync += emit.eq(step)
        with m.If(step):
            m.d.sync += [last.eq(final), is_word.eq(burst.word), word.eq(texts.payload)]
            m.d.sync += [below[lane].eq(lane < burst.lane) for lane in range(lanes)]
            m.d.sync += [strobes[lane].eq(~(starts & (lane < burst.lane)) & ~(over & (lane > burst.end_lane)))
                         for lane in range(lanes)]
            with m.If(~burst.word):
                m.d.sync += [before.eq(now), now.eq(rotate_up(beats.payload, burst.lane, opposite))]

        # -- Stage 3: joined, into the queue.
        m.d.comb += [
            advance.eq(~emit | out.i.ready), out.i.valid.eq(emit),
            out.i.payload.data.eq(Mux(is_word, word.replicate(lanes // WORD_BYTES), Cat(
                Mux(below[lane], before.word_select(lane, 8), now.word_select(lane, 8)) for lane in range(lanes)))),
            out.i.payload.strb.eq(strobes), out.i.payload.last.eq(last),
            self.memory.wvalid.eq(out.o.valid), out.o.ready.eq(self.memory.wready),
            *(getattr(self.memory, f"w{name}").eq(out.o.payload[name]) for name in ("data", "strb", "last")),
        ]

    def _respond(self, m, responses):
        """Responses arrive in the order of the addresses; unexpected ones are dropped."""
        response = responses.payload
        failed, error = Signal(), Signal()
        m.submodules.outstanding = outstanding = Outstanding(self.writes)
        m.d.comb += [
            outstanding.issued.eq(self._issues), outstanding.response.eq(self.memory.bvalid & self.memory.bready),
            self.counts.unexpected.eq(outstanding.unexpected),
            self.counts.chunks.eq(self.done.valid & ~self.done.payload.part),
            self.memory.bready.eq((responses.valid & ~response.empty) | ~outstanding.outstanding),
            responses.ready.eq(response.empty | self.memory.bvalid),
            error.eq(failed | (self.memory.bresp.as_value()[1] & ~response.empty)),
        ]
        taken = responses.valid & responses.ready
        with m.If(taken & ~response.word):
            m.d.sync += failed.eq(error & ~response.ends)
        m.d.sync += [
            self.words.done.eq(taken & response.word), self.words.queue.eq(response.owner),
            self.words.failed.eq(taken & response.word & self.memory.bresp.as_value()[1]),
            self.done.valid.eq(taken & ~response.word & response.ends),
            self.done.payload.slot.eq(response.owner), self.done.payload.error.eq(error),
            self.done.payload.part.eq(response.part),
        ]
