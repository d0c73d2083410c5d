# SPDX-License-Identifier: Apache-2.0
"""Values that a user sets by name: ``chunk_bytes=128KiB``, ``endpoint.fsms=8``, ``links.1.bytes_per_s=50GB/s``.

A name is a path through the fields of a configuration; a number in it is an index into a tuple.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_args

from hw.errors import UserError

__all__ = ["Setting", "apply", "flatten", "names", "parse_assignments", "quantity"]

Setting = bool | int | float | str | None
"""Value of a setting."""

# A frozen dataclass of settings, or a tuple of such.
_Config = TypeVar("_Config")

_PREFIXES: dict[str, int | float] = {
    "": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_QUANTITY = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
                       r"(Ki|Mi|Gi|Ti|[kKMGTmunp])?(B/s|B|Hz|s|FLOPS)?")


def quantity(text: Setting) -> Setting:
    """A number of ``64``, ``64KiB``, ``25GB/s``, ``402ns`` or ``1.245GHz``, in units without a prefix.

    An integer where nothing is behind the point; None for ``none``, a bool for ``true`` and ``false``, else the text.
    """
    if not isinstance(text, str):
        return text
    word = text.strip()
    if word.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word.lower()]
    found = _QUANTITY.fullmatch(word)
    if not found:
        return word
    number, prefix = found[1].replace("_", ""), found[2] or ""
    if re.fullmatch(r"[+-]?\d+", number) and isinstance(_PREFIXES[prefix], int):
        return int(number) * _PREFIXES[prefix]
    # 402e-9, and not 402 * 1e-9, is the number nearest to 402 ns.
    exponents = {"k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "m": -3, "u": -6, "n": -9, "p": -12}
    if prefix in exponents:
        mantissa, _, exponent = number.lower().partition("e")
        value = float(f"{mantissa}e{int(exponent or 0) + exponents[prefix]}")
    else:
        value = float(number) * _PREFIXES[prefix]
    return int(value) if value == int(value) and abs(value) >= 1 and abs(value) < 1e15 else value


def parse_assignments(texts: Iterable[str] | None, option: str = "--set") -> dict[str, Setting]:
    """Dict of ``NAME=VALUE`` texts."""
    made = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"{option} must be NAME=VALUE, not {text!r}.")
        made[name.strip()] = quantity(value)
    return made


def flatten(config: object) -> dict[str, Setting]:
    """Name -> value of all that :func:`apply` can change in a configuration."""
    def value(at: Any, path: str) -> Any:
        for part in path.split("."):
            at = at[int(part)] if isinstance(at, tuple) else getattr(at, part)
        return at
    return {name: value(config, name) for name in names(config)}


def names(config: Any, prefix: str = "") -> list[str]:
    """Names of :func:`flatten`: all numbers and texts, but not what something is called."""
    found: list[str] = []
    items: Iterable[tuple[int | str, Any]] = enumerate(config) if isinstance(config, tuple) else (
        (field.name, getattr(config, field.name)) for field in fields(config))
    for name, value in items:
        if is_dataclass(value) or (isinstance(value, tuple) and value and all(map(is_dataclass, value))):
            found += names(value, f"{prefix}{name}.")
        elif isinstance(value, int | float | str | None) and name != "name":
            found.append(f"{prefix}{name}")
    return found


def apply(config: _Config, settings: Mapping[str, Setting]) -> _Config:
    """A copy of a configuration with these values: a dict of names and values, in any order."""
    known = names(config)
    tree: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise UserError(f"there is no setting {name!r}; there are {', '.join(known)}.")
        *path, last = name.split(".")
        at = tree
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    made: _Config = _set(config, tree, "")
    return made


def _set(config: Any, tree: Mapping[str, Any], prefix: str) -> Any:
    """Replace all values of a level at once, since they are checked together."""
    if isinstance(config, tuple):
        return tuple(_set(one, tree[str(number)], f"{prefix}{number}.") if str(number) in tree else one
                     for number, one in enumerate(config))
    changes: dict[str, Any] = {}
    for here, value in tree.items():
        old = getattr(config, here)
        if isinstance(value, dict):
            changes[here] = _set(old, value, f"{prefix}{here}.")
            continue
        annotation = next(field.type for field in fields(config) if field.name == here)
        kinds = get_args(annotation) or (annotation,)
        if type(value) not in ((*kinds, int) if float in kinds else kinds):
            raise UserError(f"{prefix}{here} must be like {old!r}, not {value!r}.")
        changes[here] = value
    return replace(config, **changes) if changes else config
