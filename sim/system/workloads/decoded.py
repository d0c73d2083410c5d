# SPDX-License-Identifier: Apache-2.0
"""Shapes behind the given tables of ResNet-50 and DLRM, and the memory traffic that follows from them.

The compute times of both tables are cycles of a weight-stationary systolic array of 256 x 256 cells. A product of M
rows with a matrix of K x N takes ``ceil(K / 256) * ceil(N / 256)`` tiles, each of which takes M cycles for its rows,
256 to leave the array, and ``min(K, 256)`` to load its weights. The passes of a layer are products of three matrices:

==============  ===============  =================  =================
pass            M                K                  N
==============  ===============  =================  =================
forward         output pixels    kernel x inputs    outputs
input gradient  output pixels    outputs            kernel x inputs
weight grad.    kernel x inputs  output pixels      outputs
==============  ===============  =================  =================

with "kernel" as the pixels of a filter. ResNet-50 is one image with gradients of 4 bytes: 137 of 162 passes are equal
to the cycle, the others take longer than that (:data:`LONGER`), for a reason that the table does not show. DLRM is a
batch of 128 with gradients of 2 bytes and with inputs and outputs exchanged: all 21 passes of its perceptrons are
equal. So the tables belong to a batch and a gradient type each, whatever the batch of the paper. The traffic is that of
the same products: a convolution's pixels are read once for each position of the filter, as the array multiplies them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from .layer import Layer, Pass, Work, Workload

__all__ = ["ARRAY", "DLRM", "LONGER", "RESNET50", "Shape", "array_cycles", "with_share", "with_traffic"]

ARRAY = 256
"""Rows and columns of the array."""

_EMBEDDING_MOVES = {"forward": 2, "input_grad": 0, "weight_grad": 3}
"""Times that the exchanged vectors of an embedding pass the memory: read and written; gradients read, rows read and
written back."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A convolution, or a fully connected layer as one of 1 x 1 pixels.

    Parameters
    ----------
    rows : int
        Output pixels, or samples.
    inputs, outputs : int
        Channels.
    kernel : int
        Pixels of a filter.
    """

    rows: int
    inputs: int
    outputs: int
    kernel: int = 1

    @property
    def weights(self) -> int:
        return self.kernel * self.inputs * self.outputs

    @property
    def elements(self) -> int:
        """Elements of the three matrices of a pass, which are those of all three passes."""
        return self.rows * self.kernel * self.inputs + self.weights + self.rows * self.outputs

    def exchanged(self) -> "Shape":
        """With inputs and outputs exchanged."""
        return replace(self, inputs=self.outputs, outputs=self.inputs)


def array_cycles(shape: Shape, *, array: int = ARRAY) -> tuple[int, int, int]:
    """Cycles of the forward pass, the input gradient and the weight gradient."""
    def product(moving: int, reduced: int, columns: int) -> int:
        return -(-reduced // array) * -(-columns // array) * (moving + array + min(reduced, array))

    rows, depth, outputs = shape.rows, shape.kernel * shape.inputs, shape.outputs
    return product(rows, depth, outputs), product(rows, outputs, depth), product(depth, rows, outputs)


def _resnet50() -> dict[str, Shape]:
    def convolution(out: int, inputs: int, outputs: int, kernel: int) -> Shape:
        return Shape(rows=out * out, inputs=inputs, outputs=outputs, kernel=kernel * kernel)

    shapes = {"conv1": convolution(112, 3, 64, 7)}
    inputs, size = 64, 56
    for width, blocks, out in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        for block in range(1, blocks + 1):
            name = f"layer_{width}_{block}_conv"
            if block == 1:
                shapes[f"{name}4"] = convolution(out, inputs, 4 * width, 1)
            shapes[f"{name}1"] = convolution(size, inputs, width, 1)
            shapes[f"{name}2"] = convolution(out, width, width, 3)
            shapes[f"{name}3"] = convolution(out, width, 4 * width, 1)
            inputs, size = 4 * width, out
    return shapes | {"fc1000": Shape(rows=1, inputs=2048, outputs=1000)}


def _dlrm() -> dict[str, Shape]:
    names = {"Bottom": (13, 512, 512, 512, 16), "Top": (1040, 512, 512, 512)}
    return {f"MLP_{name}_{number}": Shape(rows=128, inputs=inputs, outputs=outputs)
            for name, sizes in names.items()
            for number, (inputs, outputs) in enumerate(pairwise(sizes))}


RESNET50: Mapping[str, Shape] = _resnet50()
"""Shapes of the layers of the table ``resnet50``."""

DLRM: Mapping[str, Shape] = _dlrm()
"""Shapes of the perceptrons of the table ``dlrm``: 64 vectors of 16 beside the bottom's 16 enter the top."""

LONGER = frozenset({
    ("conv1", "forward"), ("layer_128_4_conv3", "forward"), ("layer_256_6_conv3", "forward"),
    ("layer_512_3_conv3", "forward"), ("layer_256_1_conv1", "input_grad"), ("layer_512_1_conv1", "input_grad"),
    ("fc1000", "input_grad"),
    *((f"layer_{width}_{block}_{conv}", name) for width, blocks in ((256, 6), (512, 3))
      for block in range(1, blocks + 1) for conv, name in (("conv1", "forward"), ("conv3", "input_grad")))})
"""Passes of ResNet-50 that take longer than the array."""


def with_share(workload: Workload, percent: int, bytes_per_s: float) -> Workload:
    """The workload with memory traffic that takes ``percent`` of each pass's time at ``bytes_per_s``: an assumption, to
    be varied."""
    def moving(one: Pass) -> Pass:
        seconds = one.work.seconds
        return one if not seconds else replace(one, work=Work(
            seconds=seconds, memory_bytes=round(seconds * bytes_per_s * percent / 100)))

    return replace(workload, name=f"{workload.name}, {percent} % of memory bandwidth", layers=tuple(
        replace(layer, forward=moving(layer.forward), input_grad=moving(layer.input_grad),
                weight_grad=moving(layer.weight_grad)) for layer in workload.layers), source=(
        f"{workload.source}; each pass is assumed to need {percent} % of {bytes_per_s / 1e9:g} GB/s"))


def with_traffic(workload: Workload, shapes: Mapping[str, Shape], element: int) -> Workload:
    """The workload with the memory traffic of its layers: both operands of a product are read once, its result is
    written once, in elements of ``element`` bytes. Times and exchanges stay as they are given."""
    def traffic(layer: Layer, name: str) -> int:
        if layer.name in shapes:
            return element * shapes[layer.name].elements
        exchange = layer.forward.exchange
        # Embeddings are exchanged in elements of 2 bytes.
        return _EMBEDDING_MOVES[name] * (exchange.bytes if exchange else 0) * element // 2

    def moving(layer: Layer, name: str) -> Pass:
        one = layer[name]
        if not one.work.seconds:
            return one
        return replace(one, work=Work(seconds=one.work.seconds, memory_bytes=traffic(layer, name)))

    return replace(workload, name=f"{workload.name}, {8 * element}-bit traffic", layers=tuple(
        replace(layer, forward=moving(layer, "forward"), input_grad=moving(layer, "input_grad"),
                weight_grad=moving(layer, "weight_grad")) for layer in workload.layers), source=(
        f"{workload.source}; memory traffic of {8 * element}-bit elements from the shapes that the times imply"))
