# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, learned by four ranks that add up their gradients with the collectives accelerator, in its RTL.

Data-parallel stochastic gradient descent: each rank computes what its quarter of a batch adds to the gradient, an
ALL_REDUCE makes the sum, and each rank takes the same step. Gradient and loss are one buffer of 2,411 FP32 elements per
rank. The same is done with the golden model in place of the RTL, which must give the same losses bit for bit, and
in one process, on whole batches. Data: the 1,797 digits that scikit-learn brings; network: 64 pixels, 32 ReLUs, 10
classes.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hw.ace.config import PRESETS, AceConfig
from hw.ace.model.collective import results
from hw.ace.numerics.formats import DType
from hw.ace.words import Collective
from hw.errors import UserError

if TYPE_CHECKING:
    from sim.verilator.build import Status

RANKS = 4
BATCH = 64
RATE = 0.5
TESTED = 360
PIXELS, HIDDEN, CLASSES = 64, 32, 10
SHAPES = ((PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))

Floats = npt.NDArray[np.float32]
Add = Callable[[list[Floats]], list[Floats]]
"""Makes of the ranks' buffers their sum as each rank has it."""

Found = dict[str, tuple[Floats, list[Floats]]]
"""By what makes the sums: losses, and weights of all ranks."""


@dataclass(frozen=True)
class Digits:
    """Images of pixels from 0 to 1, and what they show."""

    images: Floats
    labels: npt.NDArray[np.int_]

    def __getitem__(self, part: Any) -> "Digits":
        return Digits(self.images[part], self.labels[part])


def load() -> tuple[Digits, Digits]:
    """Digits to learn from and digits to be tested with."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise UserError("scikit-learn is not installed, whose digits this takes; run scripts/setup.sh train.") from None
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    digits = Digits((images[order] / 16).astype(np.float32), labels[order])
    return digits[TESTED:], digits[:TESTED]


def initial() -> Floats:
    """Weights of all layers, concatenated."""
    rng = np.random.default_rng(2)
    layers = [rng.standard_normal(shape) * sqrt(2 / shape[0]) if len(shape) == 2 else np.zeros(shape)
              for shape in SHAPES]
    return np.concatenate([layer.reshape(-1) for layer in layers]).astype(np.float32)


def layers(weights: Floats) -> list[Floats]:
    """The arrays that weights, or a gradient, consist of."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    return [part.reshape(shape) for part, shape in zip(np.split(weights, ends[:-1]), SHAPES, strict=True)]


def forward(weights: Floats, images: Floats) -> tuple[Floats, Floats]:
    """Outputs of the hidden layer and of the last layer for images."""
    into, bias, out, out_bias = layers(weights)
    hidden = np.maximum(images @ into + bias, 0)
    return hidden, hidden @ out + out_bias


def gradient(weights: Floats, digits: Digits) -> Floats:
    """Contribution of digits to the gradient of a batch's mean cross entropy, followed by that to the mean itself."""
    hidden, found = forward(weights, digits.images)
    found -= found.max(axis=1, keepdims=True)
    logarithms = found - np.log(np.exp(found).sum(axis=1, keepdims=True))
    rows = np.arange(len(digits.labels))
    error = np.exp(logarithms)
    error[rows, digits.labels] -= 1
    error /= BATCH
    behind = (error @ layers(weights)[2].T) * (hidden > 0)
    loss = -logarithms[rows, digits.labels].sum(keepdims=True) / BATCH
    return np.concatenate([(digits.images.T @ behind).reshape(-1), behind.sum(axis=0),
                           (hidden.T @ error).reshape(-1), error.sum(axis=0), loss])


def accuracy(weights: Floats, digits: Digits) -> float:
    """Share of digits that are classified correctly."""
    return float((forward(weights, digits.images)[1].argmax(axis=1) == digits.labels).mean())


