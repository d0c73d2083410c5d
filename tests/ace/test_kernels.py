# SPDX-License-Identifier: Apache-2.0
"""Kernels beside endpoints: their times, cycle by cycle, and their bytes."""

import pytest

from hw.ace.config import TINY
from hw.ace.words import Collective, CommandFlag, CommandWord
from sim.ace.cluster import Cluster
from sim.ace.endpoints import Endpoints, Memory, Reason
from sim.ace.kernels import Credit, Kernel, Notice, Poster, Rule, Slice, Store, Task, Times, Wait, packed
from sim.ace.shared_library import ClusterFailed

pytestmark = pytest.mark.rtl

DATA, WORDS, PAGE = 0x10_0000, 0x20_0000, 0x1000
LATENCY = 30


@pytest.fixture
def started():
    """Start a kernel on an endpoint, run it, and return its times since the start."""
    def start(kernel, *, limit=5000, **memory):
        cluster = Endpoints(TINY, (1,), memory=Memory(**{"read_latency": 50, "write_latency": LATENCY} | memory))
        clusters.append(cluster)
        for address in (DATA, WORDS):
            cluster.write_memory(0, address, bytes(PAGE))
        cluster.run(2000)   # until the accelerator has swept its tables
        begin = cluster.cycle
        cluster.start_kernel(0, kernel)
        reason = cluster.run(limit)

        def times(which):
            return [None if time is None else time - begin for time in cluster.kernel_times(0, which)]

        return cluster, reason, times

    clusters = []
    yield start
    for cluster in clusters:
        cluster.close()


def _tasks(count, *, compute=100, slices=1, length=8, **options):
    return [Task(slice=number % slices, bit=number // slices, compute=compute, address=DATA + length * number,
                 data=bytes([number + 1]) * length, **options) for number in range(count)]


def _word(number):
    return Store(PAGE + 16 * number, bytes([number]) * 16)


def test_tasks_start_when_a_workgroup_is_free(started):
    cluster, reason, times = started(Kernel(workgroups=2, tasks=_tasks(5), slices=[Slice()], begin=7))
    assert reason == Reason.DONE
    assert times(Times.STARTED) == [7, 7, 107, 107, 207]
    assert times(Times.VISIBLE) == [137, 137, 237, 237, 337]
    assert cluster.read_memory(0, DATA, 48).tolist() == [number for number in range(1, 6) for _ in range(8)] + [0] * 8


def test_a_fence_waits_for_memory(started):
    _, _, times = started(Kernel(workgroups=2, tasks=_tasks(5), slices=[Slice()], fence=True))
    assert times(Times.STARTED) == [0, 0, 130, 130, 260]


def test_workgroups_use_the_memory_bandwidth(started):
    kernel = Kernel(workgroups=2, tasks=_tasks(3, length=60), slices=[Slice()])
    _, _, times = started(kernel, write_rate=0.5)
    # 8 beats of 8 bytes at half a beat per cycle.
    assert times(Times.VISIBLE) == [146, 162, 246]
    kernel = Kernel(workgroups=2, tasks=_tasks(2, read_bytes=800), slices=[Slice()])
    _, _, times = started(kernel, read_rate=1)
    assert times(Times.VISIBLE) == [50 + 100 + LATENCY, 50 + 200 + LATENCY]


def test_ticks_follow_the_data(started):
    slices = [Slice(tick=_word(0)), Slice(tick=Store(PAGE + 8, bytes(8))), Slice()]
    kernel = Kernel(workgroups=3, notice=Notice.TICK, tasks=_tasks(6, slices=3), slices=slices, store_delay=4)
    _, reason, times = started(kernel)
    assert reason == Reason.DONE
    # One store per cycle; the third slice has no tick.
    assert times(Times.NOTICED) == [234, 235, None]


@pytest.mark.parametrize(("in_order", "posted"), [(False, [320, 220, 270]), (True, [320, 323, 326])])
def test_a_thread_polls_masks(started, in_order, posted):
    """Slice 0 has parts in both rounds, slice 1 in the first, and slice 2 nine in all."""
    tasks = [*_tasks(2, slices=2),
             *(Task(slice=2, bit=bit, compute=10, address=DATA + 100, data=bytes(8)) for bit in range(9)),
             Task(slice=0, bit=1, compute=100, address=DATA, data=bytes(8))]
    slices = [Slice(mask=WORDS), Slice(mask=WORDS + 8), Slice(mask=WORDS + 16)]
    rules = [Rule(address=WORDS, bits=2, posts=[_word(0)]), Rule(address=WORDS + 8, bits=1, posts=[_word(1)]),
             Rule(address=WORDS + 16, bits=9, posts=[_word(2)])]
    poster = Poster(rules=rules, in_order=in_order, period=50, latency=20, gap=3)
    kernel = Kernel(workgroups=2, notice=Notice.MASK, tasks=tasks, slices=slices, posters=[poster])
    cluster, reason, times = started(kernel)
    assert reason == Reason.DONE
    # Parts are visible 30 cycles after their tasks, their bits 30 cycles later. The last task starts in cycle 140.
    assert times(Times.NOTICED) == [300, 160, 210]
    assert cluster.read_memory(0, WORDS, 24).tolist() == [3, *[0] * 7, 1, *[0] * 7, 0xFF, 1, *[0] * 6]
    assert times(Times.POSTED)[:3] == posted


