# SPDX-License-Identifier: Apache-2.0
"""Endpoints on a ring: concurrent copies, puts and collectives against golden models; access rights; order of words."""

import numpy as np
import pytest

from dmace.drivers.ace import Share
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType
from hw.ace.words import Collective, CommandFlag, CommandWord, LinkState
from hw.ace.words import Status as AceStatus
from hw.dma_engine.model.engine import DmaModel
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status
from hw.endpoint.config import TINY, remote_address
from sim.ace.endpoints import Link, Memory
from sim.ace.faults import Cut, Faults
from sim.endpoint.bench import contention
from sim.endpoint.cluster import EndpointCluster

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SOURCE, OWN, SPANS, WORDS, LENGTH = 0x10_0000, 0x20_0000, 0x30_0000, 0x50_0000, 0x1_0000
BOTH = RequestFlag.SC | RequestFlag.RC


def _exports(cluster, rank):
    """The neighbour at port ``p`` may write span ``p``; both neighbours may write span 2, which has the words."""
    endpoint = cluster.endpoints[rank]
    cluster.do(*(endpoint.define_export(port, base=SPANS + port * 0x10_0000, length=LENGTH, ports=[port])
                 for port in range(2)),
               endpoint.define_export(2, base=WORDS, length=4096, ports=[0, 1]))


def _regions(port):
    """Address of region 2 + port: this rank is at the neighbour's opposite port."""
    return remote_address(port, port ^ 1)


@pytest.mark.parametrize(("ranks", "faults"), [(2, None), (3, None), (2, Faults(
    loss=0.01, corrupt=0.01, dup=0.01, delay=0.01))], ids=["2", "3", "faults"])
def test_everything_at_once(ranks, faults, seed):
    """Each rank copies, puts to both neighbours, and takes part in collectives, with stalls on all buses and links;
    also on links that drop, corrupt and duplicate packets."""
    rng = np.random.default_rng(seed)
    link = Link(latency=int(rng.integers(1, 40)), bytes_per_cycle=6, stall=0.1)
    memory = Memory(read_latency=30, write_latency=50, stall=0.1, jitter=20, out_of_order=True)
    with EndpointCluster(TINY, (ranks,), link=link, memory=memory, seed=seed, faults=faults) as cluster:
        models = [DmaModel(TINY.dma) for _ in range(ranks)]
        for rank, model in enumerate(models):
            data = rng.integers(0, 256, LENGTH, np.uint8)
            cluster.write_memory(rank, SOURCE, data)
            for address in (OWN, *(SPANS + port * 0x10_0000 for port in range(2)), WORDS):
                cluster.write_memory(rank, address, bytes(LENGTH))
            model.memory.write(SOURCE, data.tobytes())
            _exports(cluster, rank)
            for number, base in enumerate((SOURCE, OWN, _regions(0), _regions(1))):
                region = {"base": base, "length": LENGTH, "readable": number < 2, "domain": 5}
                model.define_region(number, **region)
                cluster.do(cluster.endpoints[rank].dma.define_region(number, **region))
            for queue, rc in enumerate((remote_address(0, 2, 64 * rank), remote_address(1, 2, 64 * rank + 8), OWN)):
                model.configure_queue(queue, domain=5, sc=cluster.word_address(queue), rc=rc)
                model.command(queue, Command.START)
                cluster.start_queue(rank, queue, rc=rc, domain=5)
        for rank, model in enumerate(models):
            for queue in range(3):
                usual = (2, 3, 1)[queue]
                words = [_copy(rng, usual if rng.random() < 0.8 else int(rng.integers(1, 4)), 8 * queue + one)
                         for one in range(8)]
                for word in words:
                    model.post(queue, word)
                cluster.post(rank, queue, *words, delay=int(rng.integers(0, 100)))
        inputs = [rng.integers(0, 1 << 32, 3000, np.uint32) for _ in range(ranks)]
        outcome, = cluster.wait(cluster.submit(Collective.ALL_REDUCE, inputs, dtype=DType.INT32))
        cluster.wait_requests(*((rank, queue, 8) for rank in range(ranks) for queue in range(3)))
        cluster.run(2000)       # RC words are still in flight.

        for found, wanted in zip(outcome.outputs, results(Collective.ALL_REDUCE, (ranks,), inputs, dtype=DType.INT32,
                                                          count=3000), strict=True):
            assert np.array_equal(found, wanted)
        for rank, model in enumerate(models):
            _same(cluster, rank, OWN, model, OWN, LENGTH)
            for queue in range(3):
                _same(cluster, rank, cluster.word_address(queue), model, cluster.word_address(queue), 8)
                word = cluster.request_word(rank, queue)
                assert (word.count, word.failed, word.status) == (8, 0, Status.OK)
            for port, there in enumerate(((rank + 1) % ranks, (rank - 1) % ranks)):
                _same(cluster, there, SPANS + (port ^ 1) * 0x10_0000, model, _regions(port), LENGTH)
                at = 64 * rank + 8 * port
                _same(cluster, there, WORDS + at, model, remote_address(port, 2, at), 8)
        for counters in cluster.do(*(endpoint.counters() for endpoint in cluster.endpoints)):
            assert counters["put_packets_sent"] > 16 and counters["put_packets_refused"] == 0


