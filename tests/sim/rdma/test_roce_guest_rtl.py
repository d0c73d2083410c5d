# SPDX-License-Identifier: Apache-2.0
"""The RTL against Linux's soft-RoCE."""

import itertools
import random

import pytest

from dmace.drivers.rdma import FailedQueuePair
from dmace.drivers.registers import wait
from hw.rdma.fault import Fault
from hw.rdma.protocol import Opcode
from sim.rdma.packets import decode, is_roce
from sim.rdma.roce_guest import ROUTES, CommandFailed
from tests.sim.rdma.unit_guest import ADDRESS, RECORDS, RING, SCRATCH, SIZE, VA

pytestmark = [pytest.mark.long, pytest.mark.rtl]

LENGTHS = (1, 2, 3, 4, 5, 1023, 1024, 1025, 2501, 4096, 10_000)


@pytest.mark.parametrize("mtu", [1024, 256])
def test_lengths(setup, seed, mtu):
    qp = setup.connect(seed, mtu=mtu)
    for length in LENGTHS if mtu == 1024 else (255, 257, 5000):
        setup.all_ways(length, 1000 + length)
    assert wait(setup.driver.state(qp)).fault is None
    for direction in setup.seen:
        assert {Opcode.WRITE_ONLY, Opcode.READ_REQUEST, Opcode.READ_ONLY, Opcode.ACKNOWLEDGE} <= direction
    received, sent = setup.seen
    assert {Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST} <= received
    assert {Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST} <= sent


@pytest.mark.parametrize("route", ROUTES[1:], ids=["IPv6", "VLAN", "IPv6 in VLAN"])
def test_routes(setup, seed, route):
    """All frames have the addresses and the tag of the connection's route."""
    frames, observe = [], setup.guest.segment.observe
    setup.guest.segment.observe = lambda sent, frame: (frames.append((sent, frame)), observe(sent, frame))
    try:
        qp = setup.connect(seed, route=route)
        for length in (1, 2501):
            setup.all_ways(length, length)
    finally:
        setup.guest.segment.observe = observe
    packets = [(sent, decode(frame)) for sent, frame in frames if is_roce(frame)]
    assert {sent for sent, _ in packets} == {False, True}
    for sent, packet in packets:
        ends = [route.station(b"\0" * 6, guest=guest).ip for guest in (False, True)]
        assert [packet.source_ip, packet.destination_ip] == (ends if sent else ends[::-1])
        assert packet.vlan == route.vlan
    assert wait(setup.driver.state(qp)).fault is None


@pytest.mark.parametrize("what", ["requests", "responses"])
@pytest.mark.parametrize("direction", ["sent", "received"])
def test_dropped_frames(setup, seed, what, direction):
    """A fifth of the requests or responses of one end is dropped, and all bytes arrive."""
    qp, number = setup.connect(seed), itertools.count(random.Random(seed).randrange(5))
    dropped = setup.drop(**{direction: lambda packet: (packet.opcode <= Opcode.READ_REQUEST) == (what == "requests")
                            and next(number) % 5 == 0})
    for length in (1, 2501, 6000, 10_000):
        setup.all_ways(length, length)
    assert len(dropped) > 2 and wait(setup.driver.state(qp)).fault is None


def test_immediate_data(setup, seed):
    """Records of the guest's WRITEs with immediate data; when the ring is full, the guest waits for it."""
    qp = setup.connect(seed, ring=True)
    setup.guest.command("fill", 0, 3000, 5)
    for number in range(RECORDS):
        setup.guest.command("writei", 0, VA, setup.rkey, 3000, 0x1000 + number)
    before = wait(setup.driver.counters())["requests_not_ready"]
    ended = setup.guest.begin("writei", 0, VA, setup.rkey, 100, 0x1004)
    setup.guest.run(lambda: wait(setup.driver.counters())["requests_not_ready"] > before)
    assert not ended()
    wait(setup.driver.free_records(qp, 1))
    setup.guest.run(ended)
    assert setup.guest.end() == []
    words = [int.from_bytes(setup.cluster.load(0, RING + 16 * slot, 16), "little") for slot in range(RECORDS)]
    assert [word & 0xFFFF_FFFF for word in words] == [0x1004, 0x1001, 0x1002, 0x1003]
    assert [word >> 32 & 0xFFFF_FFFF for word in words] == [100, 3000, 3000, 3000]
    assert [word >> 127 for word in words] == [0, 1, 1, 1]


@pytest.mark.parametrize("word", ["write", "read"])
@pytest.mark.parametrize("shift, key", [(0, 1), (SIZE - 2, 0), (-1, 0)])
def test_requests_of_the_guest_are_refused(setup, seed, word, shift, key):
    qp = setup.connect(seed)
    before = setup.cluster.load(0, ADDRESS - 64, SIZE + 128)
    with pytest.raises(CommandFailed, match=r"^Remote access error\.$"):
        setup.guest.command(word, 0, VA + shift, setup.rkey ^ key, 3)
    assert setup.cluster.load(0, ADDRESS - 64, SIZE + 128) == before
    assert wait(setup.driver.take_fault()) == FailedQueuePair(qp, Fault.LOCAL_ACCESS)


@pytest.mark.parametrize("write", [False, True])
def test_the_guest_refuses_requests(setup, seed, write):
    qp = setup.connect(seed)
    wait(setup.driver.define_remote(1, qp=qp, rkey=setup.opened.rkey ^ 1, va=setup.opened.address, length=1000))
    assert setup.copy(write=write, local=SCRATCH, remote=0, length=100) == 1
    assert wait(setup.driver.take_fault()) == FailedQueuePair(qp, Fault.REMOTE_ACCESS)


def test_send_is_refused(setup, seed):
    """So that tools such as ``ibv_rc_pingpong``, which use SEND, fail at their first message."""
    qp = setup.connect(seed)
    with pytest.raises(CommandFailed, match=r"^Remote invalid request error\.$"):
        setup.guest.command("send", 0, 100)
    assert wait(setup.driver.take_fault()).qp == qp


def test_pingpong(setup, seed):
    """Both ends in turn write the round's number to the other's memory, which it polls."""
    setup.connect(seed)
    setup.guest.command("fill", 0, 64, 0)
    setup.cluster.store(0, ADDRESS, bytes(64))
    ended = setup.guest.begin("pingpong", 0, VA, setup.rkey, 64, 30)
    for number in range(1, 31):
        setup.cluster.store(0, SCRATCH, bytes(63) + bytes([number]))
        assert setup.copy(write=True, local=SCRATCH, remote=0, length=64) == 0
        setup.guest.run(lambda number=number: setup.cluster.load(0, ADDRESS + 63, 1)[0] == number)
    setup.guest.run(ended)
    assert setup.guest.end()[0] > 0
