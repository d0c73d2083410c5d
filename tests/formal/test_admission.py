# SPDX-License-Identifier: Apache-2.0
"""Commands are decoded only where Operations has a free row of the communicator and a free entry of the queue."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Format, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.ace.command_queues import CommandQueues, waiting_layout
from hw.ace.operations import ACTIVE, Operations, verdict_layout
from hw.ace.words import Status
from hw.common.sizes import DOMAIN_WIDTH
from tests.formal.small import ACE, assume_constant
from tests.harness.formal import prove
from tests.harness.internals import elaborated, internal, opened, row_of

pytestmark = [pytest.mark.formal, pytest.mark.long]

_COMMANDS = ("i", "configure", "communicator", "clear")
_OPERATIONS = ("reads", "issued", "ended", "communicator_status", "cutting", "words", "configure", "clear")


class Admitted(wiring.Component):
    """A collective begins in a free row only, and a queue never has more commands in progress than entries; a command
    is foreign exactly if the domains of its queue and its communicator differ.

    All inputs are free. The decoder is modelled: it has one command at a time, decides after any number of cycles, and
    refuses foreign commands.
    """

    def __init__(self):
        commands, operations = CommandQueues(ACE).signature.members, Operations(ACE).signature.members
        super().__init__({
            **{name: commands[name] for name in _COMMANDS}, **{name: operations[name] for name in _OPERATIONS},
            "decides": In(1), "verdict": In(verdict_layout(ACE)),
            "queue": In(ACE.queue_bits), "number": In(ACE.communicator_bits)})

    def elaborate(self, platform):
        m = Module()
        commands, operations = CommandQueues(ACE), Operations(ACE)
        m.submodules.commands = queues = elaborated(commands)
        m.submodules.operations = parts = elaborated(operations)
        for block, names in ((commands, _COMMANDS), (operations, _OPERATIONS)):
            for name in names:
                source, sink = getattr(self, name), getattr(block, name)
                for one, other in zip(source, sink, strict=True) if name == "reads" else [(source, sink)]:
                    wiring.connect(m, wiring.flipped(one), other)
        wiring.connect(m, operations.admission, commands.admission)
        wiring.connect(m, commands.refused, operations.refused)

        # -- The decoder.
        busy, held, verdict = Signal(), Signal(waiting_layout(ACE)), self.verdict
        number = held.word.communicator[:ACE.communicator_bits]
        with m.If(commands.o.valid & commands.o.ready):
            m.d.sync += [busy.eq(1), held.eq(commands.o.payload)]
        with m.Elif(operations.i.valid):
            m.d.sync += busy.eq(0)
        m.d.comb += [
            commands.o.ready.eq(~busy), operations.i.valid.eq(busy & self.decides), operations.i.payload.eq(verdict),
            commands.decoding.queues.eq(busy << held.queue),
            Assume((verdict.queue == held.queue) & (verdict.communicator == number)),
            Assume(~held.foreign | (verdict.status != Status.OK)),
        ]

        # -- Domains of a queue and of a communicator, as a command was looked up.
        assume_constant(m, Cat(self.queue, self.number))
        domains = []
        for name, write, index, domain in (
                ("domains", self.configure, self.configure.queue == self.queue, self.configure.domain),
                ("owners", self.communicator, self.communicator.number == self.number, self.communicator.shape.domain)):
            now, before = Signal(DOMAIN_WIDTH, name=name), Signal(DOMAIN_WIDTH, name=f"{name}_before")
            m.d.sync += before.eq(now)
            with m.If(write.valid & index):
                m.d.sync += now.eq(domain)
            row = row_of(m, opened(queues, name).submodules.memory, self.queue if name == "domains" else self.number)
            m.d.comb += Assert(row == now, Format("the stored domain"))
            domains.append(before)
        offered = commands.o.payload
        m.d.comb += Assert(
            ~commands.o.valid | (offered.queue != self.queue) | (offered.word.communicator != self.number)
            | (offered.foreign == (domains[0] != domains[1])), Format("a foreign command, or not"))

        # -- Rows and entries. A command ends two cycles after its queue was found to have some.
        heads, tails = ([internal(parts, f"{name}_{queue}") for queue in range(ACE.queues)]
                        for name in ("head", "tail"))
        used = Array((tail - head)[:len(tail)] for head, tail in zip(heads, tails, strict=True))
        m.d.comb += [
            *(Assert(count <= ACTIVE, Format("more commands in progress than entries")) for count in used),
            Assert(~busy | (used[held.queue] < ACTIVE), Format("the decoder has a command without an entry")),
            Assert(~busy | held.foreign | operations.admission.communicators.bit_select(number, 1),
                   Format("the decoder has a command without a row")),
        ]
        return m


def test_admission():
    prove(Admitted(), name="ace-admission", depth=5, mode="prove")
