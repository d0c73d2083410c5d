# SPDX-License-Identifier: Apache-2.0
"""Sends and receives by puts of endpoints in RTL."""

import pytest

from tests.torch_backend.processes import run_all

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]

RING = ("--nodes", "4", "--memory", "16", "--puts")


def test_transfers(clusters):
    path = clusters(*RING)
    for rank, (found, error, *pipelines) in enumerate(run_all([
            ("transfers.pairs", {"path": path}), ("transfers.different_lengths", {"path": path}),
            ("transfers.pipeline", {"path": path}), ("transfers.pipeline", {"path": path, "name": "gloo"})])):
        assert found["cycles"] > 0
        # 15,000 bytes are relayed over two links of a ring, to the rank opposite.
        assert rank not in (0, 2) or found["payload"] >= 2 * 150_000
        sentence = "Rank 0 of group 0 sends 12 bytes to rank 1, which receives 8."
        assert error == (sentence if rank < 2 else None)
        assert pipelines[0] == pipelines[1]
