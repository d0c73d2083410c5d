# SPDX-License-Identifier: Apache-2.0
"""Interrupts of queues: each follows the write responses of the words that report its request.

Retire, CompletionWriter, WordResponses, RecordInterrupts -> QueueInterrupts -> outside.  Latency: 3 cycles from a write
response, 2 from the end of a request without words.  Throughput: a response and a request per cycle.

A completion word with an interrupt is *pending* until it is chosen, and *armed* until its response. A request that
completes meanwhile waits for the word's next write, and does not delay the interrupt of this one.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.interrupts import QueueInterruptsSignature
from hw.common.table import Table
from hw.dma_engine.config import DmaConfig
from hw.dma_engine.strobes import WrittenSignature

from .writer import ChoiceSignature, PublishSignature

__all__ = ["QueueInterrupts"]

KINDS = "sc", "rc"


class QueueInterrupts(wiring.Component):
    """Request an interrupt when a word that reports a request with an interrupt has been written.

    A request that several words report interrupts after each of them, the last time after all. A word whose write
    failed interrupts, too. The bits of a queue that is reset need no clearing: a pending bit is valid only while its
    word is waiting, an armed bit only while its word is in flight.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    publish : ``In(PublishSignature)``, choice : ``In(ChoiceSignature)``
        Completion words, and which of them are chosen.
    written : ``In(WrittenSignature)``
        Expected responses only.
    record : ``In(1)``
        The response two cycles ago completes the records of a request with an interrupt.
    interrupts : ``Out(QueueInterruptsSignature)``
        Registered.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        super().__init__({
            "publish": In(PublishSignature(config)), "choice": In(ChoiceSignature(config)),
            "written": In(WrittenSignature(config)), "record": In(1),
            "interrupts": Out(QueueInterruptsSignature(config.queue_bits)),
        })

    def elaborate(self, platform):
        m = Module()
        config, publish, choice = self.config, self.publish, self.choice
        bits = data.StructLayout({kind: 1 for kind in KINDS})
        address = data.StructLayout({"is_rc": 1, "queue": config.queue_bits})
        m.submodules.pending = pending = Table(bits, depth=config.queues, reads=2, init=None)
        m.submodules.armed = armed = Table(1, depth=2 * config.queues, reads=1, init=None)

        # -- What was published and chosen in the previous cycle.
        queue, interrupt, record = Signal(config.queue_bits), Signal(), Signal()
        published, waited = Signal(bits), Signal(bits)     # ``waited``: an earlier word was waiting
        m.d.sync += [queue.eq(publish.queue), interrupt.eq(publish.interrupt), record.eq(publish.record)]
        m.d.comb += [
            pending.write.en.eq(published.as_value().any()), pending.write.addr.eq(queue),
            pending.read[0].addr.eq(queue), pending.read[1].addr.eq(choice.queue),
        ]
        for kind in KINDS:
            here = choice.chosen & (choice.is_rc == (kind == "rc")) & (choice.queue == queue)
            before = pending.read[0].data[kind]
            m.d.sync += [published[kind].eq(getattr(publish, kind)),
                         waited[kind].eq(getattr(choice, kind).bit_select(publish.queue, 1))]
            m.d.comb += pending.write.data[kind].eq(
                Mux(published[kind], interrupt | (before & waited[kind] & ~here), before))

        # -- A word published and chosen at once, together with the choice of a waiting one, follows a cycle later: then
        #    nothing is chosen.
        late, late_bit, late_address = Signal(), Signal(), Signal(address)
        m.d.sync += [late.eq(choice.chosen & choice.at_once), late_bit.eq(interrupt),
                     late_address.is_rc.eq(published.rc), late_address.queue.eq(queue)]
        chosen, direct = Signal(address), Signal(address)
        m.d.comb += [
            chosen.is_rc.eq(choice.is_rc), chosen.queue.eq(choice.queue),
            direct.is_rc.eq(published.rc), direct.queue.eq(queue),
            armed.write.en.eq(choice.chosen | choice.at_once | late),
            armed.write.addr.eq(Mux(choice.chosen, chosen, Mux(late, late_address, direct))),
            armed.write.data.eq(Mux(choice.chosen, Mux(choice.is_rc, pending.read[1].data.rc, pending.read[1].data.sc),
                                    Mux(late, late_bit, interrupt))),
        ]

        # -- Responses, and requests without words.
        response, responder, found, found_queue = Signal(), Signal(address), Signal(), Signal(config.queue_bits)
        written, completed = self.interrupts.written, self.interrupts.completed
        m.d.comb += armed.read[0].addr.eq(responder)
        m.d.sync += [
            response.eq(self.written.valid & ~self.written.id.notice),
            responder.is_rc.eq(self.written.id.is_rc), responder.queue.eq(self.written.id.queue),
            found.eq(response & armed.read[0].data), found_queue.eq(responder.queue),
            written.valid.eq(found | self.record), written.queue.eq(found_queue),
            completed.valid.eq(interrupt & ~record & ~published.as_value().any()), completed.queue.eq(queue),
        ]
        return m
