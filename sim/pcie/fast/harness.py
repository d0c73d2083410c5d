# SPDX-License-Identifier: Apache-2.0
"""Build the fast path for a card once, and run it.

::

    harness = build_card(*small_dma(128))
    result = harness.soak(requests=20_000, seed=1)
"""

import enum
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.header import c_header
from hw.pcie.config import PcieConfig
from sim.cpp.harness import HarnessFailed
from sim.pcie.completer import SPLITS
from sim.pcie.hard_block import LINKS
from sim.pcie.link import payload_rate
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["CardHarness", "Plant", "build_card"]

CLOCK_NS = 4.0

_SOURCES = ("arenas.h", "bench.h", "bits.h", "completer.h", "completion.h", "hard_block.h", "json.h", "judge.h",
            "link.h", "packets.h", "registers.h", "rules.h", "soak.h", "streams.h", "system.h", "tenants.h", "tlp.h")


class Plant(enum.IntEnum):
    """An error in the long random run, which must be found."""

    NONE = 0
    WRONG_BYTE = 1
    LOST_TAG = 2
    MISSING_COMPLETION = 3
    MISSING_WORD = 4


@dataclass(frozen=True)
class CardHarness:
    """The program of one card, ready to run."""

    engine: DmaConfig
    pcie: PcieConfig
    program: Program

    @property
    def link_bytes(self) -> float:
        """Bytes per cycle and direction of the link that fits the data width."""
        return payload_rate(*LINKS[self.pcie.data_width], 1, overhead=0) * CLOCK_NS

    def bench(self, *, sizes: Sequence[int], queues: Sequence[int], latency_ns: int, max_payload: int = 512,
              max_read: int = 512, split: str = "never", seed: int = 1, window: int = 25_000,
              timeout: float = 3600) -> dict[str, Any]:
        """Measure copies from one GPU to another: ``latencies`` in cycles, and ``throughput``.

        Parameters
        ----------
        sizes, queues : sequence of int
            Bytes of a copy; queues in use.
        latency_ns : int
            Of the memories.
        window : int
            Cycles of each measurement of throughput.

        Raises
        ------
        HarnessFailed
            If a TLP or a byte is wrong, or the card makes no progress.
        """
        return self._run("bench", timeout, {
            "sizes": ",".join(map(str, sizes)), "queues": ",".join(map(str, queues)),
            "latency": round(latency_ns / CLOCK_NS), "max-payload": max_payload, "max-read": max_read,
            "split": SPLITS_IN_CPP[split], "seed": seed, "window": window})

    def soak(self, *, requests: int, resets: int = 0, seed: int = 1, plant: Plant = Plant.NONE,
             timeout: float = 36_000) -> dict[str, Any]:
        """The long random run; the counts of what has happened, ``failures`` by number of status.

        Parameters
        ----------
        requests, resets : int
            At least this number of requests, and this number of resets: function-level, and link down, alternating.

        Raises
        ------
        HarnessFailed
            If anything is wrong.
        """
        return self._run("soak", timeout, {
            "requests": requests, "resets": resets, "seed": seed, "plant": int(plant)})

    def _run(self, mode: str, timeout: float, options: dict[str, object]) -> dict[str, Any]:
        command = [str(self.program.path), mode, "--link-bytes", f"{self.link_bytes:.6f}",
                   *(text for name, value in options.items() for text in (f"--{name}", str(value)))]
        try:
            done = subprocess.run(command, cwd=self.program.folder, capture_output=True, text=True, timeout=timeout,
                                  check=False)
        except subprocess.TimeoutExpired:
            raise HarnessFailed(f"The fast path for PCIe was stopped after {timeout} s without an end.") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode} and said nothing."]
            raise HarnessFailed(f"The fast path for PCIe stopped: {said[-1]}")
        result: dict[str, Any] = json.loads(done.stdout)
        if result["error"]:
            raise HarnessFailed(f"The card is wrong under the fast path for PCIe: {result['error']}"
                                f"\n  command {' '.join(command)}")
        return result


SPLITS_IN_CPP = {name: ("never", "random", "always").index(name) for name in SPLITS}
"""Numbers of the splits of completions in ``completer.h``."""


def build_card(engine: DmaConfig, pcie: PcieConfig, *, status: Status | None = None) -> CardHarness:
    """Build the program for a :class:`sim.pcie.dma_card.DmaCard` unless that was done before.

    Parameters
    ----------
    engine, pcie
        Its sizes.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    # Imported here, so that a wrong option is reported without waiting for the hardware description.
    from sim.cpp.clocked import ClockedInputs
    from sim.pcie.dma_card import DmaCard
    from sim.pcie.fast.header import card_header

    here, shared = Path(__file__).parent, Path(__file__).parents[2] / "cpp"
    program = build_program(
        Design(ClockedInputs, Design(DmaCard, engine, pcie)), name="fast_card", main=here / "main.cpp",
        sources=[*(here / source for source in _SOURCES), shared / "memory.h"],
        generated={"dmace.h": c_header(engine), "card.h": card_header(pcie)}, includes=[here, shared], status=status)
    return CardHarness(engine, pcie, program)
