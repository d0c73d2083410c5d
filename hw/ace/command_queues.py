# SPDX-License-Identifier: Apache-2.0
"""The command queues: words wait here until their communicator can start another collective.

Doorbell -> CommandQueues -> Decoder.  Latency: 4 cycles if no other queue has words.  Throughput: one word in per
cycle, one command out per 3 cycles.
"""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.doorbell import StoreSignature
from hw.common.event import EventSignature
from hw.common.sizes import DOMAIN_WIDTH
from hw.common.sweep import SweepSignature
from hw.common.table import Table

from .communicators import CommunicatorWrite
from .config import AceConfig
from .layouts import CommandLayout
from .words import Status

__all__ = [
    "Admission",
    "CommandQueues",
    "DecodingQueues",
    "QueueClear",
    "QueueLookup",
    "QueueWrite",
    "Refusal",
    "waiting_layout",
]


def waiting_layout(config):
    """A command at the head of its queue: ``whole`` if it came in one store of 16 bytes, ``foreign`` if it is for a
    communicator that is not of the queue's domain."""
    return data.StructLayout({"queue": config.queue_bits, "whole": 1, "foreign": 1, "word": CommandLayout})


class QueueWrite(wiring.Signature):
    """Write of one queue's configuration, from the registers to every stage that stores a part of it.

    In the cycle of ``valid``, without back-pressure. ``sc_address`` is the address of the completion word, a multiple
    of 8; without ``sc_enable`` no word is written.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "valid": Out(1), "queue": Out(config.queue_bits), "enabled": Out(1), "domain": Out(DOMAIN_WIDTH),
            "sc_address": Out(config.address_width), "sc_enable": Out(1),
        })


class QueueClear(EventSignature):
    """Software clears a queue's error; ``payload`` is the queue. Driven by the registers."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(config.queue_bits)


class QueueLookup(wiring.Signature):
    """Debug look-up: the registers drive ``queue``; ``waiting`` follows in the same cycle.

    ``waiting``: commands of the queue that have not started, including the one in the decoder.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"queue": Out(config.queue_bits), "waiting": In(8)})


class Refusal(EventSignature):
    """A word was refused, in the cycle in which the doorbell transfers it. ``payload.status``: the reason."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__(data.StructLayout({"queue": config.queue_bits, "status": 8}))


class Admission(wiring.Signature):
    """Which commands may start, and which are pending: levels, without handshake.

    Members
    -------
    communicators : ``Out(communicators)``, queues : ``Out(queues)``
        Driven by Operations: communicators with a free row, queues with a free entry.
    pending : ``In(queues)``
        Driven by CommandQueues: queues with commands that have not reached Operations.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({
            "communicators": Out(config.communicators), "queues": Out(config.queues), "pending": In(config.queues)})


class DecodingQueues(wiring.Signature):
    """The queue whose command is in the decoder, as one bit of ``queues``: a level, driven by Decoder."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"queues": Out(config.queues)})


