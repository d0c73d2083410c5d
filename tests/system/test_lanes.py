# SPDX-License-Identifier: Apache-2.0
"""Packets of a pipe's ports, in turn."""

from functools import partial

from sim.system.banks import Stream
from sim.system.kernel import Kernel
from sim.system.lanes import Lanes

CYCLE = 1000


def served(*packets, stalls=0):
    """``(cycle, port, bytes)`` of arrivals -> ``(port, begin, end)`` in cycles, at 8 bytes per cycle."""
    kernel, found = Kernel(), []
    lanes = Lanes(kernel, 0, (0, 2, 4), 8e9, per_byte=0.0, cycle=CYCLE)

    def begins(size):
        return Stream(0, kernel.now // CYCLE + size // 8 + stalls, True, True) if stalls else None

    def ends(port, began):
        found.append((port, began // CYCLE, kernel.now // CYCLE))

    for cycle, port, size in packets:
        kernel.at(cycle * CYCLE, lanes.packet, port, size, partial(begins, size), partial(ends, port))
    kernel.run()
    return found


def test_a_packet_waits_for_those_of_other_ports():
    """A short packet behind one of its own port waits for the other port's, too, which came later."""
    assert served((0, 0, 256), (1, 0, 8), (2, 2, 256)) == [(0, 0, 32), (2, 32, 64), (0, 64, 65)]


def test_ports_in_turn():
    assert [port for port, _, _ in served(*((0, port, 80) for port in (4, 4, 4, 2, 0, 0)))] == [0, 2, 4, 0, 4, 4]
    assert served((0, 4, 80), (100, 2, 80)) == [(4, 0, 10), (2, 100, 110)]


def test_stalls_make_others_wait():
    assert served((0, 0, 80), (0, 2, 80), stalls=3) == [(0, 0, 13), (2, 13, 26)]
