# SPDX-License-Identifier: Apache-2.0
"""Functional collectives, DTensor and tensor parallelism on a cluster in RTL."""

import pytest

from tests.torch_backend.processes import run_all
from tests.torch_backend.test_training import RING, same_but_for_rounding

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]

TORUS = ("--nodes", "2x2", "--memory", "16")


def test_redistribution(clusters):
    run_all([("meshes.redistribution", {"path": clusters(*RING)})])


def test_tensor_parallel(clusters):
    path = clusters(*TORUS)
    for one, again, gloo in run_all([("meshes.tensor_parallel", variant) for variant in (
            {"path": path}, {"path": path}, {"name": "gloo"})]):
        assert one == again
        assert {"ALL_GATHER", "REDUCE_SCATTER", "ALL_REDUCE"} <= set(one["collectives"])
        assert one["sizes"] == [2, 4] or one["sizes"] == [2]
        same_but_for_rounding(one, gloo)
