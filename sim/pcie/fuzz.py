# SPDX-License-Identifier: Apache-2.0
"""``dmace soak fuzz --engine pcie``: arbitrary TLPs at a small card, and the checks of it.

::

    program = build_fuzz()
    result = run_fuzz(program, seed=1, runs=100)
    assert not result["finding"], result["job"]

A job is a list of steps (``sim/pcie/fast/fuzz_job.h``): requests of any bits on CQ, also withdrawn ones; completions
that are lost, repeated, late, changed, poisoned, have the status UR, CA or CRS or another length or byte count, or are
forged, in the link and as packets of any bits on RC; time-outs of the hard block; stores of any words, reads and writes
of registers; other limits in the configuration space, no bus mastering, stalls of all four interfaces; function-level
resets and failures of the link at any moment. Checked are:

* each request of the card is legal, its tag is not in use, and it is a read of a queue's source or a write to a queue's
  destination, a completion word or a message;
* each non-posted request on CQ is completed, in order, with data as far as it is legal, otherwise with UR;
* copies of another queue, which are valid, complete. Those whose requests have met no completion but their own, none of
  them lost, changed or late, give the right bytes and no error;
* afterwards RESET of every queue ends, then a function-level reset ends, or tags expire; then all queues copy right
  bytes, and every tag is used again.

A job that reaches states that no other had is kept and changed further. A job with a finding is shortened; its text
replays it.
"""

from pathlib import Path

from amaranth.lib.wiring import Component

from hw.dma_engine.header import c_header
from sim.cpp.clocked import ClockedInputs
from sim.pcie.dma_card import DmaCard, small_dma
from sim.pcie.fast.header import card_header
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["FUZZED_WIDTH", "build_fuzz"]

FUZZED_WIDTH = 128
"""Bits of the card that is fuzzed by default."""

_HERE = Path(__file__).parent / "fast"
_CPP = _HERE.parents[1] / "cpp"
_SOURCES = (*(_HERE / name for name in (
    "arenas.h", "bits.h", "completer.h", "completion.h", "fuzz.h", "fuzz_faults.h", "fuzz_job.h", "fuzz_replies.h",
    "fuzz_tenants.h", "hard_block.h", "link.h", "packets.h", "registers.h", "rules.h", "streams.h", "system.h",
    "tlp.h")), *(_CPP / name for name in ("fuzz_main.h", "fuzz_steps.h", "memory.h")))


def build_fuzz(width: int = FUZZED_WIDTH, *, component: Component | None = None,
               status: Status | None = None) -> Program:
    """Build the program for a DMA engine with small tables behind its adapter.

    Parameters
    ----------
    width : int
        Bits of the hard block's interfaces: 128, 256 or 512.
    component : Component, optional
        In place of ``DmaCard(*small_dma(width))``, with the same ports.
    status : callable, optional
        Receives the status of the build.

    Raises
    ------
    BuildFailed
        If Verilator or the compiler fails.
    """
    engine, adapter = small_dma(width)
    design = Design(ClockedInputs, Design(DmaCard, engine, adapter)) if component is None else ClockedInputs(component)
    return build_program(design, name="pcie_fuzz", main=_HERE / "fuzz.cpp", sources=_SOURCES, includes=[_HERE, _CPP],
                         generated={"dmace.h": c_header(engine), "card.h": card_header(adapter)}, status=status)
