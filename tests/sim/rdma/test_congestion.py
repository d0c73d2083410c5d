# SPDX-License-Identifier: Apache-2.0
"""Two units that write to a third through one queue of a switch: ECN, CNPs, and the senders' rates."""

from dataclasses import dataclass, replace
from functools import cache

import pytest

from dmace.drivers.rdma import Connection
from dmace.drivers.registers import wait
from hw.rdma.config import TINY, remote_memory
from sim.rdma.cluster import Cluster, Flow, build_cluster
from sim.rdma.network import Line, Switch
from sim.rdma.unit_driver import unit_driver

pytestmark = [pytest.mark.long, pytest.mark.rtl]

CONFIG = replace(TINY, queue_pairs=4, window=32, packets=32, buffer_beats=4096)
"""Two windows of 32 packets have 64 KiB of payload, more than the queue."""

LINE, SIZE, RECEIVER, SPAN = 8, 2048, 2, 1 << 19
MARK_BYTES, QUEUE_BYTES = 8 << 10, 48 << 10
PAYLOAD_RATE = LINE * 1024 / (1024 + 14 + 20 + 8 + 12 + 4 + 24)
"""Bytes per cycle of the receiver's segment, nearly: all but the first packet of a message have no RETH."""

STEP = 20_000


def _mac(unit):
    return f"02:00:00:00:00:{unit + 1:02x}"


@cache
def _library():
    return build_cluster(CONFIG)


@dataclass
class Sample:
    """A step: payload bytes per cycle of both senders, and their rates at its end."""

    cycle: int
    goodput: list
    rates: list


class Senders:
    """Units 0 and 1, each with a queue pair to unit 2."""

    def __init__(self, cluster, *, congestion):
        self.cluster, self.drivers = cluster, [unit_driver(cluster, unit) for unit in range(3)]
        self.samples, self._begin, self._done = [], 0, [0, 0]
        for unit, driver in enumerate(self.drivers):
            wait(driver.set_station(mac=_mac(unit), ipv4=f"10.0.0.{unit + 1}"))
            cluster.map(unit, 0, 2 * SPAN)
        rkey = wait(self.drivers[RECEIVER].define_region(0, va=0, length=2 * SPAN, address=0))
        for unit in range(2):
            for own, peer, qp, peer_qp in ((unit, RECEIVER, 1, 1 + unit), (RECEIVER, unit, 1 + unit, 1)):
                wait(self.drivers[own].open(Connection(
                    qpn=16 + qp, peer_qpn=16 + peer_qp, peer_mac=_mac(peer), peer_ip=f"10.0.0.{peer + 1}", mtu=1024,
                    max_reads=1, timeout=5, congestion=congestion)))
            wait(self.drivers[unit].define_remote(1, qp=1, rkey=rkey, va=unit * SPAN, length=SPAN))

    def write(self, counts):
        """Begin ``counts`` messages."""
        self._flows = [self.cluster.flow(unit, Flow(
            write=True, local=0, remote=remote_memory(1), size=SIZE, count=counts[unit], depth=16, slots=16, ids=8))
            for unit in range(2)]
        self._begin = self.cluster.cycle

    def run(self, until):
        """Take a sample of each step, until a function of the latest one is true."""
        while True:
            before = self.cluster.cycle
            self.cluster.run(STEP)
            done = [self.cluster.result(unit, flow).done for unit, flow in enumerate(self._flows)]
            goodput = [(new - old) * SIZE / (self.cluster.cycle - before)
                       for new, old in zip(done, self._done, strict=True)]
            self._done = done
            self.samples.append(Sample(self.cluster.cycle - self._begin, goodput,
                                       [wait(driver.state(1)).rate for driver in self.drivers[:2]]))
            if until(self.samples[-1]):
                return

    def counters(self, name):
        """One counter of both senders."""
        return [wait(driver.counters())[name] for driver in self.drivers[:2]]


def _cluster():
    return Cluster(_library(), [Line(bytes_per_cycle=LINE)] * 3,
                   switch=Switch(queue_bytes=QUEUE_BYTES, mark_bytes=MARK_BYTES))


def test_rates_share_a_segment():
    """The queue is bounded, no frame is dropped, both have the same share, and one alone gets the line rate again."""
    with _cluster() as cluster:
        senders = Senders(cluster, congestion=True)
        senders.write((100_000, 520))
        senders.run(lambda sample: not sample.goodput[1])
        shared = senders.samples[:-2]
        port = cluster.counts(RECEIVER)
        assert port.tail_drops == 0 and senders.counters("packets_resent") == [0, 0]
        assert senders.counters("cnps_received")[0] > 2
        means = [sum(sample.goodput[unit] for sample in shared) / len(shared) for unit in range(2)]
        rates = [rate for sample in shared for rate in sample.rates]
        alone = len(senders.samples)
        senders.run(lambda sample: sample.rates[0] == 1)
        recovered = senders.samples[-1].cycle - senders.samples[alone - 1].cycle
        senders.run(lambda sample: True)
        print(f"shared for {shared[-1].cycle:,} cycles: {means[0]:.2f} and {means[1]:.2f} bytes per cycle, rates "
              f"{min(rates):.2f} to {max(rates):.2f}, queue {port.queue:,} bytes, {port.marks} marks; line rate after "
              f"{recovered:,} cycles alone: {senders.samples[-1].goodput[0]:.2f}")
    assert 0.9 < means[0] / means[1] < 1.1 and sum(means) > 0.7 * PAYLOAD_RATE
    assert 0.1 < min(rates) and max(rates) < 0.7
    assert recovered < 32 * 57.6 * 250
    assert senders.samples[-1].goodput[0] > 0.95 * PAYLOAD_RATE


def test_without_rates_frames_are_dropped():
    with _cluster() as cluster:
        senders = Senders(cluster, congestion=False)
        senders.write((100_000, 100_000))
        senders.run(lambda sample: sample.cycle >= 200_000)
        port, resent = cluster.counts(RECEIVER), senders.counters("packets_resent")
        means = [sum(sample.goodput[unit] for sample in senders.samples) / len(senders.samples) for unit in range(2)]
        print(f"without: {means[0]:.2f} and {means[1]:.2f} bytes per cycle, queue {port.queue:,} bytes, "
              f"{port.tail_drops} dropped, {resent[0]} and {resent[1]} repeated of "
              f"{senders.counters('packets_sent')} packets")
    assert port.tail_drops > 10 and min(resent) > 10
    assert all(rate == 1 for sample in senders.samples for rate in sample.rates)
