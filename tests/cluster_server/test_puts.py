# SPDX-License-Identifier: Apache-2.0
"""Transfers between two ranks: matching, routes, and bytes through endpoints in RTL."""

from itertools import product
from math import prod

import numpy as np
import pytest

from dmace.cluster_client.protocol import Command, Transfer, decode, encode
from dmace.runtime.errors import DmaceError
from sim.cluster_server.groups import Group, GroupFailed, PeerLeft
from sim.cluster_server.puts import route


def transfer(number, peer, *, sends, tag=0, length=8):
    return Transfer(number=number, group="world", sends=sends, peer=peer, tag=tag, length=length)


def group():
    return Group("world", 0, (2, 5, 7))


def test_message():
    one = Transfer(number=3, group="world", sends=True, peer=1, tag=4, offset=4096, length=9)
    assert Transfer.of(decode(encode(one.message()))) == one
    with pytest.raises(DmaceError, match=r"^Fields of a transfer must be integers, not those of "):
        Transfer.of(one.message() | {"length": "9"})


@pytest.mark.parametrize("sends_first", (False, True))
def test_pairs_in_the_order_of_posts(sends_first):
    one = group()
    sides = [(2, 1, True), (5, 0, False)] if sends_first else [(5, 0, False), (2, 1, True)]
    (first, peer, sends), (second, other, receives) = sides
    for number in range(2):
        assert one.post_transfer(first, transfer(number, peer, sends=sends)) is None
    found = [one.post_transfer(second, transfer(10 + number, other, sends=receives)) for number in range(2)]
    assert [(pair.source, pair.target) for pair in found] == [(2, 5)] * 2
    numbers = [(pair.send.number, pair.receive.number) for pair in found]
    assert numbers == ([(0, 10), (1, 11)] if sends_first else [(10, 0), (11, 1)])
    assert found[0].numbers() == [(2, found[0].send.number), (5, found[0].receive.number)]


def test_tags_and_peers_are_kept_apart():
    one = group()
    assert one.post_transfer(2, transfer(0, 1, sends=True, tag=1)) is None
    assert one.post_transfer(5, transfer(0, 0, sends=False, tag=2)) is None
    assert one.post_transfer(5, transfer(1, 2, sends=False, tag=1)) is None
    assert one.post_transfer(5, transfer(2, 0, sends=False, tag=1)).receive.number == 2
    assert one.post_transfer(7, transfer(0, 1, sends=True, tag=1)).receive.number == 1


def test_receive_of_any_rank_takes_the_first_send():
    one = group()
    assert one.post_transfer(7, transfer(3, 1, sends=True)) is None
    assert one.post_transfer(2, transfer(4, 1, sends=True)) is None
    assert [one.post_transfer(5, transfer(number, -1, sends=False)).source for number in range(2)] == [7, 2]


def test_to_itself():
    one = group()
    assert one.post_transfer(5, transfer(0, 1, sends=True)) is None
    pair = one.post_transfer(5, transfer(1, 1, sends=False))
    assert (pair.source, pair.target) == (5, 5)


def test_different_lengths():
    one = group()
    one.post_transfer(2, transfer(0, 1, sends=True))
    with pytest.raises(GroupFailed, match=r"^Rank 2 of group world sends 8 bytes to rank 5, which receives 4\.$"):
        one.post_transfer(5, transfer(1, 0, sends=False, length=4))
    assert one.fail("It has ended.") == [(2, 0), (5, 1)]
    with pytest.raises(GroupFailed, match=r"^It has ended\.$"):
        one.post_transfer(2, transfer(2, 1, sends=True))


def test_rank_that_leaves():
    """Transfers between the others continue; those with it fail, and so do collectives."""
    one = group()
    one.post(7, Command(number=9, group="world", collective="BARRIER"))
    one.post_transfer(5, transfer(0, 2, sends=True))
    one.post_transfer(2, transfer(1, 1, sends=True))
    one.post_transfer(5, transfer(2, -1, sends=False, tag=3))
    assert one.leave(7, "Rank 7 has left.") == [(5, 0), (7, 9)]
    assert one.post_transfer(5, transfer(3, 0, sends=False)).send.number == 1
    assert one.post_transfer(2, transfer(4, 1, sends=True, tag=3)).receive.number == 2
    with pytest.raises(PeerLeft, match=r"^Rank 7 has left\.$"):
        one.post_transfer(2, transfer(5, 2, sends=False))
    with pytest.raises(PeerLeft, match=r"^Rank 7 has left\.$"):
        one.post(2, Command(number=6, group="world", collective="BARRIER"))


@pytest.mark.parametrize("wrong, sentence", (
    (transfer(0, 3, sends=True), "The peer of a SEND must be a rank from 0 to 2 of the group, not 3."),
    (transfer(0, -1, sends=True), "The peer of a SEND must be a rank from 0 to 2 of the group, not -1."),
    (transfer(0, -2, sends=False), "The peer of a RECEIVE must be a rank from -1 to 2 of the group, not -2."),
    (transfer(0, 1, sends=True, length=-1), "Offset and length of a SEND must not be negative, but are 0 and -1.")))
def test_wrong_transfer(wrong, sentence):
    with pytest.raises(DmaceError, match=f"^{sentence}$"):
        group().post_transfer(2, wrong)


@pytest.mark.parametrize("shape", ((2,), (5,), (2, 2), (4, 3), (2, 3, 4)))
def test_routes_are_shortest(shape):
    for source, target in product(range(prod(shape)), repeat=2):
        place, there = (list(np.unravel_index(rank, shape)) for rank in (source, target))
        ports = route(shape, source, target)
        distance = sum(min((b - a) % n, (a - b) % n) for a, b, n in zip(place, there, shape, strict=True))
        assert len(ports) == distance
        for port in ports:
            place[port // 2] = (place[port // 2] + (-1 if port % 2 else 1)) % shape[port // 2]
        assert place == there
