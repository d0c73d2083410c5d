# SPDX-License-Identifier: Apache-2.0
"""Descriptor buffer: descriptors that were read and not yet expanded into words.

R (through the beat buffer's register) -> RingBuffer -> RingExpand.  Latency: 1 cycle from a descriptor's last beat
to ``some``, 1 cycle from ``read`` to ``row``.  Throughput: one beat in and one descriptor out per cycle.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.table import ram_of
from hw.dma_engine.config import DESCRIPTOR_BYTES, DmaConfig
from hw.dma_engine.descriptors import (
    HEADER_FIELDS,
    LIST_WORDS,
    SHAPE_FIELDS,
    STRIDE_WIDTH,
    DescriptorFlag,
    DescriptorKind,
)
from hw.dma_engine.layouts import NativeLayout
from hw.dma_engine.words import Opcode
from hw.stream.storage import NO_COLLISION, registered_address_read

__all__ = ["AwaitedSignature", "RequestedSignature", "RingBeatSignature", "RingBuffer", "RingStatesSignature",
           "RowReadSignature", "row_layout"]

_HEADER = data.StructLayout(dict(HEADER_FIELDS))
_UNKNOWN_FLAGS = 0xFF & ~sum(DescriptorFlag)
_STORED = ((0, _HEADER.size), (128, 8 * DESCRIPTOR_BYTES))
"""Bits of a descriptor that are stored."""


SEEN = data.StructLayout({
    "failed": 1,                    # memory responded with an error
    "unclean": 1,                   # bytes 0 to 15 are malformed
    "list": 1, "one": 1,            # a list; of one word
    "not_2d": 1,                    # the body cannot be that of a COPY2D
    "single": 1,                    # as a COPY2D it would have one row, or empty ones
})
"""Findings about a descriptor so far."""

VERDICT = data.StructLayout({
    "failed": 1,
    "bad": 1,                       # malformed, independently of its ring
    "sole": 1,                      # its first word is its last
})
"""Conclusions from the findings, stored with the descriptor because they are late-arriving."""


def row_layout():
    """A stored descriptor."""
    return data.StructLayout({
        "header": _HEADER,
        "body": data.UnionLayout({
            "words": data.ArrayLayout(NativeLayout, LIST_WORDS),
            "copy_2d": data.StructLayout({"row": NativeLayout, **dict(SHAPE_FIELDS)}),
        }),
        "verdict": VERDICT,
    })


class RingStatesSignature(wiring.Signature):
    """A bit per ring.

    Members
    -------
    enabled : ``Out(extended)``
        Rings whose queues accept words and doorbells.
    records : ``Out(extended)``
        Rings that have completion records.
    used : ``Out(extended)``
        Rings that have rows.
    pair : ``Out(extended)``
        Of these, rings that have the rows of both rings of their pair, 2n and 2n + 1; the other one is not ``used``.
    discard : ``Out(extended)``
        Rings that restart: they have nothing in flight, or it was abandoned.
    abandon : ``Out(extended)``
        With ``discard``: rings whose requested descriptors are dropped when they arrive.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({name: Out(config.extended)
                          for name in ("enabled", "records", "used", "pair", "discard", "abandon")})


class RingBeatSignature(wiring.Signature):
    """A beat of a descriptor that ``ring`` has requested. Always taken: its row was reserved."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "ring": Out(config.extended_bits), "data": Out(config.data_width),
                          "resp": Out(Resp)})


class RequestedSignature(wiring.Signature):
    """``count`` descriptors of a ring are requested, and their rows reserved."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "ring": Out(config.extended_bits),
                          "count": Out(range(config.fetch_burst + 1))})


