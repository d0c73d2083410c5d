"""The beat buffer: where read data lands, whatever order it comes in.

R -> BeatBuffer -> WriteSequencer, Aligner.  Latency: 1 cycle from the R handshake to ``arrived``.  Throughput:
one beat in and one beat out per cycle, from any mix of tags.

A beat takes a slot when it arrives, not when it is asked for: a credit taken at AR says that one will be
free. The beats of one tag form a list from slot to slot. A beat of a tag that waits for none is dropped.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.free_list import FreeList
from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM, Table
from hw.stream import Queue

from .config import TARGETS
from .layouts import launch_layout

__all__ = ["BeatBuffer", "buffered_layout"]


def buffered_layout(config):
    """A beat, and whether it or an earlier one of its segment came with an error."""
    return data.StructLayout({"data": config.data_width, "error": 1})


class BeatBuffer(wiring.Component):
    """Store beats by tag and hand them on in order within each tag.

    A tag is announced at its first beat, so that writing may cut through; but when its last beat is here, if
    another announcement still waits, if its beats come in two bursts, of which the second may be late, or if
    its target is told to be slow.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    launched : ``In(1)``, launch : ``In(launch_layout)``
        A tag is in use from now on.
    slow : ``In(TARGETS)``
        Targets whose beats may come with pauses in between.
    rid, rdata, rresp, rlast, rvalid, rready
        R of ``m_axi``; ``rready`` is high outside the sweep after reset.
    unexpected : ``Out(1)``
        A beat came whose ID has nothing in flight; descriptors are not looked at.
    passed : ``Out(1)``, passed_id, passed_data, passed_resp : ``Out``
        A beat whose ID has the top bit set: not a segment's.
    arrived : ``Out(stream.Signature(tag))``
        Tags that may be written.
    head_tag : ``In``, head : ``Out``
        First slot of the tag on ``arrived``, combinational.
    tail_tag : ``In``, tail : ``Out``
        Latest slot of a tag, combinational.
    after : ``In``, next : ``Out``
        Slot behind a slot that is not its tag's latest, combinational.
    take : ``In(1)``, slot : ``In``, beat : ``Out(buffered_layout)``
        Read a slot; the beat is there in the next cycle and stays until the next take.
    release : ``In(1)``, released : ``In``
        A slot that was read, and behind which nobody will look, is free.
    error_tag : ``In``, error : ``Out(Resp)``
        First error answer to a tag's reads, combinational.
    """

    def __init__(self, config):
        self.config = config
        tag, slot = config.tag_bits, config.slot_bits
        super().__init__({
            "init": In(SweepSignature(config)),
            "launched": In(1), "launch": In(launch_layout(config)),
            "slow": In(TARGETS),
            "rid": In(config.axi_id_width), "rdata": In(config.data_width), "rresp": In(Resp), "rlast": In(1),
            "rvalid": In(1), "rready": Out(1),
            "unexpected": Out(1),
            "passed": Out(1), "passed_id": Out(config.axi_id_width), "passed_data": Out(config.data_width),
            "passed_resp": Out(Resp),
            "arrived": Out(stream.Signature(unsigned(tag))),
            "head_tag": In(tag), "head": Out(slot),
            "tail_tag": In(tag), "tail": Out(slot),
            "after": In(slot), "next": Out(slot),
            "take": In(1), "slot": In(slot), "beat": Out(buffered_layout(config)),
            "release": In(1), "released": In(slot),
            "error_tag": In(tag), "error": Out(Resp),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)

        # Per tag, written at launch: a phase that changes with every use, how many bursts come, and whether all
        # of their beats must be here first.
        m.submodules.uses = uses = Table(
            data.StructLayout({"phase": 1, "two": 1, "whole": 1}), depth=config.tags, reads=2, init=init)
        # Per tag, written by each beat: ``one`` and ``quiet`` until its first burst has ended, until it was announced.
        # A tag of which neither is left waits for no beat, also after the sweep.
        progress_layout = data.StructLayout({"phase": 1, "one": 1, "quiet": 1})
        m.submodules.progress = progress = Table(progress_layout, depth=config.tags, reads=1, init=init)
        m.submodules.tails = tails = Table(config.slot_bits, depth=config.tags, reads=2, init=init)
        m.submodules.errors = errors = Table(Resp, depth=config.tags, reads=2, init=init)
        m.submodules.heads = heads = Table(config.slot_bits, depth=config.tags, reads=1, init=init)
        # Per slot: the slot behind it.
        m.submodules.links = links = Table(config.slot_bits, depth=config.buffer_beats, reads=1, init=init)
        m.submodules.slots = slots = FreeList(config.buffer_beats, init=init)
        for part in (uses, progress, tails, errors, heads, links, slots):
            wiring.connect(m, wiring.flipped(self.init), part.init)
        m.submodules.beats = beats = memory.Memory(
            shape=buffered_layout(config), depth=config.buffer_beats, init=[], attrs=BLOCK_RAM)
        write, read = beats.write_port(), beats.read_port()
        # A thousand rows of LUT RAM would take 256 LUTs, and a choice among sixteen for each bit.
        m.submodules.announcements = announcements = Queue(
            unsigned(config.tag_bits), depth=config.tags, ram="lut" if config.tags <= 256 else "block",
            empty_bypass=True)

        # -- Launch.
        m.d.comb += [
            uses.read[0].addr.eq(self.launch.tag),
            uses.write.addr.eq(self.launch.tag),
            uses.write.data.phase.eq(~uses.read[0].data.phase),
            uses.write.data.two.eq(self.launch.segment.crosses),
            uses.write.data.whole.eq(self.launch.segment.crosses
                                     | self.slow.bit_select(self.launch.segment.target, 1)),
            uses.write.en.eq(self.launched),
        ]

        # -- A beat comes in: register it, then find out what it is to its tag.
        valid, tag = Signal(), Signal(config.tag_bits)
        payload = Signal(config.data_width, reset_less=True)
        resp, burst_last = Signal(Resp), Signal()
        m.d.comb += self.rready.eq(~self.init.active)
        numbered, known, odd = Signal(), Signal(), Signal()         # with the number of a tag; with another
        m.d.sync += [
            numbered.eq(self.rvalid & self.rready & ~self.rid[config.tag_bits:].any()),
            odd.eq(self.rvalid & self.rready & ~self.rid[-1] & self.rid[config.tag_bits:-1].any()),
            self.passed.eq(self.rvalid & self.rready & self.rid[-1]),
            self.passed_id.eq(self.rid), payload.eq(self.rdata), resp.eq(self.rresp), burst_last.eq(self.rlast),
        ]
        m.d.comb += [tag.eq(self.passed_id), self.passed_data.eq(payload), self.passed_resp.eq(resp)]
        use, was = uses.read[1].data, progress.read[0].data
        first, second, last, announce = Signal(), Signal(), Signal(), Signal()
        failed, error = Signal(), Signal(Resp)
        slot = slots.o.payload
        m.d.comb += [
            uses.read[1].addr.eq(tag),
            progress.read[0].addr.eq(tag),
            tails.read[0].addr.eq(tag),
            errors.read[0].addr.eq(tag),
            first.eq(use.phase != was.phase),
            known.eq(first | was.one | was.quiet),
            valid.eq(numbered & known), self.unexpected.eq((numbered & ~known) | odd),
            second.eq(~first & ~was.one),
            last.eq(burst_last & (~use.two | second)),
            announce.eq((last & (first | was.quiet)) | (first & ~(announcements.o.valid | use.whole))),
            failed.eq((resp == Resp.SLVERR) | (resp == Resp.DECERR)),
            error.eq(Mux(first | (errors.read[0].data == Resp.OKAY),
                         Mux(failed, resp, Resp.OKAY), errors.read[0].data)),
            slots.o.ready.eq(valid),
        ]
        m.d.comb += [
            write.addr.eq(slot), write.data.data.eq(payload), write.data.error.eq(error != Resp.OKAY),
            write.en.eq(valid),
            progress.write.addr.eq(tag), progress.write.en.eq(valid),
            progress.write.data.phase.eq(use.phase),
            progress.write.data.one.eq(~(second | burst_last)),
            progress.write.data.quiet.eq(~announce & (first | was.quiet)),
            tails.write.addr.eq(tag), tails.write.data.eq(slot), tails.write.en.eq(valid),
            errors.write.addr.eq(tag), errors.write.data.eq(error), errors.write.en.eq(valid),
            heads.write.addr.eq(tag), heads.write.data.eq(slot), heads.write.en.eq(valid & first),
            links.write.addr.eq(tails.read[0].data), links.write.data.eq(slot),
            links.write.en.eq(valid & ~first),
        ]

        # -- An announcement passes an empty queue by, and then its first slot may be the one just written.
        waits = announcements.o.valid
        m.d.comb += [
            announcements.i.payload.eq(tag),
            # What is announced is known.
            announcements.i.valid.eq(numbered & announce & (waits | ~self.arrived.ready)),
            announcements.o.ready.eq(self.arrived.ready),
            self.arrived.valid.eq(waits | (numbered & announce)),
            self.arrived.payload.eq(Mux(waits, announcements.o.payload, tag)),
            heads.read[0].addr.eq(self.head_tag),
            self.head.eq(Mux(waits | ~first, heads.read[0].data, slot)),
        ]

        # -- A beat goes out.
        m.d.sync += [slots.free.eq(self.release), slots.number.eq(self.released)]
        m.d.comb += [
            read.addr.eq(self.slot), read.en.eq(self.take), self.beat.eq(read.data),
            tails.read[1].addr.eq(self.tail_tag), self.tail.eq(tails.read[1].data),
            links.read[0].addr.eq(self.after), self.next.eq(links.read[0].data),
            errors.read[1].addr.eq(self.error_tag), self.error.eq(errors.read[1].data),
        ]
        return m
