# SPDX-License-Identifier: Apache-2.0
"""Operations on queues, merged from all sources and ordered with the retirement of segments.

QueueControl, QueueStore, Completion, Rings -> Operations -> Retire.  Latency: none; up to 1 cycle with
``registered_operations``.  Throughput: one operation per cycle.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.layouts import OpKind, event_layout, op_layout
from hw.stream import Merge

__all__ = ["Operations"]


class Operations(wiring.Component):
    """Merge operations and events; an event becomes an operation of the kind EVENT.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    clears, scans : ``In(stream.Signature(op_layout))``
        From queue control.
    queues, words, rings : ``In(stream.Signature(event_layout))``
        Refused words and doorbells, failed writes of words.
    o : ``Out(stream.Signature(op_layout))``
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        operation, event = stream.Signature(op_layout(config)), stream.Signature(event_layout(config))
        super().__init__({"clears": In(operation), "scans": In(operation), "queues": In(event), "words": In(event),
                          "rings": In(event), "o": Out(operation)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.merge = merge = Merge(
            op_layout(self.config), 5, registered_choice=self.config.timing.registered_operations)
        wiring.connect(m, wiring.flipped(self.clears), merge.i[0])
        wiring.connect(m, wiring.flipped(self.scans), merge.i[1])
        for events, port in zip((self.queues, self.words, self.rings), merge.i[2:], strict=True):
            m.d.comb += [
                port.valid.eq(events.valid), events.ready.eq(port.ready), port.payload.kind.eq(OpKind.EVENT),
                port.payload.queue.eq(events.payload.queue), port.payload.status.eq(events.payload.status),
            ]
        wiring.connect(m, merge.o, wiring.flipped(self.o))
        return m
