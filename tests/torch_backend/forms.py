# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: every form of every collective, with results that are written out here."""

import time

import torch
import torch.distributed as dist

import dmace.torch
from tests.torch_backend.rank import start

OPS = dist.ReduceOp


def equal(found, expected):
    assert found.dtype == expected.dtype and torch.equal(found, expected), (found, expected)


def full(value, *shape, dtype=torch.float32):
    return torch.full(shape, float(value)).to(dtype)


def reductions(store, path):
    start(store, socket=path)
    me, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32,
                  torch.int8):
        # Partial sums and products in any order are exact in all types.
        mine = (1, 1, 2, 4)[me]
        for op, expected in ((OPS.SUM, 8), (OPS.MIN, 1), (OPS.MAX, 4), (OPS.PRODUCT, 8), (OPS.AVG, 2)):
            one = full(mine, 3, 5, dtype=dtype)
            dist.all_reduce(one, op)
            assert one.float().eq(expected).all(), (dtype, op, one)
            one = full(mine, 7, dtype=dtype)
            dist.reduce(one, 2, op)
            assert one.float().eq(expected if me == 2 else mine).all(), (dtype, op, one)
            one = torch.zeros(2, 3).to(dtype)
            dist.reduce_scatter_tensor(one, full(mine, 2 * size, 3, dtype=dtype), op)
            assert one.float().eq(expected).all(), (dtype, op, one)
    one = torch.zeros(3)
    dist.reduce_scatter(one, [full(part, 3) for part in range(size)])
    equal(one, full(me * size, 3))
    one = torch.zeros(me)
    dist.reduce_scatter(one, [full(part, part) for part in range(size)])
    equal(one, full(me * size, me))
    # Blocks along the first dimension, in a longer output and stacked, and tensors with strides
    one = torch.zeros(3, 2).t()
    dist.reduce_scatter_tensor(one, torch.arange(24.0).view(3, 8).t())
    equal(one, torch.arange(24.0).view(3, 8).t()[2 * me:2 * me + 2] * size)
    one = torch.arange(60.0).view(6, 10)[::2, 1:8:3]
    dist.all_reduce(one)
    equal(one, torch.arange(60.0).view(6, 10)[::2, 1:8:3] * size)
    for empty in (torch.zeros(0), torch.zeros(3, 0)):
        dist.all_reduce(empty)
    scalar = torch.tensor(float(me))
    dist.all_reduce(scalar)
    equal(scalar, torch.tensor(6.0))
    dist.destroy_process_group()


def moves(store, path):
    """Elements of every type keep their bits."""
    start(store, socket=path)
    me, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.int16,
                  torch.uint8, torch.bool, torch.complex64):
        bits = torch.randint(0, 256, (size, 8 * 16), generator=torch.Generator().manual_seed(7), dtype=torch.uint8)
        if dtype is torch.bool:
            bits = bits & 1
        # Row r is of rank r; 16 bytes are 1 to 16 elements of each type.
        values = bits.view(dtype)

        def same(found, expected, dtype=dtype):
            assert found.dtype == dtype and torch.equal(found.contiguous().view(torch.uint8),
                                                        expected.contiguous().view(torch.uint8)), dtype

        one = values[me].clone()
        dist.broadcast(one, 1)
        same(one, values[1])
        parts = [torch.zeros_like(one) for _ in range(size)]
        dist.all_gather(parts, values[me])
        same(torch.stack(parts), values)
        whole = torch.zeros_like(values)
        dist.all_gather_into_tensor(whole, values[me])
        same(whole, values)
        whole = torch.zeros_like(values.flatten())
        dist.all_gather_into_tensor(whole, values[me])
        same(whole, values.flatten())
        one = torch.zeros_like(values[0])
        dist.all_to_all_single(one, values[me])
        block = len(one) // size
        same(one, values[:, me * block:(me + 1) * block].flatten())
        parts = [torch.zeros_like(values[0]) for _ in range(size)] if me == 3 else None
        dist.gather(values[me], parts, 3)
        if me == 3:
            same(torch.stack(parts), values)
        one = torch.zeros_like(values[0])
        dist.scatter(one, list(values) if me == 2 else None, 2)
        same(one, values[me])
    parts = [full(-1, rank + 1) for rank in range(size)]
    dist.all_gather(parts, full(me, me + 1))
    equal(torch.cat(parts), torch.cat([full(rank, rank + 1) for rank in range(size)]))
    for columns in ((), (3,)):
        sent = [(me + other) % 3 for other in range(size)]
        one = torch.full((sum(sent), *columns), -1.0)
        given = torch.cat([full(10 * me + other, count, *columns) for other, count in enumerate(sent)])
        dist.all_to_all_single(one, given, sent, sent)
        expected = torch.cat([full(10 * other + me, count, *columns) for other, count in enumerate(sent)])
        equal(one, expected)
        outputs = [torch.zeros(count, *columns) for count in sent]
        dist.all_to_all(outputs, list(given.split(sent)))
        equal(torch.cat(outputs), expected)
    empty = torch.zeros(0)
    dist.all_to_all_single(empty, torch.zeros(0), [0] * size, [0] * size)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": me})
    assert objects == [{"rank": rank} for rank in range(size)]
    dist.barrier()
    dist.destroy_process_group()


