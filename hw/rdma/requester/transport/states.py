# SPDX-License-Identifier: Apache-2.0
"""Opening, closing and failing of queue pairs.

Registers, Acknowledgements -> QueuePairStates -> all stages.  Latency: 4 cycles from a fault to the sender, 8 to
retirement; about 40 cycles to open a queue pair, for 17 of which all stages hold.
"""

from enum import IntEnum

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.delay import delayed
from hw.common.sweep import SweepSignature
from hw.common.table import Table
from hw.stream import Queue

from ...config import RdmaConfig
from ...ports import ConnectionWrite, FaultSignature, MarkSignature, StopSignature
from ...protocol import PSN_WIDTH
from .layouts import retired_layout, settings_layout
from .ports import Opening, RowLookup

__all__ = ["FLUSHING_ROWS", "RUNNING_ROWS", "SETTINGS_ROWS", "QueuePairStates"]

RUNNING_ROWS, FLUSHING_ROWS, SETTINGS_ROWS = 2, 2, 3
"""Look-ups: of the sender and acknowledgements; posting and retirement; sender, acknowledgements and rates."""

_WRITES, _STOPS = 8, 32
_COMING = 4
"""More than the writes that follow a cycle in which no more are wanted."""

_DRAIN = 16
"""Cycles in which what was in progress in any stage has been written."""

_FLUSH_DELAY = 4
"""Cycles in which operations that have seen a queue pair running have been written."""


