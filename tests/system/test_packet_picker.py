# SPDX-License-Identifier: Apache-2.0
"""Choices among the packets of a pipe, cycle by cycle, as those of ``SendArbiter`` and ``Transmit``."""

import pytest

from sim.system.banks import Stream
from sim.system.kernel import Kernel, Server
from sim.system.packet_picker import OFFER_CYCLES, PacketPicker

CYCLE, BEAT = 1000, 8


class Port:
    """With free entries for any number of packets, unless ``full``."""

    def __init__(self, kernel):
        self.kernel, self.found, self.full = kernel, [], False

    @property
    def has_free_entries(self):
        return not self.full

    def reserve(self, payload):
        pass

    def put(self, entry):
        self.found.append((self.kernel.now // CYCLE, entry[4][0], (entry[0] - self.kernel.now) // CYCLE))


class Sender:
    """Offers its next packet two cycles after the choice of the latest one, like an FSM."""

    def __init__(self, kernel, picker, port, turn, packets, beats):
        self.kernel, self.picker, self.port, self.turn = kernel, picker, port, turn
        self.left, self.beats, self.source, self.chosen = packets, beats, 0, []

    def offer(self):
        self.picker.offer(self.port, self)

    def take(self):
        self.chosen.append(self.kernel.now // CYCLE)
        self.left -= 1
        if self.left:
            self.kernel.at(self.kernel.now + OFFER_CYCLES * CYCLE, self.offer)
        # Something else that happens in the same cycle.
        self.kernel.at(self.kernel.now, self.picker.wake)
        return self.beats * BEAT, 1, None, (self.turn,)


def run(*senders, ports=2, packets=4, stalls=0):
    """``(cycle, port, packets, beats)`` of senders in the order of their age -> the senders, and begin of the read and
    sender of each packet, in order."""
    kernel = Kernel()

    def read(source, size):
        beats = size // BEAT
        return Stream(0, kernel.now // CYCLE + beats + stalls, True, False), stalls

    picker = PacketPicker(kernel, 0, Server(kernel, BEAT * 1e12 / CYCLE), delay=5 * CYCLE, packets=packets,
                          read=read if stalls else None, cycle=CYCLE)
    there = [Port(kernel) for _ in range(ports)]
    made = []
    for turn, (cycle, port, count, beats) in enumerate(senders):
        made.append(Sender(kernel, picker, there[port], turn, count, beats))
        kernel.at(cycle * CYCLE, made[-1].offer)
    kernel.run()
    assert all(sender.left == 0 for sender in made)
    return made, sorted(entry[:2] for port in there for entry in port.found)


def test_the_first_beat_is_read_two_cycles_after_the_choice():
    (sender,), reads = run((10, 0, 1, 4))
    assert sender.chosen == [10] and reads == [(12, 0)]


@pytest.mark.parametrize("beats", [2, 3, 8])
def test_packets_of_one_sender_follow_each_other(beats):
    _, reads = run((0, 0, 6, beats))
    assert [cycle for cycle, _ in reads] == [2 + beats * number for number in range(6)]


def test_a_sender_offers_a_packet_of_a_beat_every_second_cycle():
    assert [cycle for cycle, _ in run((0, 0, 4, 1))[1]] == [2, 4, 6, 8]
    # Two of them use every cycle.
    assert [cycle for cycle, _ in run((0, 0, 4, 1), (0, 1, 4, 1))[1]] == list(range(2, 10))


def test_senders_at_different_ports_alternate():
    """The register that a packet leaves takes none for the same port, so the other sender is chosen."""
    for beats in (2, 8):
        _, reads = run((0, 0, 4, beats), (0, 1, 4, beats))
        assert [turn for _, turn in reads] == [0, 1] * 4
        assert [cycle for cycle, _ in reads] == [2 + beats * number for number in range(8)]


def test_a_message_of_the_same_port_is_not_interrupted():
    """The older sender comes when the message of four packets has ended."""
    _, reads = run((9, 0, 3, 8), (0, 0, 8, 8))
    assert [turn for _, turn in reads] == [1] * 4 + [0] * 3 + [1] * 4


def test_the_oldest_is_chosen():
    """Though it offers its packets after the others."""
    _, reads = run((3, 0, 2, 8), (1, 0, 2, 8), (0, 0, 1, 8), packets=1)
    assert [turn for _, turn in reads] == [2, 1, 0, 0, 1]


def test_stalls_of_the_sram():
    """A packet that waits for a bank delays all behind it, and its own beats."""
    _, reads = run((0, 0, 3, 2), stalls=1)
    assert [cycle for cycle, _ in reads] == [2, 5, 8]


def test_a_full_port_does_not_block_another():
    kernel = Kernel()
    picker = PacketPicker(kernel, 0, Server(kernel, BEAT * 1e12 / CYCLE), delay=0, packets=4, read=None, cycle=CYCLE)
    full, empty = Port(kernel), Port(kernel)
    full.full = True
    first, second = Sender(kernel, picker, full, 0, 1, 4), Sender(kernel, picker, empty, 1, 2, 4)
    kernel.at(0, first.offer)
    kernel.at(0, second.offer)
    kernel.run(until=100 * CYCLE)
    assert second.chosen == [0, 2] and not first.chosen
    full.full = False
    picker.wake()
    kernel.run()
    assert first.chosen == [100]


def test_cycles_that_are_no_whole_number_of_picoseconds():
    """Choices are at the begin of cycles of 803.2 ps."""
    kernel = Kernel()
    picker = PacketPicker(kernel, 0, Server(kernel, None), delay=0, packets=1, read=None, cycle=803.2)
    port = Port(kernel)
    for number in range(1, 50):
        sender = Sender(kernel, picker, port, number, 1, 2)
        sender.take = lambda: (16, 1, None, (0,))
        kernel.at(number * 5000, lambda sender=sender: picker.offer(port, sender))
    times = []
    port.reserve = lambda payload: times.append(kernel.now)
    kernel.run()
    assert len(times) == 49
    assert all(min(abs(time - round(round(time / 803.2) * 803.2)), 1) == 0 for time in times)
