# SPDX-License-Identifier: Apache-2.0
"""Trigger counters in endpoints: every source of ticks, every kind of posted work, and what is refused."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from hw.ace.numerics.formats import DType
from hw.ace.words import Collective
from hw.dma_engine.descriptors import Descriptor, RingLocation
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status
from hw.endpoint.config import TINY, remote_address
from hw.triggers.config import MOST_DUE, counter_address
from hw.triggers.words import ArmWord, Mode, Refusal, TickWord
from sim.ace.endpoints import Link, Memory, Reason
from sim.endpoint.cluster import EndpointCluster

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SOURCE, SPAN, FLAGS, RING, LENGTH = 0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000, 0x1_0000
OWN, REMOTE, COUNTED, FLAG, COUNTER, FAR_COUNTER = range(6)
"""Regions of each rank: its memory, the neighbour's, the same with counted puts, flags, counters, the neighbour's."""
MEMORY, COUNTS, COUNTERS = range(3)
"""Spans that each rank exports."""
QUEUE, BLOCK = 1, 1
LATENCY = 30
SHIFT = 10

both = pytest.mark.parametrize("config", [TINY, replace(TINY, pipelined=True)], ids=["plain", "pipelined"])


@contextmanager
def _pair(seed, config=TINY, **options):
    """Two neighbours. Each may put to the other's memory, with and without counting, and tick block 1 of it."""
    memory = options.pop("memory", Memory(read_latency=LATENCY, write_latency=LATENCY))
    with EndpointCluster(config, (2,), link=Link(latency=20), memory=memory, seed=seed, **options) as cluster:
        for rank, endpoint in enumerate(cluster.endpoints):
            for address in (SPAN, FLAGS):
                cluster.write_memory(rank, address, bytes(LENGTH))
            cluster.write_memory(rank, SOURCE, np.random.default_rng(seed).integers(0, 256, LENGTH, np.uint8))
            cluster.do(
                endpoint.define_export(MEMORY, base=SPAN, length=LENGTH, ports=[1]),
                endpoint.define_export(COUNTS, base=SPAN, length=LENGTH, ports=[1], counts=(BLOCK, 32, SHIFT)),
                endpoint.define_export(COUNTERS, base=counter_address(BLOCK), length=4096, ports=[1]),
                endpoint.assign_block(BLOCK, [QUEUE, TINY.dma.queues]))
            cluster.do(*(endpoint.dma.define_region(number, base=base, length=length, readable=readable)
                         for number, base, length, readable in (
                             (OWN, SOURCE, LENGTH, True), (FLAG, FLAGS, LENGTH, True),
                             (COUNTER, counter_address(BLOCK), 4096, False),
                             (REMOTE, remote_address(0, MEMORY), LENGTH, False),
                             (COUNTED, remote_address(0, COUNTS), LENGTH, False),
                             (FAR_COUNTER, remote_address(0, COUNTERS), 4096, False))))
            cluster.start_queue(rank, QUEUE)
        yield cluster


def _flag(number, value=0):
    """A signal to flag ``number``."""
    return NativeWord.signal(dst=(FLAG, 8 * number), value=value)


def _read_flag(cluster, rank, number):
    return int.from_bytes(cluster.read_memory(rank, FLAGS + 8 * number, 8).tobytes(), "little")


def _settle(cluster, cycles=1500):
    cluster.clear_watches()
    cluster.run(cycles)


def _arm(cluster, rank, counter, words, **options):
    endpoint = cluster.endpoints[rank]
    cluster.do(endpoint.prepare(BLOCK, counter, words))
    cluster.do(endpoint.arm(BLOCK, counter, ArmWord.arm(pair=len(words) > 1, **{"page": QUEUE, **options})))


def _state(cluster, rank, counter):
    state, = cluster.do(cluster.endpoints[rank].read_counter(BLOCK, counter))
    return state


def _refused(cluster, rank):
    refused, = cluster.do(cluster.endpoints[rank].refused_trigger())
    return refused and (refused.counter, refused.code)


