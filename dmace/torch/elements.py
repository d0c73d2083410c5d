# SPDX-License-Identifier: Apache-2.0
"""Element types and reductions: PyTorch's, and the accelerator's of the same meaning."""

from typing import Any

import torch
from torch.distributed import ReduceOp

from dmace.runtime.errors import DmaceError

__all__ = ["moved_as", "reduced_as", "reduction"]

_TYPES: dict[Any, str] = {
    torch.float32: "FP32", torch.float16: "FP16", torch.bfloat16: "BF16", torch.float8_e4m3fn: "E4M3",
    torch.float8_e5m2: "E5M2", torch.int32: "INT32", torch.int8: "INT8"}

WIDENED = ("FP16", "BF16", "E4M3", "E5M2")

_OPERATIONS = (("SUM", ReduceOp.SUM), ("AVG", ReduceOp.AVG), ("MIN", ReduceOp.MIN), ("MAX", ReduceOp.MAX),
               ("PROD", ReduceOp.PRODUCT))


def reduced_as(dtype: Any) -> str | None:
    """The accelerator's type of the same bits and arithmetic, or None."""
    return _TYPES.get(dtype)


def moved_as(dtype: Any) -> tuple[str, int]:
    """The type as which elements are moved, and how many of them an element is: moves keep all bits, so that every type
    is moved as words or bytes."""
    size = dtype.itemsize
    return ("INT32", size // 4) if size % 4 == 0 else ("INT8", size)


def reduction(op: Any) -> str:
    """The accelerator's name of a ``ReduceOp``. Raises :class:`DmaceError` if it has none."""
    for name, known in _OPERATIONS:
        # The object of the options equals a member only on this side.
        if op == known:
            return name
    names = ", ".join(name for name, _ in _OPERATIONS)
    raise DmaceError(f"A reduction must be one of {names}, not {getattr(op, 'op', op).name}.")
