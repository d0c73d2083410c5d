# SPDX-License-Identifier: Apache-2.0
"""Checks of a request that need no state of its queue pair: opcode, length, key, range and rights.

RequestIntake -> AccessCheck -> PacketOrder.  Latency: 4 cycles.  Throughput: one request per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.sweep import SweepSignature

from ..config import RdmaConfig
from ..layouts import LENGTH_WIDTH, region_layout
from ..ports import ConnectionWrite, RegionWrite
from ..protocol import Opcode
from .layouts import GENERATION_WIDTH, checked_layout, op_layout, settings_layout
from .rows import RowRead, RowTable

__all__ = ["AccessCheck"]

LONGEST = 1 << 31
"""Longest message (IBTA 1.6, 9.3.2)."""

_BEGINS = (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM)
_ENDS = (Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM)
_IMM = (Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM)
_WRITES = (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, *_ENDS)


class AccessCheck(wiring.Component):
    """Look up connection and region; a cycle later, subtract; then add; then compare.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    ops : ``In(stream.Signature(op_layout))``
    checked : ``Out(stream.Signature(checked_layout))``
    connections : ``In(ConnectionWrite)``, regions : ``In(RegionWrite)``
        Apply to requests that are looked up in later cycles.
    generations : ``Out(RowRead)``
        Of the region that is looked up.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "ops": In(stream.Signature(op_layout(config))),
            "checked": Out(stream.Signature(checked_layout(config))), "connections": In(ConnectionWrite(config)),
            "regions": In(RegionWrite(config)), "generations": Out(RowRead(GENERATION_WIDTH, config.regions)),
        })

    def elaborate(self, platform):
        m = Module()
        config, op = self.config, self.ops.payload
        settings, region, go, table = self._tables(m)
        valid = [Signal(name=f"valid_{stage}") for stage in range(4)]
        m.d.comb += [go.eq(~valid[3] | self.checked.ready), self.ops.ready.eq(go), self.checked.valid.eq(valid[3])]
        for stage, before in enumerate((self.ops.valid, *valid[:-1])):
            with m.If(go):
                m.d.sync += valid[stage].eq(before)

        # -- Stage 0: the rows are in the read registers.
        looked = Signal(op_layout(config), reset_less=True)
        known, opcode = Signal(), looked.opcode
        m.d.comb += [
            table.addr.eq(op.rkey[8:]), table.en.eq(go), self.generations.addr.eq(op.rkey[8:]),
            self.generations.en.eq(go), settings.addr.eq(op.qp), settings.en.eq(go),
        ]
        mtu, found, fits = settings.data.mtu, Signal(checked_layout(config), name="found"), Signal()
        length, total = looked.length, looked.dma_length
        full, one, whole, longer, rights = Signal(), Signal(), Signal(), Signal(), Signal()
        limit = Signal(config.mtu_bits + 1)
        m.d.comb += [
            limit.eq(256 << mtu), full.eq(length == limit), one.eq(length <= limit), whole.eq(total == length),
            longer.eq(total > limit), fits.eq(total <= LONGEST),
            known.eq((region.key == looked.rkey[:8]) & region.valid & (region.domain == settings.data.domain)),
            rights.eq(Mux(found.read, region.readable & settings.data.remote_read,
                          region.writable & settings.data.remote_write)),
            found.open.eq(looked.open), found.qp.eq(looked.qp), found.psn.eq(looked.psn),
            found.ackreq.eq(looked.ackreq), found.value.eq(looked.value), found.length.eq(length),
            found.dma_length.eq(total), found.region.eq(looked.rkey[8:]), found.generation.eq(self.generations.data),
            found.write.eq(_is(opcode, _WRITES)), found.read.eq(opcode == Opcode.READ_REQUEST),
            found.begins.eq(_is(opcode, _BEGINS)), found.ends.eq(_is(opcode, _ENDS)), found.imm.eq(_is(opcode, _IMM)),
            found.allowed.eq(known & rights & ~(looked.rkey >> 8 + config.region_bits).any()),
            *(found[name].eq(settings.data[name])
              for name in ("mtu", "rnr_timer", "selective", "ring", "mask", "receive_psn")),
        ]
        with m.If(found.read):
            m.d.comb += found.sized.eq((length == 0) & fits)
        with m.Elif(found.begins):
            m.d.comb += found.sized.eq(Mux(found.ends, one & whole, full & longer & fits))
        with m.Else():
            m.d.comb += found.sized.eq(Mux(found.ends, one & length.any(), full))

        # -- Stage 1: offset in the region; packets of a READ.
        offset, known_region = Signal(65, reset_less=True), Signal(region_layout(), reset_less=True)
        ends_at, beyond, packets = (Signal(LENGTH_WIDTH + 1, reset_less=True), Signal(reset_less=True),
                                    Signal(33, reset_less=True))
        now = [Signal(checked_layout(config), name=f"now_{stage}", reset_less=True) for stage in range(3)]
        with m.If(go):
            m.d.sync += [
                looked.eq(op),
                now[0].eq(found), offset.eq(looked.va - region.va), known_region.eq(region),
                packets.eq(total + (limit - 1)),
            ]
            # -- Stage 2: its end there, and the address in memory.
            m.d.sync += [
                now[1].eq(now[0]), now[1].address.eq(known_region.address + offset[:64]),
                ends_at.eq(offset[:LENGTH_WIDTH] + now[0].dma_length),
                beyond.eq(offset[LENGTH_WIDTH:].any()),
                now[1].packets.eq(Mux(now[0].read & now[0].dma_length.any(), packets >> (8 + now[0].mtu), 1)),
            ]
            # -- Stage 3: the comparison.
            m.d.sync += [
                now[2].eq(now[1]),
                now[2].allowed.eq((now[1].allowed & ~beyond & (ends_at <= stored_length(m, known_region, go)))
                                  | ~now[1].dma_length.any()),
            ]
        m.d.comb += self.checked.payload.eq(now[2])
        return m

    def _tables(self, m):
        """Read ports of the connections' settings and of the regions, the row of the region, and the enable."""
        config, entry = self.config, self.connections.entry
        m.submodules.settings = settings = RowTable(config, settings_layout(), depth=config.queue_pairs, swept=False)
        m.submodules.regions = regions = RowTable(config, region_layout(), depth=config.regions)
        wiring.connect(m, wiring.flipped(self.init), regions.init)
        write = settings.write.data
        m.d.comb += [
            regions.write.en.eq(self.regions.valid), regions.write.addr.eq(self.regions.region),
            regions.write.data.eq(self.regions.entry),
            settings.write.en.eq(self.connections.valid), settings.write.addr.eq(self.connections.qp),
            write.mtu.eq(Mux(entry.mtu > config.mtu_bits - 8, config.mtu_bits - 8, entry.mtu)),
            write.mask.eq(Const(-1, len(write.mask)) << entry.ring_bits),
            *(write[name].eq(entry[name]) for name in (
                "domain", "rnr_timer", "remote_write", "remote_read", "ring", "receive_psn")),
            write.selective.eq(entry.selective if config.selective else 0),
        ]
        return settings.read[0], regions.read[0].data, Signal(name="go"), regions.read[0]


def stored_length(m, region, go):
    """Length of the region, a stage later."""
    length = Signal(LENGTH_WIDTH, name="region_length", reset_less=True)
    with m.If(go):
        m.d.sync += length.eq(region.length)
    return length


def _is(opcode, values):
    return Cat(opcode == value for value in values).any()
