# SPDX-License-Identifier: Apache-2.0
"""Watchdog: detects communicators with work that make no progress, unless another communicator blocks them.

Operations, pool, receive, chunker -> Watchdog -> Faults.  Latency: from the time limit to nine eighths of it, and at
most ten cycles more; longer by the time that is not counted.

FSMs and slots belong to one communicator, so with them it cannot block another. Communicators share two kinds of
resources:

* *Movers*, fill and drain, process one chunk after the other. The communicator of the oldest chunk in a mover *holds*
  it, until the chunk is done. This takes long only if memory does not respond, or if the program has far more moves
  than a chunk needs.
* *Turns* at the ports and in cutting chunks are for one packet and one chunk, by class and age. No communicator holds
  them, but others may have them for a long time.

*Progress* of a communicator is its use of these: a chunk is cut, filled or drained, a packet sent or received. Its
clock runs while it has work and makes no progress. The clock stops for an eighth of the time limit if in this eighth

* one of its chunks waited for a mover that another open communicator holds,
* one of its packets waited for a port while another communicator's was sent, or
* a communicator of a higher class made progress, which may have starved it, here or on the rank that it waits for.

So a communicator times out if its peers do not participate, or if its program waits for data that never arrives,
whatever others of its class do; a blocked or starved one does not.

The holder of a mover has half of the time limit for each chunk. So it is ended before communicators time out on other
ranks, which cannot know that their peer here is blocked.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .communicator_status import CommunicatorStatusSignature
from .config import AceConfig
from .mover_queue import MoverStatus
from .operations import WorkSignature
from .priority import RANK_WIDTH, above

__all__ = ["MOVERS", "PortTurns", "ProgressSignature", "TimedOutSignature", "Watchdog", "WatchdogTimeout"]

MOVERS = 2
"""Fill and drain."""

_TICK_BITS = 3
"""The time limit has 2 ** _TICK_BITS ticks, in each of which all slots should have been polled."""

TIMEOUT_TICKS = (1 << _TICK_BITS) + 1
"""Ticks without progress before the time-out; the first one is partial."""

HOLDER_TIMEOUT_TICKS = TIMEOUT_TICKS // 2 + 1
"""Ticks that the holder of a mover may take for a chunk."""


class WatchdogTimeout(wiring.Signature):
    """The time limit without progress, in clock cycles; 0 for none.

    A level, driven by the registers; software may change it at any time.
    """

    def __init__(self) -> None:
        super().__init__({"cycles": Out(32)})


class ProgressSignature(wiring.Signature):
    """Communicators that make progress in a stage in this cycle, one bit each: strobes, driven by that stage."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicators": Out(config.communicators)})


class PortTurns(wiring.Signature):
    """Communicators that request ports and those that send, one bit each: driven by the FSM pool, without handshake.

    Members
    -------
    offering : ``Out(communicators)``
        Communicators with an FSM that offered a packet in the previous cycle.
    sent : ``Out(communicators)``
        Communicators with a packet that is taken in this cycle.
    """

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"offering": Out(config.communicators), "sent": Out(config.communicators)})


class TimedOutSignature(wiring.Signature):
    """Communicators that have timed out, one bit each: levels, driven by Watchdog for Faults."""

    def __init__(self, config: AceConfig) -> None:
        super().__init__({"communicators": Out(config.communicators)})


class Watchdog(wiring.Component):
    """Count the ticks of each communicator, and those of each mover's holder.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    timeout : ``In(WatchdogTimeout)``
    work : ``In(WorkSignature)``
    received, cut : ``In(ProgressSignature)``
        Progress in Receive and in Chunker; sent packets are progress, too.
    turns : ``In(PortTurns)``
    communicator_status : ``In(CommunicatorStatusSignature)``
    movers : ``In(MoverStatus).array(MOVERS)``
    timed_out : ``Out(TimedOutSignature)``
        Held until the communicator has no work or makes progress; for the holder of a mover, until the chunk is done.
    """

    def __init__(self, config: AceConfig) -> None:
        self.config = config
        super().__init__({
            "timeout": In(WatchdogTimeout()), "work": In(WorkSignature(config)),
            "received": In(ProgressSignature(config)), "cut": In(ProgressSignature(config)),
            "turns": In(PortTurns(config)), "communicator_status": In(CommunicatorStatusSignature(config)),
            "movers": In(MoverStatus(config)).array(MOVERS), "timed_out": Out(TimedOutSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.communicators
        passed, tick, on, progress = Signal(32 - _TICK_BITS), Signal(), Signal(), Signal(count)
        cycles, turns, work = self.timeout.cycles, self.turns, self.work.communicators
        # ``>=``, because software may shorten the limit at any moment.
        m.d.comb += [
            on.eq(cycles != 0), tick.eq((passed >= cycles[_TICK_BITS:]) & on),
            progress.eq(self.received.communicators | turns.sent | self.cut.communicators),
        ]
        m.d.sync += passed.eq(Mux(tick, 0, passed + 1))

        # -- Since the last tick: communicators that were blocked, and the classes that others' progress starved.
        waited, starved = Signal(count), Signal(RANK_WIDTH)
        crowded = Signal(count)             # other communicators' packets are sent
        blocked = Signal(count)
        ranks = [above(priority) for priority in self.communicator_status.priorities]
        m.d.comb += [
            crowded.eq(turns.offering & ~turns.sent & turns.sent.any().replicate(count)),
            blocked.eq(crowded | self.movers[0].blocked | self.movers[1].blocked),
        ]
        active = Cat(Cat(progress[number] & rank[level] for number, rank in enumerate(ranks)).any()
                     for level in range(RANK_WIDTH))
        m.d.sync += [waited.eq(Mux(tick, 0, waited) | blocked), starved.eq(Mux(tick, 0, starved) | active)]

        overdue = Signal(count)
        for index, mover in enumerate(self.movers):
            ticks = Signal(range(HOLDER_TIMEOUT_TICKS + 1), name=f"ticks_of_mover_{index}")
            expired = Signal(name=f"expired_{index}")
            m.d.comb += expired.eq(ticks == HOLDER_TIMEOUT_TICKS)
            with m.If(~mover.holder.any() | mover.moved | ~on):
                m.d.sync += ticks.eq(0)
            with m.Elif(tick & ~expired):
                m.d.sync += ticks.eq(ticks + 1)
            overdue = overdue | Mux(expired, mover.holder, 0)
        for number, rank in enumerate(ranks):
            ticks = Signal(range(TIMEOUT_TICKS + 1), name=f"ticks_{number}")
            expired = Signal(name=f"expired_of_{number}")
            m.d.comb += expired.eq(ticks == TIMEOUT_TICKS)
            with m.If(~work[number] | progress[number] | ~on):
                m.d.sync += ticks.eq(0)
            with m.Elif(tick & ~expired & ~waited[number] & ~(starved & ~rank).any()):
                m.d.sync += ticks.eq(ticks + 1)
            m.d.sync += self.timed_out.communicators[number].eq(
                expired & work[number] & ~progress[number] | overdue[number])
        return m