def _copy(rng, region, place):
    """Copy to its own part of ``region``, as requests overlap in time."""
    length = int(rng.choice([1, 8, 64, rng.integers(1, 300), rng.integers(1, 1500)]))
    return NativeWord.copy(src=(0, int(rng.integers(LENGTH - length))), length=length, flags=BOTH,
                           dst=(region, 64 + 2048 * place + int(rng.integers(500))))


def _same(cluster, rank, address, model, modelled, length):
    found = cluster.read_memory(rank, address, length)
    assert found.tobytes() == model.memory.read(modelled, length), f"rank {rank} at {address:#x}"


@pytest.mark.parametrize("number", range(4))
def test_receive_word_never_before_the_data(number, seed):
    """Two ports lead to the same neighbour: data is sent over one, the word over the other, and memory responds in any
    order. The data is checked in the cycle in which the word changes."""
    length = (8, 200, 1000, 4000)[number]
    memory = Memory(read_latency=30, write_latency=40, jitter=300, out_of_order=True, stall=0.1)
    with EndpointCluster(TINY, (2,), link=Link(latency=7), memory=memory, seed=seed + number) as cluster:
        rng = np.random.default_rng(seed)
        _exports(cluster, 1)
        endpoint = cluster.endpoints[0]
        for base, region in ((SOURCE, 0), (remote_address(0, 1), 1)):
            cluster.do(endpoint.dma.define_region(region, base=base, length=LENGTH, readable=region == 0))
        cluster.start_queue(0, 1, rc=remote_address(1, 2))
        for count in range(1, 6):
            data = rng.integers(0, 256, length, np.uint8)
            cluster.write_memory(0, SOURCE, data)
            cluster.write_memory(1, SPANS + 0x10_0000, bytes(LENGTH))
            cluster.write_memory(1, WORDS, (count - 1).to_bytes(8, "little"))
            cluster.post(0, 1, NativeWord.copy(src=(0, 0), dst=(1, 3), length=length))
            cluster.clear_watches()
            watch = cluster.watch(1, WORDS, count)
            cluster.keep_bytes(1, watch, SPANS + 0x10_0000 + 3, length)
            cluster.run(20_000)
            assert np.array_equal(cluster.kept_bytes(1, watch, length), data), f"put {count}"


def test_a_dead_link_fails_puts_until_it_is_started_again():
    """Puts in flight fail, and none waits; after both ends of the link are started, puts succeed again."""
    with EndpointCluster(TINY, (2,), link=Link(latency=5)) as cluster:
        here, there = cluster.endpoints
        _exports(cluster, 1)
        data = np.arange(2000, dtype=np.uint16).view(np.uint8)
        cluster.write_memory(0, SOURCE, data)
        cluster.write_memory(1, SPANS + 0x10_0000, bytes(LENGTH))
        cluster.do(here.dma.define_region(0, base=SOURCE, length=LENGTH),
                   here.ace.set_link_patience(timeout=200, tries=3))
        cluster.do(here.dma.define_region(1, base=remote_address(0, 1), length=LENGTH, readable=False))
        cluster.start_queue(0, 1)
        cluster.run(1000)
        cluster.set_faults(Faults(cuts=(Cut(0, 0, 0, 5000),)))
        word = NativeWord.copy(src=(0, 0), dst=(1, 0), length=len(data), flags=1)
        cluster.post(0, 1, word)
        cluster.run(5500)
        found = cluster.request_word(0, 1)
        assert (found.failed, found.status) == (1, Status.WRITE_SLVERR)
        assert cluster.link_states()[0][0].state == LinkState.DOWN
        cluster.do(here.dma.clear(1))
        cluster.do(here.ace.start_links([0]), there.ace.start_links([1]))
        cluster.run(3000)
        assert cluster.link_states()[0][0].state == LinkState.UP
        cluster.post(0, 1, word)
        cluster.run(5000)
        found = cluster.request_word(0, 1)
        assert (found.count, found.failed, found.status) == (2, 1, Status.OK)
        assert np.array_equal(cluster.read_memory(1, SPANS + 0x10_0000, len(data)), data)


