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

from .fsm_ports import BeatsLanded, FsmChunk, FsmsBusy, FsmStart

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
        At most one of a cycle from odd ports, and one from others, is for the same FSM: it receives in one dimension at
        a time.
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
            "starts": Out(FsmStart(config)).array(config.fsms), "landings": Out(BeatsLanded(config)).array(config.fsms),
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
            mine = [packet.valid & (packet.payload.fsm == number) for packet in self.landed]
            m.d.comb += landing.local.eq(mine[-1] & self.landed[-1].payload.local)
            for odd, (valid, beats) in enumerate(zip(landing.valid, landing.beats, strict=True)):
                # If there are several, the pipes with ports of this side.
                those = range(len(mine))[odd::2] if len(mine) > 1 else [0]
                payloads = [self.landed[at].payload for at in those]
                m.d.comb += [
                    valid.eq(Cat(mine[at] & ~payload.local & (payload.odd == odd)
                                 for at, payload in zip(those, payloads, strict=True)).any()),
                    beats.eq(payloads[0].beats if len(those) == 1 else selected(
                        len(beats), Cat(mine[at] for at in those), [payload.beats for payload in payloads])),
                ]
        return m
