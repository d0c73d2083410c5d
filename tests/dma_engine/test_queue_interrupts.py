# SPDX-License-Identifier: Apache-2.0
"""Interrupts of queues at the engine: each comes behind the write responses of its words, and none comes without."""

from collections import Counter, defaultdict, deque

import cocotb
import pytest
from cocotb.triggers import FallingEdge

from hw.common.words import CompletionWord
from hw.dma_engine.descriptors import Descriptor, DescriptorFlag, RingLocation
from hw.dma_engine.words import Command, NativeWord, RequestFlag, Status
from sim.dma.rings import DescriptorRing
from tests.dma_engine.bench import DESTINATION, SOURCE, Bench, disorder, session_seed
from tests.dma_engine.jobs import Job

pytestmark = [pytest.mark.rtl, pytest.mark.long]

SC, RC, IRQ = RequestFlag.SC, RequestFlag.RC, RequestFlag.IRQ
LATENCY = 4
"""Cycles from B to the strobe."""
INVALID = 9
"""A region that is not in the table."""
RING_BASE, RECORDS = 0x55_0000_0000, 0x55_0000_8000


@pytest.mark.parametrize("test", ["each_kind", "without_words", "failures", "coalesced", "reset", "abandoned",
                                  "records", "many"])
def test_tiny(engine, test):
    engine("tiny", test)


class _Watch:
    """Words of a queue in memory at each of its strobes; each must follow a write response of one of its words."""

    def __init__(self, bench):
        self.bench, self.dut = bench, bench.dut
        self.strobes, self.responses = defaultdict(list), defaultdict(lambda: deque(maxlen=4))
        self.kinds = Counter()
        cocotb.start_soon(self._run())

    async def _run(self):
        """At the falling edge all signals have the values that the next rising edge samples."""
        dut, config = self.dut, self.bench.config
        while True:
            await FallingEdge(dut.clk)
            if not int(dut.rst.value) and int(dut.m_axi__bvalid.value) and int(dut.m_axi__bready.value):
                identifier = int(dut.m_axi__bid.value)
                if identifier >> config.axi_id_width - 1:
                    self.responses[identifier >> 1 & config.queues - 1].append(self.bench.cycle)
            for kind in ("written", "completed"):
                if int(getattr(dut, f"interrupts__{kind}__valid").value):
                    queue = int(getattr(dut, f"interrupts__{kind}__queue").value)
                    self.kinds[queue, kind] += 1
                    self.strobes[queue].append(self.words(queue))
                    if kind == "written":
                        late = [self.bench.cycle - cycle for cycle in self.responses[queue]]
                        assert LATENCY in late, f"a strobe of queue {queue} {late} cycles behind responses"

    def words(self, queue):
        """Counts of a queue's SC and RC word in memory now."""
        return tuple(CompletionWord.unpack(int.from_bytes(self.bench.memory.read(address, 8), "little")).count
                     for address in self.bench.words_of(queue))

    async def take(self, queue):
        """The strobes so far, a while after the queue has become idle."""
        await self.bench.settle(queue)
        await self.bench.wait(60)
        return self.strobes.pop(queue, [])


def _copy(offset=0, flags=0, length=64, region=DESTINATION):
    return NativeWord.copy(src=(SOURCE, offset), dst=(region, offset), length=length, flags=int(flags))


async def _bench(dut, latency=40, queues=None, **settings):
    bench = Bench(dut, seed=session_seed("interrupts"), latency=latency)
    await bench.lay_out([Job(0x8000, 0, 0)], queues=queues, **settings)
    return bench, _Watch(bench)