class QueuePairStates(wiring.Component):
    """A queue pair runs, or it flushes: all its packets fail, until it is opened again.

    A write of a connection first stops the queue pair, then, to open it, waits until all its packets have retired.
    Writes are taken one after another; up to eight wait. Packets that are posted before an opening is complete fail.

    Parameters
    ----------
    config : RdmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    connections : ``In(ConnectionWrite)``, stop : ``In(StopSignature)``
    writable : ``Out(1)``
        Four more writes of connections can wait. Registered.
    failed : ``In(FaultSignature)``
        From acknowledgements.
    fault : ``Out(FaultSignature)``
        The same, if the queue pair was running.
    running : ``In(RowLookup).array(RUNNING_ROWS)``
    flushing : ``In(RowLookup).array(FLUSHING_ROWS)``
        Set 4 cycles after ``running`` is cleared.
    settings : ``In(RowLookup).array(SETTINGS_ROWS)``
    posted, retired : ``Out(RowLookup)``
    hold : ``Out(1)``
        No stage begins anything.
    opening : ``Out(Opening)``
    kick : ``Out(MarkSignature)``
        The queue pair begins to flush.
    """

    def __init__(self, config: RdmaConfig) -> None:
        self.config = config
        flag = RowLookup(config, unsigned(1))
        super().__init__({
            "init": In(SweepSignature(config)),
            "connections": In(ConnectionWrite(config)), "writable": Out(1), "stop": In(StopSignature(config)),
            "failed": In(FaultSignature(config)), "fault": Out(FaultSignature(config)),
            "running": In(flag).array(RUNNING_ROWS), "flushing": In(flag).array(FLUSHING_ROWS),
            "settings": In(RowLookup(config, settings_layout())).array(SETTINGS_ROWS),
            "posted": Out(RowLookup(config, unsigned(PSN_WIDTH))),
            "retired": Out(RowLookup(config, retired_layout(config))),
            "hold": Out(1), "opening": Out(Opening(config)), "kick": Out(MarkSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config, pairs, bits = self.config, self.config.queue_pairs, self.config.qp_bits
        init, opening, failed = SweepSignature(config), self.opening, self.failed
        m.submodules.running = running = Table(1, depth=pairs, reads=1 + RUNNING_ROWS, init=init)
        m.submodules.flushing = flushing = Table(1, depth=pairs, reads=FLUSHING_ROWS, init=init, reset=1)
        m.submodules.settings = settings = Table(settings_layout(), depth=pairs, reads=SETTINGS_ROWS, init=init)
        for table in (running, flushing, settings):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        for ports, lookups in ((running.read[1:], self.running), (flushing.read, self.flushing),
                               (settings.read, self.settings)):
            for port, lookup in zip(ports, lookups, strict=True):
                m.d.comb += [port.addr.eq(lookup.qp), lookup.row.eq(port.data)]

        # -- Writes of connections, and stops.
        fields = settings_layout().members
        layout = data.StructLayout({"qp": bits, "open": 1, "psn": PSN_WIDTH, "settings": settings_layout()})
        m.submodules.writes = writes = Queue(layout, depth=_WRITES, ram="lut", output_register=True)
        m.submodules.stops = stops = Queue(bits, depth=_STOPS, ram="lut", output_register=True)
        written, entry = writes.o.payload, self.connections.entry
        m.d.comb += [
            writes.i.valid.eq(self.connections.valid), writes.i.payload.qp.eq(self.connections.qp),
            writes.i.payload.open.eq(entry.open), writes.i.payload.psn.eq(entry.send_psn),
            *(writes.i.payload.settings[name].eq(entry[name]) for name in fields),
            stops.i.valid.eq(self.stop.valid), stops.i.payload.eq(self.stop.qp),
            self.posted.qp.eq(written.qp), self.retired.qp.eq(written.qp),
        ]

        m.d.sync += self.writable.eq(writes.level <= _WRITES - _COMING - 1)

        # -- A connection is closed, has retired all packets, is opened while all stages hold.
        class State(IntEnum):
            IDLE = 0
            RETIRE = 1
            HOLD = 2
            OPEN = 3

        state, count, idle, closes = Signal(State), Signal(range(_DRAIN)), Signal(), Signal()
        holding = Signal()
        m.d.comb += [
            self.hold.eq(holding | self.init.active),
            closes.eq((state == State.IDLE) & writes.o.valid & ~self.init.active & ~failed.valid & ~stops.o.valid),
            opening.valid.eq(state == State.OPEN), opening.qp.eq(written.qp), opening.psn.eq(written.psn),
            writes.o.ready.eq((state == State.OPEN) | (closes & ~written.open)),
        ]
        m.d.sync += [idle.eq(self.posted.row == self.retired.row.psn), count.eq(count + 1)]
        with m.Switch(state):
            with m.Case(State.IDLE):
                with m.If(closes & written.open):
                    m.d.sync += [state.eq(State.RETIRE), count.eq(0)]
            with m.Case(State.RETIRE):
                with m.If((count == _DRAIN - 1) & idle & ~stops.o.valid):
                    m.d.sync += [state.eq(State.HOLD), holding.eq(1)]
            with m.Case(State.HOLD):
                with m.If(count == _DRAIN - 1):
                    m.d.sync += state.eq(Mux(idle, State.OPEN, State.RETIRE))
                    m.d.sync += holding.eq(idle)
            with m.Case(State.OPEN):
                m.d.sync += [state.eq(State.IDLE), holding.eq(0)]

        # -- A queue pair stops running, and flushes a little later.
        clear, clear_qp = Signal(), Signal(bits)
        m.d.comb += [
            stops.o.ready.eq(~failed.valid & ~holding & ~self.init.active),
            clear.eq(failed.valid | (stops.o.valid & stops.o.ready) | closes),
            clear_qp.eq(Mux(failed.valid, failed.qp, Mux(stops.o.valid, stops.o.payload, written.qp))),
            running.read[0].addr.eq(failed.qp),
            running.write.en.eq(clear | opening.valid), running.write.data.eq(opening.valid),
            running.write.addr.eq(Mux(opening.valid, opening.qp, clear_qp)),
            settings.write.en.eq(opening.valid), settings.write.addr.eq(opening.qp),
            settings.write.data.eq(written.settings),
        ]
        m.d.sync += [self.fault.valid.eq(failed.valid & running.read[0].data), self.fault.qp.eq(failed.qp),
                     self.fault.code.eq(failed.code)]
        late = delayed(m, Cat(clear, clear_qp), _FLUSH_DELAY, name="cleared", reset_less=False)
        m.d.comb += [
            flushing.write.en.eq(late[0] | opening.valid), flushing.write.data.eq(~opening.valid),
            flushing.write.addr.eq(Mux(opening.valid, opening.qp, late[1:])),
        ]
        m.d.sync += [self.kick.valid.eq(late[0]), self.kick.qp.eq(late[1:])]
        return m
