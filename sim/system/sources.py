# SPDX-License-Identifier: Apache-2.0
"""Source files that a result depends on: a module, and all of this repository that it imports."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["digest", "reachable"]

ROOT = Path(__file__).parents[2]

PACKAGES = ("sim.system", "hw.ace")
"""Other packages give the simulator nothing but errors and names."""


@cache
def digest(module: str) -> str:
    """Hash of the sources of a module like ``sim.system.experiment``."""
    made = hashlib.sha256()
    for path in sorted(reachable(module)):
        made.update(path.read_bytes())
    return made.hexdigest()


def reachable(module: str) -> set[Path]:
    """Files of a module and of all modules that it imports, at any depth, of :data:`PACKAGES`."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if path is not None and path not in found:
            found.add(path)
            waiting += _imports(name, path)
    return found


def _file(name: str) -> Path | None:
    base = ROOT.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _imports(name: str, path: Path) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(PACKAGES))
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[:1 - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            if base.startswith(PACKAGES):
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
