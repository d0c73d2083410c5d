# SPDX-License-Identifier: Apache-2.0
"""A character-level transformer, trained with PyTorch on four ranks whose collectives run through the simulated RTL.

Stock ``DistributedDataParallel`` or ``fully_shard`` (FSDP2) on ``init_process_group("dmace")``: each rank is a process,
and a fifth one simulates the cluster of accelerators. In rank order, the losses have the same bits in every run and
with every size of DDP's buckets. Text: the project's licence. ``torchrun --nproc-per-node 4
examples/torch_characters.py`` does the same as ``python examples/torch_characters.py``.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import dmace.torch
from dmace.torch import Record

TEXT = Path(__file__).parents[1] / "LICENSE"
CONTEXT, BATCH, WIDTH, HEADS = 16, 8, 16, 2


class Block(torch.nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.forward_1, self.forward_2 = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)

    def forward(self, x: Any) -> Any:
        mask = torch.triu(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool), 1)
        h = self.norm_1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.forward_2(torch.nn.functional.gelu(self.forward_1(self.norm_2(x))))


class Transformer(torch.nn.Module):
    """Two blocks; predicts the next character at each position."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = torch.nn.Embedding(characters, WIDTH)
        self.positions = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(WIDTH, characters)

    def forward(self, x: Any) -> Any:
        h = self.characters(x) + self.positions(torch.arange(CONTEXT))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def corpus() -> tuple[Any, int]:
    """Numbers of the text's characters, and how many there are."""
    text = TEXT.read_text(encoding="utf-8")
    characters = {one: number for number, one in enumerate(sorted(set(text)))}
    return torch.tensor([characters[one] for one in text]), len(characters)