class AwaitedSignature(wiring.Signature):
    """Descriptors that have been requested and have not arrived.

    Members
    -------
    some : ``Out(extended)``
        Rings with such descriptors.
    outstanding : ``Out(extended)``
        Rings that were abandoned since; also for one cycle after the last of these descriptors.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"some": Out(config.extended), "outstanding": Out(config.extended)})


class RowReadSignature(wiring.Signature):
    """The expander reads descriptors and frees them when their last word has left.

    Members
    -------
    some, several : ``In(extended)``
        Rings with at least one descriptor, with at least two.
    read : ``Out(1)``, ring : ``Out``, behind : ``Out(1)``
        Read the oldest descriptor of ``ring``, or the one after it.
    row : ``In(row_layout)``
        The result of the read, one cycle later.
    take : ``Out(1)``
        The oldest descriptor of ``ring`` is no longer needed.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"some": In(config.extended), "several": In(config.extended), "read": Out(1),
                          "ring": Out(config.extended_bits), "behind": Out(1), "row": In(row_layout()),
                          "take": Out(1)})


class RingBuffer(wiring.Component):
    """Keep up to ``config.ring_depth`` descriptors of each ring in one block RAM; of a ring with ``pair``, twice as
    many.

    Beats of one ring come in order, those of different rings in any order. Rows were reserved before the read was
    issued: there is always a free row. Beats of a ring without rows, which was abandoned, are not stored: its rows may
    be those of the other ring of its pair.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    states : ``In(RingStatesSignature)``
    requested : ``In(RequestedSignature)``, beats : ``In(RingBeatSignature)``
    awaited : ``Out(AwaitedSignature)``
    rows : ``In(RowReadSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "states": In(RingStatesSignature(config)),
            "requested": In(RequestedSignature(config)),
            "beats": In(RingBeatSignature(config)),
            "awaited": Out(AwaitedSignature(config)),
            "rows": In(RowReadSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, rings, beats = self.config, self.config.extended, self.config.descriptor_beats
        beat, rows, states, requested, awaited = self.beats, self.rows, self.states, self.requested, self.awaited
        row_bits, most = (2 * config.ring_depth - 1).bit_length(), 2 * config.ring_depth
        to = Array(Signal(row_bits, name=f"to_{index}") for index in range(rings))
        oldest = Array(Signal(row_bits, name=f"oldest_{index}") for index in range(rings))
        numbers = Array(Signal(range(max(beats, 2)), name=f"number_{index}") for index in range(rings))
        finals = Signal(rings, init=-(beats == 1))      # the next beat is a descriptor's last

        # -- A beat: its number in the descriptor, and the findings so far.
        before = Array(Signal(SEEN.size, name=f"before_{index}") for index in range(rings))
        here, seen, verdict = Signal(SEEN), Signal(SEEN), Signal(VERDICT)
        number = Signal(range(max(beats, 2)))
        m.d.comb += number.eq(numbers[beat.ring])
        for part in range(beats):
            with m.If(number == part):
                m.d.comb += [here[name].eq(found) for name, found in _findings(beat.data,
                                                                               part * config.data_width).items()]
        m.d.comb += [
            here.failed.eq((beat.resp == Resp.SLVERR) | (beat.resp == Resp.DECERR)),
            seen.eq(here.as_value() | Mux(number == 0, 0, before[beat.ring])),
            verdict.failed.eq(seen.failed), verdict.bad.eq(seen.unclean | (~seen.list & seen.not_2d)),
            verdict.sole.eq(verdict.failed | verdict.bad | Mux(seen.list, seen.one, seen.single)),
        ]

        # -- Stored bits, a column for each beat; the verdict is stored with the last.
        first, row_read, row_write = Signal(row_bits), Signal(row_bits), Signal(row_bits)
        m.d.comb += [row_write.eq(to[beat.ring]), first.eq(oldest[rows.ring]),
                     row_read.eq(Mux(rows.behind, first + 1, first))]

        def place(ring, row):
            """Address of a ring's row: rows from ``ring_depth`` on are in the part of the other ring of the pair."""
            return Cat(row[:-1], ring[0] ^ (row[-1] & states.pair.bit_select(ring, 1)), ring[1:])

        found = []
        for part in range(beats):
            start, width = part * config.data_width, config.data_width
            kept = Cat(*(beat.data[min(max(low - start, 0), width):min(max(high - start, 0), width)]
                         for low, high in _STORED), *([verdict] if part == beats - 1 else []))
            if not len(kept):
                continue
            column = memory.Memory(shape=unsigned(len(kept)), depth=rings * config.ring_depth, init=[],
                                   attrs=NO_COLLISION | ram_of(rings * config.ring_depth))
            m.submodules[f"column_{part}"] = column
            write = column.write_port()
            m.d.comb += [
                write.addr.eq(place(beat.ring, row_write)), write.data.eq(kept),
                write.en.eq(beat.valid & (number == part) & states.used.bit_select(beat.ring, 1)),
            ]
            found.append(registered_address_read(m, column, addr=place(rows.ring, row_read), en=rows.read))
        m.d.comb += rows.row.eq(Cat(*found))

        for index in range(rings):
            count, coming = (Signal(range(most + 1), name=f"{name}_{index}") for name in ("count", "coming"))
            mine, taken = beat.valid & (beat.ring == index), rows.take & (rows.ring == index)
            last, outstanding = finals[index], awaited.outstanding[index]
            after = Signal.like(count, name=f"after_{index}")
            arrives, comes = Signal(name=f"arrives_{index}"), Signal(name=f"comes_{index}")
            m.d.comb += [arrives.eq(mine & last), comes.eq(arrives & ~outstanding), after.eq(count + comes),
                         awaited.some[index].eq(coming != 0)]
            growth = Mux(requested.valid & (requested.ring == index), requested.count, 0)
            m.d.sync += [
                coming.eq(coming + (growth - arrives)),
                # Nothing is requested for an abandoned ring.
                outstanding.eq((states.abandon[index] | outstanding) & (coming != 0)),
            ]
            with m.If(mine):
                m.d.sync += [numbers[index].eq(Mux(last, 0, number + 1)), before[index].eq(seen),
                             last.eq(number == (beats - 2) % beats)]
            with m.If(states.discard[index]):
                m.d.sync += [count.eq(0), rows.some[index].eq(0), rows.several[index].eq(0),
                             to[index].eq(0), oldest[index].eq(0)]
            with m.Else():
                # ``taken`` is late-arriving.
                m.d.sync += [count.eq(Mux(taken, after - 1, after)),
                             rows.some[index].eq(Mux(taken, after > 1, after != 0)),
                             rows.several[index].eq(Mux(taken, after > 2, after > 1))]
                with m.If(comes):
                    m.d.sync += to[index].eq(to[index] + 1)
                with m.If(taken):
                    m.d.sync += oldest[index].eq(oldest[index] + 1)
        return m


