# SPDX-License-Identifier: Apache-2.0
"""Stores of the functions of ``dmace_endpoint.h``, replayed to the RTL of two neighbours."""

import subprocess

import numpy as np
import pytest

from dmace.drivers.endpoint import EndpointDriver
from dmace.drivers.triggers import CounterState, RefusedTrigger
from hw.endpoint.config import TINY, remote_address
from hw.triggers.config import counter_address
from hw.triggers.words import Mode, Refusal
from sim.ace.endpoints import Link, Memory, Reason
from sim.ace.shared_library import ClusterFailed
from sim.endpoint.cluster import EndpointCluster
from tests.endpoint.test_header import compile_header
from tests.endpoint.test_header_threads import DOUBLE

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SOURCE, TARGET, FLAGS, LENGTH = 0x10_0000, 0x20_0000, 0x30_0000, 0x2000
QUEUE, BLOCK = 2, 1
DATA, PEER, PEER_FLAGS, PEER_COUNTERS, OWN_FLAGS = range(5)
"""Numbers of regions: this rank's source, then spans of the neighbour, then this rank's flags."""

STEPS = r"""
/* A part of a kernel, by name. */
static void step(const char *name)
{
    const dmace_word put = dmace_copy_word(0, 100, 1, 200, 4000, 0);
    uint32_t part;
    switch (name[0]) {
    case 'o': dmace_open_signal(&block, 9, DMACE_ENDPOINT_DMA_PAGE(2), 4, 64); break;
    case 'a': dmace_signal_add(&queue, 3, 9, name[1] == '1' ? 5 : 600000); break;
    case 's': dmace_put_signal(&queue, put, dmace_signal_word(2, 8, UINT64_C(0xabc00000001), 0)); break;
    case 'q': values[0] = 7; dmace_quiet(&queue, words, 4, 24, 7, 1); break;
    case 'r':
        dmace_prepare(&block, 3, 0, put);
        dmace_prepare(&block, 3, 1, dmace_signal_word(2, 16, 0, 0));
        dmace_arm(&block, 3, dmace_arm_word(DMACE_ENDPOINT_MODE_REPEAT, DMACE_ENDPOINT_DMA_PAGE(2), 4, 1, 1, 1));
        break;
    case 't':
        for (part = 0; part < 4; ++part)
            dmace_tick_to(&block, part, dmace_tick_word(3, (uint32_t)(name[1] - '0'), 1));
        break;
    case 'c':
        dmace_prepare(&block, 20, 0, dmace_chain_word(dmace_tick_any_word(3, 3), dmace_tick_any_word(3, 1)));
        dmace_arm(&block, 20, dmace_arm_word(DMACE_ENDPOINT_MODE_ONCE, block.page, 2, 0, 0, 0));
        dmace_tick(&block, 20, 2);
        break;
    default: dmace_disarm(&block, 3);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)loaded;
    step(argv[1]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_header(tmp_path_factory.mktemp("steps"), DOUBLE + STEPS, "c11")


@pytest.fixture
def cluster(seed):
    link = Link(latency=20, stall=0.1)
    memory = Memory(read_latency=30, write_latency=50, stall=0.1, jitter=20, out_of_order=True)
    with EndpointCluster(TINY, (2,), link=link, memory=memory, seed=seed) as cluster:
        for rank, endpoint in enumerate(cluster.endpoints):
            for address in (SOURCE, TARGET, FLAGS):
                cluster.write_memory(rank, address, bytes(LENGTH))
            regions = (SOURCE, remote_address(0, 0), remote_address(0, 1), remote_address(0, 2), FLAGS)
            cluster.do(
                endpoint.define_export(0, base=TARGET, length=LENGTH, ports=[1]),
                endpoint.define_export(1, base=FLAGS, length=4096, ports=[1]),
                endpoint.define_export(2, base=counter_address(BLOCK), length=4096, ports=[1]),
                *(endpoint.dma.define_region(number, base=base, length=LENGTH, readable=number == DATA)
                  for number, base in enumerate(regions)),
                endpoint.assign_block(BLOCK, [QUEUE]))
            cluster.start_queue(rank, QUEUE)
        yield cluster


def _replay(cluster, rank, program, step):
    """Store everything that a step of the program stores, in order."""
    log = subprocess.run([program, step], capture_output=True, text=True, check=True).stdout.splitlines()
    triggers, bus = TINY.triggers, cluster.whole_bus(rank)
    pages = {"T": triggers.tick_page(BLOCK), "P": triggers.preparation_page(BLOCK), "Q": QUEUE}
    stores = [(line[0], *line[2:].split()) for line in log if line[0] in pages and line[1] == "+"]
    assert stores

    async def store():
        for page, offset, word in stores:
            data = int(word, 16).to_bytes(len(word) // 2, "little")
            await bus.store(pages[page] * 4096 + int(offset, 16), data)

    cluster.do(store())


def _settled(cluster, rank, request):
    """Result of a method of the driver, when all stores have been made."""
    cluster.clear_watches()
    cluster.run(200)
    return cluster.do(request(cluster.endpoints[rank]))[0]


def _flag(cluster, rank, offset):
    return int.from_bytes(cluster.read_memory(rank, FLAGS + offset, 8).tobytes(), "little")


def _wait(cluster, rank, offset, least):
    """Run until a flag is there; the target's bytes in that cycle."""
    cluster.clear_watches()
    number = cluster.watch(rank, FLAGS + offset, least)
    cluster.keep_bytes(rank, number, TARGET + 200, 4000)
    assert cluster.run(20_000) == Reason.DONE
    return cluster.kept_bytes(rank, number, 4000)


