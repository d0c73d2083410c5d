# SPDX-License-Identifier: Apache-2.0
"""Commands of ranks that belong together."""

import pytest

from dmace.cluster_client.protocol import Command, Extents, Result, decode, encode
from dmace.runtime.errors import DmaceError
from sim.cluster_server.groups import Group, GroupFailed, PeerLeft


def command(number=0, collective="ALL_REDUCE", **fields):
    return Command(number=number, group="world", collective=collective, **{"dtype": "FP32", "count": 8} | fields)


def group():
    return Group("world", 0, (2, 5))


def test_messages():
    for one in (command(), command(collective="ALL_TO_ALL", extents=Extents([(1, 0), (2, 1)], [(3, 2), (4, 5)]))):
        assert Command.of(decode(encode(one.message()))) == one
    result = Result(cycles=3, ended=[2, 3], read_bytes=1, written_bytes=2, payload_bytes=3, header_bytes=4,
                    lost_packets=5)
    assert Result.of(decode(encode(result.message(7)))) == result


@pytest.mark.parametrize("packet", (b"{", b"[]", b"{}", b"\xff"))
def test_malformed_message(packet):
    with pytest.raises(DmaceError, match=r"^A message must be a JSON object with a type, not"):
        decode(packet)


def test_commands_are_matched_in_order():
    one = group()
    assert one.post(5, command(0)) is None and one.post(5, command(1)) is None
    assert [each.number for each in one.post(2, command(7)).commands] == [7, 0]
    assert [each.number for each in one.post(2, command(8)).commands] == [8, 1]


@pytest.mark.parametrize("field, value", (("collective", "REDUCE"), ("dtype", "INT32"), ("op", "MAX"), ("count", 9),
                                          ("root", 1), ("widen", True), ("ordered", True)))
def test_difference(field, value):
    one = group()
    one.post(2, command())
    with pytest.raises(GroupFailed, match=r"^Ranks of group world have posted different collectives: rank 2 ALL_REDUCE "
                                          r"\(8 x FP32, SUM, root 0\), and rank 5 "):
        one.post(5, command(**{field: value}))
    assert one.fail("It has ended.") == [(2, 0), (5, 0)]
    with pytest.raises(GroupFailed, match=r"^It has ended\.$"):
        one.post(2, command())


@pytest.mark.parametrize("collective, first, second, sentence", (
    ("ALL_TO_ALL", ([(1, 0), (2, 1)], [(1, 0), (3, 1)]), ([(3, 0), (4, 3)], [(1, 0), (4, 2)]),
     "rank 2 sends 2 elements to rank 5, which receives 1"),
    ("ALL_GATHER", ([(3, 0)], [(3, 0), (4, 3)]), ([(5, 0)], [(3, 0), (5, 3)]),
     "rank 5 sends 5 elements to rank 2, which receives 4"),
    ("REDUCE_SCATTER", ([(3, 0), (4, 3)], [(3, 0)]), ([(3, 0), (4, 3)], [(5, 0)]),
     "rank 2 sends 4 elements to rank 5, which receives 5")))
def test_unequal_parts(collective, first, second, sentence):
    one = group()
    one.post(2, command(collective=collective, extents=Extents(*first)))
    with pytest.raises(GroupFailed, match=f"^In {collective} of group world, {sentence}[.]$"):
        one.post(5, command(collective=collective, extents=Extents(*second)))


def test_count_of_parts():
    one = group()
    one.post(2, command(collective="ALL_TO_ALL", count=1, extents=Extents([(1, 0), (2, 1)], [(1, 0), (3, 1)])))
    assert one.post(5, command(collective="ALL_TO_ALL", count=9, extents=Extents(
        [(3, 0), (4, 3)], [(2, 0), (4, 2)]))).count == 4


@pytest.mark.parametrize("wrong, sentence", (
    (command(dtype="FP64"), "The dtype of a command must be one of FP32"),
    (command(collective="SEND"), "The collective of a command must be one of ALL_REDUCE"),
    (command(op="XOR"), "The op of a command must be one of SUM"),
    (command(root=2), "The root of a command must be a rank from 0 to 1 of the group, not 2."),
    (command(extents=Extents([(1, 0)], [(1, 0)])), "ALL_REDUCE has no parts of different lengths."),
    (command(collective="ALL_GATHER", extents=Extents([(1, 0)], [(1, 0)])),
     "The receive buffer of ALL_GATHER must have 2 parts, not 1.")))
def test_wrong_command(wrong, sentence):
    with pytest.raises(DmaceError, match=f"^{sentence}"):
        group().post(2, wrong)


def test_first_cause_is_kept():
    """A rank that ends after another one has left is not why collectives fail; nor the other way round."""
    one = group()
    one.leave(2, "Rank 2 has left.")
    assert one.fail("Rank 5 has ended.") == []
    with pytest.raises(PeerLeft, match=r"^Rank 2 has left\.$"):
        one.post(5, command())
    one = group()
    one.fail("Rank 5 has ended.")
    one.leave(2, "Rank 2 has left.")
    with pytest.raises(GroupFailed, match=r"^Rank 5 has ended\.$"):
        one.post(5, command())