@cocotb.test()
async def each_kind(dut):
    """A word of each kind, and both: the last strobe follows all words, and no strobe comes without the flag."""
    bench, watch = await _bench(dut)
    for queue in (0, 3):
        await bench.post(queue, _copy(0, SC | IRQ))
        assert await watch.take(queue) == [(1, 0)]
        await bench.post(queue, _copy(64, RC | IRQ))
        assert await watch.take(queue) == [(1, 2)]
        await bench.post(queue, _copy(128, SC | RC))
        assert await watch.take(queue) == []
        await bench.post(queue, _copy(192, SC | RC | IRQ))
        strobes = await watch.take(queue)
        assert len(strobes) == 2 and strobes[-1] == (4, 4) and max(strobes[0]) == 4, strobes
    # The response to one word is withheld: its interrupt waits for it.
    page = bench.words_of(1)[0]
    bench.withhold(page)
    await bench.post(1, _copy(256, SC | IRQ))
    await bench.wait(400)
    assert not watch.strobes[1]
    bench.release(page)
    assert await watch.take(1) == [(1, 0)]
    await bench.end()


@cocotb.test()
async def without_words(dut):
    """A request that publishes nothing interrupts when it completes, also where its queue has no words."""
    bench, watch = await _bench(dut)
    await bench.post(0, _copy(0, IRQ))
    assert await watch.take(0) == [(0, 0)]
    await bench.post(0, _copy(64), _copy(128, IRQ), _copy(192, IRQ))
    assert await watch.take(0) == [(0, 0)] * 2
    assert watch.kinds == {(0, "completed"): 3}
    await bench.end()


@cocotb.test()
async def failures(dut):
    """A failure publishes the words whatever its flags, and interrupts behind them, whatever its flags."""
    bench, watch = await _bench(dut, skip_errors=True)
    for count, flags in enumerate((0, IRQ, SC | IRQ), 1):
        await bench.post(0, _copy(64 * count, flags, region=INVALID))
        strobes = await watch.take(0)
        assert len(strobes) == 2 and strobes[-1] == (count, count), strobes
    await bench.command(0, Command.RESET)
    await bench.settle(0)
    # A queue that holds: the failed request counts at CLEAR, which does not interrupt.
    await bench.start_queues([0])
    await bench.post(0, _copy(0, SC | IRQ), _copy(64, region=INVALID), _copy(128, SC | IRQ))
    await bench.wait(600)
    strobes = watch.strobes.pop(0)
    assert strobes[-1] == (1, 1) and len(strobes) in (2, 3), strobes
    await bench.command(0, Command.CLEAR)
    strobes = await watch.take(0)
    assert strobes == [(3, 2)], strobes
    await bench.end()


@cocotb.test()
async def coalesced(dut):
    """While a word's response is awaited, requests coalesce: one more interrupt for all, with their word."""
    bench, watch = await _bench(dut)
    page = bench.words_of(0)[0]
    bench.withhold(page)
    await bench.post(0, _copy(0, SC | IRQ))
    await bench.wait(300)
    await bench.post(0, _copy(64, SC | IRQ), _copy(128, SC), _copy(192, SC | IRQ), _copy(256, SC))
    await bench.wait(600)
    assert not watch.strobes[0]
    bench.release(page)
    strobes = await watch.take(0)
    assert len(strobes) == 2 and strobes[0][0] in (1, 5) and strobes[1] == (5, 0), strobes
    # Requests without the flag behind one with it do not interrupt.
    bench.withhold(page)
    await bench.post(0, _copy(0, SC | IRQ))
    await bench.wait(300)
    await bench.post(0, _copy(64, SC), _copy(128, SC))
    await bench.wait(600)
    bench.release(page)
    assert len(await watch.take(0)) == 1
    await bench.end()


@cocotb.test()
async def reset(dut):
    """After a RESET, words of later requests without the flag do not interrupt."""
    bench, watch = await _bench(dut)
    await bench.post(0, *(_copy(64 * number, SC | RC | IRQ) for number in range(4)))
    await bench.wait(60)
    await bench.command(0, Command.RESET)
    await bench.settle(0)
    await bench.wait(100)
    watch.strobes.clear()
    await bench.start_queues([0])
    await bench.post(0, _copy(0, SC | RC), _copy(64, SC))
    assert await watch.take(0) == []
    await bench.post(0, _copy(128, SC | IRQ))
    assert await watch.take(0) == [(3, 1)]
    bench.assert_equal()