@both
def test_the_last_tick_sends_a_slice_and_its_bytes_set_a_flag(config, seed):
    """Four workgroups tick; the put leaves with the last tick; the receiver's flag follows the data, in each of three
    generations."""
    memory = Memory(read_latency=LATENCY, write_latency=60, jitter=200, out_of_order=True)
    with _pair(seed, config, memory=memory) as cluster:
        there = 1
        put = NativeWord.copy(src=(OWN, 0), dst=(COUNTED, 2 << SHIFT), length=1 << SHIFT, flags=RequestFlag.SC)
        _arm(cluster, 0, 7, [put], mode=Mode.REPEAT, threshold=4, generation=0xFFFF)
        _arm(cluster, there, 34, [_flag(0)], mode=Mode.REPEAT, threshold=1 << SHIFT, generation=9, stamp=True)
        for number in range(3):
            data = np.random.default_rng(seed + number).integers(0, 256, 1 << SHIFT, np.uint8)
            cluster.write_memory(0, SOURCE, data)
            tick = TickWord.add(7, generation=(0xFFFF + number) & 0xFFFF)
            cluster.do(cluster.endpoints[0].tick(BLOCK, tick, tick, tick))
            _settle(cluster, 300)
            assert cluster.request_word(0, QUEUE).count == number
            cluster.clear_watches()
            watch = cluster.watch(there, FLAGS, 9 + number)
            cluster.keep_bytes(there, watch, SPAN + (2 << SHIFT), 1 << SHIFT)
            cluster.do(cluster.endpoints[0].tick(BLOCK, tick, offset=8 * number))
            assert cluster.run(20_000) == Reason.DONE
            assert np.array_equal(cluster.kept_bytes(there, watch, 1 << SHIFT), data)
            assert _read_flag(cluster, there, 0) == 9 + number
        assert _state(cluster, there, 34).generation == 12
        for rank in range(2):
            assert _refused(cluster, rank) is None


@both
def test_put_and_signal_in_one_firing_and_in_one_descriptor(config, seed):
    """The remote action follows the data, the local action follows both."""
    length = 3000
    memory = Memory(read_latency=LATENCY, write_latency=60, jitter=300, out_of_order=True)
    with _pair(seed, config, memory=memory) as cluster:
        data = cluster.read_memory(0, SOURCE, length)
        put = NativeWord.copy(src=(OWN, 0), dst=(REMOTE, 100), length=length, flags=0)
        add = NativeWord.signal(dst=(FAR_COUNTER, 0), value=TickWord.add(3, 5).pack())
        own = NativeWord.signal(dst=(COUNTER, 8), value=TickWord.add(4, 1).pack(), flags=RequestFlag.SC)
        for rank, counter in ((1, 3), (0, 4)):
            _arm(cluster, rank, counter, [_flag(counter)], mode=Mode.SUM, stamp=True)
        _arm(cluster, 0, 0, [put, add], mode=Mode.ONCE, threshold=1)
        cluster.clear_watches()
        watch = cluster.watch(1, FLAGS + 8 * 3, 5)
        cluster.keep_bytes(1, watch, SPAN + 100, length)
        cluster.do(cluster.endpoints[0].tick(BLOCK, TickWord.add(0)))
        assert cluster.run(20_000) == Reason.DONE
        assert np.array_equal(cluster.kept_bytes(1, watch, length), data)

        # The same by a descriptor, which also has a local action.
        cluster.write_memory(1, SPAN, bytes(LENGTH))
        cluster.write_memory(0, RING, bytes(4096))
        cluster.write_memory(0, RING, Descriptor.copies(put, add, own).to_bytes())
        cluster.start_queue(0, 0, ring=RingLocation(base=RING, size=3))
        cluster.do(cluster.endpoints[0].assign_block(BLOCK, [0, QUEUE]))
        _arm(cluster, 0, 0, [TickWord(1, 0, 0, 0, 0)], mode=Mode.ONCE, threshold=2, page=0)    # a tail of 1
        cluster.clear_watches()
        watches = cluster.watch(1, FLAGS + 8 * 3, 10), cluster.watch(0, FLAGS + 8 * 4, 1)
        cluster.keep_bytes(1, watches[0], SPAN + 100, length)
        cluster.do(cluster.endpoints[0].tick(BLOCK, TickWord.add(0), TickWord.add(0)))
        assert cluster.run(20_000) == Reason.DONE
        assert np.array_equal(cluster.kept_bytes(1, watches[0], length), data)
        for rank in range(2):
            assert _refused(cluster, rank) is None


@both
def test_chain_of_counters(config, seed):
    """A counter ticks two others, of which one ticks a third; each sets a flag, in this order."""
    with _pair(seed, config) as cluster:
        page = TINY.triggers.tick_page(BLOCK)
        both = TickWord.add(11, generation=4), TickWord.add(12, 2, generation=4)
        pair = NativeWord.unpack(both[0].pack() | both[1].pack() << 64)
        _arm(cluster, 0, 10, [_flag(10, 1)], mode=Mode.ONCE, threshold=1)
        _arm(cluster, 0, 9, [pair], mode=Mode.ONCE, threshold=1, page=page)
        _arm(cluster, 0, 11, [TickWord.add(13)], mode=Mode.ONCE, threshold=1, generation=4, page=page)
        for counter, threshold, generation in ((12, 2, 4), (13, 1, 0)):
            _arm(cluster, 0, counter, [_flag(counter, 1)], mode=Mode.ONCE, threshold=threshold, generation=generation)
        cluster.do(cluster.endpoints[0].tick(BLOCK, TickWord.add(10), TickWord.add(9)))
        _settle(cluster)
        assert [_read_flag(cluster, 0, counter) for counter in range(9, 14)] == [0, 1, 0, 1, 1]
        assert _refused(cluster, 0) is None


