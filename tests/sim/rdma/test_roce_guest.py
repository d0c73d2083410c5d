# SPDX-License-Identifier: Apache-2.0
"""The software peer against Linux's soft-RoCE: one boot of a guest for all tests of this file."""

import random
from collections import Counter

import pytest

from hw.rdma.protocol import Opcode
from sim.linux.fetch import FetchFailed
from sim.rdma.bridge import Bridge
from sim.rdma.connection import Region
from sim.rdma.network import Faults, Line, SoftwareNetwork, Switch
from sim.rdma.packets import decode, is_roce
from sim.rdma.peer import Peer
from sim.rdma.requester import Failure
from sim.rdma.responder import Record
from sim.rdma.roce_guest import OWN, ROUTES, CommandFailed, RoceGuest, fetch_guest, pattern
from sim.verilator.toolchain import build_root
from tests.sim.rdma.dropping import drop_once

pytestmark = pytest.mark.long

VA, RKEY, SIZE = 0x7700_0000_0010, 0x5AFE, 1 << 18
LENGTHS = (0, 1, 2, 3, 4, 5, 1023, 1024, 1025, 2048, 2501, 4096, 20_000, 65_537, 100_000)


class Setup:
    """The guest, the peer, its memory, and the opcodes of all frames, whose bytes are those of our codec."""

    def __init__(self, folder):
        self.peer = Peer(OWN)
        self.memory = self.peer.add_region(Region(rkey=RKEY, va=VA, memory=bytearray(SIZE))).memory
        self.guest = RoceGuest(folder, self.peer)
        self.guest.segment.observe = self._observe
        self.observed = True
        self.seen, self.wrong = (Counter(), Counter()), []

    def _observe(self, sent, frame):
        if is_roce(frame) and self.observed:
            packet = decode(frame)      # raises if the ICRC is not ours
            self.seen[sent][packet.opcode] += 1
            if packet.encode() != frame:
                self.wrong.append(frame.hex())

    def drop(self, **functions):
        """As :func:`drop_once`."""
        return drop_once(self.guest.segment, **functions)

    def do(self, request):
        self.guest.run(lambda: request.done)
        return request


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    try:
        fetch_guest(build_root() / "linux")
    except FetchFailed as reason:
        pytest.skip(str(reason))
    made = Setup(tmp_path_factory.mktemp("roce"))
    with made.guest:
        yield made
        made.drop()
    assert not made.wrong
    assert "RESULT pass" in (made.guest.folder / "console.log").read_text().splitlines()


def _all_ways(setup, pair, opened, length, seed):
    """WRITE and READ of both ends, with other bytes each."""
    guest, (one, two) = setup.guest, (pattern(seed, length), pattern(seed + 77, length))
    guest.command("fill", 3, length, seed)
    setup.memory[:] = bytes(SIZE)
    guest.command("write", 3, VA + 5, RKEY, length)
    assert setup.memory == bytes(5) + one + bytes(SIZE - 5 - length)
    guest.command("read", 200_001, VA + 5, RKEY, length)
    assert guest.command("compare", 200_001, length, seed) == [0]
    request = setup.do(pair.requester.write(opened.address + 400_003, opened.rkey, two))
    assert request.failure is None and guest.command("compare", 400_003, length, seed + 77) == [0]
    request = setup.do(pair.requester.read(opened.address + 400_003, opened.rkey, length))
    assert request.failure is None and request.result == two


@pytest.mark.parametrize("mtu", [1024, 256])
def test_lengths(setup, mtu):
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer, mtu=mtu)
    for length in LENGTHS if mtu == 1024 else (0, 255, 257, 5000):
        _all_ways(setup, pair, opened, length, 1000 + length)
    assert pair.responder.failed is None and setup.peer.counts["wrong"] == setup.peer.counts["unknown"] == 0
    for direction in setup.seen:
        assert {Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY, Opcode.READ_REQUEST,
                Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST, Opcode.READ_ONLY,
                Opcode.ACKNOWLEDGE} <= set(direction)


@pytest.mark.parametrize("route", ROUTES[1:], ids=["IPv6", "VLAN", "IPv6 in VLAN"])
def test_routes(setup, route):
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer, route=route)
    for length in (1, 2501):
        _all_ways(setup, pair, opened, length, length)
    assert pair.responder.failed is None and setup.peer.counts["wrong"] == setup.peer.counts["unknown"] == 0


@pytest.mark.parametrize("what", ["requests", "responses"])
@pytest.mark.parametrize("from_guest", [False, True])
def test_dropped_frames(setup, what, from_guest, seed):
    """Some of the requests or responses of one end are dropped, and all bytes arrive."""
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer, timeout=12)
    generator = random.Random(seed)

    def chosen(packet):
        return (packet.opcode <= Opcode.READ_REQUEST) == (what == "requests") and generator.random() < 0.15

    dropped = setup.drop(**{"received" if from_guest else "sent": chosen})
    for length in (1, 2501, 30_000, 40_000, 50_000):
        _all_ways(setup, pair, opened, length, length)
    assert len(dropped) > 3
    setup.drop()


def test_each_kind_of_frame_is_recovered(setup):
    """The first frame of each opcode is dropped in each direction, in turn."""
    for direction in ("sent", "received"):
        setup.drop()
        pair, opened = setup.guest.connect(setup.peer, timeout=12)
        for opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.READ_REQUEST,
                       Opcode.READ_FIRST, Opcode.READ_MIDDLE, Opcode.READ_LAST, Opcode.ACKNOWLEDGE):
            found = []

            def first(packet, opcode=opcode, found=found):
                if packet.opcode == opcode and not found:
                    found.append(packet)
                    return True
                return False

            setup.drop(**{direction: first})
            _all_ways(setup, pair, opened, 5000, int(opcode))
            assert len(found) == 1, opcode
    setup.drop()


