# SPDX-License-Identifier: Apache-2.0
"""Write responses: end segments and report their status.

B -> Responses -> Retire.  Latency: 2 cycles from the B handshake to ``done``.  Throughput: one response per cycle.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.free_list import FreeSignature
from hw.common.sweep import SweepSignature
from hw.common.table import Table, ram_of
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import STATUS_WIDTH, origin_fields, write_response_layout
from hw.dma_engine.strobes import DoneSignature, LaunchSignature, WrittenSignature
from hw.dma_engine.words import Status
from hw.stream.storage import NO_COLLISION

from .buffer import ReadStatusSignature

__all__ = ["Responses"]


class Responses(wiring.Component):
    """Turn B into the end of a segment, or of a completion word's write.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    launch : ``In(LaunchSignature)``
    b : ``In(stream.Signature(write_response_layout))``
        Ready except during the sweep after reset.
    read_status : ``Out(ReadStatusSignature)``
    done : ``Out(DoneSignature)``, free : ``Out(FreeSignature)``
        A segment has ended; its tag is free.
    unexpected : ``Out(1)``
        A response arrived for a segment that is not in flight; it has no other effect.
    written : ``Out(WrittenSignature)``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)),
            "launch": In(LaunchSignature(config)),
            "b": In(stream.Signature(write_response_layout(config))),
            "read_status": Out(ReadStatusSignature(config)),
            "done": Out(DoneSignature(config)), "free": Out(FreeSignature(config.tags)),
            "written": Out(WrittenSignature(config)),
            "unexpected": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fields = origin_fields(config)
        # Block RAM has columns of 18 bits: with 1,024 tags, all fields but these fill two. The LUT RAM of ``begun`` has
        # up to 7 bits.
        apart = {name: fields.pop(name) for name in ("target", "epoch") if config.tags > 512}
        m.submodules.origins = origins = memory.Memory(
            shape=data.StructLayout(fields | {"unread": 1}), depth=config.tags, init=[],
            attrs=NO_COLLISION | ram_of(config.tags))
        write, read = origins.write_port(), origins.read_port()
        m.d.comb += [write.addr.eq(self.launch.payload.tag), write.en.eq(self.launch.read | self.launch.signal)]
        m.d.comb += [write.data[name].eq(self.launch.payload.segment[name]) for name in fields]
        m.d.comb += write.data.unread.eq(self.launch.signal)

        # A tag is in flight while ``begun`` differs from ``ended``. ``ended`` has several tags per row: LUT RAM has 64
        # rows.
        init, row_bits = SweepSignature(config), max(config.tag_bits - 6, 0)
        m.submodules.begun = begun = Table(
            data.StructLayout(apart | {"begun": 1}), depth=config.tags, reads=1, init=init)
        m.submodules.ended = ended = Table(1 << row_bits, depth=config.tags >> row_bits, reads=2, init=init)
        for table in (begun, ended):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        column, before = read.addr[:row_bits], Signal(2)
        for port, addr, was in zip(ended.read, (read.addr, write.addr), before, strict=True):
            m.d.comb += [port.addr.eq(addr[row_bits:]), was.eq(port.data.bit_select(addr[:row_bits], 1))]
        m.d.comb += [
            begun.write.addr.eq(write.addr), begun.write.en.eq(write.en), begun.read[0].addr.eq(read.addr),
            begun.write.data.begun.eq(~before[1]),
        ]
        for name in apart:
            m.d.comb += begun.write.data[name].eq(self.launch.payload.segment[name])
            m.d.sync += self.done.payload[name].eq(begun.read[0].data[name])

        # -- The response, registered.
        valid, resp = Signal(name="valid"), Signal(Resp)
        number = Signal(config.axi_id_width)
        m.d.sync += [valid.eq(self.b.valid & self.b.ready), number.eq(self.b.payload.id), resp.eq(self.b.payload.resp)]
        is_word, failed, known = Signal(), Signal(), Signal()
        m.d.comb += [
            self.b.ready.eq(~self.init.active),
            is_word.eq(number[-1]),
            failed.eq((resp == Resp.SLVERR) | (resp == Resp.DECERR)),
            self.written.valid.eq(valid & is_word),
            self.written.id.eq(number),
            self.written.failed.eq(failed),
            read.addr.eq(number[:config.tag_bits]),
            self.read_status.tag.eq(number[:config.tag_bits]),
            known.eq((begun.read[0].data.begun ^ before[0]) & ~number[config.tag_bits:-1].any()),
            ended.write.addr.eq(read.addr[row_bits:]), ended.write.en.eq(valid & ~is_word & known),
            ended.write.data.eq(ended.read[0].data ^ (1 << column)),
            self.unexpected.eq(valid & ~is_word & ~known),
        ]

        # -- The segment's context; a read error takes precedence over a write error.
        read_status, write_status = Signal(STATUS_WIDTH), Signal(STATUS_WIDTH)
        m.d.sync += [
            self.done.valid.eq(valid & ~is_word & known),
            self.done.tag.eq(number[:config.tag_bits]),
            read_status.eq(_status(self.read_status.resp, Status.READ_SLVERR, Status.READ_DECERR)),
            write_status.eq(_status(resp, Status.WRITE_SLVERR, Status.WRITE_DECERR)),
        ]
        m.d.comb += [self.free.valid.eq(self.done.valid), self.free.number.eq(self.done.tag)]
        # The beat buffer's status is outdated for a tag without a read.
        m.d.comb += self.done.payload.status.eq(
            Mux((read_status == Status.OK) | read.data.unread, write_status, read_status))
        m.d.comb += [self.done.payload[name].eq(read.data[name]) for name in fields]
        return m


def _status(resp, slverr, decerr):
    return Mux(resp == Resp.SLVERR, slverr, Mux(resp == Resp.DECERR, decerr, Status.OK))
