# SPDX-License-Identifier: Apache-2.0
"""The last check before memory is written: the region has not changed since its key was checked.

PacketOrder -> RegionRecheck -> MemoryWriter.  Latency: 2 cycles.  Throughput: one packet per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import RdmaConfig
from ..ports import MarkSignature
from ..protocol import Nak
from .layouts import GENERATION_WIDTH, Kind, verdict_layout
from .order import nak
from .rows import RowRead

__all__ = ["RegionRecheck"]


class RegionRecheck(wiring.Component):
    """Refuse each packet of a message whose region has changed since the message's first packet.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    verdicts : ``In(stream.Signature(verdict_layout))``, entries : ``Out(stream.Signature(verdict_layout))``
    generations : ``Out(RowRead)``
    refused : ``Out(MarkSignature)``
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        super().__init__({
            "verdicts": In(stream.Signature(verdict_layout(config))),
            "entries": Out(stream.Signature(verdict_layout(config))),
            "generations": Out(RowRead(GENERATION_WIDTH, config.regions)), "refused": Out(MarkSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        verdict, changed = self.verdicts.payload, Signal()
        now, later = (Signal(verdict_layout(self.config), name=name, reset_less=True) for name in ("now", "later"))
        looked, valid, go = Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(~valid | self.entries.ready), self.verdicts.ready.eq(go), self.entries.valid.eq(valid),
            self.entries.payload.eq(later), self.generations.addr.eq(verdict.entry.region), self.generations.en.eq(go),
            changed.eq(now.write & (self.generations.data != now.entry.generation)),
        ]
        with m.If(go):
            m.d.sync += [looked.eq(self.verdicts.valid), now.eq(verdict), valid.eq(looked), later.eq(now)]
            with m.If(changed):
                m.d.sync += [later.write.eq(0), later.entry.syndrome.eq(nak(Nak.REMOTE_ACCESS)),
                             later.entry.kind.eq(Kind.NAK), later.entry.imm.eq(0)]
        m.d.comb += [self.refused.valid.eq(go & looked & changed), self.refused.qp.eq(now.entry.qp)]
        return m
