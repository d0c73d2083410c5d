# SPDX-License-Identifier: Apache-2.0
"""One boot of a guest for all tests that put the RTL in front of it."""

import pytest

from hw.rdma.config import TINY
from sim.linux.fetch import FetchFailed
from sim.rdma.cluster import Cluster, build_cluster
from sim.rdma.network import Line
from sim.rdma.roce_guest import fetch_guest
from sim.verilator.toolchain import build_root
from tests.sim.rdma.unit_guest import UnitGuest


@pytest.fixture(scope="package")
def setup(tmp_path_factory):
    try:
        fetch_guest(build_root() / "linux")
    except FetchFailed as reason:
        pytest.skip(str(reason))
    with Cluster(build_cluster(TINY), [Line(bytes_per_cycle=8, latency=10)] * 2, units=1) as cluster:
        made = UnitGuest(tmp_path_factory.mktemp("roce"), cluster)
        with made.guest:
            yield made
            made.drop()
    assert not made.wrong
    assert "RESULT pass" in (made.guest.folder / "console.log").read_text().splitlines()