def asynchronous(store, path):
    """Many in flight, coalesced ones, and futures."""
    start(store, socket=path)
    me, size = dist.get_rank(), dist.get_world_size()
    tensors = [full(me + index, 500 * index + 1) for index in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for index in reversed(range(20)):
        assert works[index].wait() and works[index].is_completed() and works[index].is_success()
        equal(works[index].get_future().value()[0], full(6 + 4 * index, 500 * index + 1))
    tensors = [full(me, length) for length in (1, 7, 300)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    equal(torch.cat(tensors), full(6, 308))
    lengths = (1, 7, 20)
    gathered, scattered = [torch.zeros(size * length) for length in lengths], [torch.zeros(one) for one in lengths]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, length in zip(gathered, lengths, strict=True):
            dist.all_gather_into_tensor(output, full(me, length))
    manager.wait()
    with dist._coalescing_manager():
        for output, length in zip(scattered, lengths, strict=True):
            dist.reduce_scatter_tensor(output, torch.arange(float(size)).repeat_interleave(length))
    for length, one, other in zip(lengths, gathered, scattered, strict=True):
        equal(one, torch.arange(float(size)).repeat_interleave(length))
        equal(other, full(me * size, length))
    tensors = [full(me, 3), full(1, 2)]
    dist.all_reduce_coalesced(tensors)
    equal(tensors[0], full(6, 3))
    equal(tensors[1], full(4, 2))
    # Time passes here while the collective is in progress there.
    large = full(me, 20_000)
    begun = time.monotonic()
    work = dist.all_reduce(large, async_op=True)
    posted = time.monotonic() - begun
    work.wait()
    waited = time.monotonic() - begun - posted
    dist.destroy_process_group()
    return {"posted": posted, "waited": waited}


def statistics(store, path, elements):
    """Statistics of one all-reduce."""
    start(store, socket=path)
    dmace.torch.reset_stats()
    dist.all_reduce(torch.ones(elements))
    found = dmace.torch.stats()
    one, = found.records
    dist.destroy_process_group()
    return {"cycles": one.result.cycles, "payload": one.result.payload_bytes, "read": one.result.read_bytes,
            "table": str(found), "bytes": one.bytes, "seconds": found.predicted_seconds(250)}


def groups(store, path):
    """Rows and columns of a torus, a group of one rank, and one that is none."""
    start(store, socket=path)
    me = dist.get_rank()
    made = {tuple(ranks): dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3], [0], [1], [2], [3])}
    sums = []
    for ranks, group in made.items():
        if me in ranks:
            one = full(me, 5)
            dist.all_reduce(one, group=group)
            equal(one, full(sum(ranks), 5))
            root = full(me, 2)
            dist.broadcast(root, ranks[-1], group=group)
            equal(root, full(ranks[-1], 2))
            sums.append(sum(ranks))
    dist.barrier()
    error = None
    if me in (0, 3):
        try:
            dist.new_group([0, 3], use_local_synchronization=True)
        except Exception as raised:
            error = str(raised)
    dist.barrier()
    dist.destroy_process_group()
    return {"sums": sums, "error": error}


