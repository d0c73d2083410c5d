# SPDX-License-Identifier: Apache-2.0
"""The beat buffer: stores read data that arrives in any order.

R -> BeatBuffer -> WriteSequencer, Aligner.  Latency: 1 cycle from the R handshake to ``arrived``.  Throughput:
one beat in and one beat out per cycle, from any mix of tags.

A beat takes a slot when it arrives, not when its read is issued: a credit taken at AR guarantees a free one. The beats
of one tag form a linked list of slots. A beat of a tag that expects none is dropped.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.free_list import FreeList
from hw.common.sweep import SweepSignature
from hw.common.table import BLOCK_RAM, Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import TargetSettingsSignature
from hw.dma_engine.layouts import read_beat_layout
from hw.dma_engine.strobes import LaunchSignature
from hw.stream import Queue

__all__ = ["BeatBuffer", "BufferReadSignature", "DescriptorBeatSignature", "ReadStatusSignature", "buffered_layout"]


def buffered_layout(config):
    """A beat, and whether it or an earlier one of its segment came with an error."""
    return data.StructLayout({"data": config.data_width, "error": 1})


class BufferReadSignature(wiring.Signature):
    """The write sequencer traverses the list of slots of each tag; the beats that it takes go to the aligner.

    All look-ups are combinational; the sequencer drives the indices. A take or release is never stalled.

    Members
    -------
    head_tag : ``Out``, head : ``In``
        First slot of the tag on ``arrived``.
    tail_tag : ``Out``, tail : ``In``
        Latest slot of a tag.
    after : ``Out``, next : ``In``
        The slot that follows a slot which is not its tag's latest.
    take : ``Out(1)``, slot : ``Out``
        Read a slot: its beat reaches the aligner in the next cycle, and is stable until the next take.
    release : ``Out(1)``, released : ``Out``
        Free a slot that was read and whose link is no longer needed.
    """

    def __init__(self, config: DmaConfig) -> None:
        tag, slot = config.tag_bits, config.slot_bits
        super().__init__({
            "head_tag": Out(tag), "head": In(slot), "tail_tag": Out(tag), "tail": In(slot),
            "after": Out(slot), "next": In(slot),
            "take": Out(1), "slot": Out(slot), "release": Out(1), "released": Out(slot),
        })


class ReadStatusSignature(wiring.Signature):
    """Result of a tag's reads: the first error response, combinational from ``tag`` to ``resp``."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"tag": Out(config.tag_bits), "resp": In(Resp)})