@both
def test_a_counter_starts_an_all_reduce(config, seed):
    """The collective command of each rank is posted by a counter; the sums are those of the collective."""
    with _pair(seed, config) as cluster:
        inputs = [np.random.default_rng(seed + rank).integers(0, 1 << 30, 300, np.int32) for rank in range(2)]
        pending = cluster.submit(Collective.ALL_REDUCE, inputs, dtype=DType.INT32, post=False)
        for rank, command in enumerate(pending.commands):
            _arm(cluster, rank, 20, [command], mode=Mode.ONCE, threshold=3, page=TINY.dma.queues)
            cluster.do(cluster.endpoints[rank].tick(BLOCK, TickWord.add(20, 3)))
        outcome, = cluster.wait(pending)
        for found in outcome.outputs:
            assert np.array_equal(found, inputs[0] + inputs[1])


@both
def test_refusals_change_nothing(config, seed):
    """Each reason, from each source that can have it, at the sender and at the counter."""
    with _pair(seed, config) as cluster:
        there = cluster.endpoints[1]
        _arm(cluster, 1, 5, [_flag(5)], mode=Mode.REPEAT, threshold=3, generation=7)
        before = _state(cluster, 1, 5)
        for value, wanted in ((TickWord.add(5, 4), Refusal.OVERFLOW), (TickWord.add(5, 1, generation=8),
                              Refusal.GENERATION), (TickWord.add(6), Refusal.IDLE),
                              (TickWord(5, 1, 1, 0, 1), Refusal.MALFORMED)):
            for rank, region in ((0, FAR_COUNTER), (1, COUNTER)):
                failed = cluster.request_word(rank, QUEUE).failed
                cluster.post(rank, QUEUE, NativeWord.signal(dst=(region, 0), value=value.pack()))
                _settle(cluster)
                assert _refused(cluster, 1) == (value.counter, wanted)
                word = cluster.request_word(rank, QUEUE)
                assert (word.failed, word.status) == (failed + 1, Status.WRITE_SLVERR)
                cluster.do(cluster.endpoints[rank].dma.command(QUEUE, Command.CLEAR))
            cluster.do(there.tick(BLOCK, value))
            _settle(cluster, 50)
            assert _refused(cluster, 1) == (value.counter, wanted)
        assert _state(cluster, 1, 5) == before

        # A copy that is no tick; a page that the block may not post to; a queue that is not enabled.
        cluster.post(0, QUEUE, NativeWord.copy(src=(OWN, 0), dst=(COUNTER, 0), length=16, flags=RequestFlag.SC))
        _settle(cluster)
        assert cluster.request_word(0, QUEUE).status == Status.WRITE_SLVERR
        _arm(cluster, 1, 1, [_flag(5)], mode=Mode.ONCE, threshold=1, page=2)
        cluster.do(there.tick(BLOCK, TickWord.add(1)))
        _settle(cluster, 50)
        assert _refused(cluster, 1) == (1, Refusal.PAGE)
        cluster.do(there.assign_block(BLOCK, [2]))
        _arm(cluster, 1, 1, [_flag(5)], mode=Mode.ONCE, threshold=1, page=2)
        cluster.do(there.tick(BLOCK, TickWord.add(1)))
        _settle(cluster, 50)
        assert _refused(cluster, 1) == (1, Refusal.QUEUE)
        assert _read_flag(cluster, 1, 5) == 0