def fallback(store, path):
    start(store, socket=path, fallback="gloo")
    me, size = dist.get_rank(), dist.get_world_size()
    one = torch.full((5,), me)
    dist.all_reduce(one)
    equal(one, torch.full((5,), 6))
    one = torch.full((5,), 1 << me, dtype=torch.int32)
    dist.all_reduce(one, OPS.BOR)
    equal(one, torch.full((5,), 15, dtype=torch.int32))
    if me == 0:
        dist.send(full(7, 3), 1)
    elif me == 1:
        one = torch.zeros(3)
        dist.recv(one, 0)
        equal(one, full(7, 3))
    left, right = torch.zeros(2), full(me, 2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, right, (me + 1) % size),
                                        dist.P2POp(dist.irecv, left, (me - 1) % size)]):
        work.wait()
    equal(left, full((me - 1) % size, 2))
    other = dist.new_group([0, 1, 3])
    if me != 2:
        one = full(me, 3)
        dist.all_reduce(one, group=other)
        equal(one, full(4, 3))
        whole = torch.zeros(3)
        dist.all_gather_into_tensor(whole, full(me, 1), group=other)
        equal(whole, torch.tensor([0.0, 1.0, 3.0]))
        parts = [torch.zeros(2) for _ in range(3)]
        dist.all_gather(parts, full(me, 2), group=other)
        equal(torch.stack(parts)[:, 0], whole)
        several_by_gloo(other)
    one = full(me, 3)
    dist.all_reduce(one)
    equal(one, full(6, 3))
    before = len(dmace.torch.stats().records)
    dist.destroy_process_group()
    return before


def several_by_gloo(group):
    """Forms with several tensors, and with unequal lengths, in a group of ranks 0, 1 and 3 that Gloo does."""
    me, ranks = dist.get_rank(), (0, 1, 3)
    one, other = full(me, 3), full(-me, 2)
    dist.all_reduce_coalesced([one, other], OPS.MAX, group=group)
    equal(one, full(3, 3))
    equal(other, full(0, 2))
    parts = [[torch.zeros(2), torch.zeros(3)] for _ in ranks]
    dist.all_gather_coalesced(parts, [full(me, 2), full(-me, 3)], group=group)
    for rank, (one, other) in zip(ranks, parts, strict=True):
        equal(one, full(rank, 2))
        equal(other, full(-rank, 3))
    received = [torch.zeros(2, rank + me) for rank in ranks]
    work = dist.all_to_all(received, [torch.full((2, rank + me), 10.0 * me + rank) for rank in ranks], group=group,
                           async_op=True)
    work.wait()
    for rank, one in zip(ranks, received, strict=True):
        equal(one, torch.full((2, rank + me), 10.0 * rank + me))
    with dist._coalescing_manager(group=group):
        one, other = full(me, 3), full(2 * me, 2)
        dist.all_reduce(one, group=group)
        dist.all_reduce(other, group=group)
    equal(one, full(4, 3))
    equal(other, full(8, 2))


def errors(store, path):
    """Sentences of calls that are refused at once; the group is unaffected."""
    start(store, socket=path)
    me, size = dist.get_rank(), dist.get_world_size()
    calls = {
        "type": lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64)),
        "operation": lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), OPS.BXOR),
        "send": lambda: dist.send(torch.ones(2), (me + 1) % size),
        "shape": lambda: dist.all_gather_into_tensor(torch.zeros(9), torch.zeros(2)),
        "splits": lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 1, 1, 2], [1, 1, 1, 1]),
        "options": lambda: dist.new_group(backend="dmace", pg_options=dmace.torch.Options(widen=True)),
        "memory": lambda: dist.all_reduce(torch.zeros(5 << 20)),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            found[name] = str(error)
    one = full(me, 3)
    dist.all_reduce(one)
    equal(one, full(6, 3))
    dist.destroy_process_group()
    return found
