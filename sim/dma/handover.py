# SPDX-License-Identifier: Apache-2.0
"""Checks of ``dmace soak handover``: queues are reset while memory withholds responses, and memory changes owners.

::

    program = build_handover(TINY)
    result = run_handover(program, seed=1, runs=2000)
    assert not result["findings"]

Each run has some epochs of one queue, in native, ARK or ring mode, beside another that stays. Memory withholds any
number of the beats of a read, write responses, or all transfers of AR, AW or W from some cycle on. An epoch ends with
RESET, which may have to abandon responses, with ``rst``, or regularly. After that no byte may be stored at its
addresses, QUIESCE must report when memory has no more outstanding responses, and delayed responses after ``rst`` must
be dropped and counted.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.header import c_header
from sim.cpp.clocked import ClockedInputs
from sim.cpp.harness import HarnessFailed
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["build_handover", "run_handover"]

_CPP = Path(__file__).parents[1] / "cpp"
_SOURCES = ("handover.h", "epoch.h", "withholding.h", "engine.h", "ports.h", "axi_memory.h", "memory.h")


def build_handover(config: DmaConfig, *, status: Status | None = None) -> Program:
    """Build the program for ``DmaEngine(config)``, which must have 4 queues or more; see :func:`build_program`.

    The design's own assertions stop it.
    """
    from hw.dma_engine.engine import DmaEngine

    return build_program(Design(ClockedInputs, Design(DmaEngine, config)), name="handover", main=_CPP / "handover.cpp",
                         sources=[_CPP / source for source in _SOURCES], generated={"dmace.h": c_header(config)},
                         defines={"DMACE_DATA_BYTES": config.beat_bytes, "DMACE_ID_BITS": config.axi_id_width},
                         checked=True, status=status)


def run_handover(program: Program, *, seed: int, runs: int, timeout: float = 3600) -> dict[str, Any]:
    """Run with the seeds from ``seed`` on, up to the first with a finding.

    Counts in the result: ``runs``, ``epochs``, ``requests``, ``resets``, RESETs with abandoned responses
    (``abandoned``) and those ended only by memory that moved again (``late_ends``), epochs that ``ended_regularly``,
    dropped responses after ``rst`` (``unexpected``); and ``findings``, sentences.

    Raises
    ------
    HarnessFailed
        If the program did not end.
    """
    command = [str(program.path), "--seed", str(seed), "--runs", str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise HarnessFailed(f"The handover program was stopped after {timeout} s without an end.") from None
    if done.returncode:
        # Verilator's assertions speak on the standard output.
        said = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
        raise HarnessFailed(f"The handover program stopped: {said}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