@both
def test_firings_wait_for_their_queue_and_only_for_it(config, seed):
    """A paused queue holds the firings of its block, three of a counter at most, and no other block's."""
    with _pair(seed, config) as cluster:
        endpoint = cluster.endpoints[0]
        cluster.do(endpoint.assign_block(0, [2]))
        cluster.start_queue(0, 2)
        cluster.do(endpoint.dma.command(QUEUE, Command.PAUSE))
        cluster.post(0, QUEUE, *[_flag(40, 1)] * 3)                # so that words wait behind the head
        _settle(cluster, 50)
        _arm(cluster, 0, 0, [_flag(0)], mode=Mode.REPEAT, threshold=1, generation=1, stamp=True)
        for number in range(MOST_DUE + 1):
            cluster.do(endpoint.tick(BLOCK, TickWord.add(0, generation=1 + number)))
        _settle(cluster, 50)
        assert _refused(cluster, 0) == (0, Refusal.OVERFLOW)
        assert _state(cluster, 0, 0).pending == MOST_DUE
        cluster.do(endpoint.prepare(0, 5, [_flag(7, 9)]),
                   endpoint.arm(0, 5, ArmWord.arm(mode=Mode.ONCE, threshold=1, page=2)))
        cluster.do(endpoint.tick(0, TickWord.add(5)))
        _settle(cluster, 400)
        assert _read_flag(cluster, 0, 7) == 9 and _read_flag(cluster, 0, 0) == 0
        cluster.do(endpoint.dma.command(QUEUE, Command.START))
        _settle(cluster)
        assert _read_flag(cluster, 0, 0) == MOST_DUE and _state(cluster, 0, 0).pending == 0

        # A reset discards what waits.
        cluster.do(endpoint.dma.command(QUEUE, Command.PAUSE))
        cluster.post(0, QUEUE, *[_flag(40, 1)] * 3)
        cluster.do(endpoint.tick(BLOCK, TickWord.add(0, generation=4)))
        _settle(cluster, 50)
        assert _state(cluster, 0, 0).pending == 1
        cluster.do(endpoint.reset_block(BLOCK))
        cluster.do(endpoint.dma.command(QUEUE, Command.START))
        _settle(cluster)
        assert _read_flag(cluster, 0, 0) == MOST_DUE
        assert _state(cluster, 0, 0).mode == Mode.DISARM


def test_a_put_of_a_tick_arrives_soon_after_that_of_a_doorbell(seed):
    """The data of a put that the last tick starts, and of one posted by a store in its place: at most 4 cycles."""
    with _pair(seed) as cluster:
        endpoint, arrived = cluster.endpoints[0], []
        put = NativeWord.copy(src=(OWN, 0), dst=(REMOTE, 0), length=8, flags=0)
        _arm(cluster, 0, 0, [put], mode=Mode.REPEAT, threshold=1)
        for number in range(6):
            cluster.write_memory(0, SOURCE, (number + 1).to_bytes(8, "little"))
            _settle(cluster, 300 + number // 2)
            cluster.clear_watches()
            watch = cluster.watch(1, SPAN, number + 1)
            begin = cluster.cycle
            cluster.do(endpoint.tick(BLOCK, TickWord.add(0)) if number % 2 else endpoint.post(QUEUE, put))
            assert cluster.run(2_000) == Reason.DONE
            arrived.append(cluster.met(1, watch) - begin)
        extra = [ticked - stored for stored, ticked in zip(arrived[::2], arrived[1::2], strict=True)]
        assert all(0 < cycles <= 4 for cycles in extra), arrived


def test_ticks_cost_others_no_bandwidth(seed):
    """Copies of a ring take as many cycles beside a block that is ticked, and fires, all the time."""
    rows, cycles = 40, []
    with _pair(seed) as cluster:
        endpoint, page = cluster.endpoints[0], TINY.triggers.tick_page(BLOCK)
        copies = Descriptor.copy_2d(src=(OWN, 0), dst=(FLAG, 4096), row_bytes=1000, rows=rows, src_stride=1001,
                                    dst_stride=1003, flags=RequestFlag.SC)
        # Counters that tick each other: half of the operations of the table are ticks, half are firings.
        for counter, other in ((1, 2), (2, 1)):
            _arm(cluster, 0, counter, [TickWord.add(other)], mode=Mode.REPEAT, threshold=1, page=page)
        for beside in (False, True):
            cluster.write_memory(0, cluster.word_address(0), bytes(8))
            cluster.write_memory(0, RING, bytes(4096))
            cluster.write_memory(0, RING, copies.to_bytes())
            cluster.start_queue(0, 0, ring=RingLocation(base=RING, size=3))
            _settle(cluster, 1_000)
            if beside:
                cluster.do(endpoint.tick(BLOCK, TickWord.add(1)))
                _settle(cluster, 200)
            before, = cluster.do(endpoint.counters())
            begin = cluster.cycle
            cluster.do(_ring(cluster, 0))
            end, = cluster.wait_requests((0, 0, rows))
            cycles.append(end - begin)
            after, = cluster.do(endpoint.counters())
            ticks = after["trigger_ticks"] - before["trigger_ticks"]
            assert ticks > (end - begin) / 10 if beside else ticks == 0
            cluster.do(endpoint.dma.command(0, Command.RESET))
            _settle(cluster, 500)
    # The phase in which the ring's doorbell meets the engine differs.
    assert abs(cycles[0] - cycles[1]) <= 2, cycles


async def _ring(cluster, queue):
    """Post the first descriptor of a ring."""
    await cluster.whole_bus(0).store(queue * 4096, (1).to_bytes(16, "little"))