def _refused(cluster, queue, word, status):
    """Post a request of rank 0 that must fail, then let the queue continue."""
    cluster.post(0, queue, word)
    before = cluster.request_word(0, queue)
    cluster.run(3000)
    found = cluster.request_word(0, queue)
    assert (found.failed, found.status) == (before.failed + 1, status), found
    cluster.do(cluster.endpoints[0].dma.clear(queue))
    cluster.run(500)


def test_domains_and_spans(seed):
    """A tenant has no access to others' regions and communicators, nor to memory that a neighbour does not export."""
    with EndpointCluster(TINY, (2,), link=Link(latency=5), seed=seed) as cluster:
        here = cluster.endpoints[0]
        _exports(cluster, 1)
        for address in (SOURCE, OWN, SPANS, SPANS + 0x10_0000):
            for rank in range(2):
                cluster.write_memory(rank, address, bytes([0x5A]) * LENGTH)
        for number, (base, domain) in enumerate((
                (SOURCE, 1), (OWN, 1), (OWN, 2), (remote_address(0, 1), 2), (remote_address(0, 0), 1),
                (remote_address(0, 3), 1), (remote_address(0, 1), 1))):
            cluster.do(here.dma.define_region(number, base=base, length=LENGTH + 4096, domain=domain))
        cluster.start_queue(0, 1, domain=1)
        for dst, offset, status in (
                (2, 0, Status.DST_DOMAIN), (3, 0, Status.DST_DOMAIN),       # another domain, local and remote
                (4, 0, Status.WRITE_SLVERR),                                # not exported to this port
                (5, 0, Status.WRITE_SLVERR),                                # no such span
                (6, LENGTH - 8, Status.WRITE_SLVERR)):                      # longer than the span
            _refused(cluster, 1, NativeWord.copy(src=(0, 0), dst=(dst, offset), length=100, flags=1), status)
        cluster.post(0, 1, NativeWord.copy(src=(0, 0), dst=(6, 0), length=100, flags=1))
        cluster.run(3000)
        assert cluster.request_word(0, 1).count == 6
        assert all((cluster.read_memory(1, address, LENGTH) == 0x5A).all() for address in (SPANS, OWN))
        assert cluster.do(cluster.endpoints[1].counters())[0]["put_packets_refused"] == 3

        # In the accelerator: a queue of domain 1, a communicator of domain 2, and regions of both domains.
        async def set_up(driver):
            for domain in (1, 2):
                await driver.define_region(4 + domain, base=OWN, length=LENGTH, domain=domain)
                await driver.define_communicator(domain, shape=(1,), coordinates=(0,), domain=domain,
                                                 share=Share(2 * domain - 2, 2, 4 * domain - 4, 4))
            await driver.configure_queue(1, sc=0x1_0040, domain=1)

        cluster.do(set_up(here.ace))
        for communicator, src, dst, status in (
                (2, 5, 5, AceStatus.COMMUNICATOR), (1, 6, 5, AceStatus.SRC_DOMAIN), (1, 5, 6, AceStatus.DST_DOMAIN),
                (1, 5, 5, AceStatus.OK)):
            word = CommandWord(Collective.ALL_REDUCE, CommandFlag.SC, communicator, DType.INT8, 0, 0, 0, src, 0, dst,
                               64, 64)
            cluster.do(here.ace.post(1, word))
            cluster.run(3000)
            assert cluster.completion(0, 1).status == status
            if status:
                cluster.do(here.ace.clear(1))
                cluster.run(500)


@pytest.mark.parametrize("weights", [(1, 1), (1, 3)])
def test_both_have_their_share(weights, seed):
    """DMA engine and accelerator at their maximum rates: beats are shared by weight, and the port is always busy. (The
    buffer of `tiny`'s DMA engine is too small for a share of three quarters.)"""
    found = contention(TINY, weights, seed=seed)
    for kind in ("read", "write"):
        assert abs(found[f"dma_{kind}_share"] - weights[0] / sum(weights)) < 0.03, found
        assert found[f"{kind}_busy"] > 0.93, found


def test_pages_and_windows():
    """Accesses beyond the last page and window get an error response, and others do not wait for them."""
    with EndpointCluster(TINY, (1,)) as cluster:
        cluster.do(cluster.whole_bus(0).store(6 * 4096, bytes(16)))
        cluster.start_queue(0, 3)
        cluster.post(0, 3, NativeWord.copy(src=(0, 0), dst=(0, 0), length=1, flags=1))
        cluster.run(2000)
        assert cluster.request_word(0, 3).status == Status.SRC_REGION
