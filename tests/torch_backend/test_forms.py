# SPDX-License-Identifier: Apache-2.0
"""Every collective of ``torch.distributed`` on a cluster in RTL."""

import numpy as np
import pytest

from hw.ace.collectives import Collective
from hw.ace.config import TINY
from tests.torch_backend.processes import run, run_all

pytest.importorskip("torch", reason="scripts/setup.sh torch installs PyTorch")
pytestmark = [pytest.mark.rtl, pytest.mark.long]

RING = ("--nodes", "4", "--memory", "16")
TORUS = ("--nodes", "2x2", "--memory", "16")

HINT = 'Gloo does it with Options(fallback="gloo").'
ERRORS = {
    "type": f"The accelerator does not reduce elements of type torch.int64. {HINT}",
    "operation": f"A reduction must be one of SUM, AVG, MIN, MAX, PROD, not BXOR. {HINT}",
    "send": "send is a transfer between two ranks, for which the cluster must have endpoints with DMA engines: "
            f"Options(puts=True). {HINT}",
    "shape": "The longer tensor of all_gather must have 4 times the 2 elements of the other, not 9.",
    "splits": "Splits of a tensor of shape (4,) must be 4 lengths with the sum 4, not [1, 1, 1, 2].",
    "options": "All groups of a process have the options of the first one of the backend dmace.",
    "memory": "A buffer of 20,971,520 bytes does not fit the rank's memory of 16,777,216 bytes."}


@pytest.mark.parametrize("options", (RING, TORUS), ids=("ring", "torus"))
def test_forms(clusters, options):
    """Sessions follow each other in the same processes. A call returns long before its simulation has ended."""
    scenarios = [(f"forms.{name}", {"path": clusters(*options)}) for name in ("reductions", "moves", "asynchronous")]
    for _, _, one in run_all(scenarios):
        assert one["posted"] < one["waited"]


def test_statistics_fallback_and_errors(clusters):
    from sim.ace.cluster import Cluster

    path = clusters(*RING)
    found = run_all([("forms.statistics", {"path": path, "elements": 5000}), ("forms.fallback", {"path": path}),
                     ("forms.errors", {"path": path})])
    with Cluster(TINY, (4,)) as cluster:
        outcome = cluster.collective(Collective.ALL_REDUCE, [np.ones(5000, np.float32)] * 4, in_place=True)
    for one, _, errors in found:
        assert one["cycles"] == outcome.cycles
        assert one["seconds"] == outcome.cycles / 250e6
        assert one["payload"] == sum(link["payload_bytes"] for link in outcome.statistics["links"])
        assert one["read"] == sum(memory["read_beats"] for memory in outcome.statistics["memories"]) * TINY.beat_bytes
        assert one["bytes"] == 20_000 and f"{outcome.cycles:,}" in one["table"]
        assert errors == ERRORS


def test_groups(clusters):
    found = run("forms.groups", path=clusters(*TORUS))
    assert [one["sums"] for one in found] == [[1, 2, 0], [1, 4, 1], [5, 2, 2], [5, 4, 3]]
    sentence = ("Ranks 0, 3 are no group of a cluster of shape 2x2, which has (0 1 2 3), (0 2), (1 3), (0 1), (2 3). "
                f"{HINT}")
    assert [one["error"] for one in found] == [sentence, None, None, sentence]
