# SPDX-License-Identifier: Apache-2.0
"""Dispatch: starts the FSMs with chunks, and counts received beats for them.

Chunker, Receive -> FsmDispatch -> Fsm.  Latency: none.  Throughput: one chunk per cycle, and one packet from each
pipe.
"""

from itertools import product

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import chunk_layout
from hw.ace.receive import LANDED_EARLY, DataLanded
from hw.common.delay import delayed
from hw.stream import selected

from .fsm_ports import BeatsLanded, FsmChunk, FsmsBusy, FsmsPaused, FsmStart

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
        At most one of a cycle from odd ports, and one from others, is for the same FSM and phase, which receives in one
        dimension.
    held : ``In(FsmChunk).array(fsms)``
        The chunks of the FSMs.
    busy : ``Out(FsmsBusy)``
    paused : ``Out(FsmsPaused)``
        Those of packets that were late :data:`LANDED_EARLY` cycles ago.
    starts : ``Out(FsmStart).array(fsms)``, landings : ``Out(BeatsLanded).array(fsms)``
        All payloads of ``starts`` are equal, and those of ``chunks`` in every cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "chunks": In(stream.Signature(chunk_layout(config))), "landed": In(DataLanded(config)).array(config.pipes),
            "held": In(FsmChunk(config)).array(config.fsms), "busy": Out(FsmsBusy(config)),
            "paused": Out(FsmsPaused(config)),
            "starts": Out(FsmStart(config)).array(config.fsms), "landings": Out(BeatsLanded(config)).array(config.fsms),
        })

    def elaborate(self, platform):
        m = Module()
        chunk = self.chunks.payload
        m.d.comb += [
            self.busy.fsms.eq(Cat(held.busy for held in self.held)),
            self.chunks.ready.eq(~self.busy.fsms.bit_select(chunk.fsm, 1)),
        ]
        before = LANDED_EARLY - 1
        late = [(delayed(m, packet.valid & packet.payload.late, before, name=f"late_{number}", reset_less=False),
                 delayed(m, packet.payload.fsm, before, name=f"late_fsm_{number}"))
                for number, packet in enumerate(self.landed)]
        m.d.sync += self.paused.fsms.eq(Cat(
            Cat(valid & (fsm == number) for valid, fsm in late).any() for number in range(self.config.fsms)))
        for number, (start, landing) in enumerate(zip(self.starts, self.landings, strict=True)):
            m.d.comb += [
                start.valid.eq(self.chunks.valid & ~self.held[number].busy & (chunk.fsm == number)),
                start.payload.eq(chunk),
            ]
            mine = [packet.valid & (packet.payload.fsm == number) for packet in self.landed]
            m.d.comb += landing.local.eq(mine[-1] & self.landed[-1].payload.local)
            for odd_phase, odd in product(range(2), repeat=2):
                # If there are several, the pipes with ports of this side.
                those = range(len(mine))[odd::2] if len(mine) > 1 else [0]
                payloads = [self.landed[at].payload for at in those]
                here = [mine[at] & ~payload.local & (payload.odd == odd) & (payload.odd_phase == odd_phase)
                        for at, payload in zip(those, payloads, strict=True)]
                begins, ends = (Cat(one & payload[name] for one, payload in zip(here, payloads, strict=True))
                                for name in ("begin", "end"))
                m.d.comb += [landing.valid[odd_phase][odd].eq(begins.any()), landing.end[odd_phase][odd].eq(ends.any())]
                for name in ("beats", "final"):
                    signal = getattr(landing, name)[odd_phase][odd]
                    m.d.comb += signal.eq(payloads[0][name] if len(those) == 1 else selected(
                        len(signal), begins, [payload[name] for payload in payloads]))
        return m
