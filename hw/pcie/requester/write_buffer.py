# SPDX-License-Identifier: Apache-2.0
"""The buffer of posted data: beats are offered once their TLP is complete, or dropped with it.

WriteSplitter -> WriteBuffer -> RQ.  Latency: 2 cycles from ``commit``.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.event import EventSignature
from hw.stream.storage import make_storage, show_registered

from ..config import MAX_PAYLOAD_BYTES, PcieConfig

__all__ = ["BufferSignature", "WriteBuffer", "payload_beats_shape"]

_IN_FLIGHT = 3
"""Beats that may still be written when ``open`` falls."""


def payload_beats_shape(config: PcieConfig) -> range:
    """Beats of a TLP's payload."""
    return range(MAX_PAYLOAD_BYTES // config.beat_bytes + 1)


class BufferSignature(wiring.Signature):
    """Write access to the buffer.

    Members
    -------
    push : ``Out(1)``, data : ``Out(data_width)``
        A beat.
    commit, drop : ``Out(1)``
        The beats since the last of these strobes, that of this cycle included, are a TLP's payload, or are dropped.
    """

    def __init__(self, config: PcieConfig) -> None:
        super().__init__({"push": Out(1), "data": Out(config.data_width), "commit": Out(1), "drop": Out(1)})


class WriteBuffer(wiring.Component):
    """Beats in block RAM, in order. A TLP's data is offered without a stall once its first beat is.

    Parameters
    ----------
    config : PcieConfig

    Members
    -------
    write : ``In(BufferSignature)``
    taken : ``In(EventSignature(payload_beats_shape))``
        The receiver has taken a header with this number of beats, and takes them in this cycle or later.
    data : ``Out(stream.Signature(data_width))``
        From the read register of the block RAM.
    open : ``Out(1)``
        A beat whose ``push`` follows in two cycles fits. Registered.
    idle : ``Out(1)``
    discard : ``In(1)``
        Drop all beats without ``taken``.
    """

    def __init__(self, config: PcieConfig) -> None:
        self.config = config
        super().__init__({
            "write": In(BufferSignature(config)), "taken": In(EventSignature(payload_beats_shape(config))),
            "data": Out(stream.Signature(config.data_width)), "open": Out(1), "idle": Out(1), "discard": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self.config.write_beats
        m.submodules.storage = storage = make_storage(self.config.data_width, depth, "block")
        # Pointers modulo twice the depth: after the last beat, after the last complete TLP, after the last one whose
        # header was taken, the next to be read, the next to leave.
        written, good, due, reading, left = (
            Signal(range(2 * depth), name=name) for name in ("written", "good", "due", "reading", "left"))
        after, held = Signal.like(written), Signal.like(written)
        w_port = storage.write_port()
        shown = stream.Signature(self.config.data_width).create(path=("shown",))
        load, loaded = show_registered(m, storage, shown, reading[:-1], reading != good)
        surplus = Signal()
        m.d.comb += [
            w_port.addr.eq(written[:-1]), w_port.data.eq(self.write.data), w_port.en.eq(self.write.push),
            after.eq(written + self.write.push), held.eq(written - left),
            surplus.eq(self.discard & (left == due)),
            self.data.payload.eq(shown.payload), self.data.valid.eq(shown.valid & ~surplus),
            shown.ready.eq(self.data.ready), self.idle.eq((left == due) & (due == good)),
        ]
        m.d.sync += [
            written.eq(Mux(self.write.drop, good, after)), reading.eq(reading + load),
            self.open.eq(held <= depth - _IN_FLIGHT),
        ]
        with m.If(self.write.commit):
            m.d.sync += good.eq(after)
        with m.If(self.taken.valid):
            m.d.sync += due.eq(due + self.taken.payload)
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += left.eq(left + 1)
        with m.If(self.discard):
            m.d.sync += [written.eq(due), good.eq(due)]
        with m.If(surplus):
            m.d.sync += [reading.eq(due), loaded.eq(0)]
        return m
