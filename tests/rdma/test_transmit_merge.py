# SPDX-License-Identifier: Apache-2.0
"""TransmitMerge: whole packets, in order, round robin."""

import random

import pytest

from hw.rdma.config import TINY
from hw.rdma.frames.transmit_merge import TransmitMerge
from hw.rdma.layouts import transmit_layout
from tests.stream.bench import exercise


def _beats(rng, number, packets, *, longest=4):
    """Beats of packets; ``psn`` is the packet's number, ``data`` the beat's number in it, ``qp`` the input."""
    beats = []
    for psn in range(packets):
        count = rng.randint(1, longest)
        beats += [{"header": {"qp": number, "psn": psn}, "data": index, "first": int(index == 0),
                   "last": int(index == count - 1)} for index in range(count)]
    return [transmit_layout(TINY).const(beat) for beat in beats]


def _names(log):
    return [(one.header.qp, one.header.psn, one.data) for _, one in log]


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.3, 0.5)])
def test_packets_stay_whole(stalls, seed):
    rng = random.Random(seed)
    items = [_beats(rng, number, 30) for number in range(2)]
    dut = TransmitMerge(TINY)
    *_, got = exercise(dut, list(zip(dut.i, items, strict=True)), [dut.o], expect=sum(map(len, items)), stalls=stalls,
                       seed=seed)
    names = _names(got)
    for number in range(2):
        assert [name for name in names if name[0] == number] == [
            (number, beat.header.psn, beat.data) for beat in items[number]]
    for before, after, (_, beat) in zip(names, names[1:], got[1:], strict=False):
        assert beat.first == (before[:2] != after[:2]) == (after[2] == 0)


def test_round_robin_without_bubbles(seed):
    """Two inputs with packets alternate, in every cycle; one that is alone has every cycle."""
    rng = random.Random(seed)
    items = [_beats(rng, 0, 30, longest=3), _beats(rng, 1, 10, longest=3)]
    dut = TransmitMerge(TINY)
    *_, got = exercise(dut, list(zip(dut.i, items, strict=True)), [dut.o], expect=sum(map(len, items)))
    cycles = [cycle for cycle, _ in got]
    assert cycles == list(range(1, len(cycles) + 1))
    order = [one.header.qp for _, one in got if one.first]
    assert order[:20] == [0, 1] * 10 and order[20:] == [0] * 20
