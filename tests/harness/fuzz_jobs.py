# SPDX-License-Identifier: Apache-2.0
"""Jobs of the fuzzers: files that replay them, and lines that are no step."""

from pathlib import Path
from typing import Any

import pytest

from sim.cpp.fuzz import run_fuzz
from sim.cpp.harness import HarnessFailed
from sim.verilator.program import Program

__all__ = ["check_finding", "check_job", "check_wrong_lines"]

MOST_LINES = 40
"""Lines of the job of a finding, which the fuzzer has shortened."""


def check_job(program: Program, text: str, folder: Path) -> dict[str, Any]:
    """Run a job twice and return its result, which is the same both times and no finding."""
    path = folder / "a.job"
    path.write_text(text)
    one, again = (run_fuzz(program, job=path) for _ in range(2))
    assert one == again and one["finding"] == ""
    return one


def check_wrong_lines(program: Program, folder: Path) -> None:
    """A line that is no step is refused with its number."""
    path = folder / "wrong.job"
    for wrong in ("stroe 1\n", "wait\n", "wait 0x1 0x2\n", "memory 1 0 99\n"):
        path.write_text(wrong)
        with pytest.raises(HarnessFailed, match=f"Line 1 of the job is no step: {wrong.strip()}"):
            run_fuzz(program, job=path)


def check_finding(program: Program, result: dict[str, Any], folder: Path) -> None:
    """The job of a finding is short, and its file gives the same finding."""
    assert result["finding"] and result["job"].count("\n") < MOST_LINES
    path = folder / "finding.job"
    path.write_text(result["job"])
    assert run_fuzz(program, job=path)["finding"] == result["finding"]
