# SPDX-License-Identifier: Apache-2.0
"""Completions on RC as beats of ``s_axi``, with two TLPs in a beat where straddling allows it.

RC of the hard block -> CompletionUnpacker -> read path.  Latency: 2 cycles from the beat on RC with which an item is
complete.  Throughput: one beat per cycle from RC and one item per cycle; a beat that completes several items takes a
cycle for each.

A completion is three DW of descriptor and its payload, and starts at DW 0 or, with straddling, at DW 8. Its part of a
beat on RC is rotated to the positions on ``s_axi``. An item is made of the end of one part and the start of the next.

Source: PG213, "Requester Completion Interface" and "Straddle Option on RC Interface", for up to two TLPs in a beat.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.pcie.config import PcieConfig
from hw.pcie.layouts import completion_layout
from hw.pcie.pins import PacketSignature, rc_user_layout
from hw.pcie.tlp import ErrorCode, RequesterCompletion
from hw.stream import Skid

from .rotation import DWORD_WIDTH, rotated, table

__all__ = ["CompletionUnpacker"]

DESCRIPTOR_DWORDS = 3

UPPER = 8
"""DW at which the upper half of a beat of 512 bits starts."""

_FIELDS = ("tag", "address", "dwords", "byte_count", "completed", "error", "status")


def _input_layout(config):
    """A beat on RC, with the fields of its sideband that are used."""
    sideband = ({"starts": 2, "start_0": 2, "start_1": 2, "ends": 2, "end_0": 4, "end_1": 4} if config.straddle
                else {"keep": config.beat_dwords, "start_0": 1, "last": 1})
    return data.StructLayout({"data": config.data_width, "discontinue": 1, **sideband})


def _part_layout(config):
    """A completion's part of a beat on RC.

    ``valid``: there is one. ``rotation``: of its DW, to their positions on ``s_axi``; those ``below`` this number are
    past the end of a beat there. ``first``: no part before has an item. ``last``: of the completion. ``closes``: an
    item ends with the DW up to the end of that beat. ``remains``: the completion ends with an item of the DW past it.
    ``header``: the fields of an item other than its data.
    """
    layout = completion_layout(config)
    return data.StructLayout({
        "valid": 1, "rotation": config.dword_lane_bits, "below": config.beat_dwords, "first": 1, "last": 1,
        "closes": 1, "remains": 1, "header": data.StructLayout({name: layout[name].shape for name in _FIELDS}),
    })


class CompletionUnpacker(wiring.Component):
    """Align completions to ``s_axi``.

    A completion has an error if its descriptor has an error code or is poisoned. INVALID_LENGTH is reported of one
    without either if it has no payload, or from the beat on that the hard block withdraws it in (``discontinue``,
    which applies to both completions in a beat).

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    rc : ``In(PacketSignature)``
        ``tready`` is registered.
    o : ``Out(stream.Signature(completion_layout))``
        An item for each beat of ``s_axi`` that a completion touches. ``valid`` and ``payload`` are at most three levels
        of LUT6 behind registers, and ``ready`` enables the registers of a beat on RC.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "rc": In(PacketSignature(config.data_width, rc_user_layout(config.data_width))),
            "o": Out(stream.Signature(completion_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        width, layout = self.config.data_width, _part_layout(self.config)
        beat = self._input(m)
        parts = [Signal(layout, name=f"part_{number}") for number in range(1 + self.config.straddle)]
        load, items = Signal(), 2 * len(parts)
        self._find_parts(m, beat.payload, load, parts)

        # Both halves of `s_axi` get the same rotation of an upper half: its payload is five DW at most.
        words = [rotated(m, beat.payload.data, parts[0].rotation, name="words")]
        if self.config.straddle:
            half = UPPER * DWORD_WIDTH
            words.append(rotated(m, beat.payload.data[half:], parts[1].rotation[:-1], name="upper").replicate(2))

        # A register stage, which stalls until all items of its beat but one have left. `before` is the part before it.
        loaded = [Signal(layout, name=f"loaded_{number}", reset_less=True) for number in range(len(parts))]
        rotations = [Signal(width, name=f"rotation_{number}", reset_less=True) for number in range(len(parts))]
        before, due, others = Signal(width, reset_less=True), Signal(items), Signal(items)
        m.d.comb += [
            others.eq(due & (due - 1)[:items]), beat.ready.eq((others == 0) & (self.o.ready | (due == 0))),
            load.eq(beat.valid & beat.ready),
        ]
        with m.If(load):
            m.d.sync += [
                due.eq(Cat(Cat(part.closes, part.remains) & part.valid.replicate(2) for part in parts)),
                before.eq(Mux(loaded[-1].valid, rotations[-1], rotations[0])),
                *(register.eq(part) for register, part in zip(loaded, parts, strict=True)),
                *(register.eq(value) for register, value in zip(rotations, words, strict=True)),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += due.eq(others)
        self._show(m, due, loaded, rotations, before)
        return m

    def _input(self, m):
        """Register RC."""
        config, rc = self.config, self.rc
        user = data.View(rc_user_layout(config.data_width), rc.tuser)
        m.submodules.input = skid = Skid(_input_layout(config))
        beat = skid.i.payload
        m.d.comb += [skid.i.valid.eq(rc.tvalid), rc.tready.eq(skid.i.ready), beat.data.eq(rc.tdata),
                     beat.discontinue.eq(user.discontinue)]
        if config.straddle:
            m.d.comb += [beat[name].eq(user[name])
                         for name in ("starts", "start_0", "start_1", "ends", "end_0", "end_1")]
        else:
            m.d.comb += [beat.keep.eq(rc.tkeep), beat.start_0.eq(user.start_0), beat.last.eq(rc.tlast)]
        return skid.o

    def _find_parts(self, m, beat, load, parts):
        """The parts of a beat; ``running`` is the completion that the next beat continues."""
        layout = _part_layout(self.config)
        running, continues = Signal(layout, reset_less=True), Signal()
        low, ends = parts[0], beat.ends if self.config.straddle else beat.last
        # After a reset within a packet, its further beats are no part of any completion.
        starts = beat.starts[0] & ~beat.start_0[1] if self.config.straddle else beat.start_0
        m.d.comb += [low.valid.eq(continues | starts), low.last.eq(ends[0])]
        self._describe(m, beat, low, start=0, end=beat.end_0 if self.config.straddle else None, continues=continues)
        with m.If(continues):
            m.d.comb += [low.rotation.eq(running.rotation), low.first.eq(running.first & ~running.closes),
                         low.header.eq(running.header)]
            with m.If((running.header.error == ErrorCode.NONE) & beat.discontinue):
                m.d.comb += low.header.error.eq(ErrorCode.INVALID_LENGTH)
        if self.config.straddle:
            # Only an end in the upper half is of a completion that starts there.
            up, end = parts[1], Signal(4)
            m.d.comb += [
                up.valid.eq(beat.starts[0] & beat.start_0[1] | beat.starts[1] & beat.start_1[1]),
                up.last.eq(Mux(beat.end_0[3], ends[0], ends[1])), end.eq(Mux(beat.end_0[3], beat.end_0, beat.end_1)),
            ]
            self._describe(m, beat, up, start=UPPER, end=end, continues=C(0))

        with m.If(load):
            m.d.sync += [running.eq(low), continues.eq(low.valid & ~low.last)]
            if self.config.straddle:
                with m.If(up.valid):
                    m.d.sync += [running.eq(up), continues.eq(~up.last)]

    def _describe(self, m, beat, part, *, start, end, continues):
        """Fields of a part from its position, and from the descriptor at DW ``start`` if it starts there."""
        count, payload = self.config.beat_dwords, start + DESCRIPTOR_DWORDS
        words = beat.data[DWORD_WIDTH * start:DWORD_WIDTH * payload]
        found = data.View(RequesterCompletion, words)
        lane = found.lower_address[2:2 + self.config.dword_lane_bits]
        empty, past = Signal(), Signal()
        if end is None:
            m.d.comb += [
                empty.eq(~continues & part.last & ~beat.keep[payload]),
                past.eq(Array([0, *(beat.keep[count - amount] for amount in range(1, count))])[part.rotation]),
            ]
        else:
            m.d.comb += [empty.eq(~continues & part.last & (end == payload - 1)),
                         past.eq((end + part.rotation)[-1])]
        header = part.header
        m.d.comb += [
            part.rotation.eq(table(lane, [(position - payload) % count for position in range(count)])),
            part.below.eq(table(part.rotation, [(1 << amount) - 1 for amount in range(count)])),
            part.first.eq(~continues), part.closes.eq(continues | empty | (lane >= payload)),
            part.remains.eq(part.last & past & ~empty),
            header.tag.eq(found.tag), header.address.eq(found.lower_address),
            header.dwords.eq(Mux(empty, 0, found.dwords)), header.byte_count.eq(found.byte_count),
            header.completed.eq(found.request_completed), header.status.eq(found.status),
        ]
        with m.If(found.error_code != 0):
            m.d.comb += Value.cast(header.error).eq(found.error_code)
        with m.Elif(found.poisoned):
            m.d.comb += header.error.eq(ErrorCode.POISONED)
        with m.Elif(empty | beat.discontinue):
            m.d.comb += header.error.eq(ErrorCode.INVALID_LENGTH)

    def _show(self, m, due, parts, rotations, before):
        """Show the first item that is due."""
        item, low = self.o.payload, due[:2].any()
        closing = due[0] | ~low & due[-2]
        part = Signal.like(parts[0], name="shown")
        m.d.comb += [
            self.o.valid.eq(due.any()), part.eq(Mux(low, parts[0], parts[-1])),
            item.first.eq(part.first & (closing | ~part.closes)), item.last.eq(part.last & ~(closing & part.remains)),
            *(item[name].eq(part.header[name]) for name in _FIELDS),
        ]
        for position in range(self.config.beat_dwords):
            word = Mux(low, rotations[0].word_select(position, DWORD_WIDTH),
                       rotations[-1].word_select(position, DWORD_WIDTH))
            m.d.comb += item.data.word_select(position, DWORD_WIDTH).eq(Mux(
                due[0] & parts[0].below[position], before.word_select(position, DWORD_WIDTH), word))
