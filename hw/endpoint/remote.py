# SPDX-License-Identifier: Apache-2.0
"""Separate the DMA engine's writes by what they reach, and merge their responses.

AxiStreams -> RemoteSplit -> MemoryPort, PutSender, LocalTicks, RdmaUnit.  Latency: 0, combinational.  Throughput: one
beat per cycle.
"""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.rdma.config import REMOTE_PORT
from hw.stream import Merge

from .config import EndpointConfig
from .layouts import RemoteLayout, response_layout, write_layout

__all__ = ["RemoteSplit"]


class RemoteSplit(wiring.Component):
    """Route each burst by its address: bit 63 is set for neighbours, bits 63:61 for remote machines, bits 63:60 for
    counters.

    Bursts are routed in order: a burst to local memory is offered after all earlier bursts have left, so the memory
    port never waits for one that is blocked behind a burst to a neighbour.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    i : ``In(stream.Signature(write_layout))``, responses : ``Out(stream.Signature(response_layout))``
    local, remote, counters : ``Out(stream.Signature(write_layout))``
    local_responses, remote_responses, counter_responses : ``In(stream.Signature(response_layout))``
    network : ``Out(stream.Signature(write_layout))``, network_responses : ``In(stream.Signature(response_layout))``
        To remote machines, if there is a RoCEv2 unit; without one, such addresses are those of a neighbour at a port
        that does not exist.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        write, response = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
        network = {"network": Out(write), "network_responses": In(response)} if config.rdma else {}
        super().__init__({
            "i": In(write), "responses": Out(response), "local": Out(write), "remote": Out(write),
            "counters": Out(write), "local_responses": In(response), "remote_responses": In(response),
            "counter_responses": In(response), **network,
        })

    def elaborate(self, platform):
        m = Module()
        outputs = [self.local, self.remote, self.counters]
        results = [self.local_responses, self.remote_responses, self.counter_responses]
        address = data.View(RemoteLayout, self.i.payload.addr)
        beyond = 1 + address.port.all()
        if self.config.rdma:
            outputs.append(self.network)
            results.append(self.network_responses)
            beyond = Mux(address.port == REMOTE_PORT, 3, beyond)
        chosen, before = Signal(range(len(outputs))), Signal(range(len(outputs)))
        m.d.comb += [
            chosen.eq(Mux(self.i.payload.first, Mux(address.remote, beyond, 0), before)),
            self.i.ready.eq(Cat((chosen == number) & output.ready for number, output in enumerate(outputs)).any()),
        ]
        for number, output in enumerate(outputs):
            m.d.comb += [output.payload.eq(self.i.payload), output.valid.eq(self.i.valid & (chosen == number))]
        m.d.sync += before.eq(chosen)
        m.submodules.merge = merge = Merge(response_layout(self.config), len(outputs))
        for number, responses in enumerate(results):
            connect(m, flipped(responses), merge.i[number])
        connect(m, merge.o, flipped(self.responses))
        return m
