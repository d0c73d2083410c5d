# SPDX-License-Identifier: Apache-2.0
"""The process of one rank: runs the functions that the environment names, and prints their results as JSON."""

import json
import os
import sys
import time
import warnings
from datetime import timedelta
from importlib import import_module


def start(store, name="dmace", timeout=600.0, **options):
    """Begin ``torch.distributed`` with a store in a file; ``options`` of the backend."""
    import torch.distributed as dist

    import dmace.torch

    dist.init_process_group(
        name, init_method=f"file://{store}", rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=timeout),
        pg_options=dmace.torch.Options(**options) if name == "dmace" else None)


def leave():
    """End ``torch.distributed``, also with Gloo. The destructor of Gloo's group, which a DDP model may call, waits for
    its threads and keeps the GIL (PyTorch 2.13), and they need the GIL to drop their last collective: without time to
    do so before, both wait forever."""
    import torch.distributed as dist

    time.sleep(0.2)
    dist.destroy_process_group()


def main():
    scenarios, folder = json.loads(os.environ["SCENARIO"])
    warnings.filterwarnings("ignore", category=FutureWarning)     # names of collectives in earlier versions of torch
    results = []
    for number, (scenario, arguments) in enumerate(scenarios):
        module, _, function = scenario.rpartition(".")
        store = f"{folder}/store{number}"
        results.append(getattr(import_module(f"tests.torch_backend.{module}"), function)(store, **arguments))
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
