"""Queue control: what software tells a queue, how a reset drains it, and the watchdog.

Registers -> QueueControl -> QueueStore, Scheduler, Retire.  A scanner visits one queue every 4 cycles; a
reset takes as long as the queue's segments in flight and at most two rounds of the scanner more.
"""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Queue

from .layouts import OpKind, op_layout
from .words import Command, Status

__all__ = ["QueueControl", "QueueStatesSignature"]


class QueueStatesSignature(wiring.Signature):
    """State bits of all queues; registers.

    Members
    -------
    enabled : ``Out(queues)``
        Queues that take words and doorbells.
    running : ``Out(queues)``
        Queues that may be scheduled.
    resetting : ``Out(queues)``
        Queues that are being reset: their errors do not matter any more, and rings forget what they were told.
    """

    def __init__(self, config):
        super().__init__({name: Out(config.queues) for name in ("enabled", "running", "resetting")})


class QueueControl(wiring.Component):
    """Keep the state bits of all queues.

    Parameters
    ----------
    config : DmaConfig

    Members
    -------
    command_valid : ``In(1)``, command : ``In``, command_queue : ``In``
        START is ignored while the queue is resetting.
    watchdog : ``In(32)``
        Cycles between two rounds in which a queue must show progress; 0 for never.
    enabled, running, resetting : ``Out(queues)``
    waiting, held, pending : ``In(queues)``
        Queues with words, with an error, with completion words to write.
    retired, retired_queue : ``In``
    scan_queue : ``Out``, in_flight : ``In(1)``
        Whether the scanned queue has segments in flight, combinational.
    scanning : ``Out(1)``
        ``in_flight`` is looked at in this cycle.
    forgive, flush : ``Out(1)``, forgive_queue, flush_queue : ``Out``
        To the queue store: take words again; drop words.
    ops : ``Out(stream.Signature(op_layout))``
        CLEAR.
    scan_ops : ``Out(stream.Signature(op_layout))``
        RESET, when a queue is drained, and TIMEOUT.
    give_up : ``Out(1)``
        The scanned queue is being reset, and the watchdog found that nothing of it ends any more.
    """

    def __init__(self, config):
        self.config = config
        queue, queues = config.queue_bits, config.queues
        super().__init__({
            "command_valid": In(1), "command": In(3), "command_queue": In(queue),
            "watchdog": In(32),
            "enabled": Out(queues), "running": Out(queues), "resetting": Out(queues),
            "waiting": In(queues), "held": In(queues), "pending": In(queues),
            "retired": In(1), "retired_queue": In(queue),
            "scan_queue": Out(queue), "in_flight": In(1), "scanning": Out(1),
            "forgive": Out(1), "forgive_queue": Out(queue),
            "flush": Out(1), "flush_queue": Out(queue),
            "ops": Out(stream.Signature(op_layout(config))),
            "scan_ops": Out(stream.Signature(op_layout(config))),
            "give_up": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        queue_bits = self.config.queue_bits

        # -- Commands.
        m.submodules.clears = clears = Queue(op_layout(self.config), depth=4)
        wiring.connect(m, clears.o, wiring.flipped(self.ops))
        m.d.comb += [
            clears.i.valid.eq(self.command_valid & (self.command == Command.CLEAR)),
            clears.i.payload.kind.eq(OpKind.CLEAR),
            clears.i.payload.queue.eq(self.command_queue),
            # A START forgives words that came too early, but not an overflow.
            self.forgive.eq(self.command_valid & (
                (self.command == Command.CLEAR) | (self.command == Command.RESET)
                | ((self.command == Command.START) & ~self.enabled.bit_select(self.command_queue, 1)))),
            self.forgive_queue.eq(self.command_queue),
        ]

        # -- The scanner: phase 0 looks, phase 3 acts.
        scan = Signal(queue_bits + 2)
        queue = Signal(queue_bits)
        in_flight, act, round_ends = Signal(), Signal(), Signal()
        stopped = Signal()              # nothing can have been scheduled since ``in_flight`` was looked at
        m.d.sync += scan.eq(scan + 1)
        m.d.comb += [
            queue.eq(scan[2:]),
            self.scan_queue.eq(queue),
            self.scanning.eq(scan[:2] == 0),
            act.eq(scan[:2] == 3),
            round_ends.eq(scan.all()),
        ]
        def bit(bits):
            return bits.bit_select(queue, 1)

        pending, resets = Signal(), Signal()        # as late as phase 2 knows it
        m.d.sync += [pending.eq(bit(self.pending)), resets.eq(bit(self.resetting))]
        with m.If(self.scanning):
            m.d.sync += [in_flight.eq(self.in_flight), stopped.eq(bit(self.resetting))]

        # -- Reset: drop words until none is left and nothing is in flight.
        drained, timeout = Signal(), Signal()
        m.submodules.found = found = Queue(op_layout(self.config), depth=2)
        wiring.connect(m, found.o, wiring.flipped(self.scan_ops))
        m.d.comb += [
            self.flush.eq(bit(self.resetting) & (scan[:2] == 1)),
            self.flush_queue.eq(queue),
            drained.eq(act & resets & stopped & ~bit(self.waiting) & ~in_flight & ~pending),
            found.i.valid.eq(drained | timeout),
            found.i.payload.queue.eq(queue),
            found.i.payload.kind.eq(Mux(drained, OpKind.RESET, OpKind.EVENT)),
            found.i.payload.status.eq(Status.TIMEOUT),
        ]

        # -- Watchdog: in a round that it asks for, each busy queue must have moved since the last such round.
        left, due, counting = Signal(32), Signal(), Signal()
        progress = Signal(self.config.queues)
        busy, stuck = Signal(), Signal()
        m.d.comb += [
            busy.eq(in_flight | (resets & pending)),
            stuck.eq(act & counting & busy & ~bit(progress)),
            timeout.eq(stuck & ~bit(self.held) & ~resets),
            self.give_up.eq(stuck & resets),
        ]
        with m.If(self.watchdog == 0):
            m.d.sync += [left.eq(0), due.eq(0)]
        with m.Elif(left == 0):
            m.d.sync += [left.eq(self.watchdog - 1), due.eq(1)]
        with m.Else():
            m.d.sync += left.eq(left - 1)
        with m.If(round_ends):
            m.d.sync += counting.eq(due & (self.watchdog != 0))
            with m.If(due):
                m.d.sync += due.eq(left == 0)

        for index in range(self.config.queues):
            told = self.command_valid & (self.command_queue == index)
            here = queue == index
            with m.If(told & (self.command == Command.START) & ~self.resetting[index]):
                m.d.sync += [self.enabled[index].eq(1), self.running[index].eq(1)]
            with m.If(told & (self.command == Command.PAUSE)):
                m.d.sync += self.running[index].eq(0)
            with m.If(told & (self.command == Command.RESET)):
                m.d.sync += [self.enabled[index].eq(0), self.running[index].eq(0), self.resetting[index].eq(1)]
            with m.Elif(drained & here & found.i.ready):
                m.d.sync += self.resetting[index].eq(0)
            with m.If((self.retired & (self.retired_queue == index)) | (told & (self.command == Command.RESET))):
                m.d.sync += progress[index].eq(1)
            with m.Elif(act & here & (counting | ~busy)):
                m.d.sync += progress[index].eq(~busy)
        return m
