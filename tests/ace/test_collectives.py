# SPDX-License-Identifier: Apache-2.0
"""The table of collectives agrees with NCCL's contract."""

import pytest

from hw.ace.collectives import COLLECTIVES, DIRECTORY_WIDTH, RANK_ORDER, Collective, OneShot, Ordered, those
from hw.ace.programs.schedule import ORDER
from hw.ace.words import COMMAND_FIELDS

C = Collective
COUNT, RANKS, RANK = 10, 4, 3

# Elements of the send and of the receive buffer, and the starts of both in the longer one if they overlap.
CONTRACT = {
    C.ALL_REDUCE: (10, 10, (0, 0)),
    C.REDUCE_SCATTER: (40, 10, (0, 30)),
    C.ALL_GATHER: (10, 40, (30, 0)),
    C.ALL_TO_ALL: (40, 40, None),
    C.BROADCAST: (10, 10, (0, 0)),
    C.REDUCE: (10, 10, (0, 0)),
    C.BARRIER: (0, 0, (0, 0)),
}


def test_each_has_a_row():
    assert list(COLLECTIVES) == list(Collective)
    assert all((info.send is None) == (info.receive is None) for info in COLLECTIVES.values())


@pytest.mark.parametrize("collective", Collective, ids=lambda collective: collective.name)
def test_buffers(collective):
    info, (sent, received, offsets) = collective.info, CONTRACT[collective]
    assert (info.sent(COUNT, RANKS), info.received(COUNT, RANKS)) == (sent, received)
    assert info.in_place == (offsets is not None)
    assert not info.in_place or info.in_place_offsets(COUNT, RANK) == offsets


def test_roots():
    assert those(lambda info: info.from_root) == (C.BROADCAST,)
    assert those(lambda info: info.to_root) == (C.REDUCE,)
    assert [one for one in C if not one.info.writes(at_root=False)] == [C.REDUCE, C.BARRIER]
    assert [one for one in C if not one.info.writes(at_root=True)] == [C.BARRIER]


def test_varying():
    assert those(lambda info: info.varying) == (C.REDUCE_SCATTER, C.ALL_GATHER, C.ALL_TO_ALL)
    assert those(lambda info: info.pairwise) == (C.ALL_TO_ALL,)


def test_what_reduces_has_programs_in_rank_order():
    assert [one.collective for one in Ordered] == list(those(lambda info: info.reduces))
    assert all(one.collective.in_rank_order == one and one.name == one.collective.name for one in Ordered)
    with pytest.raises(ValueError):
        Collective.BROADCAST.in_rank_order  # noqa: B018


def test_codes_fit():
    assert max(Collective) < 1 << dict(COMMAND_FIELDS)["collective"]
    assert max(Collective) < RANK_ORDER < max(Ordered) < 1 << DIRECTORY_WIDTH
    assert all(RANK_ORDER <= one < 1 << DIRECTORY_WIDTH and one not in set(Ordered) for one in OneShot)


def test_every_program_has_a_turn():
    assert sorted(ORDER) == sorted([*Collective, *Ordered, *OneShot]) and ORDER[-1] == C.ALL_TO_ALL
