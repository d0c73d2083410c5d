# SPDX-License-Identifier: Apache-2.0
"""Sends and receives by puts of endpoints in RTL."""

import pytest

from tests.torch_backend.processes import run

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]

RING = ("--nodes", "4", "--memory", "16", "--puts")


def test_transfers(clusters):
    for rank, found in enumerate(run("transfers.transfers", path=clusters(*RING))):
        assert found["cycles"] > 0
        # 150,000 bytes are relayed over two links of a ring, to the rank opposite.
        assert rank not in (0, 2) or found["payload"] >= 2 * 150_000
        sentence = "Rank 0 of group 0 sends 12 bytes to rank 1, which receives 8."
        assert found["error"] == (sentence if rank < 2 else None)
        assert found["pipelines"][0] == found["pipelines"][1]