class DescriptorBeatSignature(wiring.Signature):
    """A beat of a descriptor, one cycle after its transfer on R. Always taken: its row was reserved before AR.

    ``id`` has its top bit set; the rest is the ring.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "id": Out(config.axi_id_width), "data": Out(config.data_width),
                          "resp": Out(Resp)})


class BeatBuffer(wiring.Component):
    """Store beats by tag and deliver them in order within each tag.

    A tag is announced at its first beat, so that writing may cut through. It is announced at its last beat if another
    announcement is waiting, if its beats come in two bursts, of which the second may be delayed, or if its target is
    configured as slow.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    launch : ``In(LaunchSignature)``
        A tag comes into use.
    targets : ``In(TargetSettingsSignature)``
    r : ``In(stream.Signature(read_beat_layout))``
        Ready except during the sweep after reset.
    unexpected : ``Out(1)``
        A beat arrived under whose ID nothing is in flight; IDs of descriptors are not checked here.
    descriptors : ``Out(DescriptorBeatSignature)``
    arrived : ``Out(stream.Signature(tag))``
        Tags that may be written.
    slots : ``In(BufferReadSignature)``, beat : ``Out(buffered_layout)``
        The traversal of a tag's slots; the beat of the slot taken in the previous cycle.
    slot_freed : ``Out(1)``
        A slot is free again.
    read_status : ``In(ReadStatusSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "launch": In(LaunchSignature(config)),
            "targets": In(TargetSettingsSignature(config)),
            "r": In(stream.Signature(read_beat_layout(config))),
            "unexpected": Out(1),
            "descriptors": Out(DescriptorBeatSignature(config)),
            "arrived": Out(stream.Signature(unsigned(config.tag_bits))),
            "slots": In(BufferReadSignature(config)), "beat": Out(buffered_layout(config)), "slot_freed": Out(1),
            "read_status": In(ReadStatusSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, init = self.config, SweepSignature(self.config)

        # Per tag, written at launch: a phase that changes with every use, the number of bursts, and whether all of
        # their beats must arrive first.
        m.submodules.uses = uses = Table(
            data.StructLayout({"phase": 1, "two": 1, "whole": 1}), depth=config.tags, reads=2, init=init)
        # Per tag, written by each beat: ``one`` until its first burst has ended, ``quiet`` until it was announced. A
        # tag with neither expects no beat, also after the sweep.
        progress_layout = data.StructLayout({"phase": 1, "one": 1, "quiet": 1})
        m.submodules.progress = progress = Table(progress_layout, depth=config.tags, reads=1, init=init)
        m.submodules.tails = tails = Table(config.slot_bits, depth=config.tags, reads=2, init=init)
        m.submodules.errors = errors = Table(Resp, depth=config.tags, reads=2, init=init)
        m.submodules.heads = heads = Table(config.slot_bits, depth=config.tags, reads=1, init=init)
        # Per slot: the next slot.
        m.submodules.links = links = Table(config.slot_bits, depth=config.buffer_beats, reads=1, init=init)
        m.submodules.free_slots = free_slots = FreeList(config.buffer_beats, init=init)
        for part in (uses, progress, tails, errors, heads, links, free_slots):
            wiring.connect(m, wiring.flipped(self.init), part.init)
        m.submodules.beats = beats = memory.Memory(
            shape=buffered_layout(config), depth=config.buffer_beats, init=[], attrs=BLOCK_RAM)
        write, read = beats.write_port(), beats.read_port()
        # As LUT RAM, a thousand rows would take 256 LUTs, and a 16-input multiplexer for each bit.
        m.submodules.announcements = announcements = Queue(
            unsigned(config.tag_bits), depth=config.tags, ram="lut" if config.tags <= 256 else "block",
            empty_bypass=True)

        # -- Launch.
        m.d.comb += [
            uses.read[0].addr.eq(self.launch.payload.tag),
            uses.write.addr.eq(self.launch.payload.tag),
            uses.write.data.phase.eq(~uses.read[0].data.phase),
            uses.write.data.two.eq(self.launch.payload.segment.crosses),
            uses.write.data.whole.eq(self.launch.payload.segment.crosses
                                     | self.targets.slow.bit_select(self.launch.payload.segment.target, 1)),
            uses.write.en.eq(self.launch.read),
        ]

        # -- A beat arrives: register it, then determine its role in its tag.
        valid = Signal()
        tag = Signal(config.tag_bits)
        payload = Signal(config.data_width, reset_less=True)
        resp, burst_last = Signal(Resp), Signal()
        m.d.comb += self.r.ready.eq(~self.init.active)
        beat, passed = self.r.payload, self.descriptors
        numbered, known, odd = Signal(name="numbered"), Signal(), Signal()         # its ID is a tag; it is not
        m.d.sync += [
            numbered.eq(self.r.valid & self.r.ready & ~beat.id[config.tag_bits:].any()),
            odd.eq(self.r.valid & self.r.ready & ~beat.id[-1] & beat.id[config.tag_bits:-1].any()),
            passed.valid.eq(self.r.valid & self.r.ready & beat.id[-1]),
            passed.id.eq(beat.id), payload.eq(beat.data), resp.eq(beat.resp), burst_last.eq(beat.last),
        ]
        m.d.comb += [tag.eq(passed.id), passed.data.eq(payload), passed.resp.eq(resp)]
        use, was = uses.read[1].data, progress.read[0].data
        first, second, last, announce = Signal(), Signal(), Signal(), Signal(name="announce")
        failed, error = Signal(), Signal(Resp)
        slot = free_slots.o.payload
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
            free_slots.o.ready.eq(valid),
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

        # An announcement bypasses an empty queue; its first slot may then be the one just written.
        waits = announcements.o.valid
        m.d.comb += [
            announcements.i.payload.eq(tag),
            # The payload of the announcement is already known.
            announcements.i.valid.eq(numbered & announce & (waits | ~self.arrived.ready)),
            announcements.o.ready.eq(self.arrived.ready),
            self.arrived.valid.eq(waits | (numbered & announce)),
            self.arrived.payload.eq(Mux(waits, announcements.o.payload, tag)),
            heads.read[0].addr.eq(self.slots.head_tag),
            self.slots.head.eq(Mux(waits | ~first, heads.read[0].data, slot)),
        ]

        # -- A beat leaves.
        slots, status = self.slots, self.read_status
        m.d.sync += [free_slots.free.valid.eq(slots.release), free_slots.free.number.eq(slots.released)]
        m.d.comb += [
            self.slot_freed.eq(slots.release),
            read.addr.eq(slots.slot), read.en.eq(slots.take), self.beat.eq(read.data),
            tails.read[1].addr.eq(slots.tail_tag), slots.tail.eq(tails.read[1].data),
            links.read[0].addr.eq(slots.after), slots.next.eq(links.read[0].data),
            errors.read[1].addr.eq(status.tag), status.resp.eq(errors.read[1].data),
        ]
        return m
