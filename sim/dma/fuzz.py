# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz``: arbitrary bits at the DMA engine's doorbells, rings and registers, and the checks of it.

::

    program = build_fuzz(TINY)
    result = run_fuzz(program, seed=1, runs=1000)      # of sim.cpp.fuzz
    assert not result["finding"], result["job"]

A job is a list of steps: stores of any bits to the doorbells of a ring, of an ARK queue and of a native queue, any
descriptors, any value in any register that holds no address, error responses, revoked regions, and ``rst`` at any
moment, while memory delays, reorders and stalls. Checked are:

* no byte is written, and no read issued, outside the regions, words, records and flags of the queues;
* another queue, whose copies are valid, completes all of them, with the right bytes;
* afterwards RESET of every queue ends, and all queues copy right bytes and count all requests.

A job that reaches states of queues, results or counts that no other had is kept and changed further. A job with a
finding is shortened; its text replays it.
"""

from pathlib import Path

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.header import c_header
from sim.cpp.clocked import ClockedInputs
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["build_fuzz"]

_CPP = Path(__file__).parents[1] / "cpp"
_SOURCES = ("fuzz.h", "fuzz_job.h", "fuzz_main.h", "fuzz_steps.h", "epoch.h", "engine.h", "ports.h", "axi_memory.h",
            "memory.h")


def build_fuzz(config: DmaConfig, *, engine: Design | None = None, checked: bool = False,
               status: Status | None = None) -> Program:
    """Build the program for ``DmaEngine(config)``, which must have 4 queues, 2 extended ones and 16 regions or more.

    Parameters
    ----------
    config : DmaConfig
    engine : Design, optional
        In place of ``DmaEngine(config)``, with the same ports.
    checked : bool
        With the assertions of the design, which stop it; slower.
    status : callable, optional
        Receives the status of the build.

    Raises
    ------
    ValueError
        If the configuration is too small.
    BuildFailed
        If Verilator or the compiler fails.
    """
    from hw.dma_engine.engine import DmaEngine

    if config.queues < 4 or config.regions < 16:
        raise ValueError(f"The fuzzer needs 4 queues and 16 regions, not {config.queues} and {config.regions}")
    return build_program(Design(ClockedInputs, engine or Design(DmaEngine, config)), name="fuzz",
                         main=_CPP / "fuzz.cpp", sources=[_CPP / source for source in _SOURCES],
                         generated={"dmace.h": c_header(config)},
                         defines={"DMACE_DATA_BYTES": config.beat_bytes, "DMACE_ID_BITS": config.axi_id_width},
                         checked=checked, status=status)
