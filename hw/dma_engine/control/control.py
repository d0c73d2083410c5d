# SPDX-License-Identifier: Apache-2.0
"""Queue control: commands of software to queues, draining of a queue in a reset, and the watchdog.

Registers -> QueueControl -> QueueStore, Scheduler, Retire.  A scanner visits one queue every 4 cycles. A reset takes
until the queue's segments in flight have ended, and at most two scanner rounds more.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.configuration import QueueStatesSignature
from hw.dma_engine.frontend.queues import OccupancySignature
from hw.dma_engine.layouts import OpKind, op_layout
from hw.dma_engine.strobes import QueueStrobeSignature, RetiredSignature
from hw.dma_engine.words import Command, Status
from hw.stream import Queue

__all__ = ["CommandSignature", "PendingSignature", "QueueControl", "ScanSignature"]


class CommandSignature(wiring.Signature):
    """Commands of software.

    Members
    -------
    valid : ``Out(1)``, command : ``Out``, queue : ``Out``
        A command to a queue; always taken. START is ignored while the queue is resetting.
    watchdog : ``Out(32)``
        A level: cycles between two rounds in which a queue must make progress; 0 disables the watchdog.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "command": Out(3), "queue": Out(config.queue_bits), "watchdog": Out(32)})


class PendingSignature(wiring.Signature):
    """Queues with completion words, with notices or words made from them, that are waiting or in flight."""

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"completions": Out(config.queues), "notices": Out(config.queues)})


class ScanSignature(wiring.Signature):
    """The scanner checks whether a queue has segments in flight; combinational.

    Members
    -------
    valid : ``Out(1)``, queue : ``Out``
        The scanner samples ``in_flight`` in this cycle.
    in_flight : ``In(1)``
        The queue has segments or descriptor reads in flight, or is being abandoned.
    """

    def __init__(self, config: DmaConfig) -> None:
        super().__init__({"valid": Out(1), "queue": Out(config.queue_bits), "in_flight": In(1)})


