# SPDX-License-Identifier: Apache-2.0
"""Frees stored packets, and responds to write bursts.

transport, PacketTable -> Retirement -> DMA engine; failed READs -> Delivery.  Latency: 2 cycles to a response.
Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import Resp
from hw.common.free_list import FreeSignature
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import response_layout, retire_layout
from hw.stream import Skid

from .packet_sender import SendingLookup
from .packet_table import EntryLookup
from .packets import failure_layout, retired_layout
from .payload_store import ChainSignature

__all__ = ["Retirement"]


class Retirement(wiring.Component):
    """Free a packet's entry and its chain of blocks as soon as it is not being sent.

    As a queue pair's packets retire in order and all packets after a failed one fail, the last packet of a burst
    decides the response.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    retire : ``In(stream.Signature(retire_layout))``
    lookup : ``Out(EntryLookup)``, sending : ``Out(SendingLookup)``
    free : ``Out(FreeSignature)``, chain : ``Out(ChainSignature)``
        Registered.
    responses : ``Out(stream.Signature(response_layout))``
    failures : ``Out(stream.Signature(failure_layout))``
        READs that failed.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "retire": In(stream.Signature(retire_layout(config))),
            "lookup": Out(EntryLookup(config, retired_layout(config))), "sending": Out(SendingLookup(config)),
            "free": Out(FreeSignature(config.packets)), "chain": Out(ChainSignature(config)),
            "responses": Out(stream.Signature(response_layout(config))),
            "failures": Out(stream.Signature(failure_layout(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Register slices for ``ready``: whether a packet is being sent is late-arriving.
        m.submodules.retires = retires = Skid(retire_layout(config), output_register=False)
        m.submodules.responses = responses = Skid(response_layout(config), output_register=False)
        m.submodules.failures = failures = Skid(failure_layout(config), output_register=False)
        wiring.connect(m, wiring.flipped(self.retire), retires.i)
        wiring.connect(m, responses.o, wiring.flipped(self.responses))
        wiring.connect(m, failures.o, wiring.flipped(self.failures))
        retire, response, failure = retires.o, responses.i, failures.i
        valid, packet, entry = Signal(), Signal(retire_layout(config)), self.lookup.entry
        responds, fails, idle, go = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            retire.ready.eq(~valid | go),
            self.lookup.en.eq(retire.valid & retire.ready), self.lookup.index.eq(retire.payload.index),
            self.sending.index.eq(packet.index), idle.eq(~self.sending.sending),
            responds.eq(~entry.read & entry.ends), fails.eq(entry.read & packet.failed),
            response.valid.eq(valid & idle & responds), failure.valid.eq(valid & idle & fails),
            go.eq(valid & idle & (~responds | response.ready) & (~fails | failure.ready)),
            response.payload.id.eq(entry.id),
            response.payload.resp.eq(Mux(packet.failed, Resp.SLVERR, Resp.OKAY)),
            failure.payload.id.eq(entry.id), failure.payload.beats.eq(entry.beats),
            failure.payload.ends.eq(entry.ends), failure.payload.resp.eq(Resp.SLVERR),
        ]
        with m.If(retire.ready):
            m.d.sync += [valid.eq(retire.valid), packet.eq(retire.payload)]
        m.d.sync += [
            self.free.valid.eq(go), self.free.number.eq(packet.index),
            self.chain.valid.eq(go & ~entry.read), self.chain.chain.eq(entry.chain),
        ]
        return m
