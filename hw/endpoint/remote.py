# SPDX-License-Identifier: Apache-2.0
"""Separate writes to local memory from writes to neighbours, and merge their responses.

AxiStreams -> RemoteSplit -> MemoryPort, PutSender.  Latency: 0, combinational.  Throughput: one beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream import Merge

from .config import EndpointConfig
from .layouts import RemoteLayout, response_layout, write_layout

__all__ = ["RemoteSplit"]


class RemoteSplit(wiring.Component):
    """Route each burst by its address.

    Bursts are routed in order: a burst to local memory is offered after all earlier bursts have left, so the memory
    port never waits for one that is blocked behind a burst to a neighbour.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    i : ``In(stream.Signature(write_layout))``, responses : ``Out(stream.Signature(response_layout))``
    local, remote : ``Out(stream.Signature(write_layout))``
    local_responses, remote_responses : ``In(stream.Signature(response_layout))``
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        write, response = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
        super().__init__({
            "i": In(write), "responses": Out(response), "local": Out(write), "remote": Out(write),
            "local_responses": In(response), "remote_responses": In(response),
        })

    def elaborate(self, platform):
        m = Module()
        far, before = Signal(), Signal()
        address = data.View(RemoteLayout, self.i.payload.addr)
        m.d.comb += [
            far.eq(Mux(self.i.payload.first, address.remote, before)),
            self.local.payload.eq(self.i.payload), self.remote.payload.eq(self.i.payload),
            self.local.valid.eq(self.i.valid & ~far), self.remote.valid.eq(self.i.valid & far),
            self.i.ready.eq(Mux(far, self.remote.ready, self.local.ready)),
        ]
        m.d.sync += before.eq(far)
        m.submodules.merge = merge = Merge(response_layout(self.config), 2)
        connect(m, flipped(self.local_responses), merge.i[0])
        connect(m, flipped(self.remote_responses), merge.i[1])
        connect(m, merge.o, flipped(self.responses))
        return m
