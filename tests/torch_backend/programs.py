# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: random programs of collectives, each compared with Gloo."""

import random

import torch
import torch.distributed as dist

from tests.torch_backend.rank import leave, start

TYPES = (torch.float32, torch.int32, torch.int8, torch.bfloat16)
MOVED = (*TYPES, torch.int64, torch.float64, torch.bool, torch.uint8)
OPS = (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT)


def programs(store, path, seed, number):
    """``number`` programs of 1 to 12 collectives: how many, and how many collectives."""
    start(store, socket=path)
    gloo = dist.new_group(backend="gloo")
    done = 0
    for index in range(number):
        rng = random.Random(f"{seed}.{index}")
        for _ in range(rng.randint(1, 12)):
            _one(rng, gloo, f"seed {seed}, program {index}")
            done += 1
    leave()
    return done


def _one(rng, gloo, name):
    me, size = dist.get_rank(), dist.get_world_size()
    kind = rng.choice(("all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "all_gather_single",
                       "all_to_all", "all_to_all_splits", "gather", "scatter", "barrier"))
    dtype = rng.choice(TYPES if "reduce" in kind else MOVED)
    count, root, op = rng.choice((0, 1, rng.randint(2, 20), rng.randint(20, 700))), rng.randrange(size), rng.choice(OPS)
    asynchronous, data = rng.random() < 0.3, random.Random(f"{rng.random()}.{me}")
    strided = rng.random() < 0.2

    def make(length):
        """Small integers: floats of all types add and multiply them without rounding."""
        values = [data.choice((0, 1, 1, 1, 2)) for _ in range(length)]
        if strided:
            return torch.tensor(values + values, dtype=dtype).view(2, length).t()[:, 0]
        return torch.tensor(values, dtype=dtype)

    def run(group, tensors, call):
        # Gloo reduces the memory from a tensor's first element on, whatever its strides are.
        copies = [torch.stack([tensor, tensor], 1)[:, 0] if strided and group is None else tensor.clone().contiguous()
                  for tensor in tensors]
        return call(group, *copies), copies

    splits = [rng.randint(0, 9) for _ in range(size * size)]
    given = make(count)
    whole = make(count * size)
    sent, received = splits[me * size:(me + 1) * size], splits[me::size]
    extra = make(sum(sent))
    calls = {
        "all_reduce": lambda group, one: dist.all_reduce(one, op, group, async_op=asynchronous),
        "reduce": lambda group, one: dist.reduce(one, root, op, group, async_op=asynchronous),
        "broadcast": lambda group, one: dist.broadcast(one, root, group, async_op=asynchronous),
    }
    if kind in calls:
        found = [run(group, [given], calls[kind]) for group in (None, gloo)]
        skipped = kind == "reduce" and me != root   # Gloo leaves intermediate results there
        outputs = [[] if skipped else copies for _, copies in found]
        works = [work for work, _ in found]
    else:
        outputs, works = [], []
        for group in (None, gloo):
            output, work = _into(kind, group, given.clone(), whole.clone(), extra.clone(), sent, received, root, op,
                                 asynchronous)
            outputs.append(output)
            works.append(work)
    for work in works:
        if asynchronous and work is not None:
            work.wait()
    for ours, theirs in zip(*outputs, strict=True):
        assert torch.equal(ours, theirs), (name, kind, dtype, count, op, ours, theirs)


def _into(kind, group, given, whole, extra, sent, received, root, op, asynchronous):
    """Outputs and work of a collective with separate buffers."""
    me, size, count = dist.get_rank(), dist.get_world_size(), len(given)
    options = {"group": group, "async_op": asynchronous}
    parts = [torch.zeros_like(given) for _ in range(size)]
    if kind == "reduce_scatter":
        return [given], dist.reduce_scatter_tensor(given, whole, op, **options)
    if kind == "all_gather":
        return parts, dist.all_gather(parts, given, **options)
    if kind == "all_gather_single":
        whole = torch.zeros_like(whole)
        return [whole], dist.all_gather_into_tensor(whole, given, **options)
    if kind == "all_to_all":
        output = torch.zeros_like(whole)
        return [output], dist.all_to_all_single(output, whole, **options)
    if kind == "all_to_all_splits":
        output = torch.zeros(sum(received), dtype=extra.dtype)
        return [output], dist.all_to_all_single(output, extra, received, sent, **options)
    if kind == "gather":
        return parts if me == root else [], dist.gather(given, parts if me == root else None, root, **options)
    if kind == "scatter":
        output = torch.zeros_like(given)
        return [output], dist.scatter(output, list(whole.view(size, count)) if me == root else None, root, **options)
    return [], dist.barrier(**options)
