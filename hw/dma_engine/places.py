"""Places: for each segment between issue and retirement, whether it has ended, and how.

Scheduler, Responses, ReadIssue -> Places -> Retire.  Latency: 1 cycle from ``look`` to ``place``; a mark is seen by
the looks behind it.  Throughput: one segment in, one mark and one look per cycle.

Each queue has a window of places, used in turn; a mark says on which lap it was made, so that places need no
clearing. Extended queues have longer windows, and for each place what their request's end needs to know.
"""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import is_extended
from hw.common.sweep import SweepSignature
from hw.common.table import ram_of

from .layouts import STATUS_WIDTH, EndFlags, InfoLayout, done_layout
from .words import Status

__all__ = ["PlaceLayout", "Places"]

PlaceLayout = data.StructLayout({"last": 1, "end": EndFlags, "failed": 1, "status": STATUS_WIDTH})


class Places(wiring.Component):
    """The windows of all queues.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    init : ``In(SweepSignature)``
    scheduled : ``In(1)``, scheduled_queue, scheduled_index, scheduled_info : ``In``
        A segment takes its place.
    mark : ``In(1)``, done : ``In(done_layout)``
        A segment has ended.
    look_queue, look_index : ``In``
    marked : ``Out(1)``, place : ``Out(PlaceLayout)``, info : ``Out(InfoLayout)``
        What is at the place looked at in the cycle before; ``info`` only for extended queues.
    """

    def __init__(self, config):
        self.config = config
        queue, index = config.queue_bits, config.index_width
        super().__init__({
            "init": In(SweepSignature(config)),
            "scheduled": In(1), "scheduled_queue": In(queue), "scheduled_index": In(index),
            "scheduled_info": In(InfoLayout),
            "mark": In(1), "done": In(done_layout(config)),
            "look_queue": In(queue), "look_index": In(index),
            "marked": Out(1), "place": Out(PlaceLayout), "info": Out(InfoLayout),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # One that failed has a status, any other its flags.
        row = data.StructLayout({
            "lap": 1, "last": 1, "failed": 1,
            "what": data.UnionLayout({"end": EndFlags, "status": STATUS_WIDTH})})
        kinds = {False: (config.window_bits, config.queue_bits), True: (config.place_bits, config.extended_bits)}

        found, laps = {}, {}
        for extended, (bits, queue_bits) in kinds.items():
            name = "extended_rows" if extended else "rows"
            m.submodules[name] = rows = memory.Memory(
                shape=row, depth=1 << (bits + queue_bits), init=[], attrs=ram_of(1 << (bits + queue_bits)))
            write, read = rows.write_port(), rows.read_port()
            with m.If(self.init.active):
                m.d.comb += [write.addr.eq(self.init.address), write.en.eq(1)]
            with m.Else():
                m.d.comb += [
                    write.addr.eq(Cat(self.done.index[:bits], self.done.queue[:queue_bits])),
                    write.en.eq(self.mark & (is_extended(config, self.done.queue) == extended)),
                    write.data.lap.eq(~self.done.index[bits]),
                    write.data.last.eq(self.done.last), write.data.failed.eq(self.done.status != Status.OK),
                    write.data.what.eq(Mux(self.done.status != Status.OK, self.done.status, self.done.end.as_value())),
                ]
            m.d.comb += read.addr.eq(Cat(self.look_index[:bits], self.look_queue[:queue_bits]))
            found[extended], laps[extended] = read.data, self.look_index[bits]

        looked_extended, lap = Signal(), Signal()
        m.d.sync += [
            looked_extended.eq(is_extended(config, self.look_queue)),
            lap.eq(Mux(is_extended(config, self.look_queue), laps[True], laps[False])),
        ]
        place = Signal(row)
        m.d.comb += [
            place.eq(Mux(looked_extended, found[True], found[False])),
            self.place.last.eq(place.last), self.place.failed.eq(place.failed),
            self.place.status.eq(Mux(place.failed, place.what.status, Status.OK)),
            self.place.end.eq(Mux(place.failed, 0, place.what.end)),
            self.marked.eq(place.lap != lap),
        ]

        bits, queue_bits = kinds[True]
        m.submodules.infos = infos = memory.Memory(
            shape=InfoLayout, depth=1 << (bits + queue_bits), init=[], attrs={"ram_style": "block"})
        write, read = infos.write_port(), infos.read_port()
        m.d.comb += [
            write.addr.eq(Cat(self.scheduled_index[:bits], self.scheduled_queue[:queue_bits])),
            write.data.eq(self.scheduled_info),
            write.en.eq(self.scheduled & is_extended(config, self.scheduled_queue)),
            read.addr.eq(Cat(self.look_index[:bits], self.look_queue[:queue_bits])),
            self.info.eq(read.data),
        ]
        return m