def _findings(beat, start):
    """Findings from the beat that starts at bit ``start`` of a descriptor."""
    unclean, not_2d, single, is_list, one = [], [], [], [], []
    for at in range(0, len(beat), 64):
        lane = beat[at:at + 64]
        match (start + at) // 64:
            case 0:
                header = data.View(_HEADER, lane[:_HEADER.size])
                unclean += [lane[_HEADER.size:].any(), header.zero.any(), (header.flags & _UNKNOWN_FLAGS).any(), Mux(
                    header.count == 0, header.kind != DescriptorKind.COPY2D, header.kind != DescriptorKind.LIST)]
                is_list.append(header.kind == DescriptorKind.LIST)
                one.append(header.count == 1)
            case 1:
                unclean.append(lane.any())
            case 2:
                word = data.View(NativeLayout, Cat(lane, C(0, 64)))
                not_2d.append((word.opcode != Opcode.COPY) | word.flags.any())
            case 3:
                single.append(data.View(NativeLayout, Cat(C(0, 64), lane)).length == 0)
            case 4 | 5:
                high = lane[STRIDE_WIDTH - 1:]
                not_2d.append(high.any() & ~high.all())
            case 6:
                not_2d.append((lane[:32] == 0) | lane[32:].any())
                single.append(lane[:32] == 1)
            case 7:
                not_2d.append(lane.any())
    return {"unclean": Cat(unclean).any(), "not_2d": Cat(not_2d).any(), "single": Cat(single).any(),
            "list": Cat(is_list).any(), "one": Cat(one).any()}
