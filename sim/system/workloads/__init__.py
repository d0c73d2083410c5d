# SPDX-License-Identifier: Apache-2.0
"""Training steps to predict: given tables, models made from their public shapes, and a user's own files.

::

    load("resnet50")             a table of this folder
    load("resnet50-fp16")        the same with the memory traffic that its times imply, see decoded
    load("gnmt", batch=64)       made from shapes, see the function of that name for what can be set
    load("mine.csv")             see csv_file
    described("llama-70b", {})   a transformer and how it is spread over ranks, see transformer and parallel
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path

from hw.errors import UserError
from sim.system.settings import Setting

from . import csv_file, decoded
from .dlrm import dlrm
from .gnmt import gnmt
from .layer import GROUPS, Exchange, Layer, Pass, Processor, Work, Workload
from .parallel import Plan
from .resnet50 import resnet50
from .transformer import MODELS, Model

__all__ = ["GROUPS", "LAYERED", "MADE", "MODELS", "NAMES", "TABLES", "Exchange", "Layer", "Pass", "Processor", "Work",
           "Workload", "described", "load"]

TABLES = Path(__file__).parent / "tables"


def _decoded(name: str, shapes: Mapping[str, decoded.Shape], element: int) -> Callable[[], Workload]:
    return lambda: decoded.with_traffic(csv_file.read(TABLES / f"{name}.csv"), shapes, element)


def _share(name: str) -> Callable[..., Workload]:
    def made(*, memory_percent: int = 50) -> Workload:
        if memory_percent > 100:
            raise UserError(f"memory_percent of the workload {name}-share must be from 1 to 100, not {memory_percent}.")
        return decoded.with_share(csv_file.read(TABLES / f"{name}.csv"), memory_percent, Processor().memory)
    return made


MADE: dict[str, Callable[..., Workload]] = {
    **{f"{name}-fp{8 * element}": _decoded(name, shapes, element)
       for name, shapes in (("resnet50", decoded.RESNET50), ("dlrm", decoded.DLRM)) for element in (2, 4)},
    "resnet50-share": _share("resnet50"), "dlrm-share": _share("dlrm"),
    "gnmt": gnmt, "resnet50-shapes": resnet50, "dlrm-shapes": dlrm}
"""Name -> function that makes the workload."""

LAYERED = (*sorted(path.stem for path in TABLES.glob("*.csv")), *MADE)
"""Names of workloads of layers, which :func:`load` makes."""

NAMES = (*LAYERED, *MODELS)
"""All names."""


def described(name: str, settings: Mapping[str, Setting]) -> tuple[Model, Plan]:
    """One of :data:`MODELS` and its plan, with other values of the fields of either."""
    parts: list[dict[str, Setting]] = []
    known: list[str] = []
    for one in (Model, Plan):
        names = [field.name for field in fields(one) if field.name not in ("name", "source")]
        parts.append({key: value for key, value in settings.items() if key in names})
        known += names
    if unknown := set(settings) - set(known):
        raise UserError(f"the workload {name} has no setting {min(unknown)!r}; it has {', '.join(known)}.")
    model, plan = parts
    return replace(MODELS[name], **model), Plan(**plan)  # type: ignore[arg-type]  # both check their values


def load(name: str, **settings: Setting) -> Workload:
    """A :class:`Workload` by name, or of a file that ends in ``.csv``.

    Parameters
    ----------
    name : str
    **settings
        For a workload that is made: ``batch``, ``element``, ...
    """
    if name in MADE:
        known = inspect.signature(MADE[name]).parameters
        for key, value in settings.items():
            if key not in known:
                raise UserError(f"the workload {name} has no setting {key!r}; it has {', '.join(known) or 'none'}.")
            boolean = isinstance(known[key].default, bool)
            if not isinstance(value, int) or isinstance(value, bool) != boolean or not 0 <= value < 1 << 20:
                raise UserError(f"{key} of the workload {name} must be like {known[key].default}, not {value!r}.")
            if not boolean and value < 1:
                raise UserError(f"{key} of the workload {name} must be 1 or more, not {value}.")
        return MADE[name](**settings)
    if settings:
        raise UserError(f"the workload {name} is a table and has no settings, so not {', '.join(settings)} either.")
    if name in LAYERED:
        return csv_file.read(TABLES / f"{name}.csv")
    if not name.endswith(".csv"):
        raise UserError(f"a workload must be one of {', '.join(NAMES)} or a file that ends in .csv, not {name!r}.")
    return csv_file.read(name)
