# SPDX-License-Identifier: Apache-2.0
"""Coarse chunks against chunks of full fineness: the same bytes, and times within the errors that
docs/simulator.md states."""

import pytest

from hw.errors import UserError
from sim.system.coarse import cut, factor, messages
from sim.system.configuration import MachineConfig
from sim.system.endpoint_kinds import rules
from sim.system.experiment import MOST_CHUNKS, Experiment
from sim.system.machine import Machine

MIB = 1 << 20


def test_lengths():
    assert cut(0, 10, 8) == []
    assert cut(25, 10, None) == cut(25, 10, 8) == [10, 10, 5]
    # 1, 2, 4 and 8 at each end, 16 between; what remains, 83, where lengths grow.
    assert cut(543, 10, 11) == [10, 20, 40, 80, 83, 160, 80, 40, 20, 10]
    # Twice each in a collective of two phases.
    assert cut(830, 10, 20, 2) == [10, 10, 20, 20, 40, 40, 70, *[80] * 6, 40, 40, 20, 20, 10, 10]
    for length, most, phases in ((999_999, 24, 1), (123_457, 64, 4), (10**7, 32, 1), (10**9, 160, 4)):
        made = cut(length, 10, most, phases)
        longest = factor(-(-length // 10), most, phases)
        assert sum(made) == length and min(made) > 0 and max(made) <= 10 * longest
        assert len(made) <= max(most, 2 * phases * longest.bit_length() + 1) + 1


def test_messages_of_sends():
    config = MachineConfig(shape=(2,), message_bytes=1000)
    assert messages(config, 2500) == [1000, 1000, 500]
    coarse = config.with_(most_chunks=8)
    assert messages(coarse, 2500) == [1000, 1000, 500]
    assert messages(coarse, 80_000) == [10_000] * 8 and sum(messages(coarse, 80_001)) == 80_001


def times(shape, endpoint, collective, size, dimensions, most):
    machine = Machine(MachineConfig(shape=shape, endpoint=endpoint, most_chunks=most, **rules(endpoint)))
    handle = machine.issue(collective, size, dimensions=dimensions)
    machine.run()
    statistics = machine.statistics()
    sent = [(link["port"], link["payload_bytes"]) for link in statistics["links"]]
    return handle.end, sent, statistics["memory"][0]["read_bytes"]


@pytest.mark.parametrize("endpoint", ["noovl", "commopt", "ace", "ideal", "wide"])
@pytest.mark.parametrize(("shape", "collective", "size", "dimensions", "error"), [
    ((8,), "ALL_GATHER", 4 * MIB, None, 0.04),
    ((8, 4, 4), "ALL_REDUCE", 16 * MIB, (1,), 0.03),
    ((16,), "ALL_TO_ALL", MIB, None, 0.03),
    ((4, 4, 4), "ALL_REDUCE", 16 * MIB, None, 0.06)])
def test_error(shape, collective, size, dimensions, error, endpoint):
    fine = times(shape, endpoint, collective, size, dimensions, None)
    coarse = times(shape, endpoint, collective, size, dimensions, MOST_CHUNKS)
    assert coarse[1:] == fine[1:]
    assert coarse[0] == pytest.approx(fine[0], rel=error)


@pytest.mark.parametrize("endpoint", ["noovl", "commopt", "ace", "wide"])
def test_error_of_a_step(endpoint):
    """A pipeline with overlapping collectives of all groups, sends, and weights that are gathered."""
    common = {"workload.layers": 2, "workload.hidden": 2048, "workload.heads": 16, "workload.ffn": 7168,
              "workload.sequence": 2048, "workload.micro_batches": 2, "workload.zero": 3}
    fine, coarse = (Experiment(workload="llama-70b", shape=(4, 4, 2), endpoint=endpoint, steps=1,
                               settings={**common, "most_chunks": most}).run() for most in (None, MOST_CHUNKS))
    assert coarse.seconds == pytest.approx(fine.seconds, rel=0.04)
    assert [link["payload_bytes"] for link in coarse.statistics["links"]] == [
        link["payload_bytes"] for link in fine.statistics["links"]]


def test_hundred_gigabytes():
    """At the rate of the links, in few chunks: their ramps have 34."""
    machine = Machine(MachineConfig(shape=(8,), endpoint="ideal", most_chunks=MOST_CHUNKS, header_bytes=0))
    handle = machine.issue("ALL_REDUCE", 100 * 10**9)
    machine.run()
    assert handle.end == pytest.approx(2 * 7 / 8 * 100e9 / 400e9, rel=0.01)
    assert machine.endpoints[0].begun <= 2 * 40


def test_errors():
    with pytest.raises(UserError, match=r"^most_chunks makes long chunks of long messages, so it must be none with "
                                        r"whole_packets=true or chunks, not 8\.$"):
        MachineConfig(shape=(2,), whole_packets=True, most_chunks=8)
    with pytest.raises(UserError, match=r"^most_chunks of a machine must be an integer from 8 to "):
        MachineConfig(shape=(2,), most_chunks=1)