class QueueControl(wiring.Component):
    """Keep the state bits of all queues.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    command : ``In(CommandSignature)``
    states : ``Out(QueueStatesSignature)``
    occupancy : ``In(OccupancySignature)``, held : ``In(queues)``, pending : ``In(PendingSignature)``
        Queues with words, with an error, with completion words to write.
    retired : ``In(RetiredSignature)``
    scan : ``Out(ScanSignature)``
    clear, flush : ``Out(QueueStrobeSignature)``
        To the queue store: accept words again; drop words.
    clears : ``Out(stream.Signature(op_layout))``
        CLEAR.
    scans : ``Out(stream.Signature(op_layout))``
        RESET of a drained queue, and TIMEOUT.
    abandon : ``Out(1)``
        The scanned queue is being reset, and the watchdog found no progress.
    """

    def __init__(self, config: DmaConfig) -> None:
        self.config = config
        operation, strobe = stream.Signature(op_layout(config)), QueueStrobeSignature(config)
        super().__init__({
            "command": In(CommandSignature(config)), "states": Out(QueueStatesSignature(config)),
            "occupancy": In(OccupancySignature(config)), "held": In(config.queues),
            "pending": In(PendingSignature(config)),
            "retired": In(RetiredSignature(config)), "scan": Out(ScanSignature(config)),
            "clear": Out(strobe), "flush": Out(strobe), "clears": Out(operation), "scans": Out(operation),
            "abandon": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        queue_bits, command, states = self.config.queue_bits, self.command, self.states
        scanned, occupancy = self.scan, self.occupancy

        # -- Commands.
        m.submodules.clears = clears = Queue(op_layout(self.config), depth=4)
        wiring.connect(m, clears.o, wiring.flipped(self.clears))
        m.d.comb += [
            clears.i.valid.eq(command.valid & (command.command == Command.CLEAR)),
            clears.i.payload.kind.eq(OpKind.CLEAR),
            clears.i.payload.queue.eq(command.queue),
            # A START clears early words, but not an overflow.
            self.clear.valid.eq(command.valid & (
                (command.command == Command.CLEAR) | (command.command == Command.RESET)
                | ((command.command == Command.START) & ~states.enabled.bit_select(command.queue, 1)))),
            self.clear.queue.eq(command.queue),
        ]

        # -- The scanner: phase 0 samples, phase 3 acts.
        scan = Signal(queue_bits + 2)
        queue = Signal(queue_bits)
        in_flight, act, round_ends = Signal(name="in_flight"), Signal(), Signal()
        stopped = Signal()              # nothing can have been scheduled since ``in_flight`` was sampled
        m.d.sync += scan.eq(scan + 1)
        m.d.comb += [
            queue.eq(scan[2:]),
            scanned.queue.eq(queue),
            scanned.valid.eq(scan[:2] == 0),
            act.eq(scan[:2] == 3),
            round_ends.eq(scan.all()),
        ]
        def bit(bits):
            return bits.bit_select(queue, 1)

        pending, resets = Signal(name="pending"), Signal()        # as of phase 2
        m.d.sync += [pending.eq(bit(self.pending.completions | self.pending.notices)), resets.eq(bit(states.resetting))]
        with m.If(scanned.valid):
            m.d.sync += [in_flight.eq(scanned.in_flight), stopped.eq(bit(states.resetting))]

        # -- Reset: drop words until none is left and nothing is in flight.
        drained, timeout = Signal(), Signal()
        m.submodules.found = found = Queue(op_layout(self.config), depth=2)
        wiring.connect(m, found.o, wiring.flipped(self.scans))
        m.d.comb += [
            self.flush.valid.eq(bit(states.resetting) & (scan[:2] == 1)),
            self.flush.queue.eq(queue),
            drained.eq(act & resets & stopped & ~bit(occupancy.ready | occupancy.more) & ~in_flight & ~pending),
            found.i.valid.eq(drained | timeout),
            found.i.payload.queue.eq(queue),
            found.i.payload.kind.eq(Mux(drained, OpKind.RESET, OpKind.EVENT)),
            found.i.payload.status.eq(Status.TIMEOUT),
        ]

        # -- Watchdog: in each round that it checks, a busy queue must have made progress since the previous such round,
        # or have been held without a RESET, which keeps segments in flight.
        left, due, counting = Signal(32), Signal(), Signal()
        progress = Signal(self.config.queues)
        busy, stuck = Signal(), Signal()
        m.d.comb += [
            busy.eq(in_flight | (resets & pending)),
            stuck.eq(act & counting & busy & ~bit(progress)),
            timeout.eq(stuck & ~bit(self.held) & ~resets),
            self.abandon.eq(stuck & resets),
        ]
        with m.If(command.watchdog == 0):
            m.d.sync += [left.eq(0), due.eq(0)]
        with m.Elif(left == 0):
            m.d.sync += [left.eq(command.watchdog - 1), due.eq(1)]
        with m.Else():
            m.d.sync += left.eq(left - 1)
        with m.If(round_ends):
            m.d.sync += counting.eq(due & (command.watchdog != 0))
            with m.If(due):
                m.d.sync += due.eq(left == 0)

        for index in range(self.config.queues):
            commanded = command.valid & (command.queue == index)
            here = queue == index
            held = self.held[index] & ~states.resetting[index]
            with m.If(commanded & (command.command == Command.START) & ~states.resetting[index]):
                m.d.sync += [states.enabled[index].eq(1), states.running[index].eq(1)]
            with m.If(commanded & (command.command == Command.PAUSE)):
                m.d.sync += states.running[index].eq(0)
            with m.If(commanded & (command.command == Command.RESET)):
                m.d.sync += [states.enabled[index].eq(0), states.running[index].eq(0), states.resetting[index].eq(1)]
            with m.Elif(drained & here & found.i.ready):
                m.d.sync += states.resetting[index].eq(0)
            with m.If((self.retired.valid & (self.retired.queue == index))
                      | (commanded & (command.command == Command.RESET))):
                m.d.sync += progress[index].eq(1)
            with m.Elif(act & here & (counting | ~busy | held)):
                m.d.sync += progress[index].eq(~busy | held)
        return m
