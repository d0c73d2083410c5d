# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: GEMM, convolution, a fully connected layer, and a recurrent layer (GRU).

Values have 4 bytes; a compute unit multiplies and adds 64 of them per cycle.
"""

from sim.cache.trace import Kernel

__all__ = ["convolution", "fully_connected", "gemm", "gru"]

_VALUE, _LANES = 4, 64


def gemm(rows: int = 1024, columns: int = 512, depth: int = 256, tile: int = 64, step: int = 32) -> Kernel:
    """C = A B in tiles that a work group accumulates in registers; A and B are reused by other groups, C is not."""
    kernel = Kernel("gemm", groups=4)
    a = kernel.array("A", rows * depth * _VALUE, "r")
    b = kernel.array("B", depth * columns * _VALUE, "r")
    c = kernel.array("C", rows * columns * _VALUE)
    for row in range(0, rows, tile):
        for column in range(0, columns, tile):
            with kernel.group():
                for k in range(0, depth, step):
                    for index in range(row, row + tile):
                        kernel.load(a, (index * depth + k) * _VALUE, step * _VALUE)
                    for index in range(k, k + step):
                        kernel.load(b, (index * columns + column) * _VALUE, tile * _VALUE)
                    kernel.compute(tile * tile * step // _LANES)
                for index in range(row, row + tile):
                    kernel.store(c, (index * columns + column) * _VALUE, tile * _VALUE)
    return kernel


def convolution(images: int = 12, inputs: int = 32, outputs: int = 64, side: int = 28, rows: int = 7) -> Kernel:
    """A convolution of 3x3; a work group computes some rows of all output channels of an image.

    The inputs' border rows are reused by the next group, the weights by all; a padded row has 32 values.
    """
    kernel = Kernel("conv", groups=2)
    pitch = -(-side // 32) * 32 * _VALUE
    padded = side + 2
    x = kernel.array("x", images * inputs * padded * pitch, "r")
    w = kernel.array("w", outputs * inputs * 9 * _VALUE, "r")
    y = kernel.array("y", images * outputs * side * pitch)
    part = 8                                          # input channels between two waits
    for image in range(images):
        for row in range(0, side, rows):
            with kernel.group():
                for channel in range(0, inputs, part):
                    for index in range(channel, channel + part):
                        kernel.load(x, ((image * inputs + index) * padded + row) * pitch, (rows + 2) * pitch)
                    for output in range(outputs):
                        kernel.load(w, (output * inputs + channel) * 9 * _VALUE, part * 9 * _VALUE)
                    kernel.compute(rows * side * outputs * part * 9 // _LANES)
                for output in range(outputs):
                    kernel.store(y, ((image * outputs + output) * side + row) * pitch, rows * pitch)
    return kernel


def fully_connected(batch: int = 16, inputs: int = 1024, outputs: int = 1536, tile: int = 32) -> Kernel:
    """y = x W for a small batch: the weights are streamed once, and each work group loads all of x."""
    kernel = Kernel("fc", groups=4)
    w = kernel.array("W", outputs * inputs * _VALUE)
    x = kernel.array("x", batch * inputs * _VALUE, "r")
    y = kernel.array("y", batch * outputs * _VALUE)
    step = 64
    for column in range(0, outputs, tile):
        with kernel.group():
            for k in range(0, inputs, step):
                for index in range(column, column + tile):
                    kernel.load(w, (index * inputs + k) * _VALUE, step * _VALUE)
                for index in range(batch):
                    kernel.load(x, (index * inputs + k) * _VALUE, step * _VALUE)
                kernel.compute(batch * tile * step // _LANES)
            for index in range(batch):
                kernel.store(y, (index * outputs + column) * _VALUE, tile * _VALUE)
    return kernel


def gru(batch: int = 16, hidden: int = 128, steps: int = 32, units: int = 8) -> Kernel:
    """The recurrent part of a GRU: each step loads all weights and the state that the last one stored.

    The contributions of the inputs are streamed; a step is a phase, without a write-back of the L2 between two.
    """
    kernel = Kernel("gru", groups=1)
    w = kernel.array("w", 3 * hidden * hidden * _VALUE, "r")
    h = kernel.array("h", 2 * batch * hidden * _VALUE, "rw")
    x = kernel.array("x", steps * 3 * batch * hidden * _VALUE)
    part = hidden // units
    for step in range(steps):
        old, new = step % 2 * batch * hidden * _VALUE, (step + 1) % 2 * batch * hidden * _VALUE
        for first in range(0, hidden, part):
            with kernel.group(step):
                kernel.load(h, old, batch * hidden * _VALUE)
                for gate in range(3):
                    kernel.load(w, (gate * hidden + first) * hidden * _VALUE, part * hidden * _VALUE)
                    for index in range(batch):
                        kernel.load(x, (((step * 3 + gate) * batch + index) * hidden + first) * _VALUE, part * _VALUE)
                    kernel.compute(batch * part * hidden // _LANES)
                for index in range(batch):
                    kernel.store(h, new + (index * hidden + first) * _VALUE, part * _VALUE)
    return kernel