class CommandQueues(wiring.Component):
    """Store ``queue_depth`` words for each queue.

    A queue whose oldest command cannot start yet does not block the others: otherwise two ranks whose queues name
    communicators in different orders could wait for each other forever. A command for a communicator of another domain
    does not wait for that to be free, which is another tenant's decision: the decoder refuses it.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    init : ``In(SweepSignature)``
    i : ``In(StoreSignature)``
        A refused word is dropped.
    refused : ``Out(Refusal)``
        To Operations, in the cycle of the transfer.
    configure : ``In(QueueWrite)``, communicator : ``In(CommunicatorWrite)``
    clear : ``In(QueueClear)``
        The queue accepts words again.
    admission : ``In(Admission)``
    decoding : ``In(DecodingQueues)``
    o : ``Out(stream.Signature(waiting_layout))``
        An offer is withdrawn when the decoder finds that an earlier command of its queue fails.
    lookup : ``In(QueueLookup)``
    vacant : ``Out(queues)``
        Queues without waiting words.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "init": In(SweepSignature(config)), "i": In(StoreSignature(config)), "refused": Out(Refusal(config)),
            "configure": In(QueueWrite(config)), "communicator": In(CommunicatorWrite(config)),
            "clear": In(QueueClear(config)),
            "admission": In(Admission(config)), "decoding": In(DecodingQueues(config)),
            "o": Out(stream.Signature(waiting_layout(config))), "lookup": In(QueueLookup(config)),
            "vacant": Out(config.queues),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth_bits = (config.queue_depth - 1).bit_length()
        row = data.StructLayout({"whole": 1, "word": CommandLayout})
        m.submodules.words = words = memory.Memory(
            shape=row, depth=config.queues * config.queue_depth, init=[], attrs={"ram_style": "distributed"})
        write, read = words.write_port(), words.read_port(domain="comb")
        init = SweepSignature(config)
        m.submodules.domains = domains = Table(DOMAIN_WIDTH, depth=config.queues, reads=1, init=init)
        m.submodules.owners = owners = Table(DOMAIN_WIDTH, depth=config.communicators, reads=1, init=init)
        heads, tails = ([Signal(depth_bits + 1, name=f"{name}_{queue}") for queue in range(config.queues)]
                        for name in ("head", "tail"))
        enabled, refusing = Signal(config.queues), Signal(config.queues)
        into = self.i.payload.queue
        tail, full, refused, some = Signal(depth_bits + 1), Signal(), Signal(), Signal(config.queues)
        selected, held = self.lookup.queue, Signal(range(config.queue_depth + 1))
        m.d.comb += [
            self.i.ready.eq(1),
            tail.eq(Array(tails)[into]),
            full.eq(tail == (Array(heads)[into] ^ config.queue_depth)),
            self.refused.valid.eq(refused), self.i.refused.eq(refused), self.refused.payload.queue.eq(into),
            refused.eq(self.i.valid & (full | ~enabled.bit_select(into, 1) | refusing.bit_select(into, 1))),
            self.refused.payload.status.eq(Mux(enabled.bit_select(into, 1), Status.OVERFLOW, Status.DISABLED)),
            write.en.eq(self.i.valid & ~refused), write.addr.eq(Cat(tail[:depth_bits], into)),
            write.data.word.eq(self.i.payload.data), write.data.whole.eq(self.i.payload.whole.all()),
            held.eq((Array(tails)[selected] - Array(heads)[selected])[:depth_bits + 1]),
            self.lookup.waiting.eq(held + self.decoding.queues.bit_select(selected, 1)),
            self.admission.pending.eq(some | self.decoding.queues), self.vacant.eq(~some),
        ]
        for queue in range(config.queues):
            m.d.comb += some[queue].eq(heads[queue] != tails[queue])
            with m.If(self.i.valid & (into == queue)):
                with m.If(refused):
                    m.d.sync += refusing[queue].eq(enabled[queue])
                with m.Else():
                    m.d.sync += tails[queue].eq(tails[queue] + 1)
            with m.If(self.clear.valid & (self.clear.payload == queue)):
                m.d.sync += refusing[queue].eq(0)
            with m.If(self.configure.valid & (self.configure.queue == queue)):
                m.d.sync += enabled[queue].eq(self.configure.enabled)

        # -- One queue after the other.
        queue = Signal(config.queue_bits)
        found, foreign = Signal(row, reset_less=True), Signal()
        number = read.data.word.communicator
        for table in (domains, owners):
            wiring.connect(m, wiring.flipped(self.init), table.init)
        m.d.comb += [
            domains.write.en.eq(self.configure.valid), domains.write.addr.eq(self.configure.queue),
            domains.write.data.eq(self.configure.domain),
            owners.write.en.eq(self.communicator.valid), owners.write.addr.eq(self.communicator.number),
            owners.write.data.eq(self.communicator.shape.domain),
            read.addr.eq(Cat(Array(heads)[queue][:depth_bits], queue)),
            domains.read[0].addr.eq(queue), owners.read[0].addr.eq(number),
            self.o.payload.queue.eq(queue), self.o.payload.word.eq(found.word), self.o.payload.whole.eq(found.whole),
            self.o.payload.foreign.eq(foreign),
        ]
        exists, owned = ~number[config.communicator_bits:].any(), owners.read[0].data == domains.read[0].data
        m.d.sync += [found.eq(read.data), foreign.eq(~(exists & owned))]
        free = self.admission.communicators.bit_select(found.word.communicator[:config.communicator_bits], 1)
        with m.FSM():
            with m.State("LOOKUP"):
                with m.If((some & self.admission.queues).bit_select(queue, 1)):
                    m.next = "OFFER"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
            with m.State("OFFER"):
                with m.If(self.admission.queues.bit_select(queue, 1) & (free | foreign)):
                    m.d.comb += self.o.valid.eq(1)
                    with m.If(self.o.ready):
                        for place in range(config.queues):
                            with m.If(queue == place):
                                m.d.sync += heads[place].eq(heads[place] + 1)
                        m.next = "TAKEN"
                with m.Else():
                    m.d.sync += queue.eq(queue + 1)
                    m.next = "LOOKUP"
            with m.State("TAKEN"):
                m.d.sync += queue.eq(queue + 1)
                m.next = "LOOKUP"
        return m