@cocotb.test()
async def abandoned(dut):
    """Words of an abandoned queue never interrupt, when their responses arrive or when the queue is used again."""
    bench, watch = await _bench(dut)
    page = bench.words_of(0)[0]
    bench.withhold(page)
    await bench.post(0, _copy(0, SC | IRQ))
    await bench.wait(300)
    await bench.post(0, _copy(64, SC | IRQ))
    await bench.wait(300)
    await bench.driver.set_watchdog(300)
    await bench.command(0, Command.RESET)
    await bench.wait(2000)
    assert not (await bench.driver.state(0)).resetting
    assert not watch.strobes[0]
    bench.release(page)
    await bench.wait(200)
    assert not watch.strobes[0]
    await bench.driver.set_watchdog(0)
    await bench.start_queues([0])
    await bench.post(0, _copy(128, SC | RC))
    assert await watch.take(0) == []
    await bench.post(0, _copy(192, SC | IRQ))
    assert await watch.take(0) == [(2, 1)]
    bench.assert_equal()


@cocotb.test()
async def records(dut):
    """A descriptor's interrupt follows its record, and its words if they are published, too."""
    bench, watch = await _bench(dut)
    location = RingLocation(base=RING_BASE, size=3, records=RECORDS)
    bench.fill(RING_BASE, bytes(64 * location.entries))
    bench.fill(RECORDS, bytes(8 * location.entries))
    ring = DescriptorRing(bench, 0, location)
    await bench.command(0, Command.RESET)
    await bench.settle(0)
    await bench.start_queues([0], ring=location)

    async def post(flags, count=1):
        await ring.post(*(Descriptor.copies(_copy(64 * number), tag=number, flags=flags) for number in range(count)))

    record = DescriptorFlag.RECORD
    await post(record)
    assert await watch.take(0) == []
    await post(record | DescriptorFlag.IRQ)
    assert await watch.take(0) == [(0, 0)] and watch.kinds == {(0, "written"): 1}
    assert [found.status for found in ring.records()] == [Status.OK] * 2
    await post(record | DescriptorFlag.IRQ | DescriptorFlag.SC)
    strobes = await watch.take(0)
    assert len(strobes) == 2 and watch.kinds == {(0, "written"): 3}, strobes
    await post(DescriptorFlag.IRQ)
    assert len(await watch.take(0)) == 1 and watch.kinds[0, "completed"] == 1
    # The response to a record is withheld: its interrupt waits, and later ones coalesce behind it.
    ring.records()
    bench.withhold(RECORDS)
    await post(record | DescriptorFlag.IRQ)
    await bench.wait(300)
    await post(record | DescriptorFlag.IRQ, 2)
    await bench.wait(600)
    assert not watch.strobes[0]
    bench.release(RECORDS)
    assert len(await watch.take(0)) in (2, 3)
    await bench.end()


@cocotb.test()
async def many(dut):
    """All queues at full rate, with responses in disorder: the last interrupt of each finds its last word."""
    bench, watch = await _bench(dut, latency=20)
    disorder(bench.memory)
    posted, reported = Counter(), defaultdict(Counter)
    for _ in range(12):
        for queue in range(bench.config.queues):
            size = bench.rng.randint(1, 3)
            await bench.wait_for_free_entries(queue, size)
            words = [_copy(0x800 * queue + 0x40 * bench.rng.randrange(30), bench.rng.choice((0, SC, RC, SC | RC))
                           | bench.rng.choice((0, IRQ)), length=32) for _ in range(size)]
            words[-1] = words[-1]._replace(flags=int(words[-1].flags) | int(SC))
            for word in words:
                posted[queue] += 1
                for kind, flag in enumerate((SC, RC)):
                    if word.flags & IRQ and word.flags & flag:
                        reported[queue][kind] = posted[queue]
            await bench.post(queue, *words, verifiable=False)
    for queue in range(bench.config.queues):
        strobes = await watch.take(queue)
        assert strobes
        for kind, count in reported[queue].items():
            assert any(words[kind] >= count for words in strobes), f"queue {queue}: {strobes} without {count}"
    await bench.end()
