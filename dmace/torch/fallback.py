# SPDX-License-Identifier: Apache-2.0
"""Gloo, for groups and types that the accelerators do not have."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo

from .work import adopted, joined

__all__ = ["Gloo"]


class Gloo:
    """The methods of a ``ProcessGroupGloo``, also for coalesced all-reduces, several tensors of an all-gather, and
    unequal lengths in an all-to-all of lists, each of which that of PyTorch 2.13 refuses. Arguments as there."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._group: Any = ProcessGroupGloo(store, rank, size, timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        if opts is None:
            return self._group.allreduce(tensors)
        if isinstance(opts, dist.AllreduceCoalescedOptions):
            given, opts = opts, dist.AllreduceOptions()
            opts.reduceOp, opts.timeout = given.reduceOp, given.timeout
        return self._group.allreduce(tensors, opts)

    def allgather(self, outputs: list[list[Any]], inputs: list[Any], *opts: Any) -> Any:
        works = [self._group.allgather([parts], [given], *opts)
                 for parts, given in zip(outputs, inputs, strict=True)]
        return joined(works, [part for parts in outputs for part in parts])

    def alltoall(self, outputs: list[Any], inputs: list[Any], *opts: Any) -> Any:
        sent, lengths = [one.numel() for one in inputs], [one.numel() for one in outputs]
        received = outputs[0].new_empty(sum(lengths))
        work = self._group.alltoall_base(received, torch.cat([one.reshape(-1) for one in inputs]), lengths, sent, *opts)

        def finish() -> None:
            with torch.no_grad():
                for output, part in zip(outputs, received.split(lengths), strict=True):
                    output.copy_(part.view(output.shape))

        return adopted(work, outputs, finish)
