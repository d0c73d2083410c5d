# SPDX-License-Identifier: Apache-2.0
"""Received packets until their receiver takes them; each appears when it is complete and found good.

FrameParser's pipeline -> PacketBuffer -> ReceiveDispatch.  Latency: 2 cycles from ``end`` to a packet with payload, 1
to one without.  Throughput: one beat per cycle, one packet per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import receive_header_layout, receive_layout
from hw.stream import Queue
from hw.stream.storage import make_storage, show_registered

__all__ = ["PacketBuffer", "packet_depth"]


def packet_depth(config):
    """Packets that the buffer holds."""
    return max(32, min(512, config.receive_beats // 4))


class PacketBuffer(wiring.Component):
    """Store a packet's beats of payload as they come, and its header at its end; keep or drop all of them then.

    Parameters
    ----------
    config : RdmaConfig
        ``receive_beats`` of payload are held, and ``receive_beats // 4`` packets, but 32 to 512.

    Members
    -------
    valid : ``In(1)``, data : ``In(data_width)``, last : ``In(1)``
        A beat of payload.
    end : ``In(1)``, keep : ``In(1)``, header : ``In(receive_header_layout(config))``
        The packet ends with the beat of this cycle, if there is one, else with the one before. It is dropped without
        ``keep``.
    fits : ``Out(1)``
        With ``end``: the packet has found free entries. If not, it is dropped.
    o : ``Out(stream.Signature(receive_layout(config)))``
        ``data`` and ``header`` straight from memory.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "valid": In(1), "data": In(config.data_width), "last": In(1), "end": In(1), "keep": In(1),
            "header": In(receive_header_layout(config)), "fits": Out(1),
            "o": Out(stream.Signature(receive_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self.config.receive_beats
        row = data.StructLayout({"data": self.config.data_width, "last": 1})
        m.submodules.headers = headers = Queue(
            receive_header_layout(self.config), depth=packet_depth(self.config), empty_bypass=True)
        m.submodules.rows = rows = make_storage(row, depth, None)
        # Pointers modulo twice the depth: after the last beat; after the last kept one; the next to be read; to be
        # taken.
        written, kept, reading, taken = (Signal(range(2 * depth), name=name) for name in (
            "written", "kept", "reading", "taken"))
        after, full, lost, store = Signal.like(written), Signal(), Signal(), Signal()
        write = rows.write_port()
        m.d.comb += [
            store.eq(self.valid & ~full), after.eq(written + store),
            write.addr.eq(written[:-1]), write.en.eq(store), write.data.data.eq(self.data),
            write.data.last.eq(self.last),
            self.fits.eq(~lost & ~(self.valid & full) & headers.i.ready),
            headers.i.valid.eq(self.end & self.keep & self.fits), headers.i.payload.eq(self.header),
        ]
        m.d.sync += [written.eq(after), lost.eq(~self.end & (lost | (self.valid & full))),
                     full.eq((after ^ taken) == depth)]
        with m.If(headers.i.valid):
            m.d.sync += kept.eq(after)
        with m.Elif(self.end):
            m.d.sync += [written.eq(kept), full.eq((kept ^ taken) == depth)]

        shown = stream.Signature(row).create(path=("shown",))
        load, _ = show_registered(m, rows, shown, reading, reading != kept)
        m.d.sync += reading.eq(reading + load)
        bare, inside = Signal(), Signal()
        m.d.comb += [
            bare.eq(headers.o.payload.length == 0), self.o.valid.eq(headers.o.valid & (bare | shown.valid)),
            self.o.payload.header.eq(headers.o.payload), self.o.payload.data.eq(shown.payload.data),
            self.o.payload.first.eq(~inside), self.o.payload.last.eq(bare | shown.payload.last),
            headers.o.ready.eq(self.o.valid & self.o.ready & self.o.payload.last),
            shown.ready.eq(self.o.ready & headers.o.valid & ~bare),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += inside.eq(~self.o.payload.last)
        m.d.sync += taken.eq(taken + (shown.valid & shown.ready))
        return m
