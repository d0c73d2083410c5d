# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: sends and receives on endpoints in RTL, and tensor parallelism."""

import torch
import torch.distributed as dist

import dmace.torch
from tests.torch_backend.forms import equal, full
from tests.torch_backend.rank import leave, start


def data(source, target, length):
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(10 * source + target),
                         dtype=torch.uint8)


def transfers(store, path):
    """All of the following in one session, as a cluster of endpoints takes long to set up; then Gloo's pipeline."""
    start(store, socket=path, rank_order=True)
    found, staged, error = pairs(), pipeline(), different_lengths()
    leave()
    start(f"{store}.gloo", "gloo")
    other = pipeline()
    leave()
    return {**found, "error": error, "pipelines": [staged, other]}


def pairs():
    """Every form of a transfer, between neighbours and others."""
    me, size = dist.get_rank(), dist.get_world_size()
    # All pairs, itself included; the longest is relayed in several parts.
    for length in (1, 4099, 150_000):
        if length > 5000 and me not in (0, 2):
            continue
        others = range(size) if length < 5000 else (0, 2)
        found = {other: torch.zeros(length, dtype=torch.uint8) for other in others}
        operations = [dist.P2POp(dist.irecv, found[other], other) for other in others]
        operations += [dist.P2POp(dist.isend, data(me, other, length), other) for other in reversed(others)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        for other in others:
            equal(found[other], data(other, me, length))
    # Blocking ones around the ring, of several types; strides
    for dtype in (torch.float32, torch.bool, torch.int64, torch.bfloat16):
        one = torch.zeros(3, 2, dtype=dtype).t()
        if me == 0:
            dist.send(full(1, 2, 3, dtype=dtype), 1)
            dist.recv(one, size - 1)
            equal(one, full(1, 2, 3, dtype=dtype))
        else:
            assert dist.recv(one, me - 1) == me - 1
            dist.send(one, (me + 1) % size)
    # Tags are kept apart; an empty tensor; any source
    if me == 0:
        works = [dist.isend(full(tag, 2), 3, tag=tag) for tag in (1, 2)]
        works.append(dist.isend(torch.zeros(0), 3))
        for work in works:
            work.wait()
    elif me == 3:
        for tag in (2, 1):
            one = torch.zeros(2)
            dist.recv(one, 0, tag=tag)
            equal(one, full(tag, 2))
        dist.recv(torch.zeros(0), 0)
    dist.barrier()
    if me == 2:
        sources = {dist.recv(one := torch.zeros(2)): one for _ in range(size - 1)}
        assert all(one.eq(source).all() for source, one in sources.items()) and sorted(sources) == [0, 1, 3]
    else:
        dist.send(full(me, 2), 2)
    dist.barrier()
    # A collective meanwhile does not disturb it.
    one = full(me, 2000)
    reduced = dist.all_reduce(one, async_op=True)
    two = torch.zeros(100)
    works = [dist.isend(full(me, 100), me ^ 1), dist.irecv(two, me ^ 1)]
    for work in (*works, reduced):
        work.wait()
    equal(one, full(6, 2000))
    equal(two, full(me ^ 1, 100))
    records = [record for record in dmace.torch.stats().records if record.collective in ("SEND", "RECEIVE")]
    return {"cycles": sum(record.result.cycles for record in records),
            "payload": sum(record.result.payload_bytes for record in records if record.collective == "SEND")}


def different_lengths():
    """The error of ranks 0 and 1; the group has failed then."""
    me, error = dist.get_rank(), None
    try:
        if me == 0:
            dist.send(torch.zeros(3), 1)
        elif me == 1:
            dist.recv(torch.zeros(2), 0)
    except Exception as raised:
        error = str(raised)
    return error


def pipeline():
    """A pipeline of stages, one on each rank, by stock ``torch.distributed.pipelining``: loss of the last stage."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(1)
    me, size = dist.get_rank(), dist.get_world_size()
    stages = [torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh()) for _ in range(size)]
    x, target = torch.randn(8, 6), torch.randn(8, 6)
    stage = PipelineStage(stages[me], me, size, torch.device("cpu"), input_args=(x[:4],))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=torch.nn.functional.mse_loss)
    losses = []
    if me == 0:
        schedule.step(x)
    elif me == size - 1:
        schedule.step(target=target, losses=losses)
    else:
        schedule.step()
    gradient = stages[me][0].weight.grad
    return {"losses": [loss.item().hex() for loss in losses], "gradient": gradient.double().sum().item().hex()}
