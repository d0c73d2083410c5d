# SPDX-License-Identifier: Apache-2.0
"""Process groups: names and global ranks, as PyTorch and ASTRA-sim write them.

PyTorch's execution trace observer records a node ``## process_group:init ##`` whose only input is a text: a JSON list
of objects with ``pg_name``, ``ranks`` (none: all) and ``group_size``. Chakra's converter makes a METADATA node of it
and writes its inputs as Python does, ``['[{...}]']``; ASTRA-sim strips the two characters on each side. ASTRA-sim's
communicator file is a JSON object: name -> ranks. A collective without a name, or with ``0`` where that is not defined,
belongs to all ranks.
"""

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hw.errors import UserError

from .files import load_json

__all__ = ["METADATA", "communicators", "merged", "parsed", "resolve", "written"]

METADATA = "## process_group:init ##"
"""Name of the node."""

MOST_RANKS = 1 << 20

Groups = dict[str, tuple[int, ...]]


def parsed(text: str, where: str) -> Groups:
    """Groups of the text of a node; ``where`` begins messages."""
    try:
        try:
            made = json.loads(text)
        except json.JSONDecodeError:
            made = next(json.loads(one) for one in ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, StopIteration, RecursionError, MemoryError):
        raise UserError(f"{where}: its process groups are not a JSON list: {text[:60]!r}.") from None
    if not isinstance(made, list):
        raise UserError(f"{where}: its process groups are not a JSON list: {text[:60]!r}.")
    groups: Groups = {}
    for one in made:
        if not isinstance(one, Mapping) or "pg_name" not in one:
            raise UserError(f"{where}: a process group has no pg_name: {str(one)[:60]}.")
        name = str(one["pg_name"])
        groups[name] = _ranks(one.get("ranks", []), f"{where}: process group {name!r}")
        size = one.get("group_size")
        if not groups[name] and type(size) is int and 0 < size <= MOST_RANKS:
            groups[name] = tuple(range(size))
    return groups


def communicators(path: Path) -> Groups:
    """Groups of a communicator file of ASTRA-sim: a JSON object, name -> ranks."""
    made = load_json(path, "a communicator file")
    if not isinstance(made, Mapping):
        raise UserError(f"{path} is not a communicator file: it is not a JSON object of names and ranks.")
    return {str(name): _ranks(ranks, f"{path}: group {name!r}") for name, ranks in made.items()}


def merged(several: Iterable[tuple[Path, Mapping[str, tuple[int, ...]]]], count: int) -> Groups:
    """Groups of all traces together: each has those of its own rank, and names mean the same in all.

    Parameters
    ----------
    several : iterable
        File and its groups.
    count : int
        Number of ranks.
    """
    found: Groups = {}
    first: dict[str, Path] = {}
    for path, groups in several:
        for name, ranks in groups.items():
            full = ranks or tuple(range(count))
            if outside := [rank for rank in full if rank >= count]:
                raise UserError(f"{path}: process group {name!r} has rank {outside[0]}, and there are traces of "
                                f"{count} rank{'s' if count > 1 else ''}.")
            if found.setdefault(name, full) != full:
                raise UserError(f"process group {name!r} has ranks {_list(found[name])} in {first[name]}, and "
                                f"{_list(full)} in {path}.")
            first.setdefault(name, path)
    return found


def resolve(name: str, groups: Mapping[str, tuple[int, ...]], count: int, where: str) -> tuple[int, ...]:
    """Global ranks of a group."""
    if name in groups:
        return groups[name]
    if name in ("", "0"):
        return tuple(range(count))
    known = ", ".join(sorted(groups)) or "none"
    raise UserError(f"{where}: there is no process group {name!r}; the trace has {known}.")


def written(groups: Mapping[str, tuple[int, ...]]) -> str:
    """Text of the inputs of a METADATA node."""
    rows = [{"pg_name": name, "pg_desc": "", "backend_config": "", "ranks": list(ranks), "group_size": len(ranks),
             "group_count": len(groups)} for name, ranks in groups.items()]
    return f"['{json.dumps(rows)}']"


def _ranks(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(rank) is int and rank >= 0 for rank in value):
        raise UserError(f"{where} must have a list of ranks, not {str(value)[:60]}.")
    if len(set(value)) != len(value):
        raise UserError(f"{where} has rank {next(rank for rank in value if value.count(rank) > 1)} twice.")
    return tuple(value)


def _list(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
