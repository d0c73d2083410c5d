# SPDX-License-Identifier: Apache-2.0
"""Rotation of a bus's byte lanes."""

from amaranth import *

__all__ = ["rotate_up"]


def rotate_up(beat, lanes, opposite, *, unit=1):
    """``beat`` rotated up by ``lanes`` times ``unit`` bytes.

    Each stage uses two bits of ``lanes``: a choice of four is one 6-input LUT per bit of data. Neighbouring bytes are
    selected by ``lanes`` and by its inverse, ``opposite``, a register of its own: else synthesis shares half of each
    choice between them in another LUT, and takes half as many again.
    """
    found = [beat[at:at + 8] for at in range(0, len(beat), 8)]
    for low in range(0, len(lanes), 2):
        before, found, distance = found, [], unit << low
        for index in range(len(before)):
            choice = [before[(index - distance * number) % len(before)] for number in range(4)]
            if low + 1 == len(lanes):
                found.append(Mux(lanes[low], choice[1], choice[0]))
            elif index // distance & 2:
                found.append(_one_of_four(opposite[low:low + 2], choice[::-1]))
            else:
                found.append(_one_of_four(lanes[low:low + 2], choice))
    return Cat(found)


def _one_of_four(number, values):
    return Mux(number[1], Mux(number[0], values[3], values[2]), Mux(number[0], values[1], values[0]))
