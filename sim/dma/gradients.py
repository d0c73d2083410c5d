# SPDX-License-Identifier: Apache-2.0
"""Data to move when the user brings none: gradient buffers shaped like ResNet-50's, in a NumPy file.

The layers and their sizes are in ``examples/resnet50_layers.csv``. Sizes are divided by :data:`SCALE`;
the values come from a generator with a fixed seed, small and around zero, as gradients are.
"""

import csv
from pathlib import Path

import numpy as np

from hw.errors import UserError
from sim.verilator.toolchain import build_root

__all__ = ["SCALE", "layers", "make"]

SCALE = 64
SEED = 50


def layers() -> list[tuple[str, int]]:
    """``(name, bytes of its gradient)`` of each layer, unscaled."""
    path = Path(__file__).resolve().parents[2] / "examples" / "resnet50_layers.csv"
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    except OSError:
        raise UserError("the example data are only in a checkout of dmace; "
                        "name a file of yours with --input.") from None
    return [(row["layer"], int(row["weight_gradient_bytes"])) for row in csv.DictReader(lines)]


def make() -> tuple[Path, list[int]]:
    """The file, made if it is not there: its path, and the bytes of its header and of each layer's buffer."""
    floats = [max(1, size // (4 * SCALE)) for _, size in layers()]
    path = build_root() / "examples" / f"resnet50_gradients_{SCALE}.npy"
    values = np.random.default_rng(SEED).normal(scale=1e-3, size=sum(floats)).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)
    header = path.stat().st_size - values.nbytes
    return path, [header, *(4 * number for number in floats)]
