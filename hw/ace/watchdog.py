# SPDX-License-Identifier: Apache-2.0
"""Communicators that have work and do not get on, for no reason but themselves or their peers.

Operations, pool, receive, chunker -> Watchdog -> Faults.  Latency: from the set time to nine eighths of it, and at most
ten cycles more; longer by what is not counted.

FSMs and slots are a communicator's own: with them it can keep nobody else waiting. What communicators share is of two
kinds:

* *Movers*, fill and drain, do one chunk after the other, whosever it is. The communicator of the oldest chunk in it
  *holds* a mover. It lets go when the chunk is through, unless memory does not answer, or the program asks for far
  more moves than a chunk has.
* *Turns* at the ports and in cutting chunks are of one packet and one chunk, by class and age. Nobody holds them, but
  others may have them for long.

*Progress* is what a communicator does with these: a chunk is cut, filled or drained, a packet sent or received. Its
clock runs while it has work and makes no progress. It stands still, for an eighth of the time, if in this eighth

* a chunk of it waited for a mover that another open communicator holds,
* a packet of it waited for a port while another communicator's left, or
* a communicator of a higher class made progress: that may have starved it, here or on the rank that it waits for.

So a communicator is late whose peers do not come, or whose program waits for what never comes, whatever others of its
class do; one that is blocked or starved is not.

The holder of a mover has half of the time for each chunk. So it is ended before communicators on other ranks, which
cannot know that their peer here is blocked, run out of time.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .mover_queue import MoverStatus
from .operations import WorkSignature
from .priority import RANK_WIDTH, above
from .standing import StandingSignature

__all__ = ["MOVERS", "LateSignature", "PortTurns", "ProgressSignature", "Watchdog", "WatchdogTimeout"]

MOVERS = 2
"""Fill and drain."""

_TICK_BITS = 3
"""The set time has 2 ** _TICK_BITS ticks, in each of which all slots should have been looked at."""

PATIENCE = (1 << _TICK_BITS) + 1
"""Ticks that pass without progress: of the first one, a part only."""

HOLDERS_PATIENCE = PATIENCE // 2 + 1
"""Ticks in which the holder of a mover is not done with a chunk."""


class WatchdogTimeout(wiring.Signature):
    """The time without progress after which a communicator is late, in clock cycles; 0 for never.

    A level, driven by the registers; software may change it at any time.
    """

    def __init__(self):
        super().__init__({"cycles": Out(32)})


class ProgressSignature(wiring.Signature):
    """Communicators that make progress in a stage in this cycle, one bit each: strobes, driven by that stage."""

    def __init__(self, config):
        super().__init__({"communicators": Out(config.communicators)})


class PortTurns(wiring.Signature):
    """Who wants to send and who does, one bit for each communicator: driven by the FSM pool, without handshake.

    Members
    -------
    offering : ``Out(communicators)``
        Communicators of which an FSM had a packet that might be sent, in the cycle before.
    sent : ``Out(communicators)``
        Communicators of which a packet is taken in this cycle.
    """

    def __init__(self, config):
        super().__init__({"offering": Out(config.communicators), "sent": Out(config.communicators)})


class LateSignature(wiring.Signature):
    """Communicators that have timed out, one bit each: levels, driven by Watchdog for Faults."""

    def __init__(self, config):
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
        Progress in Receive and in Chunker; packets that are sent are progress, too.
    turns : ``In(PortTurns)``
    standing : ``In(StandingSignature)``
    movers : ``In(MoverStatus).array(MOVERS)``
    late : ``Out(LateSignature)``
        Until there is no work, or some progress; of the holder of a mover, until that is done with the chunk.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "timeout": In(WatchdogTimeout()), "work": In(WorkSignature(config)),
            "received": In(ProgressSignature(config)), "cut": In(ProgressSignature(config)),
            "turns": In(PortTurns(config)), "standing": In(StandingSignature(config)),
            "movers": In(MoverStatus(config)).array(MOVERS), "late": Out(LateSignature(config)),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.communicators
        passed, tick, on, progress = Signal(32 - _TICK_BITS), Signal(), Signal(), Signal(count)
        cycles, turns, work = self.timeout.cycles, self.turns, self.work.communicators
        # Not less than: a shorter time may be set at any moment.
        m.d.comb += [
            on.eq(cycles != 0), tick.eq((passed >= cycles[_TICK_BITS:]) & on),
            progress.eq(self.received.communicators | turns.sent | self.cut.communicators),
        ]
        m.d.sync += passed.eq(Mux(tick, 0, passed + 1))

        # -- What happened since the last tick: who waited for another, and below which classes.
        waited, starved = Signal(count), Signal(RANK_WIDTH)
        crowded = Signal(count)             # others' packets leave
        blocked = Signal(count)
        ranks = [above(priority) for priority in self.standing.priorities]
        m.d.comb += [
            crowded.eq(turns.offering & ~turns.sent & turns.sent.any().replicate(count)),
            blocked.eq(crowded | self.movers[0].blocked | self.movers[1].blocked),
        ]
        active = Cat(Cat(progress[number] & rank[level] for number, rank in enumerate(ranks)).any()
                     for level in range(RANK_WIDTH))
        m.d.sync += [waited.eq(Mux(tick, 0, waited) | blocked), starved.eq(Mux(tick, 0, starved) | active)]

        overdue = Signal(count)
        for index, mover in enumerate(self.movers):
            ticks = Signal(range(HOLDERS_PATIENCE + 1), name=f"ticks_of_mover_{index}")
            expired = Signal(name=f"expired_{index}")
            m.d.comb += expired.eq(ticks == HOLDERS_PATIENCE)
            with m.If(~mover.holder.any() | mover.moved | ~on):
                m.d.sync += ticks.eq(0)
            with m.Elif(tick & ~expired):
                m.d.sync += ticks.eq(ticks + 1)
            overdue = overdue | Mux(expired, mover.holder, 0)
        for number, rank in enumerate(ranks):
            ticks = Signal(range(PATIENCE + 1), name=f"ticks_{number}")
            expired = Signal(name=f"expired_of_{number}")
            m.d.comb += expired.eq(ticks == PATIENCE)
            with m.If(~work[number] | progress[number] | ~on):
                m.d.sync += ticks.eq(0)
            with m.Elif(tick & ~expired & ~waited[number] & ~(starved & ~rank).any()):
                m.d.sync += ticks.eq(ticks + 1)
            m.d.sync += self.late.communicators[number].eq(
                expired & work[number] & ~progress[number] | overdue[number])
        return m
