# SPDX-License-Identifier: Apache-2.0
"""Clusters of simulated cards: tori, their communicators, and how they end."""

import numpy as np
import pytest

import dmace
from dmace.runtime.names import resolve
from hw.ace.words import Status

LIMIT = 300
"""Seconds for a collective, on a machine that is busy."""


@pytest.mark.rtl
@pytest.mark.long
def test_slow_links():
    """Links come up, and lose nothing, with a latency far above that of their time-outs after reset."""
    with dmace.open_cluster("sim:tiny", shape=(2,), link_latency=5000) as cluster:
        ranks = cluster.communicators()
        memories = [device.allocate(400) for device in cluster.devices]
        for memory in memories:
            memory.array(np.int32)[:] = 7
        for request in [rank.all_reduce(memory, dtype="int32") for rank, memory in zip(ranks, memories, strict=True)]:
            request.wait(LIMIT)
        assert all((memory.array(np.int32) == 14).all() for memory in memories)


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("shape", [(2,), (4,), (2, 2), (2, 2, 2)], ids=lambda shape: "x".join(map(str, shape)))
def test_cycles(shape):
    """Cycles of an all-reduce with all FSMs, from the first doorbell to the last completion word; docs/host.md has
    them."""
    with dmace.open_cluster("sim:tiny", shape=shape) as cluster:
        ranks = cluster.communicators(fsms=4, slots=8)
        for length in (64, 4096, 65536):
            memories = [device.allocate(length) for device in cluster.devices]
            for _ in range(2):      # the first one defines the regions, which takes cycles, too
                before = [device.cycles() for device in cluster.devices]
                requests = [rank.all_reduce(memory, dtype="fp32")
                            for rank, memory in zip(ranks, memories, strict=True)]
                for request in requests:
                    request.wait(LIMIT)
                cycles = max(device.cycles() - first for device, first in zip(cluster.devices, before, strict=True))
            print(f"{'x'.join(map(str, shape))}: {length} bytes, {cycles} cycles")
            for memory in memories:
                memory.close()
        assert cycles < 30_000


@pytest.mark.rtl
@pytest.mark.long
def test_rows(seed):
    """Communicators of the rows and of the columns of a torus in three dimensions."""
    rng = np.random.default_rng(seed)
    with dmace.open_cluster("sim:tiny,latency=50", shape=(2, 2, 2), link_latency=100) as cluster:
        rows, planes = cluster.communicators(dimensions=(1,)), cluster.communicators(dimensions=(2, 0))
        values = [rng.integers(-1000, 1000, 100, np.int32) for _ in rows]
        places = list(np.ndindex(2, 2, 2))
        assert [rank.rank for rank in rows] == [place[1] for place in places]
        assert [rank.rank for rank in planes] == [2 * place[2] + place[0] for place in places]
        for ranks, spanned in ((rows, (1,)), (planes, (2, 0))):
            memories = [device.allocate(400) for device in cluster.devices]
            for memory, one in zip(memories, values, strict=True):
                memory.write(one)
            requests = [rank.all_reduce(memory, dtype="int32") for rank, memory in zip(ranks, memories, strict=True)]
            for request in requests:
                request.wait(LIMIT)
            for place, memory in zip(places, memories, strict=True):
                others = [one for other, one in zip(places, values, strict=True)
                          if all(a == b for axis, (a, b) in enumerate(zip(place, other, strict=True))
                                 if axis not in spanned)]
                assert (memory.array(np.int32) == np.sum(others, axis=0, dtype=np.int32)).all(), place