def _fill(cluster, rank, seed):
    data = np.random.default_rng(seed).integers(0, 256, 4000, np.uint8)
    cluster.write_memory(rank, SOURCE + 100, data)
    return data


def test_put_signal_and_quiet(cluster, program, seed):
    """The flag follows the data; the flag of quiet follows the responses to all of them."""
    data = _fill(cluster, 0, seed)
    _replay(cluster, 0, program, "s")
    assert np.array_equal(_wait(cluster, 1, 8, 1), data)
    assert _flag(cluster, 1, 8) == 0xABC_0000_0001
    _replay(cluster, 0, program, "q")
    _wait(cluster, 0, 24, 7)
    assert _flag(cluster, 0, 24) == 7 and cluster.request_word(0, QUEUE).failed == 0


def test_accumulating_signal(cluster, program):
    """Values that a neighbour adds are summed in a flag of the receiver."""
    _replay(cluster, 1, program, "o")
    for step, total in (("a1", 5), ("a2", 600_005), ("a2", 1_200_005), ("a1", 1_200_010)):
        _replay(cluster, 0, program, step)
        _wait(cluster, 1, 64, total)
        assert _flag(cluster, 1, 64) == total
    state = _settled(cluster, 1, lambda endpoint: endpoint.read_counter(BLOCK, 9))
    assert state.total == 1_200_010 and state.mode == Mode.SUM


def test_slices(cluster, program, seed):
    """Four ticks send a slice and its generation, again and again; a tick of a past generation is refused."""
    _replay(cluster, 0, program, "r")
    for generation in range(1, 6):
        data = _fill(cluster, 0, seed + generation)
        _replay(cluster, 0, program, f"t{generation}")
        assert np.array_equal(_wait(cluster, 1, 16, generation), data)
        assert _flag(cluster, 1, 16) == generation
    _replay(cluster, 0, program, "t5")
    assert _settled(cluster, 0, EndpointDriver.refused_trigger) == RefusedTrigger(BLOCK, 3, Refusal.GENERATION)
    state = _settled(cluster, 0, lambda endpoint: endpoint.read_counter(BLOCK, 3))
    assert state == CounterState(Mode.REPEAT, 0, 6, 4)
    _replay(cluster, 0, program, "d")
    assert _settled(cluster, 0, lambda endpoint: endpoint.read_counter(BLOCK, 3)).mode == Mode.DISARM


def test_chain(cluster, program, seed):
    """A counter ticks another one of its block, which sends the slice."""
    data = _fill(cluster, 0, seed)
    _replay(cluster, 0, program, "r")
    _replay(cluster, 0, program, "c")
    assert np.array_equal(_wait(cluster, 1, 16, 1), data)
    assert _settled(cluster, 0, EndpointDriver.refused_trigger) is None


def test_reset_of_a_block(cluster, program):
    _replay(cluster, 0, program, "r")
    _settled(cluster, 0, lambda endpoint: endpoint.reset_block(BLOCK))
    assert _settled(cluster, 0, lambda endpoint: endpoint.read_counter(BLOCK, 3)).mode == Mode.DISARM
    _replay(cluster, 0, program, "t1")
    assert _settled(cluster, 0, EndpointDriver.refused_trigger) == RefusedTrigger(BLOCK, 3, Refusal.IDLE)


@pytest.mark.parametrize("address, data", [(8, bytes(16)), (0, bytes(17)), (0, b"")])
def test_stores_are_within_16_bytes(cluster, address, data):
    with pytest.raises(ClusterFailed, match=f"^A store to a doorbell must be within 16 bytes, not {len(data)} bytes at "
                                            f"{address}\\.$"):
        cluster.do(cluster.whole_bus(0).store(address, data))
