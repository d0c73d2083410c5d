# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed: ``python -m tests.torch_backend.kills SOCKET RANKS NUMBER SEED``.

All ranks are forks of this process, which has imported PyTorch. They all-reduce without end, and one of them is killed
at a random moment, from the start of its process on. Prints the errors and seconds of the others as JSON.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import dmace.torch

TIMEOUT = 30.0
"""Seconds of a collective."""

START = 20.0
"""Seconds until all ranks must have connected."""


def rank(number, ranks, path, store, output):
    """Write the error that ends this rank, and the moment."""
    torch.set_num_threads(1)
    options = dmace.torch.Options(socket=path, start_timeout=START)
    try:
        dist.init_process_group("dmace", init_method=f"file://{store}", rank=number, world_size=ranks,
                                timeout=timedelta(seconds=TIMEOUT), pg_options=options)
        while True:
            works = [dist.all_reduce(torch.ones(length), async_op=True) for length in (300, 1, 2000)]
            for work in works:
                work.wait()
    except Exception as error:
        output.write(json.dumps({"error": str(error), "at": time.monotonic()}).encode())
        output.flush()


def trial(path, ranks, rng, longest):
    """Kill a rank once: rank, seconds after the start, and the others' errors with the seconds since."""
    victim, after = rng.randrange(ranks), rng.uniform(0, longest)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [tempfile.TemporaryFile() for _ in range(ranks)]
        begun, children = time.monotonic(), []
        for number in range(ranks):
            child = os.fork()
            if not child:
                rank(number, ranks, path, f"{folder}/store", outputs[number])
                os._exit(0)
            children.append(child)
        time.sleep(after)
        os.kill(children[victim], signal.SIGKILL)
        killed, hung = time.monotonic(), []
        for number, child in enumerate(children):
            while not os.waitpid(child, os.WNOHANG)[0]:
                if time.monotonic() > killed + 2 * TIMEOUT:
                    hung.append(number)
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.02)
        found = []
        for number, output in enumerate(outputs):
            output.seek(0)
            text = output.read()
            output.close()
            if number != victim:
                one = json.loads(text) if text else {"error": None, "at": killed}
                found.append([one["error"], round(max(0.0, one["at"] - killed), 3)])
    return {"victim": victim, "after": round(killed - begun, 3), "hung": hung, "others": found}


def main():
    path, ranks, number, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rng, longest = random.Random(seed), 4.0
    print(json.dumps([trial(path, ranks, rng, longest) for _ in range(number)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
