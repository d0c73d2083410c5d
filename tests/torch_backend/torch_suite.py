# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: PyTorch's own tests of backends, ``DistributedTest`` of its wheel, one after the other.

PyTorch starts new processes for each test. Here one process runs all of them, and begins a new process group after a
test that has failed. There are no CUDA and no NCCL. ``python -m tests.torch_backend.torch_suite`` prints the list of
docs/torch.md; Gloo does what the accelerators do not do, and the list has the collectives that they have done.
"""

import argparse
import os
import re
import sys
import time
import unittest
from collections import Counter
from datetime import timedelta
from math import prod

import torch
import torch.distributed as dist

import dmace.torch
from tests.torch_backend.rank import start

COLLECTIVES = (r"test_(get_|Backend|destroy|new_sub|coalescing|batch_isend|send_recv|isend|irecv|broadcast|reduce|"
               r"all_reduce|sparse|scatter|gather|all_gather|all_to_all|barrier)(?!.*(cuda|nccl|gpu|multigpu))")
LONGEST = 60.0
"""Seconds of a collective, and of a rank's wait for the others."""


def suite(store, path, pattern=COLLECTIVES):
    """For each test whose name matches: how it has ended at this rank, why, and the seconds; then the counts of
    collectives on the accelerators."""
    folder = os.path.dirname(store) + "/" + os.path.basename(store) + ".files"
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    os.environ |= {"BACKEND": "dmace", "TEMP_DIR": folder, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    from torch.testing._internal import common_distributed, common_utils
    from torch.testing._internal.distributed.distributed_test import Barrier, DistributedTest

    class Suite(common_utils.TestCase, DistributedTest._DistTestBase):
        def _barrier(self, *args, **kwargs):
            Barrier.sync(*args, **{"timeout": LONGEST} | kwargs)

    skips = {one.exit_code: one.message for one in common_distributed.TEST_SKIPS.values()}
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    agreement = dist.FileStore(f"{store}.agreement", size)
    agreement.set_timeout(timedelta(seconds=2 * LONGEST))

    def begin(number):
        start(f"{store}.{number}", socket=path, puts=True, fallback="gloo", timeout=LONGEST)

    results = {}
    names = [name for name in sorted(dir(Suite)) if re.match(pattern, name)]
    begin(0)
    for number, name in enumerate(names, 1):
        Barrier.barrier_id = 1000 * number
        one = Suite(name)
        one.rank, one.file_name = rank, f"{folder}/init{number}"
        torch.manual_seed(number)       # all ranks make the same objects
        began, before = time.monotonic(), len(dmace.torch.stats().records)
        try:
            getattr(one, name)()
            status, why = "passed", ""
        except unittest.SkipTest as error:
            status, why = "skipped", str(error)
        except SystemExit as error:
            status, why = "skipped", skips[error.code]
        except Exception as error:
            status, why = "failed", f"{type(error).__name__}: {error}".split("\n")[0][:300]
        found = Counter(record.collective for record in dmace.torch.stats().records[before:])
        results[name] = [status, why, round(time.monotonic() - began, 2), dict(found)]
        agreement.set(f"{name}.{rank}", status)
        if any(agreement.get(f"{name}.{other}") == b"failed" for other in range(size)):
            try:
                dist.destroy_process_group()
            except Exception as error:
                results[name][1] += f" ({error})"
            agreement.set(f"{name}.{rank}.ended", "")
            agreement.wait([f"{name}.{other}.ended" for other in range(size)])
            begin(number)
    dist.destroy_process_group()
    return results


def main():
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from tests.cluster_server.test_processes import cluster
    from tests.torch_backend.processes import run

    parser = argparse.ArgumentParser(description="PyTorch's own tests of backends, on accelerators in RTL.")
    parser.add_argument("--nodes", default="4", help="shape of the cluster (default: %(default)s)")
    parser.add_argument("--pattern", default=COLLECTIVES, help="regular expression of the tests' names")
    arguments = parser.parse_args()
    size = prod(map(int, arguments.nodes.split("x")))
    options = ("--nodes", arguments.nodes, "--memory", "64", "--puts")
    with TemporaryDirectory() as folder, cluster(Path(folder), *options) as path:
        ranks = run("torch_suite.suite", size, path=path, limit=3600, pattern=arguments.pattern)
    for name in ranks[0]:
        ends = [rank[name] for rank in ranks]
        worst = next((kind for kind in ("failed", "passed") if kind in {end[0] for end in ends}), "skipped")
        reasons = " / ".join(sorted({end[1] for end in ends if end[0] == worst and end[1]}))
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(sum((Counter(end[3]) for end in ends),
                                                                           Counter()).items()))
        print(f"{worst:8} {name}  {max(end[2] for end in ends):.1f} s  [{counts}] {reasons}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
