# SPDX-License-Identifier: Apache-2.0
"""Layers between products: activation, batch normalisation, pooling, normalisation across channels, softmax.

Values have 4 bytes; arrays of images are NCHW. Arithmetic is that of 64 lanes, with a few operations for each value.
"""

from sim.cache.trace import Array, Kernel

__all__ = ["activation", "activation_backward", "batch_norm", "batch_norm_backward", "lrn", "pooling",
           "pooling_backward", "softmax"]

_VALUE, _LANES = 4, 64
_CHUNK = 1024


def _cycles(length: int, operations: int) -> int:
    """Cycles of some operations for each value of ``length`` bytes."""
    return max(1, length // _VALUE * operations // _LANES)


def _map(kernel: Kernel, sources: list[Array], target: Array, plane: int, operations: int) -> None:
    """A value of ``target`` from those at the same index of ``sources``; a work group has a plane of an image."""
    for first in range(0, target.length, plane):
        with kernel.group():
            for at in range(first, first + plane, _CHUNK):
                for source in sources:
                    kernel.load(source, at, _CHUNK)
                kernel.compute(_cycles(_CHUNK, operations))
                kernel.store(target, at, _CHUNK)


def activation(planes: int = 256, side: int = 64) -> Kernel:
    """y = relu(x): every value is loaded and stored once."""
    kernel = Kernel("act", groups=4)
    length = planes * side * side * _VALUE
    x, y = kernel.array("x", length), kernel.array("y", length)
    _map(kernel, [x], y, side * side * _VALUE, 1)
    return kernel


def activation_backward(planes: int = 192, side: int = 64) -> Kernel:
    """dx = dy where y > 0: two streams in, one out."""
    kernel = Kernel("act-back", groups=4)
    length = planes * side * side * _VALUE
    y, dy, dx = kernel.array("y", length), kernel.array("dy", length), kernel.array("dx", length)
    _map(kernel, [y, dy], dx, side * side * _VALUE, 2)
    return kernel


def batch_norm(images: int = 4, channels: int = 256, side: int = 32) -> Kernel:
    """A work group of 1,024 threads loads a channel of all images for mean and variance, then again to normalise."""
    kernel = Kernel("bn", groups=1)
    plane = side * side * _VALUE
    x = kernel.array("x", images * channels * plane, "r")
    y = kernel.array("y", images * channels * plane)
    for channel in range(channels):
        with kernel.group():
            for store in (False, True):
                for image in range(images):
                    first = (image * channels + channel) * plane
                    for at in range(first, first + plane, _CHUNK):
                        kernel.load(x, at, _CHUNK, "normalise" if store else "sum")
                        kernel.compute(_cycles(_CHUNK, 2))
                        if store:
                            kernel.store(y, at, _CHUNK)
    return kernel


def batch_norm_backward(images: int = 2, channels: int = 384, side: int = 32) -> Kernel:
    """As the forward pass, with x and the gradient in both of its passes."""
    kernel = Kernel("bn-back", groups=1)
    plane = side * side * _VALUE
    x = kernel.array("x", images * channels * plane, "r")
    dy = kernel.array("dy", images * channels * plane, "r")
    dx = kernel.array("dx", images * channels * plane)
    for channel in range(channels):
        with kernel.group():
            for store in (False, True):
                for image in range(images):
                    first = (image * channels + channel) * plane
                    for at in range(first, first + plane, _CHUNK):
                        for array in (x, dy):
                            kernel.load(array, at, _CHUNK, "gradient" if store else "sum")
                        kernel.compute(_cycles(_CHUNK, 4))
                        if store:
                            kernel.store(dx, at, _CHUNK)
    return kernel


def pooling(planes: int = 192, side: int = 64) -> Kernel:
    """The maximum of 3x3 with stride 1: a row of outputs loads three rows of inputs, of which the L2 has two."""
    kernel = Kernel("pool", groups=4)
    row = side * _VALUE
    x = kernel.array("x", planes * side * row, "r")
    y = kernel.array("y", planes * side * row)
    rows = 16
    for plane in range(planes):
        for first in range(0, side, rows):
            with kernel.group():
                for index in range(first, first + rows):
                    for source in range(max(0, index - 1), min(side, index + 2)):
                        kernel.load(x, (plane * side + source) * row, row)
                    kernel.compute(_cycles(row, 9))
                    kernel.store(y, (plane * side + index) * row, row)
    return kernel


def pooling_backward(planes: int = 128, side: int = 64) -> Kernel:
    """A row of gradients is added to three rows of dx in memory: each is loaded and stored three times."""
    kernel = Kernel("pool-back", groups=4)
    row = side * _VALUE
    dy = kernel.array("dy", planes * side * row)
    dx = kernel.array("dx", planes * side * row, "rw")
    rows = 16
    for plane in range(planes):
        for first in range(0, side, rows):
            with kernel.group():
                for index in range(first, first + rows):
                    kernel.load(dy, (plane * side + index) * row, row)
                    targets = range(max(0, index - 1), min(side, index + 2))
                    for target in targets:
                        kernel.load(dx, (plane * side + target) * row, row)
                    kernel.compute(_cycles(row, 9))
                    for target in targets:
                        kernel.store(dx, (plane * side + target) * row, row)
    return kernel


def lrn(images: int = 4, channels: int = 64, side: int = 64) -> Kernel:
    """Normalisation across 5 channels: a work group has a part of the plane, and keeps the window in registers."""
    kernel = Kernel("lrn", groups=4)
    plane = side * side * _VALUE
    x = kernel.array("x", images * channels * plane)
    y = kernel.array("y", images * channels * plane)
    for image in range(images):
        for at in range(0, plane, _CHUNK):
            with kernel.group():
                for channel in range(channels):
                    kernel.load(x, (image * channels + channel) * plane + at, _CHUNK)
                    kernel.compute(_cycles(_CHUNK, 8))
                    kernel.store(y, (image * channels + channel) * plane + at, _CHUNK)
    return kernel


def softmax(rows: int = 192, columns: int = 4096) -> Kernel:
    """Each row is loaded for its maximum, for the sum of exponentials, and for the quotients."""
    kernel = Kernel("softmax", groups=1)
    length = columns * _VALUE
    x = kernel.array("x", rows * length, "r")
    y = kernel.array("y", rows * length)
    for row in range(rows):
        with kernel.group():
            for site, operations in (("maximum", 1), ("sum", 8), ("quotient", 8)):
                for at in range(row * length, (row + 1) * length, _CHUNK):
                    kernel.load(x, at, _CHUNK, site)
                    kernel.compute(_cycles(_CHUNK, operations))
                    if site == "quotient":
                        kernel.store(y, at, _CHUNK)
    return kernel
