# SPDX-License-Identifier: Apache-2.0
"""Separate the DMA engine's reads by what they reach, and merge their data.

AxiStreams -> ReadSplit -> MemoryPort, RdmaUnit.  Latency: 0, combinational.  Throughput: one burst and one beat per
cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.rdma.config import REMOTE_PORT

from .config import EndpointConfig
from .layouts import RemoteLayout, read_beat_layout, read_layout

__all__ = ["ReadSplit"]


class ReadSplit(wiring.Component):
    """Route each burst by its address: bits 63:61 are set for remote machines.

    Beats of local memory come first, since the memory port does not wait; those of remote machines wait for a cycle
    without one. Beats of bursts with different IDs are interleaved.

    Parameters
    ----------
    config : EndpointConfig
        With a RoCEv2 unit.

    Members
    -------
    reads : ``In(stream.Signature(read_layout))``, beats : ``Out(stream.Signature(read_beat_layout))``
    local, network : ``Out(stream.Signature(read_layout))``
    local_beats, network_beats : ``In(stream.Signature(read_beat_layout))``
    """

    def __init__(self, config: EndpointConfig) -> None:
        read, beat = stream.Signature(read_layout(config)), stream.Signature(read_beat_layout(config))
        super().__init__({"reads": In(read), "beats": Out(beat), "local": Out(read), "network": Out(read),
                          "local_beats": In(beat), "network_beats": In(beat)})

    def elaborate(self, platform):
        m = Module()
        address, far = data.View(RemoteLayout, self.reads.payload.addr), Signal()
        m.d.comb += [
            far.eq(address.remote & (address.port == REMOTE_PORT)),
            self.local.payload.eq(self.reads.payload), self.network.payload.eq(self.reads.payload),
            self.local.valid.eq(self.reads.valid & ~far), self.network.valid.eq(self.reads.valid & far),
            self.reads.ready.eq(Mux(far, self.network.ready, self.local.ready)),
            self.beats.valid.eq(self.local_beats.valid | self.network_beats.valid),
            self.beats.payload.eq(Mux(self.local_beats.valid, self.local_beats.payload, self.network_beats.payload)),
            self.local_beats.ready.eq(self.beats.ready),
            self.network_beats.ready.eq(self.beats.ready & ~self.local_beats.valid),
        ]
        return m
