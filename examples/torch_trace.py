# SPDX-License-Identifier: Apache-2.0
"""Execution traces of a training step in PyTorch, for ``dmace train --workload pytorch:PREFIX --nodes 2x2``.

Two pipeline stages of two replicas each: ranks 0 and 1 are the first stage. Stages exchange activations and gradients
by messages, replicas reduce gradients by DDP, and all ranks reduce the loss. Each rank writes ``PREFIX.RANK.json``
(``ExecutionTraceObserver``: calls, tensors, process groups) and ``PREFIX.RANK.kineto.json`` (``profile``: durations).

gloo does not record which process group a collective belongs to, unlike NCCL; :func:`of_group` does. PyTorch alone
suffices to record::

    python examples/torch_trace.py traces/step
    dmace train --workload pytorch:traces/step --nodes 2x2
"""

import argparse
import gzip
import os
import socket
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

RANKS, STAGES = 4, 2
BATCH, WIDTH, HIDDEN = 8, 64, 128


def of_group(group: dist.ProcessGroup) -> Any:
    """Context in which calls are recorded as of this process group."""
    return record_function(f"pg_name:{group.group_name}")


class Stage:
    """A rank's part of the model, and its training step."""

    def __init__(self, rank: int, replicas: dist.ProcessGroup) -> None:
        self.rank, self.replicas = rank, replicas
        self.first = rank < RANKS // STAGES
        self.other = (rank + RANKS // STAGES) % RANKS
        torch.manual_seed(rank // (RANKS // STAGES))
        layers = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
        self.model = nn.parallel.DistributedDataParallel(layers, process_group=replicas)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self) -> None:
        world = dist.group.WORLD
        self.optimizer.zero_grad()
        inputs = torch.randn(BATCH, WIDTH)
        if not self.first:
            with of_group(world):
                dist.recv(inputs, self.other)
            inputs.requires_grad_()
        with of_group(self.replicas):
            outputs = self.model(inputs)
        loss = torch.zeros(1)
        if self.first:
            gradients = torch.empty_like(outputs)
            with of_group(world):
                dist.send(outputs.detach(), self.other)
                dist.recv(gradients, self.other)
            with of_group(self.replicas):
                outputs.backward(gradients)
        else:
            mean = outputs.square().mean()
            with of_group(self.replicas):
                mean.backward()
            with of_group(world):
                dist.send(inputs.grad, self.other)
            loss += mean.detach()
        self.optimizer.step()
        with of_group(world):
            dist.all_reduce(loss)


def record(rank: int, port: int, prefix: str, compress: bool) -> None:
    """A rank: a step to warm up, and a step that is recorded."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    replicas = [dist.new_group([first, first + 1]) for first in range(0, RANKS, STAGES)]
    stage = Stage(rank, replicas[rank // STAGES])
    stage.step()
    observer = ExecutionTraceObserver()
    observer.register_callback(f"{prefix}.{rank}.json")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as profiler:
        stage.step()
    profiler.export_chrome_trace(f"{prefix}.{rank}.kineto.json")
    observer.unregister_callback()
    dist.barrier()
    dist.destroy_process_group()
    if compress:
        for kind in ("json", "kineto.json"):
            path = Path(f"{prefix}.{rank}.{kind}")
            Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", help="begins the names of the files")
    parser.add_argument("--gzip", action="store_true", help="compress the files")
    args = parser.parse_args()
    Path(args.prefix).parent.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(record, (port, args.prefix, args.gzip), RANKS)


if __name__ == "__main__":
    main()
