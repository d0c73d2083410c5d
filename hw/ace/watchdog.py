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

from .mover_queue import mover_signature
from .priority import RANK_WIDTH, above
from .standing import PRIORITY_WIDTH

__all__ = ["MOVERS", "Watchdog"]

MOVERS = 2
"""Fill and drain."""

_TICK_BITS = 3
"""The set time has 2 ** _TICK_BITS ticks, in each of which all slots should have been looked at."""

PATIENCE = (1 << _TICK_BITS) + 1
"""Ticks that pass without progress: of the first one, a part only."""

HOLDERS_PATIENCE = PATIENCE // 2 + 1
"""Ticks in which the holder of a mover is not done with a chunk."""


class Watchdog(wiring.Component):
    """Count the ticks of each communicator, and those of each mover's holder.

    Parameters
    ----------
    config : AceConfig

    Members
    -------
    cycles : ``In(32)``
        The time without progress after which a communicator is late; 0 for never.
    work : ``In(communicators)``, progress : ``In(communicators)``
        Those with a collective that is not over; those who get on in this cycle.
    priorities : ``In``, of each communicator
    movers : ``In(mover_signature).array(MOVERS)``
    offering, sent : ``In(communicators)``
        Those with a packet that may be sent, and those of which one is taken.
    late : ``Out(communicators)``
        Until there is no work, or some progress; of the holder of a mover, until that is done with the chunk.
    """

    def __init__(self, config):
        self.config = config
        count = config.communicators
        super().__init__({
            "cycles": In(32), "work": In(count), "progress": In(count),
            "priorities": In(PRIORITY_WIDTH).array(count),
            "movers": In(mover_signature(config)).array(MOVERS),
            "offering": In(count), "sent": In(count), "late": Out(count),
        })

    def elaborate(self, platform):
        m = Module()
        count = self.config.communicators
        passed, tick, on = Signal(32 - _TICK_BITS), Signal(), Signal()
        # Not less than: a shorter time may be set at any moment.
        m.d.comb += [on.eq(self.cycles != 0), tick.eq((passed >= self.cycles[_TICK_BITS:]) & on)]
        m.d.sync += passed.eq(Mux(tick, 0, passed + 1))

        # -- What happened since the last tick: who waited for another, and below which classes.
        waited, starved = Signal(count), Signal(RANK_WIDTH)
        crowded = Signal(count)             # others' packets leave
        blocked = Signal(count)
        ranks = [above(priority) for priority in self.priorities]
        m.d.comb += [
            crowded.eq(self.offering & ~self.sent & self.sent.any().replicate(count)),
            blocked.eq(crowded | self.movers[0].blocked | self.movers[1].blocked),
        ]
        active = Cat(Cat(self.progress[number] & rank[level] for number, rank in enumerate(ranks)).any()
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
            with m.If(~self.work[number] | self.progress[number] | ~on):
                m.d.sync += ticks.eq(0)
            with m.Elif(tick & ~expired & ~waited[number] & ~(starved & ~rank).any()):
                m.d.sync += ticks.eq(ticks + 1)
            m.d.sync += self.late[number].eq(expired & self.work[number] & ~self.progress[number] | overdue[number])
        return m
