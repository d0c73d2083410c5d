# SPDX-License-Identifier: Apache-2.0
"""Links, memories, registers and topology of a cluster, with a stub for the accelerator."""

from functools import cache
from math import prod

import numpy as np
import pytest

from dmace.drivers.ace import AceDriver
from hw.ace.config import BASE, TINY
from hw.ace.layouts import PacketKind
from hw.errors import UserError
from sim.ace.endpoints import Endpoints, Link, Memory, Reason
from sim.ace.shared_library import ClusterFailed, build_library
from tests.ace.stub import INBOX, WORDS, StubEndpoint, errand

pytestmark = pytest.mark.rtl

SOURCE, PAGE = 0x8000, 0x1000
BEAT, HEADER = TINY.beat_bytes, 16


@cache
def library():
    return build_library(TINY, component=StubEndpoint(TINY))


class Stubs(Endpoints):
    """Endpoints that send packets on command."""

    def __init__(self, shape, **options):
        super().__init__(TINY, shape, library=library(), **options)
        for rank in range(self.size):
            self.write_memory(rank, INBOX, bytes(6 * PAGE))
            self.write_memory(rank, WORDS, bytes(6 * 64))

    def send(self, rank, delay=0, **packet):
        self.do(self.bus(rank).store(0, errand(**packet), delay=delay))

    def arrival(self, rank, port, count=1, limit=100_000):
        """Cycle in which ``count`` packets are in the memory."""
        self.clear_watches()
        number = self.watch(rank, WORDS + 64 * port, count)
        assert self.run(limit) == Reason.DONE
        return self.watch_met(rank, number)

    def inbox(self, rank, port, count):
        return self.read_memory(rank, INBOX + PAGE * port, count)

    def link(self, rank, port):
        found, = [link for link in self.statistics()["links"] if (link["rank"], link["port"]) == (rank, port)]
        return found


