# SPDX-License-Identifier: Apache-2.0
"""Runs a program of ``sim/cpp/fuzz_main.h``: random jobs, or the job of a file."""

import json
import subprocess
from pathlib import Path
from typing import Any

from sim.cpp.harness import HarnessFailed
from sim.verilator.program import Program

__all__ = ["run_fuzz"]


def run_fuzz(program: Program, *, seed: int = 1, runs: int = 1, job: str | Path = "",
             timeout: float = 3600) -> dict[str, Any]:
    """Run random jobs up to the first with a finding, or the job of a file.

    Returns ``runs``, ``stores`` (words at doorbells), ``checked`` (valid operations), ``features`` (states that
    were reached), ``kept`` jobs, the ``finding``, a sentence or "", and the ``job``, its text or "".

    Raises
    ------
    HarnessFailed
        If the program did not end, or the job is not one.
    """
    command = [str(program.path), "--seed", str(seed), "--runs", str(runs), "--job", str(job)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise HarnessFailed(f"The fuzzer was stopped after {timeout} s without an end.") from None
    if done.returncode:
        raise HarnessFailed(f"The fuzzer stopped: {done.stderr.strip() or f'status {done.returncode}'}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
