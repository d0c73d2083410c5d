# SPDX-License-Identifier: Apache-2.0
"""Dispatch: starts the FSMs with chunks, and counts received beats for them.

Chunker, Receive -> FsmDispatch -> Fsm.  Latency: none.  Throughput: one chunk and one packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import chunk_layout
from hw.ace.receive import DataLanded

from .fsm import BeatsLanded, FsmChunk, FsmsBusy, FsmStart

__all__ = ["FsmDispatch"]


class FsmDispatch(wiring.Component):
    """Every chunk and every packet names its FSM.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    chunks : ``In(stream.Signature(chunk_layout))``
        Stalls while the chunk's FSM is busy.
    landed : ``In(DataLanded)``
    held : ``In(FsmChunk).array(fsms)``
        The chunks of the FSMs.
    busy : ``Out(FsmsBusy)``
    starts : ``Out(FsmStart).array(fsms)``, landings : ``Out(BeatsLanded).array(fsms)``
        All payloads are equal, and those of ``starts`` are those of ``chunks`` in every cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "chunks": In(stream.Signature(chunk_layout(config))), "landed": In(DataLanded(config)),
            "held": In(FsmChunk(config)).array(config.fsms), "busy": Out(FsmsBusy(config)),
            "starts": Out(FsmStart(config)).array(config.fsms), "landings": Out(BeatsLanded()).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        chunk, packet = self.chunks.payload, self.landed.payload
        m.d.comb += [
            self.busy.fsms.eq(Cat(held.busy for held in self.held)),
            self.chunks.ready.eq(~self.busy.fsms.bit_select(chunk.fsm, 1)),
        ]
        for number, (start, landing) in enumerate(zip(self.starts, self.landings, strict=True)):
            m.d.comb += [
                start.valid.eq(self.chunks.valid & ~self.held[number].busy & (chunk.fsm == number)),
                start.payload.eq(chunk),
                landing.valid.eq(self.landed.valid & (packet.fsm == number)), landing.payload.eq(packet.beats),
            ]
        return m