def _neighbour(shape, rank, port):
    place = np.array(np.unravel_index(rank, shape))
    place[port // 2] += -1 if port % 2 else 1
    return int(np.ravel_multi_index(place, shape, mode="wrap"))


@pytest.mark.parametrize("shape", [(2,), (5,), (1, 3), (2, 3), (2, 3, 4), (2, 2, 2)],
                         ids=lambda shape: "x".join(map(str, shape)))
def test_neighbours(shape):
    rng = np.random.default_rng(1)
    ports = [port for port in range(2 * len(shape)) if shape[port // 2] > 1]
    with Stubs(shape, link=Link(latency=3)) as stubs:
        sent = {}
        for rank in range(prod(shape)):
            data = rng.integers(0, 256, (6, 64), np.uint8)
            stubs.write_memory(rank, SOURCE, data)
            for port in ports:
                sent[rank, port] = data[port]
                stubs.send(rank, port=port, address=SOURCE + 64 * port, beats=64 // BEAT)
                stubs.watch(_neighbour(shape, rank, port), WORDS + 64 * (port ^ 1), 1)
        assert stubs.run(5000) == Reason.DONE
        for (rank, port), data in sent.items():
            assert np.array_equal(stubs.inbox(_neighbour(shape, rank, port), port ^ 1, 64), data)
        links = stubs.statistics()["links"]
        assert {(link["rank"], link["port"]): link["to"] for link in links} == \
            {(rank, port): _neighbour(shape, rank, port) for rank, port in sent}


def test_a_port_without_neighbour():
    with Stubs((2,)) as stubs:
        stubs.send(0, port=2, kind=PacketKind.GRANT)
        with pytest.raises(ClusterFailed, match=r"^Endpoint 0 sent at a port without a neighbour\.$"):
            stubs.run(100)


def test_latency_is_that_of_the_link():
    def cycles(latency):
        with Stubs((2,), link=Link(latency=latency), memory=Memory(read_latency=2, write_latency=2)) as stubs:
            stubs.write_memory(0, SOURCE, bytes(256))
            stubs.send(0, port=0, address=SOURCE, beats=8)
            return stubs.arrival(1, 1)

    # The link, 7 cycles to the last beat, 2 for each latency of a memory, and the stubs' own latency.
    assert cycles(1) == 1 + 7 + 2 + 2 * 2 + 8
    assert [cycles(latency) - cycles(1) for latency in (2, 20, 63, 64, 300)] == [1, 19, 62, 63, 299]


@pytest.mark.parametrize("rate", [0.3, 1, 4, 5])
def test_bandwidth_is_that_of_the_link(rate):
    def arrival(beats, rate):
        with Stubs((3, 2), link=[Link(), Link(bytes_per_cycle=rate)]) as stubs:
            stubs.write_memory(2, SOURCE, bytes(PAGE))
            stubs.send(2, port=2, address=SOURCE, beats=beats)
            cycle, link = stubs.arrival(3, 3), stubs.link(2, 2)
            assert (link["data"], link["payload_bytes"], link["header_bytes"]) == (1, beats * BEAT, HEADER)
            assert link["busy"] == pytest.approx((beats * BEAT + HEADER) / rate, abs=1e-5)
            return cycle

    for beats in (5, 32, 100):
        takes, takes_at_2 = ((beats * BEAT + HEADER) / which for which in (rate, 2))
        assert arrival(beats, rate) - arrival(beats, 2) == pytest.approx(takes - takes_at_2, abs=1)


def test_signals_take_a_header():
    with Stubs((2,), link=Link(bytes_per_cycle=1)) as stubs:
        for kind in [PacketKind.CREDIT] * 3 + [PacketKind.GRANT] * 5:
            stubs.send(0, port=1, kind=kind)
        stubs.run(1000)
        link = stubs.link(0, 1)
        assert (link["credits"], link["grants"], link["data"]) == (3, 5, 0)
        assert (link["header_bytes"], link["payload_bytes"], link["busy"]) == (8 * HEADER, 0, 8 * HEADER)
        assert link["waited"] > 7 * (HEADER - 8)
        assert all(link["header_bytes"] == 0 for link in stubs.statistics()["links"]
                   if (link["rank"], link["port"]) != (0, 1))


def test_what_is_not_taken_waits():
    """Two packets arrive at one endpoint at the same time, which accepts one after the other."""
    data = np.random.default_rng(2).integers(0, 256, 1024, np.uint8)
    with Stubs((2,), link=Link(latency=5), memory=Memory(write_latency=400)) as stubs:
        stubs.write_memory(0, SOURCE, data)
        for port in (0, 1):
            stubs.send(0, port=port, address=SOURCE, beats=128)
        stubs.arrival(1, 0)
        stubs.arrival(1, 1)
        assert np.array_equal(stubs.inbox(1, 0, 1024), data) and np.array_equal(stubs.inbox(1, 1, 1024), data)
        assert stubs.link(0, 0)["held"] + stubs.link(0, 1)["held"] > 400


@pytest.mark.parametrize(("memory", "more"), [
    ({"read_latency": 150}, 50), ({"write_latency": 130}, 60), ({"read_rate": 0.25}, 4 * 64),
    ({"write_rate": 0.25}, 4 * 65),
], ids=["read latency", "write latency", "read rate", "write rate"])
def test_memory(memory, more):
    def arrival(**memory):
        with Stubs((2,), memory=Memory(**memory)) as stubs:
            stubs.write_memory(0, SOURCE, bytes(512))
            stubs.send(0, port=0, address=SOURCE, beats=64)
            cycle = stubs.arrival(1, 1)
            sender, receiver = stubs.statistics()["memories"]
            assert (sender["read_bursts"], sender["read_beats"], sender["write_bursts"]) == (1, 64, 0)
            assert (receiver["write_bursts"], receiver["write_beats"]) == (2, 65)
            assert receiver["write_bytes"] == 64 * BEAT + 8
            return cycle

    # A completion word is a burst, too.
    assert arrival(**memory) - arrival() == pytest.approx(more, abs=1)


def test_each_endpoint_has_its_own_memory():
    with Stubs((3,), memory=[Memory(), Memory(read_latency=700), Memory()]) as stubs:
        cycles = []
        for rank in range(3):
            stubs.write_memory(rank, SOURCE, bytes([rank]) * 64)
            start = stubs.cycle
            stubs.send(rank, port=0, address=SOURCE, beats=8)
            cycles.append(stubs.arrival((rank + 1) % 3, 1) - start)
            assert (stubs.inbox((rank + 1) % 3, 1, 64) == rank).all()
    assert cycles == [cycles[0], cycles[0] + 600, cycles[0]]


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
def test_errors_of_a_memory(write):
    """The first packet is intact; a burst of the second gets an error response."""
    failing = int(write)
    with Stubs((2,)) as stubs:
        driver = AceDriver(stubs.bus(failing), TINY)
        stubs.do(driver.enable_interrupts(error=True))
        stubs.write_memory(0, SOURCE, bytes([7]) * 64)
        # Each packet is followed by its completion word.
        stubs.fail_write(1, 3) if write else stubs.fail_read(0, 2)
        stubs.send(0, port=0, address=SOURCE, beats=8)
        stubs.watch(1, WORDS + 64, 1)
        assert stubs.run(2000, until_interrupt=True) == Reason.DONE
        assert (stubs.inbox(1, 1, 64) == 7).all()

        stubs.write_memory(1, INBOX + PAGE, bytes(64))
        stubs.send(0, port=0, address=SOURCE, beats=8)
        stubs.watch(1, WORDS + 64, 2)
        assert stubs.interrupted(failing) is None
        assert stubs.run(2000, until_interrupt=True) == Reason.INTERRUPT
        assert stubs.interrupted(failing) <= stubs.cycle and stubs.interrupted(1 - failing) is None
        assert stubs.do(driver.interrupts()) == [{"error": 1, "completion": 0, "register": 0}]
        stubs.arrival(1, 1, 2)
        assert (stubs.inbox(1, 1, 64) == (0 if write else 7)).all()
        stubs.do(driver.acknowledge(error=True))
        stubs.run(100)
        assert stubs.interrupted(failing) is None


def test_memory_that_there_is_not():
    with Stubs((2,)) as stubs:
        stubs.send(0, port=0, address=0x4000_0000, beats=1)
        with pytest.raises(ClusterFailed, match=r"^Endpoint 0 used memory that it may not\.$"):
            stubs.run(1000)
        with pytest.raises(ClusterFailed, match=r"^There is no memory at one of the addresses\.$"):
            stubs.read_memory(0, 0x4000_0000, 8)


_ROUGH = {"link": Link(latency=7, bytes_per_cycle=5, stall=0.2),
          "memory": Memory(read_latency=30, write_latency=30, stall=0.2, jitter=20, out_of_order=True)}


def _traffic(seed, **options):
    """Random packets between all neighbours, all of which must arrive; returns cycles and statistics."""
    rng = np.random.default_rng(seed)
    shape = (2, 3, 2)
    with Stubs(shape, seed=seed, **options) as stubs:
        expected = {}
        for rank in range(stubs.size):
            data = rng.integers(0, 256, (6, 256), np.uint8)
            stubs.write_memory(rank, SOURCE, data)
            for port in range(6):
                there = _neighbour(shape, rank, port), port ^ 1
                lengths = rng.integers(1, 33, 2)
                for length in lengths:
                    stubs.send(rank, delay=int(rng.integers(40)), port=port, address=SOURCE + 256 * port,
                               beats=int(length))
                expected[there] = data[port, :lengths.max() * BEAT]
                stubs.watch(there[0], WORDS + 64 * there[1], 2)
        assert stubs.run(200_000) == Reason.DONE
        for (rank, port), data in expected.items():
            assert np.array_equal(stubs.inbox(rank, port, len(data)), data)
        return stubs.cycle, stubs.statistics()


def test_everything_arrives_despite_stalls(seed):
    _traffic(seed)
    _traffic(seed, **_ROUGH)


def test_same_seed_same_cycles(seed):
    first = _traffic(seed, **_ROUGH)
    assert _traffic(seed, **_ROUGH) == first == _traffic(seed, threads=3, **_ROUGH)
    assert _traffic(seed + 1, **_ROUGH) != first


def test_registers_of_all_at_once():
    with Stubs((4, 4)) as stubs:
        drivers = [AceDriver(stubs.bus(rank), TINY) for rank in range(stubs.size)]
        stubs.do(*(driver.check_identity() for driver in drivers))
        stubs.do(*(driver.write("QUEUE_SC_LO", value=rank) for rank, driver in enumerate(drivers)))
        assert stubs.do(*(driver.read("QUEUE_SC_LO") for driver in drivers)) == [{"value": rank} for rank in range(16)]
        with pytest.raises(RuntimeError, match=r"^The engine's sizes are \{.*, not \{.*\}$"):
            stubs.do(AceDriver(stubs.bus(0), BASE).check_identity())


def test_missing_registers_are_refused():
    with Stubs((4,)) as stubs, pytest.raises(ClusterFailed, match=r"^Endpoint 3 responded to a register access with an "
                                                                  r"error\.$"):
        stubs.do(stubs.bus(3).write(0xFF0, 1))


def test_progress_and_limit():
    with Stubs((2,)) as stubs:
        seen = []
        assert stubs.run(120_000, progress=seen.append) == Reason.LIMIT
        assert stubs.cycle == seen[-1] == 120_000 and len(seen) == 3


def test_a_word_that_reports_a_failure_ends_the_wait():
    with Stubs((2,)) as stubs:
        stubs.write_memory(1, WORDS, (1 << 56).to_bytes(8, "little"))
        stubs.watch(1, WORDS, 5, failed=0xFE << 56)
        assert stubs.run(100) == Reason.LIMIT
        stubs.clear_watches()
        stubs.watch(1, WORDS, 5, failed=0xFF << 56)
        assert stubs.run(100) == Reason.DONE and stubs.watch_met(1, 0) == 100


def test_counts_wrap():
    with Stubs((2,)) as stubs:
        stubs.write_memory(1, WORDS, (2).to_bytes(8, "little"))
        stubs.watch(1, WORDS, 0xFFFF_FFF0)
        assert stubs.run(100) == Reason.DONE


@pytest.mark.parametrize(("shape", "options", "sentence"), [
    ((2, 2, 2, 2), {}, "A torus must have 1 to 3 dimensions and 1 to 128 ranks, not a shape of (2, 2, 2, 2)."),
    ((16, 16), {}, "A torus must have 1 to 3 dimensions and 1 to 128 ranks, not a shape of (16, 16)."),
    ((4, 4), {"link": [Link()]}, "A torus of 2 dimensions must have as many kinds of links, not 1."),
    ((4, 4), {"memory": [Memory()]}, "A torus of 16 ranks must have as many memories, not 1."),
    ((4,), {"link": Link(latency=0)}, "The latency of a link must be from 1 to 100,000 cycles, not 0."),
    ((4,), {"link": Link(bytes_per_cycle=-1)}, "The bandwidth of a link must not be negative, but is -1."),
    ((4,), {"memory": Memory(stall=1)}, "The probability of a stall must be at least 0 and less than 1, not 1."),
    ((4,), {"threads": 0}, "There must be at least one thread, not 0."),
])
def test_wrong_options(shape, options, sentence):
    with pytest.raises(UserError) as caught:
        Stubs(shape, **options)
    assert str(caught.value) == sentence


def test_shared_memory():
    """An array takes the place of an endpoint's memory."""
    page = 1 << 16
    array = np.zeros(page, np.uint8)
    with Stubs((2,)) as stubs:
        stubs.write_memory(0, 3 * page - 3, b"before")
        stubs.share_memory(0, 3 * page, array)
        stubs.write_memory(0, 3 * page - 2, b"across")
        assert bytes(array[:4]) == b"ross" and stubs.read_memory(0, 3 * page - 2, 6).tobytes() == b"across"
        array[page - 1] = 7
        assert stubs.read_memory(0, 4 * page - 1, 1) == 7
        with pytest.raises(ClusterFailed, match=r"^Shared memory must consist of pages of 65536 bytes\.$"):
            stubs.share_memory(0, 3 * page + 1, array)
