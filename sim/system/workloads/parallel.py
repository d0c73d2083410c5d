# SPDX-License-Identifier: Apache-2.0
"""How a transformer is spread over the ranks of a torus: parallelism, batches, precision.

Names of parallelism, in the order in which dimensions are given to them if the plan has no ``map``:

* ``tp``: tensor parallelism (Megatron, arXiv 1909.08053), with sequence parallelism (arXiv 2205.05198);
* ``ep``: expert parallelism (GShard, arXiv 2006.16668): also data parallelism for all that is no expert;
* ``dp``: data parallelism, beside that of ``ep``; ZeRO's stages 1 and 3 (arXiv 1910.02054);
* ``pp``: pipeline parallelism, 1F1B (arXiv 2006.09503) or GPipe (arXiv 1811.06965).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod

from hw.errors import UserError

from .transformer import Model

__all__ = ["KINDS", "Plan", "stages"]

KINDS = ("tp", "ep", "dp", "pp")
SCHEDULES = ("1f1b", "gpipe")
RECOMPUTE = ("none", "selective", "full")
ZERO = (0, 1, 3)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """
    Parameters
    ----------
    tp, ep, dp, pp : int
        Ranks of each kind of parallelism; 0: what the shape of the machine leaves. ``dp`` is beside ``ep``: dense
        parameters have ``ep * dp`` copies, an expert's ``dp``.
    map : str
        Kind of each dimension of the machine, such as ``tp-dp-pp``; a kind may have several. Empty: the dimensions in
        order, to ``tp``, ``ep``, ``dp`` and ``pp`` as their numbers of ranks say or, if none is given, ``tp-dp-pp`` or,
        with experts, ``ep-dp-pp``.
    sequence, batch, micro_batches : int
        Tokens of a sequence, sequences of a micro-batch, and micro-batches of a step, on each data-parallel rank.
    schedule : str
        ``1f1b`` or ``gpipe``.
    recompute : str
        What is computed again in the backward pass: ``none``, ``selective`` (scores and values of attention), ``full``
        (whole layers, with their collectives).
    sequence_parallel : bool
        Tensor-parallel ranks share the tokens outside of the matrices, so all-gathers and reduce-scatters replace
        all-reduces.
    element, gradient_element : int
        Bytes of a weight or activation, and of a gradient that is reduced.
    zero : int
        0: all-reduce of gradients. 1: reduce-scatter, update of the own part, all-gather of weights. 3: also weights
        are gathered before each use, a layer ahead, and gradients are reduced after each micro-batch.
    bucket_bytes : int
        Gradients of layers are reduced together when they have this number of bytes.
    clip : bool
        A sum of 4 bytes over all ranks precedes the update, as clipping by the norm of the gradients needs it.
    """

    tp: int = 0
    ep: int = 0
    dp: int = 0
    pp: int = 0
    map: str = ""
    sequence: int = 4096
    batch: int = 1
    micro_batches: int = 8
    schedule: str = "1f1b"
    recompute: str = "none"
    sequence_parallel: bool = True
    element: int = 2
    gradient_element: int = 2
    zero: int = 1
    bucket_bytes: int = 200_000_000
    clip: bool = True

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least, most = (0, 1024) if one.name in KINDS else (1, 1 << 40 if one.name == "bucket_bytes" else 1 << 20)
            if one.type is int and one.name != "zero" and not (
                    isinstance(value, int) and not isinstance(value, bool) and least <= value <= most):
                raise UserError(f"{one.name} of a transformer must be an integer from {least} to {most:,}, not "
                                f"{value!r}.")
            if one.type is bool and not isinstance(value, bool):
                raise UserError(f"{one.name} of a transformer must be true or false, not {value!r}.")
        for name, choices in (("schedule", SCHEDULES), ("recompute", RECOMPUTE), ("zero", ZERO)):
            value = getattr(self, name)
            if isinstance(value, bool) or value not in choices:
                raise UserError(f"{name} of a transformer must be one of {', '.join(map(str, choices))}, not "
                                f"{value!r}.")
        kinds = self.map.split("-") if isinstance(self.map, str) and self.map else []
        if not isinstance(self.map, str) or not set(kinds) <= set(KINDS):
            raise UserError(f"map of a transformer must be names of {', '.join(KINDS)} with - between them, not "
                            f"{self.map!r}.")

    def dimensions(self, model: Model, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Dimensions of a machine for each of :data:`KINDS`.

        Raises
        ------
        UserError
            If the shape does not have them, or if they do not divide what the model has.
        """
        spoken, ranks = "x".join(map(str, shape)), prod(shape)
        given = {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind)}
        if self.map or not given:
            kinds = (self.map or ("ep-dp-pp" if model.experts else "tp-dp-pp")).split("-")
            if len(kinds) < len(shape) or (self.map and len(kinds) > len(shape)):
                raise UserError(f"map must have a kind of parallelism for each of the {len(shape)} dimensions of "
                                f"{spoken}, not {len(kinds)}: {'-'.join(kinds)}.")
            found = {kind: tuple(number for number in range(len(shape)) if kinds[number] == kind) for kind in KINDS}
            for kind, degree in given.items():
                if (has := prod(shape[number] for number in found[kind])) != degree:
                    raise UserError(f"{kind} must be {has}, the ranks of {spoken} along the dimensions that "
                                    f"map={'-'.join(kinds)} gives to it, not {degree}.")
        else:
            found = self._assigned(shape, given, ranks, spoken)
        self._check(model, {kind: prod(shape[number] for number in found[kind]) for kind in KINDS})
        return found

    def _assigned(self, shape: Sequence[int], given: dict[str, int], ranks: int,
                  spoken: str) -> dict[str, tuple[int, ...]]:
        product = prod(given.values())
        text = " x ".join(f"{kind} {degree}" for kind, degree in given.items())
        if ranks % product or ("dp" in given and product != ranks):
            raise UserError(f"{text} are {product:,} ranks, which {'must be' if 'dp' in given else 'must divide'} the "
                            f"{ranks:,} of {spoken}.")
        degrees = {kind: given.get(kind, ranks // product if kind == "dp" else 1) for kind in KINDS}
        found: dict[str, tuple[int, ...]] = {}
        number = 0
        for kind in KINDS:
            first, has = number, 1
            while has < degrees[kind] and number < len(shape):
                has *= shape[number]
                number += 1
            if has != degrees[kind]:
                raise UserError(f"{kind} {degrees[kind]} must be whole dimensions of {spoken}, in the order "
                                f"{', '.join(KINDS)}, which has {has} there; choose other --nodes, or map.")
            found[kind] = tuple(range(first, number))
        # Dimensions of one rank belong to data parallelism.
        found["dp"] = (*found["dp"], *range(number, len(shape)))
        return found

    def _check(self, model: Model, ranks: dict[str, int]) -> None:
        tp, ep, pp = ranks["tp"], ranks["ep"], ranks["pp"]
        divided = [("heads", model.heads), ("kv_heads", model.kv_heads), ("ffn", model.ffn),
                   ("vocabulary", model.vocabulary), ("sequence", self.sequence)]
        if model.experts:
            divided.append(("expert_ffn", model.expert_ffn))
        for name, value in divided:
            if value % tp:
                raise UserError(f"tp must divide {name}, which is {value:,} of {model.name}, not {tp}.")
        if ep > 1 and not model.experts:
            raise UserError(f"ep must be 1, as {model.name} has no experts, not {ep}.")
        if model.experts and model.experts % ep:
            raise UserError(f"ep must divide the {model.experts} experts of {model.name}, not {ep}.")
        if pp > model.layers:
            raise UserError(f"pp must be at most the {model.layers} layers of {model.name}, not {pp}.")


def stages(layers: int, pp: int) -> list[range]:
    """Layers of each stage: equal numbers, one more on the last stages if there is a remainder."""
    short, more = divmod(layers, pp)
    ends = [0]
    for stage in range(pp):
        ends.append(ends[-1] + short + (stage >= pp - more))
    return [range(ends[stage], ends[stage + 1]) for stage in range(pp)]
