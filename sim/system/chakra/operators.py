# SPDX-License-Identifier: Apache-2.0
"""Work of PyTorch's operators, from the shapes of their tensors.

Arithmetic is that of matrix products, convolutions and attention: two operations for each multiplication and addition.
Other operators only move bytes: each input read once, each output written once. Views and allocations move nothing.
Causal attention counts as if it were full.
"""

import re
from collections.abc import Callable
from math import prod

from sim.system.workloads import Work

from .host import Call, Tensor

__all__ = ["is_free", "work_of"]

_ALLOCATES = re.compile(r"aten::(?:empty|new_empty|resize|result_type|item|_local_scalar_dense|is_|size|stride)")

_VIEW = re.compile(r"Tensor\([a-z]+\)")
"""In the result of a schema: an alias of an input that is not written, which would be ``Tensor(a!)``."""


def work_of(call: Call) -> Work:
    """:class:`~sim.system.workloads.Work` of a call with all inside."""
    flops = memory = 0
    stack = [call]
    while stack:
        one = stack.pop()
        count = _flops(one)
        inside = [child for child in one.children if _flops(child) is not None or not is_free(child)]
        if count is None and inside:
            stack += one.children
            continue
        if not is_free(one):
            flops += count or 0
            memory += sum(tensor.bytes for tensors in (*one.inputs, *one.outputs) for tensor in tensors)
    return Work(flops=flops, memory_bytes=memory)


def is_free(call: Call) -> bool:
    """Whether it moves nothing itself: a view, an allocation, or no operator; nor does anything inside."""
    return all(_moves_nothing(one) for one in call.walk())


def _moves_nothing(call: Call) -> bool:
    if not call.schema:
        return not call.attributes.get("kernel_backend")
    return bool(_ALLOCATES.match(call.name) or _VIEW.search(call.schema.rpartition("->")[2]))


def _flops(call: Call) -> int | None:
    """Operations of a product; None for all else."""
    made = _PRODUCTS.get(call.name)
    if made is None:
        return None
    try:
        return made(call)
    except (IndexError, ValueError):
        return None


def _one(call: Call, name: str) -> Tensor:
    tensor, = call.tensors(name)
    return tensor


def _product(left: str, right: str) -> Callable[[Call], int]:
    """Two operations for each of the left matrix's elements and the right one's columns, also in batches."""
    def count(call: Call) -> int:
        shape = _one(call, right).shape
        return 2 * prod(_one(call, left).shape) * (shape[-1] if len(shape) > 1 else 1)
    return count


def _convolution(call: Call) -> int:
    transposed = bool(call.argument("transposed"))
    image = _one(call, "input") if transposed else call.outputs[0][0]
    return 2 * prod(image.shape) * prod(_one(call, "weight").shape[1:])


def _convolution_backward(call: Call) -> int:
    transposed = bool(call.argument("transposed"))
    image = _one(call, "input" if transposed else "grad_output")
    mask = call.argument("output_mask")
    gradients = sum(map(bool, mask[:2])) if isinstance(mask, list) else 2
    return gradients * 2 * prod(image.shape) * prod(_one(call, "weight").shape[1:])


def _attention(backward: bool) -> Callable[[Call], int]:
    """Queries times keys and weights times values; backward the former again, and two gradients of each."""
    def count(call: Call) -> int:
        query, key, value = (_one(call, name).shape for name in ("query", "key", "value"))
        deep = 3 * query[-1] + 2 * value[-1] if backward else query[-1] + value[-1]
        return 2 * prod(query[:-1]) * key[-2] * deep
    return count


_PRODUCTS: dict[str, Callable[[Call], int]] = {
    "aten::mm": _product("self", "mat2"), "aten::addmm": _product("mat1", "mat2"),
    "aten::bmm": _product("self", "mat2"), "aten::baddbmm": _product("batch1", "batch2"),
    "aten::mv": _product("self", "vec"), "aten::addmv": _product("mat", "vec"),
    "aten::dot": _product("self", "tensor"), "aten::_scaled_mm": _product("self", "mat2"),
    "aten::convolution": _convolution, "aten::convolution_backward": _convolution_backward,
    **{f"aten::_scaled_dot_product_{kind}{end}": _attention(bool(end))
       for kind in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
       for end in ("", "_backward")}}
