# SPDX-License-Identifier: Apache-2.0
"""The order of TLPs on RQ: a plan for each beat, made before any of its data moves.

write path, read path -> RequestSchedule -> RequestPacker.  Latency: 2 cycles from a write's header to its plan, 1
from a read's.  Throughput: one beat per cycle.

A TLP of a write is four DW of descriptor and its payload. It starts at DW 0 or, with straddling, at DW 8 of a beat
whose lower half ends another TLP. Payload is rotated from its position on ``s_axi`` to its position behind the
descriptor, so a beat on RQ is made of up to two beats of data, each of which is loaded once. A write has an early load
if already its first beat is made of two.
"""

from amaranth import *
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.pcie.config import LENGTH_WIDTH, PcieConfig
from hw.pcie.layouts import ReadTlp, write_tlp_layout
from hw.stream import Skid

from .rotation import table

__all__ = ["DESCRIPTOR_DWORDS", "UPPER", "HalfKind", "RequestSchedule", "plan_layout"]

DESCRIPTOR_DWORDS = 4

UPPER = 8
"""DW at which the upper half of a beat of 512 bits starts."""


class HalfKind(enum.Enum, shape=2):
    """Start of a TLP in one half of a beat."""

    NONE = 0
    """The half continues the TLP before it, or is unused."""
    WRITE = 1
    READ = 2


def plan_layout(config: PcieConfig) -> data.StructLayout:
    """Contents of a beat on RQ, and the load of a beat of data.

    ``valid``: there is a beat. ``load``: rotate the next beat of data by ``rotation``. ``below``: the DW that continue
    or start a write in the lower half and are older than a load in the same cycle. ``lower``, ``upper``: TLPs that
    start. ``lower_ends``, ``upper_ends``: the TLP that is in the lower half, or starts in the upper half, ends at this
    DW. ``writes``: number of writes that end. ``write``, ``read``: headers of TLPs that start.
    """
    return data.StructLayout({
        "valid": 1, "load": 1, "rotation": config.dword_lane_bits, "below": config.beat_dwords,
        "lower": HalfKind, "upper": HalfKind, "lower_ends": 1, "upper_ends": 1,
        "lower_last": config.dword_lane_bits, "upper_last": config.dword_lane_bits, "writes": 2,
        "write": write_tlp_layout(config), "read": ReadTlp,
    })


def _placement_layout(config):
    """A write's beats on RQ, if it starts at a given DW.

    ``beats``: after the first; ``single``, ``double``: there are 0 or 1 of them. ``last``: DW at which it ends;
    ``low``: that is in the lower half. ``loads``: its last beat loads data. ``early``: an early load. ``rotation``,
    ``below``: as in the plan.
    """
    return data.StructLayout({
        "beats": LENGTH_WIDTH + 1 - config.dword_lane_bits, "single": 1, "double": 1, "last": config.dword_lane_bits,
        "low": 1, "loads": 1, "early": 1, "rotation": config.dword_lane_bits, "below": config.beat_dwords,
    })


