# SPDX-License-Identifier: Apache-2.0
"""Transfers: turns a program's fills or drains into moves, with the addresses of a chunk's pieces.

Chunker -> Transfers -> Fill or Drain.  Latency: 5 cycles from a job to its first move, and 8 more for a run that does
not start at shard 0.  Throughput: one move per cycle within a run; one per 3 cycles if shards have different lengths.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import LENGTH_WIDTH, AceConfig
from .extents import ExtentRead
from .layouts import TransferLayout, move_layout
from .numerics.formats import TYPE_WIDTH
from .programs.store import ProgramRead

__all__ = ["TransferJobs", "Transfers", "job_layout"]


def job_layout(config):
    """A job: the pieces of one chunk to move.

    ``list``: address of ``runs`` words of ``TransferLayout``. ``base``: address of shard 0. ``shard_bytes``: distance
    of shards. ``column``, ``piece_bytes``: range of bytes of each shard. ``limit``: bytes in all shards; bytes beyond
    are not moved. ``piece_beats``: distance of pieces in the slot. ``varying``: the extents table has the shards, from
    ``row`` on, in elements of 2 ** ``size`` bytes; ``shard_bytes`` and ``limit`` are not valid. ``part``: as in the
    moves.
    """
    return data.StructLayout({
        "list": config.program_bits, "runs": 8, "base": config.address_width, "shard_bytes": LENGTH_WIDTH,
        "column": LENGTH_WIDTH, "limit": LENGTH_WIDTH, "piece_bytes": range(config.chunk_bytes + 1),
        "piece_beats": config.chunk_beat_bits + 1, "slot": config.slot_bits,
        "dtype": TYPE_WIDTH, "widen": 1, "divide": 8,
        "varying": 1, "row": config.extent_bits, "size": 2, "part": 1,
    })


class TransferJobs(wiring.Signature):
    """Jobs for an address generator: a stream of ``job_layout`` from Chunker, with back-pressure, and ``stop``.

    While ``stop`` is set, the remaining pieces of the latest job are not moved: the job ends with its next move, which
    has no bytes.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({**stream.Signature(job_layout(config)).members, "stop": Out(1)})


class Transfers(wiring.Component):
    """Make one move of each piece; a job without runs becomes one move without bytes, marked as the last.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(TransferJobs)``
    program : ``Out(ProgramRead)``
    extents : ``Out(ExtentRead)``
        Only if the accelerator is ``varying``.
    o : ``Out(stream.Signature(move_layout))``
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "i": In(TransferJobs(config)), "program": Out(ProgramRead(config)),
            **({"extents": Out(ExtentRead(config))} if config.varying else {}),
            "o": Out(stream.Signature(move_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        job = Signal(job_layout(config), reset_less=True)
        runs = Signal(8)
        entry = Signal(TransferLayout, reset_less=True)
        offset = Signal(LENGTH_WIDTH, reset_less=True)      # of the piece from shard 0, column 0
        step = Signal(LENGTH_WIDTH, reset_less=True)
        sram = Signal(config.sram_bits, reset_less=True)
        pieces = Signal(8)
        row = Signal(config.extent_bits, reset_less=True)
        move, valid = Signal(move_layout(config), reset_less=True), Signal()
        left, remaining = Signal(signed(LENGTH_WIDTH + 1)), Signal(signed(LENGTH_WIDTH + 1))
        start = Signal(config.address_width, reset_less=True)
        varying = job.varying if config.varying else C(0)
        m.d.comb += [
            self.program.address.eq(job.list),
            left.eq(remaining - offset),
            self.o.valid.eq(valid), self.o.payload.eq(move),
        ]
        if config.varying:
            m.d.comb += self.extents.row.eq(row)
        # A job is stored cycles before its first move; but each part of a VARYING job has its own limit.
        m.d["sync" if config.timing.registered_move_address else "comb"] += start.eq(job.base + job.column)
        early, full = config.timing.registered_move_limit and not config.varying, Signal(signed(LENGTH_WIDTH + 2))
        m.d["sync" if early else "comb"] += remaining.eq(job.limit - job.column)
        if early:
            m.d.sync += full.eq(remaining - job.piece_bytes)  # the last offset of a whole piece
        with m.If(self.o.ready):
            m.d.sync += valid.eq(0)
        free = ~valid | self.o.ready
        whole = [move.slot.eq(job.slot), move.dtype.eq(job.dtype), move.widen.eq(job.widen), move.divide.eq(job.divide),
                 move.part.eq(job.part)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [job.eq(self.i.payload), runs.eq(self.i.payload.runs)]
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If((runs == 0) | self.i.stop):
                    with m.If(free):
                        m.d.sync += [*whole, move.bytes.eq(0), move.last.eq(1), valid.eq(1)]
                        m.next = "IDLE"
                with m.Else():
                    m.d.comb += self.program.valid.eq(1)
                    with m.If(self.program.ready):
                        m.next = "WORD"
            with m.State("WORD"):
                word = data.View(TransferLayout, self.program.word[:TransferLayout.size])
                m.d.sync += [entry.eq(word), pieces.eq(word.count), offset.eq(0),
                             step.eq(job.shard_bytes), job.list.eq(job.list + 1), row.eq(job.row + word.shard)]
                m.next = "START"
            with m.State("START"):
                # The offset of the first shard, bit by bit; most runs start at shard 0.
                m.d.sync += sram.eq((job.slot << config.chunk_beat_bits) + entry.position * job.piece_beats)
                with m.If(varying):
                    m.next = "ROW" if config.varying else "MOVE"
                with m.Elif(entry.shard == 0):
                    m.next = "MOVE"
                with m.Else():
                    with m.If(entry.shard[0]):
                        m.d.sync += offset.eq(offset + step)
                    m.d.sync += [step.eq(step << 1), entry.shard.eq(entry.shard >> 1)]
            if config.varying:
                with m.State("ROW"):
                    m.d.comb += self.extents.valid.eq(1)
                    with m.If(self.extents.ready):
                        m.d.sync += row.eq(row + 1)
                        m.next = "EXTENT"
                with m.State("EXTENT"):
                    extent = self.extents.extent
                    m.d.sync += [offset.eq(extent.displacement << job.size),
                                 job.limit.eq((extent.displacement + extent.count) << job.size)]
                    m.next = "MOVE"
            with m.State("MOVE"):
                with m.If(free):
                    last = ((pieces == 1) & (runs == 1)) | self.i.stop
                    m.d.sync += [
                        *whole, valid.eq(1), move.last.eq(last), move.sram.eq(sram),
                        move.mark.eq(entry.mark & (pieces == 1)),
                        move.address.eq(start + offset),
                        move.bytes.eq(Mux((left <= 0) | self.i.stop, 0, Mux(
                            offset > full if early else left < job.piece_bytes, left, job.piece_bytes))),
                        offset.eq(offset + job.shard_bytes), sram.eq(sram + job.piece_beats),
                        pieces.eq(pieces - 1),
                    ]
                    with m.If(self.i.stop):
                        m.next = "IDLE"
                    with m.Elif(pieces == 1):
                        m.d.sync += runs.eq(runs - 1)
                        with m.If(runs == 1):
                            m.next = "IDLE"
                        with m.Else():
                            m.next = "RUN"
                    with m.Elif(varying):
                        m.next = "ROW" if config.varying else "MOVE"
        return m
