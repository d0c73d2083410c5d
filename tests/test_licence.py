# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence, and the package the same one."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TAG = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = ("dmace", "hw", "sim", "fpga", "tests", "scripts", "examples")
SUFFIXES = (".py", ".sh", ".c", ".h", ".cpp", ".cu", ".v", ".vlt")


def _first_lines(path):
    return path.read_text(encoding="utf-8").splitlines()[:2]


def test_every_source_names_its_licence():
    missing = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
               if path.suffix in SUFFIXES and not any(TAG in line for line in _first_lines(path))]
    assert not missing


def test_the_package_has_the_same_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")[:200]
