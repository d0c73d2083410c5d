# SPDX-License-Identifier: Apache-2.0
"""Random programs of collectives, compared with Gloo; ``--soak`` runs 504 more."""

import pytest

from tests.torch_backend.processes import run

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]


@pytest.mark.parametrize("ranks, nodes", ((4, "4"), (6, "3x2")))
def test_programs(clusters, request, ranks, nodes):
    seed, number = request.config.getoption("--seed") or 1, 8
    path = clusters("--nodes", nodes, "--memory", "4")
    found = run("programs.programs", ranks, path=path, seed=seed, number=number)
    assert len(set(found)) == 1 and found[0] >= number


@pytest.mark.soak
@pytest.mark.parametrize("ranks, nodes", ((2, "2"), (3, "3"), (4, "2x2"), (5, "5"), (6, "3x2"), (7, "7"), (8, "2x2x2")))
def test_more_programs(clusters, seed, ranks, nodes):
    found = run("programs.programs", ranks, path=clusters("--nodes", nodes, "--memory", "4"), seed=seed, number=72,
                limit=3600)
    assert len(set(found)) == 1
    print(f"{ranks} ranks as {nodes}: 72 programs, {found[0]} collectives")