def test_a_wrong_icrc_has_no_response(setup):
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer)
    send, corrupt = setup.guest.segment._write, []

    def once(frame):
        if is_roce(frame) and not corrupt:
            corrupt.append(frame)
            frame = frame[:-1] + bytes([frame[-1] ^ 0x10])
        send(frame)

    setup.guest.segment._write = once
    try:
        request = setup.do(pair.requester.write(opened.address, opened.rkey, b"abc"))
    finally:
        setup.guest.segment._write = send
    assert request.failure is None and len(corrupt) == 1 and pair.requester.retransmissions == 1


def test_immediate_data(setup):
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer)
    setup.guest.command("fill", 0, 3000, 5)
    setup.guest.command("writei", 0, VA, RKEY, 3000, 0x12345678)
    setup.guest.command("writei", 0, VA, RKEY, 0, 7)
    assert pair.responder.records == [Record(0x12345678, 3000), Record(7, 0)]
    setup.guest.command("receive", 2)
    for length in (3000, 1):
        setup.do(pair.requester.write(opened.address, opened.rkey, bytes(length), imm=0xCAFE0000 + length))
        assert setup.guest.command("completion") == [length, 0xCAFE0000 + length]


def test_the_guest_has_no_receive(setup):
    """It responds with RNR NAKs, until one is posted."""
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer)
    request, began = pair.requester.write(opened.address, opened.rkey, b"abc", imm=9), setup.peer.counts["received"]
    setup.guest.run(lambda: setup.peer.counts["received"] > began + 2)
    assert not request.done
    setup.guest.command("receive", 1)
    assert setup.do(request).failure is None and setup.guest.command("completion") == [3, 9]


def test_our_ring_of_records_is_full(setup):
    setup.drop()
    pair, _ = setup.guest.connect(setup.peer)
    pair.responder.record_limit = 0
    ended = setup.guest.begin("writei", 0, VA, RKEY, 100, 3)
    received = setup.peer.counts["received"]
    setup.guest.run(lambda: setup.peer.counts["received"] > received + 2)
    assert not pair.responder.records
    pair.responder.record_limit = 1
    setup.guest.run(ended)
    assert setup.guest.end() == [] and pair.responder.records == [Record(3, 100)]


def test_refused_requests(setup):
    setup.drop()
    for address, key in ((VA, RKEY + 1), (VA + SIZE - 2, RKEY), (VA - 1, RKEY)):
        for word in ("write", "read"):
            setup.guest.connect(setup.peer)
            with pytest.raises(CommandFailed, match=r"^Remote access error\.$"):
                setup.guest.command(word, 0, address, key, 3)
    for shift, key in ((0, 1), (-1, 0), ((1 << 20) - 2, 0)):
        pair, opened = setup.guest.connect(setup.peer)
        request = setup.do(pair.requester.write(opened.address + shift, opened.rkey ^ key, b"abc"))
        assert request.failure is Failure.REMOTE_ACCESS


def test_pingpong(setup):
    setup.drop()
    pair, opened = setup.guest.connect(setup.peer)
    setup.guest.command("fill", 0, 64, 0)
    setup.memory[:64] = bytes(64)
    ended = setup.guest.begin("pingpong", 0, VA, RKEY, 64, 50)
    for number in range(1, 51):
        setup.do(pair.requester.write(opened.address, opened.rkey, bytes(63) + bytes([number])))
        setup.guest.run(lambda number=number: setup.memory[63] == number)
    setup.guest.run(ended)
    assert setup.guest.end()[0] > 0


class PeeredNetwork(SoftwareNetwork):
    """A network with a software peer at port 0."""

    def __init__(self, peer, **options):
        super().__init__([Line(bytes_per_cycle=12.5)] * 2, Switch(mark_bytes=4000), **options)
        self.peer = peer

    def run(self, cycles):
        super().run(cycles)
        for frame, bad in self.receive(0):
            if not bad:
                self.peer.receive(frame, self.cycle)
        for frame in self.peer.transmit(self.cycle):
            self.send(0, frame)


def test_the_network_model_is_between_both(setup, seed):
    """Loss, corrupt frames, duplicates and reordering in both directions, and bytes that arrive."""
    setup.drop()
    faults = Faults(loss=0.03, corrupt=0.03, bad_fcs=0.02, duplicate=0.03, reorder=0.05, reorder_cycles=3000)
    with PeeredNetwork(setup.peer, seed=seed) as network:
        setup.guest.peer, setup.observed = Bridge(network, 1), False
        try:
            pair, opened = setup.guest.connect(setup.peer, timeout=12)
            for port in (0, 1):
                network.fault(port, faults)
            for length in (1, 2501, 30_000, 50_000):
                _all_ways(setup, pair, opened, length, length)
            counts = network.counts(0), network.counts(1)
        finally:
            setup.guest.peer, setup.observed = setup.peer, True
    for count in counts:
        assert count.up_dropped and count.up_corrupted and count.up_duplicated and count.up_reordered


def test_commands_that_fail(setup):
    setup.drop()
    setup.guest.connect(setup.peer)
    for words, sentence in ((("dance",), r"^There is no command dance\.$"),
                            (("fill", 1 << 20, 1, 0), r"^The memory has 100000 bytes\.$"),
                            (("write", 1, 0, 0, 1 << 20), r"^The memory has 100000 bytes\.$")):
        with pytest.raises(CommandFailed, match=sentence):
            setup.guest.command(*words)
