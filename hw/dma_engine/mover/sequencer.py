# SPDX-License-Identifier: Apache-2.0
"""Write sequencer: selects the next segment to write, and drives its beats step by step.

BeatBuffer (announcements), Notices (words) -> WriteSequencer -> AW, Aligner.  Latency: 1 cycle from an
announcement to its first step.  Throughput: one step per cycle, also for single-beat segments.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.layouts import Attributes
from hw.common.sizes import ADDR_WIDTH
from hw.common.table import BLOCK_RAM
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import EPOCH_WIDTH, address_layout, completion_write_layout
from hw.dma_engine.strobes import LaunchSignature
from hw.stream import Queue

from .buffer import BufferReadSignature
from .port_drain import ChannelLevelSignature

__all__ = ["ADDRESS_DEPTH", "SequencerEventsSignature", "WordWriteSignature", "WriteSequencer", "step_layout"]

ADDRESS_DEPTH = 8
"""Bursts whose data may be on W before their address is on AW."""

COMPLETION_SPACING = 48
"""Data beats between two completion words while data waits for W: words take at most 1 of 49 beats. With a
``word_interval``, which limits their rate in any case, half as many beats again as it has cycles."""


def step_layout(config):
    """Actions of the aligner in one cycle."""
    return data.StructLayout({
        "take": 1,                      # a beat is read from the buffer
        "emit": 1,                      # a beat goes to W
        "first": 1,                     # of the segment's steps
        "queue": config.queue_bits, "epoch": EPOCH_WIDTH,   # of the segment or the word
        "starts": 1, "ends": 1,         # the emitted beat is the burst's first, last
        "shift": config.lane_bits,      # lanes from source to destination position, upwards
        "start_lane": config.lane_bits, "end_lane": config.lane_bits,
        "completion": 1,                # emit ``word`` instead of data
        "word": 64,
    })


class WordWriteSignature(wiring.Signature):
    """Words in flight to memory: a stream of ``completion_write_layout``, with ``urgent`` beside it.

    Members
    -------
    valid : ``Out(1)``, ready : ``In(1)``, payload : ``Out(completion_write_layout)``
        The sequencer takes words between segments: immediately while no data waits, else after every
        ``COMPLETION_SPACING`` or 1.5 ``word_interval`` beats.
    urgent : ``Out(1)``
        A word waits that no newer one will replace, of a signal or a notice; possibly behind another one on
        ``payload``. Words are then taken after every segment.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "ready": In(1), "payload": Out(completion_write_layout(config)),
                          "urgent": Out(1)})


