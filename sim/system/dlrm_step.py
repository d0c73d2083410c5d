# SPDX-License-Identifier: Apache-2.0
"""A training step of DLRM, or a pass of inference, around embeddings that are fused with their all-to-all or not.

::

    forward   embeddings and their all-to-all | bottom layers | all vectors are there | top layers
    backward  top layers | all-to-all of the vectors' gradients, beside it bottom layers | update of the tables

Each layer's gradients are reduced beside the computation that follows. The all-to-all of the backward pass is not
fused. A step ends when the last reduction and the update have ended. Products of pairs of vectors take no time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hw.ace.words import Collective
from hw.errors import UserError

from .machine import Machine
from .slices import AllToAll, Fused, Fusion

__all__ = ["Dlrm", "DlrmStep"]

_Pass = tuple[float, int]
"""Seconds of arithmetic, and bytes of memory."""


@dataclass(frozen=True, kw_only=True)
class Dlrm(Fused):
    """
    Parameters
    ----------
    layers, bottom : int
        Layers, and those of them that do not need the embeddings.
    training : bool
        False: the forward pass only.
    passes : tuple
        ``(seconds, memory_bytes)`` of a layer: forward, input gradient and weight gradient.
    gradient_bytes : int
        Gradients of a layer.
    update_bytes : int
        Bytes of memory for the update of the tables.
    """

    layers: int
    bottom: int
    training: bool
    passes: tuple[_Pass, ...]
    gradient_bytes: int
    update_bytes: int


class DlrmStep(AllToAll):
    """All ranks do the same, so the machine is folded."""

    def __init__(self, operation: Dlrm, machine: Machine, fusion: Fusion) -> None:
        super().__init__(operation, machine, fusion)
        if not machine.config.fold:
            raise UserError("DLRM is simulated with slices in the order remote-first or remote-last, not by-rank.")
        self._dlrm = operation

    def start(self, ended: Callable[[], object] | None = None) -> None:
        # The bottom layers must end, too.
        self.begin()
        super().start(self._forward)

    def following(self, rank: int) -> None:
        self.phases["embedding"] = self.machine.now
        self.processor(rank, 1)
        self._layers([self._dlrm.passes[0]] * self._dlrm.bottom, lambda: self.end(rank))

    def _forward(self) -> None:
        self.phases["exchange"] = self.machine.now
        top = self._dlrm.layers - self._dlrm.bottom
        self._layers([self._dlrm.passes[0]] * top, self._backward)

    def _backward(self) -> None:
        self.done[0] = self.phases["forward"] = self.machine.now
        self._ended = lambda: None
        if self._dlrm.training:
            self.begin()
            self._gradients(self._dlrm.layers - self._dlrm.bottom, self._return)

    def _return(self) -> None:
        """Gradients of the vectors go back; beside them, the bottom layers are computed."""
        self.phases["backward"] = self.machine.now
        waiting = [self.ranks]

        def arrived(_: int = 0) -> None:
            waiting[0] -= 1
            if not waiting[0]:
                self._layers([(0.0, self._dlrm.update_bytes)], lambda: self._over("update"))
            self.end(0)

        part = -(-self.operation.output_bytes // self.ranks)
        self.begin()
        for target in range(1, self.ranks):
            self.put(0, target, part, arrived)
        self._gradients(self._dlrm.bottom, arrived)

    def _over(self, name: str) -> None:
        self.phases[name] = self.machine.now
        self.end(0)

    def _gradients(self, layers: int, done: Callable[[], object]) -> None:
        """Backward passes of layers. The gradients of each are reduced."""
        if not layers:
            done()
            return

        def computed() -> None:
            self.begin()
            self.machine.issue(Collective.ALL_REDUCE, self._dlrm.gradient_bytes, done=lambda _: self._over("reduction"))
            self._gradients(layers - 1, done)

        self._layers(self._dlrm.passes[1:], computed)

    def _layers(self, passes: Sequence[_Pass], done: Callable[[], object]) -> None:
        if not passes:
            done()
            return
        (seconds, memory_bytes), *rest = passes
        self.machine.compute(seconds, memory_bytes=memory_bytes, done=lambda _: self._layers(rest, done))
