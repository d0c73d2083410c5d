"""Whether each communicator is open, and what else about it all parts look at all the time.

Registers, Faults -> Standing -> decoder, operations, chunker, FSM pool, receive.  Latency: 1 cycle.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .words import CommunicatorState, Status

__all__ = ["EPOCH_WIDTH", "PRIORITY_WIDTH", "Standing", "mode_layout", "standing_layout"]

EPOCH_WIDTH = 4
PRIORITY_WIDTH = 2

def mode_layout(config):
    """Of an entry of the communicator table: ``ports`` that its programs use, ``rank`` of this endpoint in it."""
    return data.StructLayout({
        "valid": 1, "epoch": EPOCH_WIDTH, "priority": PRIORITY_WIDTH, "ports": config.ports, "rank": 8})


def standing_layout(config):
    """All communicators side by side. ``stopped``: ending, or revoked; ``closed``: not open; ``statuses``: why."""
    count = config.communicators
    return data.StructLayout({
        "stopped": count, "closed": count,
        "states": data.ArrayLayout(2, count), "epochs": data.ArrayLayout(EPOCH_WIDTH, count),
        "priorities": data.ArrayLayout(PRIORITY_WIDTH, count), "ports": data.ArrayLayout(config.ports, count),
        "statuses": data.ArrayLayout(8, count),
    })


class Standing(wiring.Component):
    """CLOSED or OPEN by a write of its entry; ENDING by an error; REVOKED when nothing of it is left.

    Parameters
    ----------
    config : AceConfig
    settle : int
        Cycles in which all that has no other sign of itself leaves the pipelines: a communicator is not REVOKED before
        so many have passed since its end.

    Members
    -------
    write : ``In(1)``, number, mode : ``In``
        The entry is written: open, if it is valid.
    end : ``In(1)``, end_number, end_status : ``In``
        Ends a communicator, if it is open.
    busy : ``In(communicators)``
        Those of which something is still under way.
    standing : ``Out(standing_layout)``
        From registers.
    """

    def __init__(self, config, *, settle):
        self.config = config
        self.settle = settle
        number = config.communicator_bits
        super().__init__({
            "write": In(1), "number": In(number), "mode": In(mode_layout(config)),
            "end": In(1), "end_number": In(number), "end_status": In(8),
            "busy": In(config.communicators), "standing": Out(standing_layout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        standing, state = self.standing, CommunicatorState
        # An age of 2: at least so many cycles have passed.
        now = Signal(range(self.settle))
        m.d.sync += now.eq(Mux(now == self.settle - 1, 0, now + 1))
        for number in range(self.config.communicators):
            age = Signal(2, name=f"age_{number}")
            here = standing.states[number]
            m.d.comb += [standing.stopped[number].eq(here[1]), standing.closed[number].eq(here != state.OPEN)]
            with m.If((here == state.ENDING) & (now == 0) & (age != 2)):
                m.d.sync += age.eq(age + 1)
            with m.If((here == state.ENDING) & (age == 2) & ~self.busy[number]):
                m.d.sync += here.eq(state.REVOKED)
            with m.If(self.end & (self.end_number == number) & (here == state.OPEN)):
                m.d.sync += [here.eq(state.ENDING), standing.statuses[number].eq(self.end_status), age.eq(0)]
            with m.If(self.write & (self.number == number)):
                m.d.sync += [
                    here.eq(Mux(self.mode.valid, state.OPEN, state.CLOSED)),
                    standing.epochs[number].eq(self.mode.epoch), standing.priorities[number].eq(self.mode.priority),
                    standing.ports[number].eq(self.mode.ports), standing.statuses[number].eq(Status.OK),
                ]
        return m