def train(digits: Digits, ranks: int, add: Add, steps: int,
          notify: Callable[[float], object]) -> tuple[Floats, list[Floats]]:
    """Losses of all steps, as FP32, and the weights of each rank in the end.

    ``add`` takes a list of the ranks' buffers and returns their sum as each rank has it. ``notify`` is called after
    each step with its loss.
    """
    weights, losses = [initial() for _ in range(ranks)], []
    rng = np.random.default_rng(3)
    for _ in range(steps):
        batch = digits[rng.choice(len(digits.labels), BATCH, replace=False)]
        parts = [batch[rank * BATCH // ranks:(rank + 1) * BATCH // ranks] for rank in range(ranks)]
        sums = add([gradient(*one) for one in zip(weights, parts, strict=True)])
        weights = [own - np.float32(RATE) * whole[:-1] for own, whole in zip(weights, sums, strict=True)]
        losses.append(sums[0][-1])
        notify(losses[-1])
    return np.array(losses), weights


def golden(buffers: list[Floats]) -> list[Floats]:
    """Sums as the golden model has them."""
    bits = results(Collective.ALL_REDUCE, (RANKS,), [one.view(np.uint32) for one in buffers], dtype=DType.FP32,
                   count=len(buffers[0]))
    return [one.view(np.float32) for one in bits if one is not None]


def alone(buffers: list[Floats]) -> list[Floats]:
    """The sum of one."""
    return buffers


@contextmanager
def hardware(config: AceConfig, status: "Status") -> Iterator[tuple[Add, list[int]]]:
    """``with`` sums as the RTL of ``RANKS`` accelerators on a ring makes them, and the list of cycles they took."""
    from sim.ace.cluster import Cluster

    cycles: list[int] = []
    with Cluster(config, (RANKS,), status=status) as cluster:
        def add(buffers: list[Floats]) -> list[Floats]:
            outcome = cluster.collective(Collective.ALL_REDUCE, buffers)
            cycles.append(outcome.cycles)
            return [one for one in outcome.outputs if one is not None]

        yield add, cycles


def run(args: argparse.Namespace, progress: Progress) -> tuple[Found, list[int]]:
    """By what makes the sums: losses, and weights of all ranks; and the cycles of each step in RTL."""
    learned, _ = load()
    found: Found = {}
    task = progress.add_task("", total=None, note="")

    def go(name: str, ranks: int, add: Add) -> None:
        progress.reset(task, description=name, total=args.steps)
        found[name] = train(learned, ranks, add, args.steps,
                            lambda loss: progress.update(task, advance=1, note=f"loss {loss:.4f}"))

    def building(what: str, done: int, total: int) -> None:
        progress.update(task, description="building", completed=done, total=total or None, note=what)

    cycles: list[int] = []
    if not args.golden:
        with hardware(PRESETS[args.config], building) as (add, cycles):
            go("RTL", RANKS, add)
    go("golden model", RANKS, golden)
    go("one process", 1, alone)
    return found, cycles


def show(found: Found, cycles: Sequence[int]) -> bool:
    """Print the results; returns whether the ranks, and RTL and golden model, agree bit for bit."""
    console, (_, tested) = Console(), load()
    table = Table(title=f"{len(tested.labels)} digits that were not learned from")
    for column in ("sums by", "ranks", "first loss", "last loss", "accuracy"):
        table.add_column(column, justify="left" if column == "sums by" else "right")
    for name, (losses, weights) in found.items():
        table.add_row(name, str(len(weights)), f"{losses[0]:.6f}", f"{losses[-1]:.6f}",
                      f"{accuracy(weights[0], tested):.2%}")
    console.print(table)
    for name, (_, weights) in found.items():
        if any((one.view(np.uint32) != weights[0].view(np.uint32)).any() for one in weights):
            console.print(f"Ranks have different weights: {name}.", highlight=False)
            return False
    if "RTL" not in found:
        return True
    hard, model = (found[name][0].view(np.uint32) for name in ("RTL", "golden model"))
    console.print(f"{sum(cycles):,} cycles in {len(cycles):,} collectives, {np.mean(cycles):,.0f} each.",
                  highlight=False)
    if (hard != model).any():
        console.print(f"RTL and golden model differ from step {int((hard != model).argmax())} on.", highlight=False)
        return False
    console.print(f"All {len(hard):,} losses of RTL and golden model are equal bit for bit.", highlight=False)
    return True


def draw(found: Found, name: str) -> None:
    """Write the losses as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for (label, (losses, _)), style in zip(found.items(), ("-", "--", ":"), strict=False):
        axis.plot(losses, style, label=label)
    axis.set_xlabel("step")
    axis.set_ylabel("loss")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(name, dpi=150, metadata={"Software": None})


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--golden", action="store_true", help="do without the RTL")
    parser.add_argument("--config", default="tiny", choices=list(PRESETS), help="preset (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="batches to learn from (default: %(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="draw the losses, as PNG")
    args = parser.parse_args(argv)
    try:
        if args.steps < 1:
            raise UserError(f"--steps must be at least 1, not {args.steps}.")
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[note]}"))
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            found, cycles = run(args, progress)
        if args.plot:
            draw(found, args.plot)
        return 0 if show(found, cycles) else 1
    except UserError as error:
        print(f"train_digits: {error}", file=sys.stderr)
        return error.status


if __name__ == "__main__":
    sys.exit(main())
