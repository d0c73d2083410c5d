# SPDX-License-Identifier: Apache-2.0
"""Views of tensors in the order of their elements in a buffer."""

from collections.abc import Sequence
from typing import Any

from dmace.runtime.errors import DmaceError

__all__ = ["blocks", "check_dense", "check_same", "elements", "equal_parts", "rows", "transposed"]


def elements(views: Sequence[Any]) -> int:
    """Sum of the views' elements."""
    return sum(view.numel() for view in views)


def blocks(tensor: Any, ranks: int) -> list[Any]:
    """A view for each rank: equal parts along the first dimension, or of the elements of a contiguous tensor."""
    if tensor.dim() and tensor.shape[0] % ranks == 0:
        return list(tensor.unflatten(0, (ranks, tensor.shape[0] // ranks)).unbind(0))
    if tensor.is_contiguous() and tensor.numel() % ranks == 0:
        return list(tensor.view(ranks, -1).unbind(0))
    raise DmaceError(f"A tensor of shape {tuple(tensor.shape)} has no equal parts for {ranks} ranks.")


def transposed(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Blocks of several tensors in the order of a buffer: those of rank 0, of each tensor, then those of rank 1."""
    return [block for of_rank in zip(*parts, strict=True) for block in of_rank]


def equal_parts(tensor: Any, ranks: int) -> list[int]:
    """Lengths of equal parts along the first dimension."""
    rows_here = tensor.shape[0] if tensor.dim() else 0
    if not tensor.dim() or rows_here % ranks:
        raise DmaceError(f"The first dimension of a tensor of shape {tuple(tensor.shape)} has no equal parts for "
                         f"{ranks} ranks.")
    return [rows_here // ranks] * ranks


def rows(tensor: Any, lengths: Sequence[int], ranks: int) -> list[Any]:
    """A view for each rank: parts of these lengths along the first dimension."""
    if len(lengths) != ranks or sum(lengths) != tensor.shape[0]:
        raise DmaceError(f"Splits of a tensor of shape {tuple(tensor.shape)} must be {ranks} lengths with the sum "
                         f"{tensor.shape[0]}, not {list(lengths)}.")
    return list(tensor.split(list(lengths)))


def check_dense(tensor: Any) -> None:
    """Raise :class:`DmaceError` for anything but a dense tensor of the CPU."""
    if tensor.is_sparse or tensor.device.type != "cpu":
        raise DmaceError(f"A collective needs dense tensors of the CPU, not {tensor.layout} on {tensor.device}.")


def check_same(name: str, tensors: Sequence[Any], number: int) -> None:
    """Raise :class:`DmaceError` unless there are this number of dense tensors of one type."""
    if len(tensors) != number:
        raise DmaceError(f"{name} needs {number} tensors of a rank, not {len(tensors)}.")
    for tensor in tensors:
        check_dense(tensor)
        if tensor.dtype != tensors[0].dtype:
            raise DmaceError(f"Tensors of {name} must have one type, not {tensors[0].dtype} and {tensor.dtype}.")
