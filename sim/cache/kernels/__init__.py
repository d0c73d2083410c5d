# SPDX-License-Identifier: Apache-2.0
"""Synthetic kernels of machine intelligence: streams of addresses from the shapes of layers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.cache.trace import Kernel

from . import layers, products, tables

__all__ = ["KERNELS", "Definition"]


@dataclass(frozen=True)
class Definition:
    """How a kernel's trace is made; ``quick``: the shapes of a short one, for tests."""

    make: Callable[..., Kernel]
    quick: dict[str, int] = field(default_factory=dict)

    def kernel(self, quick: bool = False) -> Kernel:
        """The trace of the kernel."""
        return self.make(**(self.quick if quick else {}))


KERNELS = {
    "gemm": Definition(products.gemm, {"rows": 256, "columns": 256, "depth": 64}),
    "conv": Definition(products.convolution, {"images": 1, "inputs": 8}),
    "fc": Definition(products.fully_connected, {"inputs": 256, "outputs": 256}),
    "gru": Definition(products.gru, {"steps": 3}),
    "embedding": Definition(tables.embedding, {"bags": 128}),
    "embedding-back": Definition(tables.embedding_backward, {"bags": 64}),
    "bn": Definition(layers.batch_norm, {"channels": 24}),
    "bn-back": Definition(layers.batch_norm_backward, {"channels": 24}),
    "act": Definition(layers.activation, {"planes": 24}),
    "act-back": Definition(layers.activation_backward, {"planes": 16}),
    "pool": Definition(layers.pooling, {"planes": 16}),
    "pool-back": Definition(layers.pooling_backward, {"planes": 8}),
    "lrn": Definition(layers.lrn, {"images": 1, "channels": 16}),
    "softmax": Definition(layers.softmax, {"rows": 16}),
    "reduction": Definition(tables.bias_gradient, {"batch": 64}),
}
"""Name -> definition, in the order of tables."""
