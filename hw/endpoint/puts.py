"""Puts: the DMA engine's writes to neighbours, and neighbours' writes to the own memory.

::

    RemoteSplit -> PutSender -+-> PutPort of each link -> its channel 1
                       ^      |        |
                       +---- PUT_DONE -+-> PutReceiver -> MemoryPort
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ace.layouts import flit_layout
from hw.stream import Merge

from .layouts import answer_layout, export_layout, write_layout
from .put_port import PutPort
from .put_receiver import PutReceiver
from .put_sender import PutSender, told_layout

__all__ = ["Puts"]


class Puts(wiring.Component):
    """Sender and receiver at all ports.

    Parameters
    ----------
    config : EndpointConfig

    Members
    -------
    writes, answers
        Of :class:`PutSender`: writes to neighbours.
    memory_writes, memory_answers
        Of :class:`PutReceiver`: neighbours' writes.
    commit, span, valid, entry : ``In``
        An entry of the table of exported spans.
    channels : array of ``tx : Out(stream.Signature(flit_layout))``, ``rx : In(stream.Signature(flit_layout))``
        Channel 1 of each port's link.
    down : ``In(ports)``
        Links that are down.
    sent, taken, refused : ``Out(1)``
        A packet was sent, looked at, refused in the cycle before.
    unexpected : ``Out(1)``
        As :class:`PutReceiver`'s.
    """

    def __init__(self, config):
        self.config = config
        write, answer = stream.Signature(write_layout(config)), stream.Signature(answer_layout(config))
        flits = stream.Signature(flit_layout(config.ace))
        super().__init__({
            "writes": In(write), "answers": Out(answer), "memory_writes": Out(write), "memory_answers": In(answer),
            "commit": In(1), "span": In(config.export_bits), "valid": In(1), "entry": In(export_layout()),
            "channels": Out(wiring.Signature({"tx": Out(flits), "rx": In(flits)})).array(config.ports),
            "down": In(config.ports), "sent": Out(1), "taken": Out(1), "refused": Out(1),
            "unexpected": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.sender = sender = PutSender(config)
        m.submodules.receiver = receiver = PutReceiver(config)
        m.submodules.told = told = Merge(told_layout(config), config.ports)
        connect(m, flipped(self.writes), sender.writes)
        connect(m, sender.answers, flipped(self.answers))
        connect(m, receiver.writes, flipped(self.memory_writes))
        connect(m, flipped(self.memory_answers), receiver.answers)
        connect(m, told.o, sender.told)
        m.d.comb += [
            sender.down.eq(self.down), receiver.down.eq(self.down),
            receiver.commit.eq(self.commit), receiver.span.eq(self.span), receiver.valid.eq(self.valid),
            receiver.entry.eq(self.entry),
            self.sent.eq(sender.sent), self.taken.eq(receiver.taken), self.refused.eq(receiver.refused),
            self.unexpected.eq(receiver.unexpected),
        ]
        for number, channel in enumerate(self.channels):
            m.submodules[f"port_{number}"] = port = PutPort(config)
            connect(m, port.tx, flipped(channel.tx))
            connect(m, flipped(channel.rx), port.rx)
            connect(m, port.come, receiver.come[number])
            connect(m, receiver.results[number], port.results)
            message = told.i[number].payload
            m.d.comb += [
                port.puts.payload.eq(sender.o.payload), port.puts.valid.eq(sender.o.valid & (sender.port == number)),
                port.forget.eq(receiver.forgets[number]),
                told.i[number].valid.eq(port.told.valid), port.told.ready.eq(told.i[number].ready),
                message.port.eq(number), message.puts.eq(port.told.payload.puts),
                message.failed.eq(port.told.payload.failed),
            ]
            with m.If(sender.port == number):
                m.d.comb += sender.o.ready.eq(port.puts.ready)
        return m
