# SPDX-License-Identifier: Apache-2.0
"""No link carries more than its bandwidth: random machines, random collectives."""

from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from hw.ace.words import Collective
from sim.system import ENDPOINTS, LinkConfig, Machine, MachineConfig

C = Collective

# An all-to-all of a (4, 3, 2) has 42 positions of 64 bytes in a chunk, hence 2,688 bytes.
machines = st.builds(
    MachineConfig, shape=st.sampled_from([(2,), (3,), (4, 2), (3, 3), (2, 2, 2), (4, 3, 2)]),
    endpoint=st.sampled_from(list(ENDPOINTS)), order=st.sampled_from(["fifo", "lifo", "priority"]),
    both=st.booleans(), cut_through=st.booleans(), turns=st.sampled_from(["age", "message"]),
    links=st.tuples(*[st.builds(LinkConfig, bytes_per_s=st.floats(1e9, 4e11), latency_s=st.floats(0, 1e-6))] * 3),
    chunk_bytes=st.sampled_from([3072, 8192]), message_bytes=st.sampled_from([512, 4096]), fold=st.booleans())
collectives = st.lists(st.tuples(
    st.floats(0, 2e-5), st.sampled_from([C.ALL_REDUCE, C.REDUCE_SCATTER, C.ALL_GATHER, C.ALL_TO_ALL, C.BARRIER]),
    st.integers(0, 6000)), min_size=1, max_size=3)


class Watched:
    """Replaces a kernel's ``at`` and records when each port starts and ends a transfer."""

    def __init__(self, machine):
        self.spans = {}
        for endpoint in machine.endpoints:
            for number, port in enumerate(endpoint.ports):
                self._watch(machine.kernel, port, self.spans.setdefault((endpoint.rank, number), []))

    @staticmethod
    def _watch(kernel, port, spans):
        begin, ended = port._begin, port._ended

        def begins(now):
            carried = port.wire_bytes
            begin(now)
            if port.wire_bytes != carried:
                spans.append([now, None, port.wire_bytes - carried])

        def ends():
            spans[-1][1] = kernel.now
            ended()

        port._begin, port._ended = begins, ends


@settings(max_examples=40, deadline=None)
@given(machines, collectives)
def test_no_link_carries_more_than_it_can(config, wanted):
    machine = Machine(config)
    watched, ended = Watched(machine), []
    for when, collective, size in wanted:
        machine.at(when, lambda collective=collective, size=size: machine.issue(collective, size, done=ended.append))
    machine.run()
    assert len(ended) == len(wanted)
    for (_, number), spans in watched.spans.items():
        rate = config.links[number // 2].bytes_per_s
        free = 0
        for begin, end, wire in spans:
            # One transfer at a time, each for the duration of its bytes.
            assert begin >= free and end - begin >= wire / rate * 1e12 - 1e-3
            free = end


@settings(max_examples=30, deadline=None)
@given(machines, st.integers(1, 30_000))
def test_all_bytes_go_over_the_links(config, size):
    """The links carry all bytes that the algorithm of an all-reduce requires."""
    machine = Machine(config)
    machine.issue(C.ALL_REDUCE, size)
    machine.run()
    first, *others = config.shape
    part = size / prod(config.shape)
    least = 2 * (first - 1) * prod(others) * part + sum(
        2 * (ranks - 1) * prod(others) / ranks * part for ranks in others)
    sent = sum(link["payload_bytes"] for link in machine.statistics()["links"]) / len(machine.endpoints)
    assert sent >= least * (1 - 1e-9)