def test_the_last_workgroup_posts(started):
    slices = [Slice(mask=WORDS, posts=[_word(0), _word(1)]), Slice()]
    tasks = [*_tasks(3), Task(slice=1, compute=1, address=DATA, data=bytes(8))]
    kernel = Kernel(workgroups=2, notice=Notice.LAST, tasks=tasks, slices=slices, atomic_latency=40, store_delay=5)
    _, reason, times = started(kernel)
    assert reason == Reason.DONE
    assert times(Times.NOTICED) == [200 + LATENCY + 40, None]
    assert times(Times.POSTED) == [200 + LATENCY + 40 + 5 + 1, None]


def test_posts_wait_for_credits(started):
    """A task writes the completion word; two of the four posts go to another page."""
    posts = [_word(0), Store(0, bytes(16)), _word(1), Store(0, bytes(16)), _word(2)]
    task = Task(slice=0, compute=300, address=WORDS + 64, data=(1).to_bytes(8, "little"))
    kernel = Kernel(tasks=[task], slices=[Slice()], credits=[Credit(1, 2, WORDS + 64)],
                    posters=[Poster(rules=[Rule(posts=[post]) for post in posts], period=10)])
    _, reason, times = started(kernel)
    assert reason == Reason.DONE
    assert times(Times.POSTED)[:5] == [0, 1, 2, 3, 330]


def test_one_in_several_posts_requests_the_completion_word():
    cluster = Cluster(TINY, (1,), memory=Memory(read_latency=20, write_latency=20))
    command = CommandWord(Collective.BARRIER, 0, *[0] * 10)
    assert command._replace(flags=CommandFlag.SC).pack() == command.pack() | CommandFlag.SC << 4
    word = cluster.completion_address()
    rule = Rule(posts=[Store(0, command.to_bytes())])
    kernel = Kernel(posters=[Poster(rules=[rule] * 7)], credits=[Credit(0, 4, word, 3, CommandFlag.SC << 4)],
                    waits=[Wait(word, count=6)])
    cluster.start_kernel(0, kernel)
    assert cluster.run(5000) == Reason.DONE
    cluster.run(500)
    # The seventh does not request it.
    assert cluster.completion(0).count == 6
    cluster.close()


def test_posts_after_the_kernel(started):
    late = Poster(rules=[Rule(posts=[_word(0)])], after_kernel=True, delay=11)
    kernel = Kernel(workgroups=1, tasks=_tasks(2), slices=[Slice()],
                    posters=[late, Poster(rules=[Rule(posts=[_word(1)])], latency=3)])
    cluster, reason, times = started(kernel, limit=2)
    with pytest.raises(ClusterFailed, match=r"^The kernel of endpoint 0 has stores in flight\.$"):
        cluster.start_kernel(0, kernel)
    assert (reason, cluster.run(1000)) == (Reason.LIMIT, Reason.DONE)
    assert times(Times.POSTED)[:2] == [200 + LATENCY + 11, 3]


def test_consumers_poll_words(started):
    waits = [Wait(WORDS, period=20), Wait(WORDS, count=5, period=7), Wait(WORDS + 8, count=1)]
    task = Task(slice=0, compute=100, address=WORDS, data=(5).to_bytes(8, "little"))
    kernel = Kernel(tasks=[task], slices=[Slice()], waits=waits)
    cluster, reason, times = started(kernel, limit=1000)
    assert reason == Reason.LIMIT
    assert times(Times.SEEN) == [140, 133, None]
    cluster.write_memory(0, WORDS + 8, (1).to_bytes(8, "little"))
    assert cluster.run(1000) == Reason.DONE
    cluster.start_kernel(0, None)
    with pytest.raises(ClusterFailed, match=r"^Endpoint 0 has no kernel\.$"):
        times(Times.SEEN)


@pytest.mark.parametrize(("tasks", "slices", "sentence"), [
    (_tasks(1, slices=1), [], "A task is of no slice."),
    ([Task(slice=0, compute=1, address=1 << 40, data=bytes(8))], [Slice()],
     "A workgroup wrote where there is no memory."),
])
def test_wrong_kernels(started, tasks, slices, sentence):
    with pytest.raises(ClusterFailed) as error:
        started(Kernel(tasks=tasks, slices=slices))
    assert str(error.value) == sentence


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"tasks": _tasks(1), "workgroups": 0}, "A kernel with tasks must have at least one workgroup, not 0"),
    ({"posters": [Poster(rules=[], period=0)]}, "Period and gap of a thread must be at least 1 cycle, not 0 and 1"),
    ({"waits": [Wait(0, period=0)]}, "Period of a wait must be at least 1 cycle, not 0"),
    ({"slices": [Slice(tick=Store(4, bytes(8)))]}, "A store must be of 8 or 16 bytes at a multiple of its "
     "length, not of 8 bytes at 0x4"),
    ({"slices": [Slice(posts=[Store(0, bytes(12))])]}, "A store must be of 8 or 16 bytes at a multiple of its "
     "length, not of 12 bytes at 0x0"),
])
def test_kernels_out_of_range(wrong, sentence):
    with pytest.raises(ValueError) as error:
        packed(Kernel(**wrong))
    assert str(error.value) == sentence