class RequestSchedule(wiring.Component):
    """Choose what each beat on RQ contains.

    Reads and writes start alternately while both wait, as far as they fit: a read is one half of a beat, and a half
    that a write cannot use goes to a read. A write in progress is not interrupted.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    writes : ``In(stream.Signature(write_tlp_layout))``, reads : ``In(stream.Signature(ReadTlp))``
        ``ready`` is registered.
    halt : ``In(1)``
        No further TLP starts, from this cycle on.
    free : ``In(1)``
        There may be a beat in this cycle.
    planned : ``Out(1)``
        There is one, which ``plan`` shows in the next cycle.
    plan : ``Out(plan_layout)``
        Registered. A load is due in the cycle in which it is shown.
    busy : ``Out(1)``
        A write has started and has further beats.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "writes": In(stream.Signature(write_tlp_layout(config))), "reads": In(stream.Signature(ReadTlp)),
            "halt": In(1), "free": In(1), "planned": Out(1), "plan": Out(plan_layout(config)), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        straddle = self.config.straddle
        write, read = self._headers(m)
        low = write.payload.low
        up = write.payload.up if straddle else low

        # The write in progress: as it was placed, and its remaining beats.
        placed = Signal(_placement_layout(self.config))
        final, left, loaded, prefer_write = Signal(), Signal.like(placed.beats), Signal(), Signal()
        ends, can_write, can_read = Signal(), Signal(), Signal()
        m.d.comb += [
            ends.eq(self.busy & final), can_write.eq(write.valid & ~self.halt), can_read.eq(read.valid & ~self.halt),
        ]

        # Starts. A write whose early load was made starts in a lower half.
        write_low, read_low, write_up, read_up = (Signal(name=name) for name in (
            "write_low", "read_low", "write_up", "read_up"))
        write_first, half_open = Signal(), Signal()
        m.d.comb += [
            write_first.eq(can_write & (prefer_write | ~can_read)),
            write_low.eq(~self.busy & write_first & (~low.early | loaded)),
            read_low.eq(~self.busy & can_read & ~write_low),
        ]
        if straddle:
            m.d.comb += [
                half_open.eq(ends & placed.low),
                write_up.eq(can_write & ~up.early & ~loaded & (
                    read_low | half_open & ~placed.loads & (prefer_write | ~can_read))),
                read_up.eq(can_read & (write_low & low.single & low.low | half_open & ~write_up)),
            ]
        early = Signal()
        m.d.comb += [
            early.eq(self.free & can_write & low.early & ~loaded & ~write_up
                     & (~self.busy | ends & ~placed.loads)),
            self.planned.eq(self.free & (self.busy | write_low | read_low)),
            write.ready.eq(self.free & (write_low | write_up)), read.ready.eq(self.free & (read_low | read_up)),
        ]

        with m.If(early | write.ready):
            m.d.sync += loaded.eq(early)
        with m.If(write.ready):
            m.d.sync += prefer_write.eq(0)
        with m.Elif(read.ready):
            m.d.sync += prefer_write.eq(1)
        with m.If(write.ready):
            m.d.sync += [placed.eq(Mux(write_up, up, low)), left.eq(Mux(write_up, up.beats, low.beats)),
                         self.busy.eq(~Mux(write_up, up.single, low.single)),
                         final.eq(Mux(write_up, up.double, low.double))]
        with m.Elif(self.planned & self.busy):
            m.d.sync += [left.eq(left - 1), self.busy.eq(~final), final.eq(left == 2)]

        plan = self.plan
        continues = Signal()        # the data loaded or shown is of the write in progress
        m.d.comb += continues.eq(self.busy & ~early & ~write_up)
        m.d.sync += [
            plan.valid.eq(self.planned),
            plan.load.eq(early | self.planned & (
                self.busy & (~final | placed.loads) | write_low & (~low.single | low.loads) | write_up)),
            plan.rotation.eq(Mux(continues, placed.rotation, Mux(write_up, up.rotation, low.rotation))),
            plan.below.eq(Mux(self.busy, placed.below, low.below)),
            plan.lower.eq(Mux(write_low, HalfKind.WRITE, Mux(read_low, HalfKind.READ, HalfKind.NONE))),
            plan.upper.eq(Mux(write_up, HalfKind.WRITE, Mux(read_up, HalfKind.READ, HalfKind.NONE))),
            plan.lower_ends.eq(ends | read_low | write_low & low.single),
            plan.lower_last.eq(Mux(self.busy, placed.last, Mux(write_low, low.last, DESCRIPTOR_DWORDS - 1))),
            plan.upper_ends.eq(read_up | write_up & up.single),
            plan.upper_last.eq(Mux(write_up, up.last, UPPER + DESCRIPTOR_DWORDS - 1)),
            plan.writes.eq((ends | write_low & low.single) + (write_up & up.single)),
            plan.read.eq(read.payload),
            *(plan.write[name].eq(write.payload.header[name]) for name, _ in plan.write.shape()),
        ]
        return m

    def _headers(self, m):
        """Register the headers of writes, with their placements; hold that of a read which does not fit."""
        config = self.config
        placement = _placement_layout(config)
        layout = data.StructLayout({
            "header": write_tlp_layout(config), "low": placement, **({"up": placement} if config.straddle else {})})
        m.submodules.write_headers = writes = Skid(layout)
        m.submodules.read_headers = reads = Skid(ReadTlp, output_register=False)
        m.d.comb += [
            writes.i.valid.eq(self.writes.valid), self.writes.ready.eq(writes.i.ready),
            writes.i.payload.header.eq(self.writes.payload), self._place(writes.i.payload.low, start=0),
            reads.i.valid.eq(self.reads.valid), self.reads.ready.eq(reads.i.ready),
            reads.i.payload.eq(self.reads.payload),
        ]
        if config.straddle:
            m.d.comb += self._place(writes.i.payload.up, start=UPPER)
        return writes.o, reads.o

    def _place(self, placed, *, start):
        """The placement of a write that starts at DW ``start``."""
        count, bits = self.config.beat_dwords, self.config.dword_lane_bits
        lane, dwords = self.writes.payload.lane, self.writes.payload.dwords
        end = dwords + (start + DESCRIPTOR_DWORDS - 1)
        # Payload at position `lane` moves to the position behind the descriptor. DW from `limit` on are of the load in
        # the same cycle, those below of the load before.
        target = start + DESCRIPTOR_DWORDS
        limits = [target - lane if lane <= target else target - lane + count for lane in range(count)]
        return [
            placed.last.eq(end[:bits]), placed.low.eq(end[:bits] < UPPER), placed.beats.eq(end[bits:]),
            placed.single.eq(dwords <= count - target),
            placed.double.eq((dwords > count - target) & (dwords <= 2 * count - target)),
            placed.early.eq(lane > target), placed.loads.eq(end[:bits] >= table(lane, limits)),
            placed.rotation.eq(table(lane, [limit % count for limit in limits])),
            placed.below.eq(table(lane, [(1 << limit) - 1 for limit in limits])),
        ]
