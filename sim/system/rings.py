# SPDX-License-Identifier: Apache-2.0
"""Algorithms other than the accelerator's: programs that implement the rules of other simulators."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from hw.ace.programs.program import Phase, Program
from hw.ace.words import Collective, SendWord, TransferWord
from hw.errors import UserError

__all__ = ["symbolic"]

C = Collective

_Rings = Sequence[tuple[int, int]]
"""Ranks, and the port where each sends, of each ring."""


def symbolic(algorithm: str, collective: Collective, shape: Sequence[int], dimensions: Sequence[int], *,
             up: bool) -> Program:
    """A program with the positions of :func:`hw.ace.programs.schedule.plan`; only sizes and dependencies have meaning.

    ``five-phase``: reduce-scatter in all dimensions but the last one of more than one rank, all-reduce there,
    all-gathers back. ``flat``: a whole all-reduce in each dimension. ``hierarchical``: as the accelerator's. The
    other collectives do not depend on it.
    """
    ranks = prod(shape)
    rings = [(size, 2 * dimension + (not up)) for size, dimension in zip(shape, dimensions, strict=True) if size > 1]
    makers: dict[Collective, Callable[[_Rings, int], Iterable[Phase]]] = {
        C.ALL_REDUCE: _ALL_REDUCES[algorithm], C.REDUCE_SCATTER: _scatters, C.ALL_GATHER: _gathers,
        C.ALL_TO_ALL: _exchanges}
    if collective not in makers:
        raise UserError(f"{collective.name} has no algorithm but the accelerator's own.")
    one, every = (TransferWord(0, 0, 1),), (TransferWord(0, 0, ranks),)
    return Program(positions=ranks, shards=ranks, split=collective == C.ALL_REDUCE,
                   phases=tuple(makers[collective](rings, ranks)), fills=one if collective == C.ALL_GATHER else every,
                   drains=one if collective == C.REDUCE_SCATTER else every)


def _pass(size: int, port: int, span: int, *, scatter: bool, gather: bool) -> Phase:
    """``scatter`` and ``gather``: whether the ring does that round."""
    steps = [1] * (size - 1) * scatter + [0] * (size - 1) * gather
    return _phase(port, span, [SendWord(0, 0, step, 0, reduce) for step, reduce in enumerate(steps)])


def _phase(port: int, span: int, sends: Sequence[SendWord]) -> Phase:
    return Phase(port=port, span=span, sends=tuple(sends), receives=len(sends), granted=len(sends))


def _scatters(rings: _Rings, positions: int) -> Iterator[Phase]:
    for size, port in rings:
        positions //= size
        yield _pass(size, port, positions, scatter=True, gather=False)


def _gathers(rings: _Rings, positions: int) -> list[Phase]:
    return [_pass(size, port, span, scatter=False, gather=True)
            for (size, port), span in reversed(list(zip(rings, _spans(rings, positions), strict=True)))]


def _spans(rings: _Rings, positions: int) -> Iterator[int]:
    for size, _ in rings:
        positions //= size
        yield positions


def _five_phase(rings: _Rings, positions: int) -> list[Phase]:
    *outer, (size, port) = rings
    last = positions // prod(size for size, _ in outer)
    return [*_scatters(outer, positions), _pass(size, port, last // size, scatter=True, gather=True),
            *_gathers(outer, positions)]


def _hierarchical(rings: _Rings, positions: int) -> list[Phase]:
    if len(rings) == 1:
        return _five_phase(rings, positions)
    (first, port), *others = rings
    span = positions // first
    return [_pass(first, port, span, scatter=True, gather=False),
            *(_pass(size, other, span // size, scatter=True, gather=True) for size, other in others),
            _pass(first, port, span, scatter=False, gather=True)]


def _flat(rings: _Rings, positions: int) -> list[Phase]:
    return [_pass(size, port, positions // size, scatter=True, gather=True) for size, port in rings]


def _exchanges(rings: _Rings, positions: int) -> Iterator[Phase]:
    """Each block is forwarded until it is at its destination: step ``k`` forwards blocks that have travelled ``k - 1``
    hops."""
    for size, port in rings:
        sends: list[SendWord] = []
        before = 0
        for step in range(1, size):
            begin = len(sends)
            sends += [SendWord(0, 0, before + block + 1 if step > 1 else 0, 0, 0) for block in range(size - step)]
            before = begin
        yield _phase(port, positions // size, sends)


_ALL_REDUCES = {"hierarchical": _hierarchical, "five-phase": _five_phase, "flat": _flat}
