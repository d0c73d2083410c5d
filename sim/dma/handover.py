# SPDX-License-Identifier: Apache-2.0
"""What ``dmace soak handover`` runs: queues are reset while memory keeps answers back, and their memory changes hands.

::

    program = build_handover(TINY)
    result = run_handover(program, seed=1, runs=2000)
    assert not result["findings"]

Each run has some lives of one queue, in native, ARK or ring mode, beside another that stays. Memory keeps back any
number of the beats of a read, write responses, or all transfers of AR, AW or W from some moment on. A life ends with
RESET, which may have to give up, with ``rst``, or well. After that not one byte may be stored at its addresses, QUIESCE
must say when memory owes it no more answers, and what comes late after ``rst`` must be dropped and counted.
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
_SOURCES = ("withholding.h", "engine.h", "ports.h", "axi_memory.h", "memory.h")


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

    The result counts ``runs``, ``lives``, ``requests``, ``resets``, those that left something in flight (``given_up``)
    and those that ended only when memory moved again (``late_ends``), lives that ``ended_well``, answers after ``rst``
    that were dropped (``unexpected``); and has ``findings``, sentences.

    Raises
    ------
    HarnessFailed
        If the program did not come to its end.
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
