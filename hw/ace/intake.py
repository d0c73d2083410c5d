"""The command queues: words wait here until their communicator can begin another collective.

Doorbell -> Intake -> Decoder.  Latency: 4 cycles if no other queue has words.  Throughput: one word in per cycle, one
command out per 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import store_layout

from .layouts import CommandLayout
from .words import Status

__all__ = ["Intake", "waiting_layout"]


def waiting_layout(config):
    """A command at the head of its queue; ``whole`` if it came in one store of 16 bytes."""
    return data.StructLayout({"queue": config.queue_bits, "whole": 1, "word": CommandLayout})


class Intake(wiring.Component):
    """Hold ``queue_depth`` words for each queue.

    A queue whose oldest command cannot begin yet does not keep the others waiting: else two ranks whose queues name
    communicators in different orders could wait for each other forever.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    i : ``In(stream.Signature(store_layout))``
    refused : ``Out(1)``, refused_queue, refused_status : ``Out``
        The word transferred in this cycle goes nowhere.
    configure : ``In(1)``, configure_queue, enabled : ``In``
    clear : ``In(1)``, clear_queue : ``In``
        Words are taken again.
    free : ``In(communicators)``, places : ``In(queues)``
        Who may begin a collective.
    o : ``Out(stream.Signature(waiting_layout))``
    some : ``Out(queues)``
        Queues with words.
    select : ``In``, waiting : ``Out``
        Words that wait in a queue.
    """

    def __init__(self, config):
        self.config = config
        queue = config.queue_bits
        super().__init__({
            "i": In(stream.Signature(store_layout(config))),
            "refused": Out(1), "refused_queue": Out(queue), "refused_status": Out(8),
            "configure": In(1), "configure_queue": In(queue), "enabled": In(1),
            "clear": In(1), "clear_queue": In(queue),
            "free": In(config.communicators), "places": In(config.queues),
            "o": Out(stream.Signature(waiting_layout(config))),
            "some": Out(config.queues), "select": In(queue), "waiting": Out(range(config.queue_depth + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth_bits = (config.queue_depth - 1).bit_length()
        row = data.StructLayout({"whole": 1, "word": CommandLayout})
        m.submodules.words = words = memory.Memory(
            shape=row, depth=config.queues * config.queue_depth, init=[], attrs={"ram_style": "distributed"})
        write, read = words.write_port(), words.read_port(domain="comb")
        heads, tails = ([Signal(depth_bits + 1, name=f"{name}_{queue}") for queue in range(config.queues)]
                        for name in ("head", "tail"))
        enabled, refusing = Signal(config.queues), Signal(config.queues)
        into = self.i.payload.queue
        tail, full = Signal(depth_bits + 1), Signal()
        m.d.comb += [
            self.i.ready.eq(1),
            tail.eq(Array(tails)[into]),
            full.eq(tail == (Array(heads)[into] ^ config.queue_depth)),
            self.refused_queue.eq(into),
            self.refused.eq(self.i.valid & (full | ~enabled.bit_select(into, 1) | refusing.bit_select(into, 1))),
            self.refused_status.eq(Mux(enabled.bit_select(into, 1), Status.OVERFLOW, Status.DISABLED)),
            write.en.eq(self.i.valid & ~self.refused), write.addr.eq(Cat(tail[:depth_bits], into)),
            write.data.word.eq(self.i.payload.data), write.data.whole.eq(self.i.payload.whole.all()),
            self.waiting.eq((Array(tails)[self.select] - Array(heads)[self.select])[:depth_bits + 1]),
        ]
        for queue in range(config.queues):
            m.d.comb += self.some[queue].eq(heads[queue] != tails[queue])
            with m.If(self.i.valid & (into == queue)):
                with m.If(self.refused):
                    m.d.sync += refusing[queue].eq(enabled[queue])
                with m.Else():
                    m.d.sync += tails[queue].eq(tails[queue] + 1)
            with m.If(self.clear & (self.clear_queue == queue)):
                m.d.sync += refusing[queue].eq(0)
            with m.If(self.configure & (self.configure_queue == queue)):
                m.d.sync += enabled[queue].eq(self.enabled)

        # -- One queue after the other.
        queue = Signal(config.queue_bits)
        found = Signal(row, reset_less=True)
        m.d.comb += [
            read.addr.eq(Cat(Array(heads)[queue][:depth_bits], queue)),
            self.o.payload.queue.eq(queue), self.o.payload.word.eq(found.word), self.o.payload.whole.eq(found.whole),
        ]
        m.d.sync += found.eq(read.data)
        number = found.word.communicator
        with m.FSM():
            with m.State("LOOK"):
                with m.If((self.some & self.places).bit_select(queue, 1)):
                    m.next = "OFFER"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
            with m.State("OFFER"):
                # A communicator that is not there is for the decoder to refuse.
                with m.If(self.places.bit_select(queue, 1) & (
                        self.free.bit_select(number[:config.communicator_bits], 1)
                        | number[config.communicator_bits:].any())):
                    m.d.comb += self.o.valid.eq(1)
                    with m.If(self.o.ready):
                        for place in range(config.queues):
                            with m.If(queue == place):
                                m.d.sync += heads[place].eq(heads[place] + 1)
                        m.next = "TAKEN"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
                    m.next = "LOOK"
            with m.State("TAKEN"):
                m.d.sync += queue.eq(queue + 1)
                m.next = "LOOK"
        return m
