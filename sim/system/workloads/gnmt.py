# SPDX-License-Identifier: Apache-2.0
"""GNMT, data parallel, from its public layer shapes.

Wu et al., "Google's Neural Machine Translation System", 2016, sections 3 and 3.1: an encoder of eight LSTM layers of
1024, the first of them in both directions; a decoder of eight, each of which takes the attention's context beside its
input; an attention of one hidden layer of 1024; word pieces from a vocabulary of 32,000.
"""

from . import shapes
from .layer import Layer, Work, Workload

__all__ = ["gnmt"]

HIDDEN, LAYERS, VOCABULARY = 1024, 8, 32_000


def gnmt(*, batch: int = 128, source_tokens: int = 25, target_tokens: int = 25, element: int = 2,
         resident: bool = False) -> Workload:
    """A training step.

    Parameters
    ----------
    batch : int
        Sentence pairs of a rank.
    source_tokens, target_tokens : int
        Word pieces of a sentence. The default is about the mean of WMT's English-German pairs.
    element : int
        Bytes of weights, activations and gradients: 2 is FP16.
    resident : bool
        Recurrent weights stay on the chip between steps.
    """
    h = HIDDEN
    layers: list[Layer] = []

    def lstm(name: str, steps: int, inputs: int) -> None:
        layers.append(shapes.layer(name, shapes.lstm(batch, steps, inputs, h, element, resident=resident),
                                   4 * h * (inputs + h + 1), element))

    def table(name: str, tokens: int) -> None:
        layers.append(shapes.layer(name, shapes.embedding(batch * tokens, h, VOCABULARY, element), VOCABULARY * h,
                                   element, first=True))

    table("encoder_embedding", source_tokens)
    lstm("encoder_1_forward", source_tokens, h)
    lstm("encoder_1_backward", source_tokens, h)
    for number in range(2, LAYERS + 1):
        lstm(f"encoder_{number}", source_tokens, 2 * h if number == 2 else h)
    table("decoder_embedding", target_tokens)
    lstm("decoder_1", target_tokens, 2 * h)
    layers.append(shapes.layer("attention", _attention(batch, source_tokens, target_tokens, element),
                               2 * h * h + h, element))
    for number in range(2, LAYERS + 1):
        lstm(f"decoder_{number}", target_tokens, 2 * h)
    layers.append(shapes.layer("softmax", shapes.dense(batch * target_tokens, h, VOCABULARY, element),
                               (h + 1) * VOCABULARY, element))
    return Workload(name="GNMT 8+8, data parallel", layers=tuple(layers), source=(
        f"layer shapes of Wu et al. 2016; batch {batch}, {source_tokens} and {target_tokens} tokens, "
        f"{8 * element}-bit elements, recurrent weights {'resident' if resident else 're-read at each step'}"))


def _attention(batch: int, source: int, target: int, element: int) -> shapes.Works:
    """Keys and queries through a matrix each; for each target token a score and a sum over all source tokens, whose
    keys and values are read again."""
    keys = shapes.dense(batch * source, HIDDEN, HIDDEN, element, activation=False)
    queries = shapes.dense(batch * target, HIDDEN, HIDDEN, element, activation=False)
    pairs = batch * source * target * HIDDEN
    over = Work(flops=4 * pairs, memory_bytes=2 * element * pairs)
    forward, input_grad, weight_grad = (shapes.total(*works, over) for works in zip(keys, queries, strict=True))
    return forward, input_grad, weight_grad