def batch(text: Any, step: int, rank: int) -> tuple[Any, Any]:
    """Inputs and the characters that follow, of one rank."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH,), generator=generator)
    rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def train(steps: int, *, bucket_mb: float | None = None, fsdp: bool = False,
          ended: Callable[[float], object] = lambda loss: None) -> tuple[list[float], str]:
    """Train within a process group that exists: the ranks' mean loss of each step, and a digest of this rank's
    parameters. ``bucket_mb`` is of DDP; None: its default. ``ended`` receives the loss at the end of each step."""
    torch.manual_seed(1)
    text, characters = corpus()
    model: Any = Transformer(characters)
    if fsdp:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        options = {} if bucket_mb is None else {"bucket_cap_mb": bucket_mb}
        model = torch.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = []
    for step in range(steps):
        given, following = batch(text, step, dist.get_rank())
        loss = torch.nn.functional.cross_entropy(model(given).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append((mean / dist.get_world_size()).item())
        ended(losses[-1])
    digest = hashlib.sha256()
    for parameter in model.parameters():
        own = parameter.to_local() if fsdp else parameter
        digest.update(own.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return losses, digest.hexdigest()


def write_page(path: Path, losses: list[float], steps: list[Sequence[Record]], clock_mhz: float, title: str) -> None:
    """Write a page with the loss of each step and its communication: the records of its collectives."""
    from matplotlib.figure import Figure

    from sim.system.report.page import figure, page, section, table
    from sim.system.report.plots import svg

    plot = Figure(figsize=(9, 5))
    upper, lower = plot.subplots(2, 1, sharex=True)
    upper.plot(range(len(losses)), losses, marker="o")
    upper.set_ylabel("loss")
    names = sorted({one.collective for step in steps for one in step})
    bottom = [0.0] * len(steps)
    for name in names:
        times = [sum(one.result.cycles for one in step if one.collective == name) / clock_mhz for step in steps]
        lower.bar(range(len(steps)), times, bottom=bottom, label=name)
        bottom = [a + b for a, b in zip(bottom, times, strict=True)]
    lower.set_ylabel(f"us at {clock_mhz:g} MHz")
    lower.set_xlabel("step")
    lower.legend(frameon=False, fontsize="small")
    records = [one for step in steps for one in step]
    rows = [{"collective": name, "number": len(found), "bytes sent": sum(one.bytes for one in found),
             **{field.replace("_", " "): sum(getattr(one.result, field) for one in found) for field in (
                 "cycles", "read_bytes", "written_bytes", "payload_bytes", "header_bytes", "lost_packets")},
             "us predicted": sum(one.result.cycles for one in found) / clock_mhz,
             "s here": sum(one.seconds for one in found), "s of simulation": sum(one.result.seconds for one in found)}
            for name in names if (found := [one for one in records if one.collective == name])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(
        title, figure(svg(plot), "Loss, and the time of the collectives on accelerators, one after the other."),
        section("Collectives of rank 0", table(rows)),
        section("Losses", table([{"step": step, "loss": f"{loss:.9f}", "bits": loss.hex()}
                                 for step, loss in enumerate(losses)]))), encoding="utf-8")


def run_rank(rank: int, ranks: int, store: str, args: argparse.Namespace) -> None:
    """Train as one rank; rank 0 prints and writes the result."""
    torch.set_num_threads(1)
    init: dict[str, Any] = {"init_method": f"file://{store}", "rank": rank, "world_size": ranks} if store else {}
    options = dmace.torch.Options(rank_order=not args.free_order, faults=args.faults) if args.backend == "dmace" \
        else None
    begun = time.monotonic()
    dist.init_process_group(args.backend, timeout=timedelta(minutes=10), pg_options=options, **init)
    started = time.monotonic()
    steps: list[Sequence[Record]] = []

    def step_ended(loss: float) -> None:
        steps.append(dmace.torch.stats().records[sum(map(len, steps)):])

    losses, digest = train(args.steps, bucket_mb=args.bucket_mb, fsdp=args.fsdp, ended=step_ended)
    ended = time.monotonic()
    if dist.get_rank() == 0:
        for step, loss in enumerate(losses):
            print(f"step {step:3}  loss {loss:.9f}")
        print(f"parameters {digest[:16]}; {ended - started:.1f} s of training, {started - begun:.1f} s to start")
        if args.backend == "dmace":
            found = dmace.torch.stats()
            print(f"\n{found}\n\n{found.cycles:,} cycles; at {args.clock} MHz the collectives take "
                  f"{found.predicted_seconds(args.clock) * 1e3:.3f} ms, and {found.simulated_share:.0%} of their time "
                  "here is simulation")
            if args.report:
                write_page(Path(args.report), losses, steps, args.clock,
                           f"A transformer on {dist.get_world_size()} ranks, with {'FSDP2' if args.fsdp else 'DDP'}")
                print(f"\nlosses and communication: {args.report}")
            if args.trace:
                dmace.torch.write_trace(args.trace, clock_mhz=args.clock, label="rank 0")
        if args.json:
            Path(args.json).write_text(json.dumps({"losses": losses, "digest": digest}), encoding="utf-8")
    dist.destroy_process_group()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("dmace", "gloo"), default="dmace")
    parser.add_argument("--ranks", type=int, default=4, help="processes (default: 4)")
    parser.add_argument("--steps", type=int, default=10, help="steps of training (default: 10)")
    parser.add_argument("--bucket-mb", type=float, metavar="MB", help="size of DDP's buckets (default: 25)")
    parser.add_argument("--fsdp", action="store_true", help="shard parameters (FSDP2) instead of DDP")
    parser.add_argument("--free-order", action="store_true", help="do not combine in rank order")
    parser.add_argument("--faults", default="", metavar="SPEC", help="faults of links, such as loss=0.01")
    parser.add_argument("--clock", type=float, default=250, metavar="MHZ", help="of the prediction (default: 250)")
    parser.add_argument("--json", metavar="FILE", help="write losses and a digest of the parameters")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with losses and communication")
    parser.add_argument("--trace", metavar="FILE", help="write rank 0's collectives for Perfetto or Chrome")
    args = parser.parse_args(arguments)
    if "RANK" in os.environ:
        run_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "", args)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (args.ranks, f"{folder}/store", args), args.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
