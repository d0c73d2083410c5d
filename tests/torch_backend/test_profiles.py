# SPDX-License-Identifier: Apache-2.0
"""Collectives in ``torch.profiler`` and in traces."""

import pytest

from tests.torch_backend.processes import run
from tests.torch_backend.test_training import RING

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]


def test_profile(clusters, tmp_path):
    for one in run("profiles.profile", path=clusters(*RING), folder=str(tmp_path)):
        assert one["ranges"] == {"dmace:all_reduce": 1, "dmace:broadcast": 1}
        assert one["written"] == 2 and one["inside"] == [True] * 4 and one["same process"]
        assert one["names"] == ["ALL_REDUCE"] * 2 + ["BROADCAST"] * 2
        reduced, sent = one["recorded"]
        assert one["cycles"] == [reduced] * 2 + [sent] * 2
        # The second track has the time at 100 MHz, far less than the simulation's.
        assert one["microseconds"][1::2] == pytest.approx([reduced / 100, sent / 100])
        assert one["microseconds"][0] > one["microseconds"][1]
        assert 0 < one["share"] <= 1 and one["errors"] == 3
