# SPDX-License-Identifier: Apache-2.0
"""Work of common layers, from their shapes: operations, and bytes that cannot stay on the chip between kernels.

Each operand of a kernel is read from memory once and each result is written once, unless a function says otherwise. The
three passes of a matrix product are three products of as many operations and bytes.
"""

from hw.ace.words import Collective

from .layer import Exchange, Layer, Pass, Work

__all__ = ["Works", "convolution", "dense", "embedding", "gradients", "layer", "lstm", "total"]

Works = tuple[Work, Work, Work]
"""Work of a layer's forward pass, and of its two gradients: input and weight."""


def total(*works: Work) -> Work:
    """Kernels of a pass, one after the other, as one work."""
    return Work(flops=sum(work.flops for work in works), memory_bytes=sum(work.memory_bytes for work in works))


def gradients(parameters: int, element: int) -> Exchange:
    """All-reduce of the gradients of ``parameters`` parameters, of ``element`` bytes each."""
    return Exchange(collective=Collective.ALL_REDUCE, bytes=parameters * element)


def layer(name: str, works: Works, parameters: int, element: int, *, first: bool = False) -> Layer:
    """Data-parallel layer with the works of its three passes. ``first``: its input gradient is not needed."""
    forward, input_grad, weight_grad = works
    exchange = gradients(parameters, element) if parameters else None
    return Layer(name=name, forward=Pass(work=forward), input_grad=Pass(work=Work() if first else input_grad),
                 weight_grad=Pass(work=weight_grad, exchange=exchange))


def dense(rows: int, inputs: int, outputs: int, element: int, *, activation: bool = True) -> Works:
    """Works of ``rows`` vectors through a matrix and a bias; the activation reads and writes the outputs once more."""
    product = Work(flops=2 * rows * inputs * outputs,
                   memory_bytes=element * (rows * inputs + inputs * outputs + rows * outputs))
    more = Work(memory_bytes=2 * element * rows * outputs if activation else 0)
    return total(product, more), total(product, more), product


def convolution(batch: int, size: int, inputs: int, outputs: int, kernel: int, stride: int, element: int, *,
                shortcut: bool = False) -> Works:
    """Works of a square convolution with batch normalisation and ReLU.

    An implicit matrix product, so that inputs are read once. Statistics come out of the product; normalisation and ReLU
    read and write the outputs once more, a shortcut is one more read; backwards, normalisation reads gradient and
    output twice and writes once.
    """
    out = -(-size // stride)
    pixels, weights = batch * out * out, inputs * outputs * kernel * kernel
    product = Work(flops=2 * pixels * weights,
                   memory_bytes=element * (batch * size * size * inputs + weights + pixels * outputs))
    norm = element * pixels * outputs
    return (total(product, Work(memory_bytes=(3 if shortcut else 2) * norm)),
            total(product, Work(memory_bytes=5 * norm)), product)


def lstm(batch: int, steps: int, inputs: int, hidden: int, element: int, *, resident: bool = False) -> Works:
    """Works of an LSTM layer over ``steps`` tokens.

    The inputs of all steps are one product. The recurrent product of a step waits for the previous step and reads its
    weights from memory again, unless they are ``resident`` on the chip. The gates read four sums and write state and
    output. Recurrent weight gradients of all steps are one product.
    """
    tokens, gates = batch * steps, 4 * hidden
    entering = dense(tokens, inputs, gates, element, activation=False)[0]
    recurrent = Work(flops=2 * tokens * hidden * gates,
                     memory_bytes=element * ((1 if resident else steps) * hidden * gates + tokens * (hidden + gates)))
    pointwise = Work(memory_bytes=element * tokens * (gates + 3 * hidden))
    at_once = dense(tokens, hidden, gates, element, activation=False)[2]
    return total(entering, recurrent, pointwise), total(entering, recurrent, pointwise), total(entering, at_once)


def embedding(rows: int, width: int, vocabulary: int, element: int) -> Works:
    """Works of a table that ``rows`` tokens look up; the gradient is a table of its own, as wide and as long."""
    gathered = Work(memory_bytes=2 * element * rows * width)
    return gathered, Work(), Work(memory_bytes=element * (rows * width + vocabulary * width))
