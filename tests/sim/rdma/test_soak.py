# SPDX-License-Identifier: Apache-2.0
"""A RoCEv2 unit under hostile packets, and violations that the soak must find."""

import re

import pytest

from dmace.drivers.rdma import RdmaDriver
from hw.rdma.config import TINY
from sim.rdma.attacker import Attacker, Role
from sim.rdma.cluster import build_cluster
from sim.rdma.soak import missing, soak
from sim.rdma.soak_software import Software

pytestmark = [pytest.mark.rtl, pytest.mark.long]


def _findings(seed, packets=10_000):
    return "\n".join(soak(build_cluster(TINY), packets=packets, seed=seed)["findings"])


def test_hostile_packets(seed):
    result = soak(build_cluster(TINY), packets=20_000, seed=seed)
    assert not result["findings"] and result["packets"] >= 20_000
    # Each kind is rare, and a few may be absent in a short run.
    assert sum(not count for count in result["kinds"].values()) <= 3
    assert missing({**result, "packets": 100_000, "kinds": {"SEND": 0}}) == ["Nothing was counted as 'SEND'."]
    assert result["faults"]["LOCAL_ACCESS"] and result["faults"]["BAD_RESPONSE"]


def test_a_write_outside_of_registered_memory(seed, monkeypatch):
    """Regions have one byte less than the unit knows."""
    allow = Attacker.allow
    monkeypatch.setattr(Attacker, "allow", lambda self, qp, first, end, **rights: allow(
        self, qp, first, end - (not rights.get("ring")), **rights))
    assert "not writable for it" in _findings(seed)


def test_a_read_outside_of_registered_memory(seed, monkeypatch):
    """Regions that are only readable begin later than the unit knows."""
    allow = Attacker.allow
    monkeypatch.setattr(Attacker, "allow", lambda self, qp, first, end, **rights: allow(
        self, qp, first + 1000 * (not rights["writable"]), end, **rights))
    assert "not readable" in _findings(seed)


def test_wrong_bytes(seed, monkeypatch):
    visit = Software.visit

    def corrupt(self, **options):
        region = next(queue for queue in self.queues.values() if queue.role is Role.HONEST).regions[0]
        byte = self.cluster.load(0, region.address, 1)[0]
        self.cluster.store(0, region.address, bytes([byte ^ 1]))
        visit(self, **options)

    monkeypatch.setattr(Software, "visit", corrupt)
    # Software finds them in memory, unless a READ returns them before.
    assert re.search("of the region of honest queue pair 2|a READ of honest queue pair 2 returned wrong bytes",
                     _findings(seed))


def test_a_failure_of_another_queue_pair(seed, monkeypatch):
    """Software closes a good queue pair instead of a hostile one."""
    close = RdmaDriver.close

    async def wrong(self, qp):
        await close(self, 1 if qp > 3 else qp)

    monkeypatch.setattr(RdmaDriver, "close", wrong)
    assert "good queue pair 1 has failed" in _findings(seed)


def test_a_queue_pair_that_is_not_used_again(seed, monkeypatch):
    """The attacker sends its first WRITE with another PSN."""
    opened = Attacker.open

    def other(self, queue):
        opened(self, type(queue)(**{**queue.__dict__, "request_psn": (queue.request_psn + 1) % (1 << 24)}))

    monkeypatch.setattr(Attacker, "open", other)
    assert "first WRITE" in _findings(seed)
