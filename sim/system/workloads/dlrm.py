# SPDX-License-Identifier: Apache-2.0
"""DLRM from public layer shapes: embeddings model parallel, everything else data parallel.

Naumov et al., "Deep Learning Recommendation Model", 2019, in the shapes of MLPerf's training benchmark (Criteo
terabyte): 13 dense features through 512-256-128, 26 tables of vectors of 128, products of all pairs, then
1024-1024-512-256-1. Tables, or parts of them, are spread evenly over the ranks; each sample looks up one row of each.
"""

from dataclasses import replace
from itertools import pairwise

from hw.ace.words import Collective

from . import shapes
from .layer import Exchange, Layer, Pass, Work, Workload

__all__ = ["dlrm"]

DENSE, WIDTH, TABLES = 13, 128, 26
BOTTOM, TOP = (512, 256, WIDTH), (1024, 1024, 512, 256, 1)


def dlrm(*, batch: int = 512, element: int = 2) -> Workload:
    """A training step.

    Parameters
    ----------
    batch : int
        Samples of a rank.
    element : int
        Bytes of weights, activations and gradients: 2 is FP16.
    """
    vectors = TABLES + 1
    gathered = batch * TABLES * WIDTH * element
    exchange = Exchange(collective=Collective.ALL_TO_ALL, bytes=gathered)
    layers = [Layer(name="embedding", forward=Pass(work=Work(memory_bytes=2 * gathered), exchange=exchange,
                                                   other="interaction"),
                    input_grad=Pass(exchange=exchange, other="interaction"),
                    # Rows are read, changed and written back.
                    weight_grad=Pass(work=Work(memory_bytes=3 * gathered)))]

    def perceptron(name: str, sizes: tuple[int, ...]) -> None:
        for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
            layers.append(shapes.layer(f"{name}_{number}", shapes.dense(batch, inputs, outputs, element),
                                       (inputs + 1) * outputs, element))

    perceptron("bottom", (DENSE, *BOTTOM))
    # The gradient of the dense features is not needed.
    layers[1] = replace(layers[1], input_grad=Pass())
    pairs = vectors * (vectors - 1) // 2
    products = Work(flops=2 * batch * vectors * vectors * WIDTH,
                    memory_bytes=element * batch * (vectors * WIDTH + pairs))
    layers.append(shapes.layer("interaction", (products, shapes.total(products, products), Work()), 0, element))
    perceptron("top", (WIDTH + pairs, *TOP))
    return Workload(name="DLRM from shapes, embeddings model parallel", layers=tuple(layers), source=(
        f"layer shapes of MLPerf's DLRM; batch {batch}, {8 * element}-bit elements"))
