# SPDX-License-Identifier: Apache-2.0
"""Latency and throughput of the write path, in cycles."""

import pytest

from tests.pcie.requester.write_bench import MESSAGES
from tests.pcie.requester.write_traffic import cycles_of, full_bursts, run_body, write_path

pytestmark = pytest.mark.long


@pytest.mark.parametrize("beats, qos", [(1, 0), (2, 0), (1, 4)])
def test_latency(beats, qos, seed):
    """From the last beat to the header and its data, and from RQ's acceptance to B; a flush takes one cycle here."""
    async def body(bench):
        bursts = full_bursts(bench.rng, 64, 1, beats, qos)
        bench.make_burst = lambda: next(bursts, None)
        for _ in range(20):
            await bench.step()
        last, header, data, sent, response = (cycles_of(bench.log, kind) for kind in (
            "beat", "header", "data", "sent", "response"))
        assert header == [last[-1] + 3] and data[0] == header[0]
        assert response == [sent[0] + (6 if qos else 3)]

    run_body(write_path(), body, seed)


def test_latency_of_a_message(seed):
    async def body(bench):
        messages = iter([{"address": MESSAGES | 60, "data": 7}])
        bench.make_message = lambda: next(messages, None)
        start = bench.cycle
        for _ in range(20):
            await bench.step()
        assert cycles_of(bench.log, "header") == [start + 4] and bench.seen["message_sent"] == 1

    run_body(write_path(), body, seed)


@pytest.mark.parametrize("width, beats, qos", [(512, 1, 0), (512, 1, 4), (512, 64, 0), (128, 16, 0)])
def test_throughput(width, beats, qos, seed):
    """One beat per cycle; with bursts of one beat one burst, one TLP and one response."""
    async def body(bench):
        bursts = full_bursts(bench.rng, width // 8, 256 // beats, beats, qos)
        bench.make_burst = lambda: next(bursts, None)
        for _ in range(280):
            await bench.step()
        taken, sent = cycles_of(bench.log, "beat"), cycles_of(bench.log, "data")
        assert len(taken) == len(sent) == 256
        assert taken[-1] - taken[0] == sent[-1] - sent[0] == 255
        if beats == 1:
            responses = cycles_of(bench.log, "response")
            assert len(responses) == 256 and responses[-1] - responses[0] == 255

    run_body(write_path(width), body, seed)