class SequencerEventsSignature(wiring.Signature):
    """Events of the sequencer in this cycle, for traces.

    Members
    -------
    arrived : ``Out(1)``, arrived_tag : ``Out``
        It takes an announcement.
    began : ``Out(1)``, began_tag : ``Out``
        It takes a segment's first step.
    freed : ``Out(1)``
        It releases a buffer slot.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"arrived": Out(1), "arrived_tag": Out(config.tag_bits),
                          "began": Out(1), "began_tag": Out(config.tag_bits), "freed": Out(1)})


class WriteSequencer(wiring.Component):
    """Write the announced segments in the order of their announcement, with completion words in between.

    A segment is one write burst. If its source position in a beat is behind its destination's, each written beat has
    bytes of two read beats, and a step without output comes first. A segment announced before all of its beats arrived
    stalls at each missing one.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    launch : ``In(LaunchSignature)``
    arrived : ``In(stream.Signature(tag))``
    words : ``In(WordWriteSignature)``
    slots : ``Out(BufferReadSignature)``
    aw : ``Out(stream.Signature(address_layout))``, aw_level : ``Out(ChannelLevelSignature)``
        Write bursts; how many wait for AW.
    events : ``Out(SequencerEventsSignature)``
    steps : ``Out(stream.Signature(step_layout))``
        The beat of a step with ``take`` leaves the buffer in the cycle after the transfer. Not a strict stream:
        ``valid`` is held until the transfer, but between segments the payload of a stalled step may change: a word
        that becomes due replaces a segment's first step, and a segment replaces a word that is not due. The receiver
        must sample the payload only in the cycle of the transfer, as the aligner does.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "launch": In(LaunchSignature(config)),
            "arrived": In(stream.Signature(unsigned(config.tag_bits))),
            "words": In(WordWriteSignature(config)),
            "slots": Out(BufferReadSignature(config)),
            "aw": Out(stream.Signature(address_layout(config))), "aw_level": Out(ChannelLevelSignature(ADDRESS_DEPTH)),
            "events": Out(SequencerEventsSignature(config)),
            "steps": Out(stream.Signature(step_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lane_bits
        count, precomputed = Shape.cast(config.beat_count_width), config.timing.precomputed_takes
        context_layout = data.StructLayout({
            "dst_addr": ADDR_WIDTH, "shift": lanes, "behind": 1, "len": count,
            # Derived from them, as block RAM leaves no time to do it later. Unless precomputed, ``more_takes`` lacks
            # ``len``: for a thousand tags that saves a column of block RAM.
            "more_takes": count if precomputed else Shape.cast(signed(2)),
            "one_take": 1, "one_beat": 1, "continues": 1,
            "end_lane": lanes, "queue": config.queue_bits, "epoch": EPOCH_WIDTH,
            "attributes": Attributes,
        })

        # -- The context of each tag, computed at launch.
        m.submodules.contexts = contexts = memory.Memory(
            shape=context_layout, depth=config.tags, init=[], attrs=BLOCK_RAM)
        write, read = contexts.write_port(), contexts.read_port()
        segment = self.launch.payload.segment
        src_lane, dst_lane = segment.src_addr[:lanes], segment.dst_addr[:lanes]
        end = Signal(range(2 * config.segment_bytes))
        m.d.comb += [
            end.eq(dst_lane + segment.size),
            write.addr.eq(self.launch.payload.tag),
            write.en.eq(self.launch.read),
            write.data.dst_addr.eq(segment.dst_addr),
            write.data.shift.eq(dst_lane - src_lane),
            write.data.behind.eq(dst_lane < src_lane),
            write.data.len.eq(end >> lanes), write.data.one_beat.eq((end >> lanes) == 0),
            write.data.more_takes.eq(
                segment.src_beats - 1 if precomputed else segment.src_beats - (end >> lanes) - 1),
            write.data.one_take.eq(segment.src_beats == 1),
            write.data.continues.eq(write.data.behind | ((end >> lanes) != 0)),
            write.data.end_lane.eq(end[:lanes]),
            write.data.attributes.eq(segment.dst_attributes),
            write.data.queue.eq(segment.queue), write.data.epoch.eq(segment.epoch),
        ]

        # -- The next segment, with its context and its first slot.
        ready, begin = Signal(name="ready"), Signal(name="begin")
        ready_tag, ready_slot = Signal(config.tag_bits, name="ready_tag"), Signal(config.slot_bits, name="ready_slot")
        m.d.comb += [
            self.arrived.ready.eq(~ready | begin),
            read.addr.eq(self.arrived.payload),
            read.en.eq(self.arrived.valid & self.arrived.ready),
            self.slots.head_tag.eq(self.arrived.payload),
        ]
        with m.If(self.arrived.ready):
            m.d.sync += [ready.eq(self.arrived.valid), ready_tag.eq(self.arrived.payload),
                         ready_slot.eq(self.slots.head)]

        # -- The segment being written.
        active = Signal()
        tag = Signal(config.tag_bits)
        current = Signal(data.StructLayout({"shift": lanes, "start_lane": lanes, "end_lane": lanes,
                                            "queue": config.queue_bits, "epoch": EPOCH_WIDTH}))
        takes_left, emits_left = (Signal(count, name=name) for name in ("takes_left", "emits_left"))
        emitted = Signal(name="emitted")
        takes_some, moves = Signal(name="takes_some"), Signal(name="moves")     # takes_left != 0; its next step
        behind, ends = Signal(name="behind"), Signal(name="ends")       # one more than emits_left; it is the last step
        m.submodules.addresses = addresses = Queue(address_layout(config), depth=ADDRESS_DEPTH)
        wiring.connect(m, addresses.o, wiring.flipped(self.aw))
        m.d.comb += [self.aw_level.level.eq(addresses.level), self.aw_level.taken.eq(self.aw.valid & self.aw.ready)]

        step, context = self.steps.payload, read.data
        complete, due = Signal(), Signal()
        # Beats since the last word; the top bit is set by the last one that is required.
        required = COMPLETION_SPACING if config.word_interval == 1 else config.word_interval * 3 // 2
        bits = (required - 1).bit_length()
        start = (1 << bits) - required
        spacing, between = Signal(bits + 1, init=start), Signal()      # a segment came since
        next_known, next_slot = self._follow(m, tag, final=Mux(active, takes_left == 1, context.one_take))
        m.d.comb += [
            due.eq(spacing[-1] | (self.words.urgent & between)),
            complete.eq(~active & self.words.valid & (due | ~ready)),
            begin.eq(~active & ~complete & ready & addresses.i.ready & self.steps.ready),
            self.events.began.eq(begin), self.events.began_tag.eq(ready_tag),
            self.events.arrived.eq(self.arrived.valid & self.arrived.ready),
            self.events.arrived_tag.eq(self.arrived.payload), self.events.freed.eq(self.slots.release),
            self.words.ready.eq(complete & addresses.i.ready & self.steps.ready),
            step.word.eq(self.words.payload.word),
            step.completion.eq(complete),
            ends.eq(~emits_left[1:].any() & (emits_left[0] ^ behind)),
            # Only the terms of ``steps.valid`` that apply while active; likewise for ``take``.
            moves.eq(active & self.steps.ready & (~takes_some | next_known)),
            self.slots.take.eq(begin | (active & self.steps.ready & takes_some & next_known)),
            self.slots.slot.eq(Mux(active, next_slot, ready_slot)),
        ]
        with m.If(active):
            m.d.comb += [
                self.steps.valid.eq(~takes_some | next_known),
                step.take.eq(takes_some),
                step.emit.eq(1),
                step.starts.eq(~emitted),
                step.ends.eq(ends),
                step.shift.eq(current.shift),
                step.start_lane.eq(current.start_lane),
                step.end_lane.eq(current.end_lane),
                step.queue.eq(current.queue), step.epoch.eq(current.epoch),
            ]
        with m.Elif(complete):
            lane = self.words.payload.addr[:lanes]
            m.d.comb += [
                self.steps.valid.eq(addresses.i.ready),
                step.emit.eq(1), step.starts.eq(1), step.ends.eq(1),
                step.first.eq(1), step.start_lane.eq(lane),
                step.end_lane.eq(lane | Mux(self.words.payload.half, 3, 7)),
                step.queue.eq(self.words.payload.queue), step.epoch.eq(self.words.payload.epoch),
            ]
        with m.Else():
            m.d.comb += [
                self.steps.valid.eq(ready & addresses.i.ready),
                step.take.eq(1),
                step.first.eq(1),
                step.emit.eq(~context.behind),
                step.starts.eq(1),
                step.ends.eq(context.one_beat),
                step.shift.eq(context.shift),
                step.start_lane.eq(context.dst_addr[:lanes]),
                step.end_lane.eq(context.end_lane),
                step.queue.eq(context.queue), step.epoch.eq(context.epoch),
            ]

        with m.If(begin):
            m.d.sync += [
                active.eq(context.continues),
                tag.eq(ready_tag),
                current.shift.eq(context.shift),
                current.start_lane.eq(context.dst_addr[:lanes]),
                current.end_lane.eq(context.end_lane),
                current.queue.eq(context.queue), current.epoch.eq(context.epoch),
                takes_left.eq(context.more_takes if precomputed else context.len + context.more_takes),
                takes_some.eq(~context.one_take),
                emits_left.eq(context.len), behind.eq(context.behind),
                emitted.eq(~context.behind),
            ]
        with m.Elif(moves):
            m.d.sync += [
                active.eq(~ends),
                takes_left.eq(takes_left - takes_some), takes_some.eq(takes_left[1:].any()),
                emits_left.eq(emits_left - 1),
                emitted.eq(1),
            ]
        completed = complete & self.steps.ready & addresses.i.ready
        with m.If(completed):
            m.d.sync += spacing.eq(start)
        with m.Elif(((begin & ~context.behind) | moves) & ~spacing[-1]):
            m.d.sync += spacing.eq(spacing + 1)
        # Without a clock enable, which would be late-arriving.
        m.d.sync += between.eq(~completed & (between | begin))

        # -- One address per burst, when its first step is taken.
        address = addresses.i.payload
        m.d.comb += [
            addresses.i.valid.eq(begin | (complete & self.steps.ready)),
            address.id.eq(ready_tag), address.addr.eq(context.dst_addr), address.len.eq(context.len),
            address.attributes.eq(context.attributes),
        ]
        with m.If(complete):
            m.d.comb += [
                address.id.eq(self.words.payload.id),
                address.addr.eq(self.words.payload.addr), address.len.eq(0),
                address.attributes.eq(self.words.payload.attributes),
            ]
        return m

    def _follow(self, m, tag, *, final):
        """Find the slot after the one just taken, then release that one.

        A slot is released only when its link was followed: its next user will overwrite the link.
        """
        # A slot was taken, and it was a segment's last, or its successor is known.
        slots = self.slots
        ended, follows = Signal(name="ended"), Signal(name="follows")
        taken_slot = Signal(self.config.slot_bits)
        kept = Signal()
        kept_slot = Signal(self.config.slot_bits)
        linked = Signal()
        m.d.comb += [
            slots.tail_tag.eq(tag),
            slots.after.eq(taken_slot),
            linked.eq(follows & (slots.tail != taken_slot)),
            slots.release.eq(ended | linked),
            slots.released.eq(taken_slot),
        ]
        with m.If(slots.take):
            m.d.sync += [ended.eq(final), follows.eq(~final), taken_slot.eq(slots.slot), kept.eq(0)]
        with m.Elif(slots.release):
            m.d.sync += [ended.eq(0), follows.eq(0), kept.eq(linked)]
        with m.If(~kept):
            m.d.sync += kept_slot.eq(slots.next)
        return kept | linked, Mux(kept, kept_slot, slots.next)
