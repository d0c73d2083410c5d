# SPDX-License-Identifier: Apache-2.0
"""Links of accelerators whose beat is longer than a packet's header: a beat per cycle, in whole cycles."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from hw.ace.config import ULTRA, WIDE
from hw.ace.words import Collective
from sim.system import Machine
from sim.system.credits import Credits
from sim.system.endpoint import Endpoint
from sim.system.port import Port
from sim.validation.as_rtl import as_rtl

CYCLE = 1000


@pytest.fixture
def seen(monkeypatch):
    """Times at which packets start, by port, and at which they arrive."""
    starts, arrivals = defaultdict(list), []
    report, comes = Credits.report, Port.comes

    def reported(self, now):
        starts[id(self)].append(now)
        return report(self, now)

    def came(self, *arguments):
        arrivals.append(self._kernel.now)
        comes(self, *arguments)

    monkeypatch.setattr(Credits, "report", reported)
    monkeypatch.setattr(Port, "comes", came)
    return starts, arrivals


def test_a_packet_per_cycle(seen):
    """A GRANT or CREDIT packet is an eighth of a beat on the link, but takes a cycle to enter it; and a packet of four
    beats and a header arrives with its last beat, in a whole cycle."""
    starts, arrivals = seen
    machine = Machine(as_rtl(ULTRA, (3,), link_rate=1, link_latency=20, memory_latency=100))
    machine.issue(Collective.ALL_REDUCE, 3 << 16)
    machine.run()
    gaps = {after - before for times in starts.values() for before, after in pairwise(times)}
    assert len(starts) == 6 and min(gaps) == CYCLE
    # After a packet of four beats and a header, the next one starts within a cycle.
    assert any(gap % CYCLE for gap in gaps)
    assert len(arrivals) > 1500 and all(time % CYCLE == 0 for time in arrivals)


def test_an_fsm_offers_a_packet_every_second_cycle(monkeypatch):
    """Packets of one beat: two FSMs, each in a pipe of its own, send half as many as a link could carry."""
    chosen, take = defaultdict(list), Endpoint.take

    def taken(self, chunk):
        chosen[self.rank, chunk.number].append(self.kernel.now)
        return take(self, chunk)

    monkeypatch.setattr(Endpoint, "take", taken)
    config = replace(WIDE, packet_bytes=64, fsms=2, slots=2)
    machine = Machine(as_rtl(config, (2,), link_rate=1, link_latency=20, memory_latency=100))
    machine.issue(Collective.ALL_REDUCE, 2 << 16)
    machine.run()
    gaps = [after - before for times in chosen.values() for before, after in pairwise(times)]
    assert len(chosen) == 4 and min(gaps) == 2 * CYCLE
