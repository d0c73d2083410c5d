# SPDX-License-Identifier: Apache-2.0
"""Sources with one change: a copy of all, and a test that runs there, for lists of deliberate bugs; or one module."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeVar

__all__ = ["ROOT", "changed_module", "check_fits", "chosen", "run_changed"]

ROOT = Path(__file__).resolve().parents[1]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


def check_fits(path: str, old: str, *tests: str) -> None:
    """Assert that ``old`` occurs once in the file ``path``, and that the tests exist."""
    assert (ROOT / path).read_text().count(old) == 1
    for test in tests:
        file, name = test.split("::")
        assert f"def {name.split('[')[0]}(" in (ROOT / file).read_text()


def chosen(bugs: Sequence[Named], names: Sequence[str]) -> list[Named]:
    """The bugs of these names, or all of them. Raises SystemExit, with a sentence, if there is none of a name."""
    if unknown := set(names) - {bug.name for bug in bugs}:
        print(f"There is no bug {min(unknown)!r}; there are: {', '.join(bug.name for bug in bugs)}.", file=sys.stderr)
        raise SystemExit(2)
    return [bug for bug in bugs if not names or bug.name in names]


def run_changed(name: str, path: str, old: str, new: str, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test where ``old``, which occurs once in the file ``path``, is ``new``; return pytest's status and output.

    Parameters
    ----------
    name : str
        Of the copy, ``build/bugs/NAME``, which is removed afterwards; no other one of this name may run.
    path, old, new : str
    test : str
        ``FILE::NAME``.
    *options : str
        Of pytest.
    """
    tree = ROOT / "build" / "bugs" / name.replace(" ", "-")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for folder in ("hw", "tests", "sim", "fpga", "dmace"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "build").mkdir()
    if (ROOT / "build/linux").is_dir():         # programs of Debian, such as Icarus
        (tree / "build/linux").symlink_to(ROOT / "build/linux")
    changed = tree / path
    changed.write_text(changed.read_text().replace(old, new))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, test], cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    shutil.rmtree(tree)
    return result


def changed_module(module: str, old: str, new: str) -> ModuleType:
    """A module of ``hw`` with other source text; ``old`` must occur once."""
    original = importlib.import_module(module)
    text = Path(str(original.__file__)).read_text(encoding="utf-8")
    assert text.count(old) == 1
    made = ModuleType(module)
    made.__package__, made.__file__ = original.__package__, original.__file__
    exec(compile(text.replace(old, new), str(original.__file__), "exec"), made.__dict__)
    return made