@pytest.mark.rtl
@pytest.mark.long
def test_ends_of_communicators():
    """A revoked communicator, and one of whose ranks is closed, end with their status; each collective reports it."""
    with dmace.open_cluster("sim:tiny", shape=(2,)) as cluster:
        first, second = cluster.communicators(), cluster.communicators()
        memory, other = (device.allocate(4096) for device in cluster.devices)
        waiting = [first[0].all_reduce(memory[:400], dtype="fp32"), first[0].all_reduce(memory[400:800], dtype="fp32")]
        first[1].revoke()
        for request in waiting:
            with pytest.raises(dmace.CollectiveFailed, match="has failed with REVOKED, caused at rank 1") as failure:
                request.wait(LIMIT)
            assert failure.value.result == Status.REVOKED and failure.value.fault.rank == 1
        with pytest.raises(dmace.CollectiveFailed, match="has failed with REVOKED"):
            first[0].barrier().wait(LIMIT)
        cluster.reopen(first, timeout=LIMIT)
        memory.array(np.float32)[:100], other.array(np.float32)[:100] = 1, 2
        requests = [first[0].all_reduce(memory[:400], dtype="fp32"), first[1].all_reduce(other[:400], dtype="fp32")]
        for request in requests:
            request.wait(LIMIT)
        assert (memory.array(np.float32)[:100] == 3).all()
        with pytest.raises(dmace.RequestTimeout, match=r"^The communicator's collectives have not ended at rank 0 "
                                                       r"within 0\.1 s\.$"):
            cluster.reopen(first, timeout=0.1)
        with second[0].device.queue() as queue:
            queue.copy(memory[2048:], memory[:2048]).wait(LIMIT)
        requests = [second[0].all_reduce(memory[:400], dtype="fp32"), second[1].all_reduce(other[:400], dtype="fp32")]
        for request in requests:
            request.wait(LIMIT)
        lonely = second[0].all_reduce(memory[:400], dtype="fp32")
        cluster.devices[1].close()
        with pytest.raises(dmace.CollectiveFailed, match=r"has failed with LINK_DOWN, caused at rank 0\.$"):
            lonely.wait(LIMIT)
        with pytest.raises(dmace.DmaceError, match=r"^The device sim:tiny, rank 1 is closed\.$"):
            second[1].all_reduce(other[:400], dtype="fp32")
        memory.close()


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("options, sentence", [
    ("fast=1", "An option of a simulated card is latency, cluster, shape, rank or link, not 'fast'."),
    ("latency=x", "The latency of memory must be a number from 0 to 100000, not 'x'."),
    ("100001", "The latency of memory must be a number from 0 to 100000, not '100001'."),
    ("cluster=a,shape=2x2,rank=4", "The rank of a card must be a number from 0 to 3, not '4'."),
    ("cluster=a,shape=2x2x1x1", "A torus has up to 3 dimensions, not those of '2x2x1x1'."),
    ("cluster=a,shape=4x4x2", "A cluster has up to 16 cards, not the 32 of '4x4x2'."),
    ("shape=2", "A cluster of several cards needs a name."),
])
def test_options_of_the_simulator(options, sentence):
    """The library's own options, which another program may name."""
    with pytest.raises(dmace.DmaceError) as raised:
        dmace.open(f"{resolve('sim:tiny')},{options}")
    assert str(raised.value) == f"Starting the simulator: {sentence}"


@pytest.mark.rtl
@pytest.mark.long
def test_open_again():
    """A rank belongs to one user at a time; it is reset for the next one."""
    name = f"{resolve('sim:tiny')},cluster=again,shape=2"
    with dmace.open(f"{name},rank=0") as kept:
        for _ in range(2):
            with dmace.open(f"{name},rank=1") as device, device.allocate(64) as memory, device.queue() as queue:
                memory.write(bytes(range(32)))
                queue.copy(memory[32:], memory[:32]).wait(LIMIT)
                assert memory.read() == bytes(range(32)) * 2
        with pytest.raises(dmace.DmaceError, match=r"Rank 0 of the cluster again is open already\.$"):
            dmace.open(f"{name},rank=0")
        with pytest.raises(dmace.DmaceError, match=r"The cluster again has another shape\.$"):
            dmace.open(f"sim:{name.partition(':')[2].partition(',')[0]},cluster=again,shape=3,rank=1")
        assert kept.info.transport == "sim"


@pytest.mark.parametrize("name, options, sentence", [
    ("vfio:0000:01:00.0", {"shape": (2,)}, "A cluster is made of simulated cards, sim:PRESET with one of tiny, base, "
                                           "wide, card, not 'vfio:0000:01:00.0'."),
    ("sim:tiny", {"shape": ()}, "The shape of a cluster must be 1 to 3 sizes from 1 on, not ()."),
    ("sim:tiny", {"shape": (2, 0)}, "The shape of a cluster must be 1 to 3 sizes from 1 on, not (2, 0)."),
    ("sim:tiny", {"shape": (5, 5)}, "A cluster has up to 16 cards, not 25."),
    ("sim:tiny", {"shape": (2,), "link_latency": 0}, "The latency of a link must be from 1 to 10000 cycles, not 0."),
])
def test_wrong_clusters(name, options, sentence):
    with pytest.raises(dmace.DmaceError) as raised:
        dmace.open_cluster(name, **options)
    assert str(raised.value) == sentence
