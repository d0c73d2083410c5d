# SPDX-License-Identifier: Apache-2.0
"""Workloads as CSV files.

Lines that begin with ``#`` come first and say what the file is; ``# key: value`` sets ``name``, ``source``,
``model_parallel`` or ``backward`` of the :class:`~.layer.Workload`. The first other line names the columns, in any
order:

======================  =================================================================================
``layer``               its name, once
``P_ns``                compute in nanoseconds, alone; or, by a roofline, the next two
``P_flops``             operations
``P_memory_bytes``      bytes read from memory and written to it
``P_collective``        ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``all_to_all``, ... or nothing
``P_bytes``             its bytes: the whole vector at each rank; of an all-gather, the rank's own part
``P_group``             ``all`` (default), ``model`` or ``data``
``P_layer``             see ``other`` in :class:`~.layer.Pass`
``update_ns``           from reduced gradients to new weights
======================  =================================================================================

with P one of ``forward``, ``input_grad`` and ``weight_grad``. A column that is not there is
nothing, and so is an empty field.
"""

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hw.ace.words import Collective
from hw.errors import UserError

from .layer import BACKWARD, PASSES, Exchange, Layer, Pass, Work, Workload

__all__ = ["read", "write"]

_PARTS = ("ns", "flops", "memory_bytes", "collective", "bytes", "group", "layer")
COLUMNS = ("layer", *(f"{name}_{part}" for name in PASSES for part in _PARTS), "update_ns")
_KEYS = ("name", "source", "model_parallel", "backward")


def read(path: str | Path) -> Workload:
    """:class:`Workload` of a file. Raises :class:`UserError` that names the file, the line and the rule."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise UserError(f"there is no workload file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the workload {path} cannot be read: {error}.") from None
    said = {"name": path.stem}
    rows: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            key, colon, value = line[1:].partition(":")
            if colon and key.strip() in _KEYS:
                said[key.strip()] = value.strip()
        elif line.strip():
            rows.append((number, line))
    if len(rows) < 2:
        raise UserError(f"the workload {path} needs a line of columns and a line for each layer.")
    columns = next(csv.reader([rows[0][1]]))
    if unknown := [column for column in columns if column not in COLUMNS]:
        raise UserError(f"the workload {path} has a column {unknown[0]!r}; it can have {', '.join(COLUMNS)}.")
    if "layer" not in columns or len(set(columns)) != len(columns):
        raise UserError(f"the workload {path} must have a column 'layer', and no column twice.")
    layers = []
    for number, line in rows[1:]:
        fields = next(csv.reader([line]))
        if len(fields) != len(columns):
            raise UserError(f"{path}, line {number}: {len(fields)} fields where there are {len(columns)} columns.")
        try:
            layers.append(_layer(dict(zip(columns, (field.strip() for field in fields), strict=True))))
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return Workload(layers=tuple(layers), name=said["name"], source=said.get("source", ""),
                    model_parallel=int(_number(said, "model_parallel", 1, whole=True)),
                    backward=said.get("backward", BACKWARD[0]))


def _layer(row: Mapping[str, str]) -> Layer:
    if not row["layer"]:
        raise UserError("a layer must have a name.")
    return Layer(name=row["layer"], update=_number(row, "update_ns") / 1e9,
                 **{name: _pass(row, name) for name in PASSES})


def _pass(row: Mapping[str, str], name: str) -> Pass:
    work = Work(flops=int(_number(row, f"{name}_flops", whole=True)),
                memory_bytes=int(_number(row, f"{name}_memory_bytes", whole=True)))
    if row.get(f"{name}_ns"):
        if work.flops:
            raise UserError(f"{name} has both {name}_ns and {name}_flops; give one.")
        work = replace(work, seconds=_number(row, f"{name}_ns") / 1e9)
    exchange, kind = None, row.get(f"{name}_collective", "").lower()
    if kind:
        known = {one.name.lower(): one for one in Collective}
        if kind not in known:
            raise UserError(f"{name}_collective must be one of {', '.join(known)}, not {kind!r}.")
        exchange = Exchange(collective=known[kind], bytes=int(_number(row, f"{name}_bytes", whole=True)),
                            group=row.get(f"{name}_group") or "all")
    elif _number(row, f"{name}_bytes"):
        raise UserError(f"{name}_bytes needs a {name}_collective.")
    return Pass(work=work, exchange=exchange, other=row.get(f"{name}_layer", ""))


def _number(row: Mapping[str, str], column: str, default: int = 0, *, whole: bool = False) -> float:
    text = str(row.get(column) or default)
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1e18:
        raise UserError(f"{column} must be {'an integer' if whole else 'a number'} from 0 to 1e18, not {text!r}.")
    return value


def write(workload: Workload, path: str | Path) -> None:
    """Write a workload, with those columns only that have something; :func:`read` gives an equal one back."""
    rows = []
    for layer in workload.layers:
        row: dict[str, str | int] = {"layer": layer.name, "update_ns": _written(layer.update * 1e9)}
        for name, one in layer.passes():
            work, exchange = one.work, one.exchange
            row |= {f"{name}_ns": "" if work.seconds is None else _written(work.seconds * 1e9) or "0",
                    f"{name}_flops": work.flops or "", f"{name}_memory_bytes": work.memory_bytes or "",
                    f"{name}_layer": one.other}
            if exchange:
                row |= {f"{name}_collective": exchange.collective.name.lower(), f"{name}_bytes": exchange.bytes,
                        f"{name}_group": "" if exchange.group == "all" else exchange.group}
        rows.append(row)
    columns = [column for column in COLUMNS if any(row.get(column) not in ("", None) for row in rows)]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        for key in _KEYS:
            file.write(f"# {key}: {' '.join(str(getattr(workload, key)).split())}\n")
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _written(value: float) -> str:
    """A number with as many digits as it needs."""
    text = f"{value:.12g}"
    return "" if text == "0" else text
