# SPDX-License-Identifier: Apache-2.0
"""In the process of a rank: functional collectives, DTensor and tensor parallelism."""

import hashlib

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

import dmace.torch
from tests.torch_backend.forms import equal, full
from tests.torch_backend.rank import leave, start


def redistribution(store, path):
    """Collectives without side effects, and DTensors between all pairs of placements."""
    start(store, socket=path)
    me, size, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    equal(functional.all_reduce(full(me, 3), "sum", group) + 0, full(6, 3))
    equal(functional.all_gather_single(full(me, 1), 0, group) + 0, torch.arange(4.0))
    equal(functional.reduce_scatter_single(torch.arange(8.0), "avg", 0, group) + 0,
          torch.arange(8.0)[2 * me:2 * me + 2])
    equal(functional.all_to_all_single(torch.arange(4.0) + 10 * me, None, None, group) + 0,
          torch.arange(4.0) * 10 + me)
    equal(functional.broadcast(full(me, 2), 2, group) + 0, full(2, 2))
    found = functional.all_reduce_coalesced([full(me, 2), full(1, 3)], "max", group)
    equal(torch.cat([one + 0 for one in found]), torch.tensor([3.0, 3, 1, 1, 1]))
    mesh, whole = init_device_mesh("cpu", (size,)), torch.arange(96.0).view(8, 12)
    for source in (Replicate(), Shard(0), Shard(1)):
        for target in (Replicate(), Shard(0), Shard(1)):
            one = distribute_tensor(whole, mesh, [source]).redistribute(placements=[target])
            assert one.placements == (target,)
            equal(one.full_tensor(), whole)
    product = distribute_tensor(whole.t(), mesh, [Shard(1)]) @ distribute_tensor(whole, mesh, [Shard(0)])
    assert product.placements == (Partial(),)
    equal(product.full_tensor(), whole.t() @ whole)
    # Rows that have no equal parts
    equal(distribute_tensor(whole[:6], mesh, [Shard(0)]).full_tensor(), whole[:6])
    leave()


class Network(torch.nn.Module):
    """A network with the layers of a transformer's feed-forward part."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x + self.second(torch.nn.functional.gelu(self.first(x))))


def tensor_parallel(store, *, name="dmace", path="", steps=3):
    """Tensor parallelism in the rows of a 2x2 mesh, FSDP2 in its columns: losses, and a digest of the parameters."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.set_num_threads(1)
    torch.manual_seed(5)
    start(store, name, **({"socket": path, "topology": "2x2"} if name == "dmace" else {}))
    dmace.torch.reset_stats()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = Network()
    parallelize_module(model, mesh["tensor"], {"first": ColwiseParallel(), "second": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    own, losses = dist.get_rank() // 2, []
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + own)
        given, labels = torch.randn(6, 8, generator=generator), torch.randint(0, 4, (6,), generator=generator)
        loss = torch.nn.functional.cross_entropy(model(given), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.full_tensor().detach().numpy().tobytes())
    names = sorted({record.collective for record in dmace.torch.stats().records})
    sizes = sorted({record.ranks for record in dmace.torch.stats().records})
    leave()
    return {"losses": losses, "digest": digest.hexdigest(), "collectives": names, "sizes": sizes}
