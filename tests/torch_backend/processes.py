# SPDX-License-Identifier: Apache-2.0
"""Processes of ranks: each runs functions of modules of this package, one after the other."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 1200


def run(scenario, size=4, *, environment=None, limit=LIMIT, **arguments):
    """As :func:`run_all`, of one function: the results, by rank."""
    return [results[0] for results in run_all([(scenario, arguments)], size, environment=environment, limit=limit)]


def run_all(scenarios, size=4, *, environment=None, limit=LIMIT):
    """Each ``MODULE.FUNCTION`` of ``tests.torch_backend`` with its arguments, in ``size`` processes: lists of the
    results, by rank. PyTorch is imported once for all of them."""
    statuses, outputs = _run(scenarios, size, environment or {}, limit)
    assert statuses == [0] * size, (statuses, outputs)
    return outputs


def run_killed(scenario, victim, size=4, **arguments):
    """As :func:`run`; the process of one rank ends without a result."""
    statuses, outputs = _run([(scenario, arguments | ({"victim": victim} if "after" in arguments else {}))], size, {})
    assert outputs[victim] is None and [status for rank, status in enumerate(statuses) if rank != victim] == [0] * (
        size - 1), (statuses, outputs)
    return [output and output[0] for output in outputs]


def _run(scenarios, size, environment, limit=LIMIT):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            own = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(size),
                   "SCENARIO": json.dumps([scenarios, folder]), **environment}
            ranks.append(subprocess.Popen([sys.executable, "-m", "tests.torch_backend.rank"], cwd=ROOT, env=own,
                                          stdout=subprocess.PIPE, text=True))
        try:
            outputs = [rank.communicate(timeout=limit)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    return ([rank.returncode for rank in ranks],
            [json.loads(output.splitlines()[-1]) if output.strip() else None for output in outputs])
