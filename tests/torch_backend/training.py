# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: training of the example's transformer and of a CNN, and ranks that are killed."""

import hashlib
import importlib.util
import os
import signal
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

from tests.torch_backend.rank import leave, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_characters.py"


def transformer(store, *, name="dmace", path="", steps=3, bucket_mb=None, fsdp=False, order=True):
    """Losses as hexadecimal numbers, and a digest of the parameters."""
    spec = importlib.util.spec_from_file_location("torch_characters", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    torch.set_num_threads(1)
    start(store, name, **({"socket": path, "rank_order": order} if name == "dmace" else {}))
    losses, digest = example.train(steps, bucket_mb=bucket_mb, fsdp=fsdp)
    leave()
    return {"losses": [loss.hex() for loss in losses], "digest": digest}


def digits(store, *, name="dmace", path="", steps=3, bucket_mb=25.0, fsdp=False):
    """As :func:`transformer`, with a CNN with batch normalisation, whose buffers are broadcast, on scikit-learn's
    digits."""
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    torch.manual_seed(3)
    start(store, name, **({"socket": path, "rank_order": True} if name == "dmace" else {}))
    found = load_digits()
    images, labels = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16, torch.tensor(found.target)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 36, 10))
    if fsdp:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    else:
        model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for step in range(steps):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(step))
        rows = order[dist.get_rank()::dist.get_world_size()][:64]
        loss = torch.nn.functional.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    own = [one.to_local() if fsdp else one for one in model.parameters()]
    digest = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in own)).hexdigest()
    leave()
    return {"losses": losses, "digest": digest}


def killed(store, victim, after):
    """Each rank but ``victim``, which is killed: the error, and the seconds to it from about then on. Rank 0 has
    started the cluster."""
    start(store, timeout=30.0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
    if dist.get_rank() == victim:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    begin = time.monotonic()
    try:
        while True:
            model(torch.ones(4, 50)).sum().backward()
    except Exception as error:
        return {"error": str(error), "seconds": time.monotonic() - begin - after}


def raises(store):
    """Rank 1 raises an exception, and its process ends; the others' collective fails."""
    start(store, timeout=30.0)
    if dist.get_rank() == 1:
        raise SystemExit(0)
    try:
        dist.all_reduce(torch.ones(3))
    except Exception as error:
        return str(error)
