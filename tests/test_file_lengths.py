# SPDX-License-Identifier: Apache-2.0
"""One file, one idea: no source file has more than 400 lines."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("hw", "sim", "dmace", "fpga", "tests", "scripts")
SUFFIXES = (".py", ".c", ".cpp", ".h", ".in")
LIMIT = 400


def test_no_source_file_is_too_long():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
               for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
               if path.suffix in SUFFIXES and "build" not in path.relative_to(ROOT).parts}
    assert len(lengths) > 300
    too_long = {name for name, lines in lengths.items() if lines > LIMIT}
    assert not too_long, f"Files of more than {LIMIT} lines: {sorted(too_long)}"
