# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, data parallel, from its public layer shapes.

He et al., "Deep Residual Learning for Image Recognition", 2015, table 1; the stride of a stage is in its first 3x3
convolution, as in the implementations that are measured today.
"""

from . import shapes
from .layer import Layer, Workload

__all__ = ["resnet50"]

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and blocks."""


def resnet50(*, batch: int = 32, element: int = 2) -> Workload:
    """A training step on images of 224 x 224.

    Parameters
    ----------
    batch : int
        Images of a rank.
    element : int
        Bytes of weights, activations and gradients: 2 is FP16.
    """
    layers: list[Layer] = []

    def convolution(name: str, size: int, inputs: int, outputs: int, kernel: int, stride: int = 1, *,
                    shortcut: bool = False) -> None:
        works = shapes.convolution(batch, size, inputs, outputs, kernel, stride, element, shortcut=shortcut)
        # Two numbers of batch normalisation for each output.
        layers.append(shapes.layer(name, works, inputs * outputs * kernel * kernel + 2 * outputs, element,
                                   first=not layers))

    convolution("conv1", 224, 3, 64, 7, 2)
    size, inputs = 56, 64
    for stage, (width, blocks) in enumerate(STAGES, 2):
        for block in range(1, blocks + 1):
            stride = 2 if block == 1 and stage > 2 else 1
            name = f"conv{stage}_{block}"
            if block == 1:
                convolution(f"{name}_shortcut", size, inputs, 4 * width, 1, stride)
            convolution(f"{name}a", size, inputs, width, 1)
            convolution(f"{name}b", size, width, width, 3, stride)
            size, inputs = size // stride, 4 * width
            convolution(f"{name}c", size, width, inputs, 1, shortcut=True)
    layers.append(shapes.layer("fc", shapes.dense(batch, inputs, 1000, element), (inputs + 1) * 1000, element))
    return Workload(name="ResNet-50 from shapes, data parallel", layers=tuple(layers), source=(
        f"layer shapes of He et al. 2015; batch {batch}, {8 * element}-bit elements"))
