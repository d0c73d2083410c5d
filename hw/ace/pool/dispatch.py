# SPDX-License-Identifier: Apache-2.0
"""Dispatch: starts the FSMs with chunks, and counts received beats for them.

Chunker, Receive -> FsmDispatch -> Fsm.  Latency: none.  Throughput: one chunk per cycle, and one packet from each
pipe.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import chunk_layout
from hw.ace.receive import DataLanded
from hw.stream import selected

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
    landed : ``In(DataLanded).array(pipes)``
        At most one of a cycle is for the same FSM: an FSM receives at one port at a time.
    held : ``In(FsmChunk).array(fsms)``
        The chunks of the FSMs.
    busy : ``Out(FsmsBusy)``
    starts : ``Out(FsmStart).array(fsms)``, landings : ``Out(BeatsLanded).array(fsms)``
        All payloads of ``starts`` are equal, and those of ``chunks`` in every cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "chunks": In(stream.Signature(chunk_layout(config))), "landed": In(DataLanded(config)).array(config.pipes),
            "held": In(FsmChunk(config)).array(config.fsms), "busy": Out(FsmsBusy(config)),
            "starts": Out(FsmStart(config)).array(config.fsms), "landings": Out(BeatsLanded()).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        chunk = self.chunks.payload
        m.d.comb += [
            self.busy.fsms.eq(Cat(held.busy for held in self.held)),
            self.chunks.ready.eq(~self.busy.fsms.bit_select(chunk.fsm, 1)),
        ]
        for number, (start, landing) in enumerate(zip(self.starts, self.landings, strict=True)):
            m.d.comb += [
                start.valid.eq(self.chunks.valid & ~self.held[number].busy & (chunk.fsm == number)),
                start.payload.eq(chunk),
            ]
            mine = Cat(packet.valid & (packet.payload.fsm == number) for packet in self.landed)
            m.d.comb += [landing.valid.eq(mine.any()), landing.payload.eq(selected(
                len(landing.payload), mine, [packet.payload.beats for packet in self.landed]))]
        return m
