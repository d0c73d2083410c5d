# SPDX-License-Identifier: Apache-2.0
"""Build the harness of an engine once, and run it.

::

    harness = build_harness(WIDE)
    result = harness.run([Flow(count=16, size=64, depth=64)], [Target(read_latency=500)], window=8000)
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hw.dma_engine.config import DmaConfig
from hw.dma_engine.header import c_header
from hw.dma_engine.registers import register_map
from hw.errors import UserError
from sim.verilator.build import Status
from sim.verilator.design import Design
from sim.verilator.program import Program, build_program

__all__ = ["Flow", "Harness", "HarnessFailed", "Target", "build_harness"]

_SOURCES = ("traffic.h", "flow.h", "engine.h", "ports.h", "axi_memory.h", "memory.h", "pairs.h")


class HarnessFailed(UserError):
    """The engine failed a check of the harness, or the harness could not be run."""

    status = 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """A part of the memory: cycles from AR to the first R beat that it can give, from the last W beat to B, and beats
    per cycle (0 for any number). ``limit`` and ``slow`` are the values of TARGET_LIMIT."""

    read_latency: int = 100
    write_latency: int = 100
    read_rate: float = 0
    write_rate: float = 0
    limit: int = 0
    slow: bool = False


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Copies of one size, posted to the queues ``first`` to ``first + count - 1``.

    Parameters
    ----------
    size : int
        Bytes of each request.
    depth : int
        Most requests of a queue that are posted and not complete by SC in memory.
    waiting : int
        Most requests of a queue that are posted and whose first read is not on the bus; 0 for any number. No GPU sees
        that; it keeps queues of any depth full, as a benchmark of the engine alone needs.
    requests : int
        Per queue, then the flow ends; 0 for no end.
    start : int
        Cycle of the first.
    burst : int
        Words that a bridge merges into one store burst.
    source, destination : int
        Targets.
    source_shift, destination_shift : int
        Bytes beyond alignment.
    random_shift : int
        Both random instead, below this number of bytes, for each request; at most 4096.
    size_from : int
        Random sizes, from this to ``size``, half of them two beats at most beyond this; 0 for all of ``size``.
    across : int
        1: the middle of each source is at a multiple of 4 KiB, so that it is read in two bursts; sizes of 2 to 4096.
    rate : float
        Requests per cycle of all queues together; 0 for as fast as they may.
    misbehaves : int
        1: each request goes beyond its region; 2: each word is malformed; 3: the queue was never started. None of it
        moves a byte, no thread waits for it, and the posting never ends.
    ring : int
        Post by descriptor ring, with this number of words in each descriptor, 1 to 3; 0 for native words.
    records : int
        1: each descriptor of the ring requests a record.
    pair : int
        1: the ring prefetches as many descriptors as both rings of its pair.
    target, limit, priority, weight : int
        Fields of QUEUE_CONFIG and QUEUE_LIMIT, for each queue.
    """

    first: int = 0
    count: int = 1
    size: int = 64
    depth: int = 1
    waiting: int = 0
    requests: int = 0
    start: int = 0
    burst: int = 1
    source: int = 0
    destination: int = 0
    source_shift: int = 0
    destination_shift: int = 0
    random_shift: int = 0
    size_from: int = 0
    across: int = 0
    rate: float = 0
    target: int = 0
    limit: int = 0
    priority: int = 0
    weight: int = 0
    misbehaves: int = 0
    ring: int = 0
    records: int = 0
    pair: int = 0


@dataclass(frozen=True)
class Harness:
    """A harness of one engine, ready to run."""

    config: DmaConfig
    program: Program

    def run(self, flows: Sequence[Flow], targets: Sequence[Target] = (Target(),), *, warmup: int = 0, window: int = 0,
            limit: int = 1_000_000, seed: int = 1, out_of_order: bool = False, jitter: int = 0, stall: float = 0.0,
            plant: int = 0, registers: Mapping[str, Mapping[str, int]] | None = None,
            timeout: float = 600) -> dict[str, Any]:
        """Run and return what was measured; with the same arguments, the same numbers but for seconds.

        First ``warmup`` cycles, then ``window`` cycles that are measured, then until the flows that end have ended.

        Parameters
        ----------
        flows, targets : sequence
            Requests and memory.
        limit : int
            Cycles after which requests that have not ended are an error.
        out_of_order : bool
            Responses that are due may come in any order.
        jitter : int
            Most additional cycles of a burst.
        stall : float
            Probability that a channel of the memory stalls in a cycle.
        plant : int
            Number, from 1, of the R beat in which the memory turns one bit around; 0 for none.
        registers : dict
            Register -> values of its fields, by name; written before the first request.

        Raises
        ------
        HarnessFailed
            If bytes or completion words are wrong, words were refused, requests failed or never ended.
        """
        command = [str(self.program.path), "--seed", str(seed), "--warmup", str(warmup), "--window", str(window),
                   "--limit", str(limit), "--jitter", str(jitter), "--stall", str(stall), "--plant", str(plant)]
        command += ["--out-of-order"] if out_of_order else []
        described = register_map(self.config)
        for name, fields in (registers or {}).items():
            command += ["--register", f"{described[name].offset}={described[name].pack(**fields)}"]
        for name, parts in (("--target", targets), ("--flow", flows)):
            for part in parts:
                command += [name, ",".join(f"{key}={int(value) if isinstance(value, bool) else value}"
                                           for key, value in asdict(part).items())]
        try:
            done = subprocess.run(command, cwd=self.program.folder, capture_output=True, text=True, timeout=timeout,
                                  check=False)
        except subprocess.TimeoutExpired:
            raise HarnessFailed(f"The fast harness was stopped after {timeout} s without an end.") from None
        if done.returncode:
            raise HarnessFailed(f"The fast harness stopped: {_reason(done)}")
        result: dict[str, Any] = json.loads(done.stdout)
        if result["errors"]:
            first, *more = result["errors"]
            also = f" And {len(more)} more of that kind." if more else ""
            raise HarnessFailed(f"The engine is wrong under the fast harness: {first}{also}"
                                f"\n  command {' '.join(command)}")
        return result


def build_harness(config: DmaConfig, *, checked: bool = False, verilog: tuple[str, str] | None = None,
                  coverage: bool = False, random_initial: bool = False, status: Status | None = None) -> Harness:
    """Build the harness around ``DmaEngine(config)`` unless that was done before, and return a :class:`Harness`.

    Parameters
    ----------
    config : :class:`DmaConfig`
        The engine's sizes.
    checked : bool
        With the protocol monitors on each bus, which stop the run; slower.
    verilog : (str, str), optional
        Name of the top module and Verilog to simulate instead, with the ports of the engine behind flip-flops.
    coverage : bool
        Count lines, branches and toggles.
    random_initial : bool
        Registers and memories begin with random values, which the seed of a run chooses, as those of silicon do.
    status : callable or None
        Receives ``(what, done, total)`` during the build.
    """
    # Imported here, so that a wrong option is reported without waiting for the hardware description.
    from hw.dma_engine.engine import DmaEngine
    from sim.cpp.clocked import ClockedInputs
    from sim.dma.checked import CheckedDma

    here = Path(__file__).parent
    name, design = verilog or ("fast_checked" if checked else "fast",
                               Design(ClockedInputs, Design(CheckedDma if checked else DmaEngine, config)))
    made = build_program(design, name=name, main=here / "main.cpp",
                         sources=[here / source for source in _SOURCES], generated={"dmace.h": c_header(config)},
                         defines={"DMACE_DATA_BYTES": config.beat_bytes, "DMACE_ID_BITS": config.axi_id_width},
                         checked=checked, coverage=coverage, random_initial=random_initial, status=status)
    return Harness(config, made)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Error message of a program that ended prematurely."""
    text = f"{done.stdout}\n{done.stderr}"
    if found := re.search(r"(.*)\n?.*\[(\d+)\] %Error: (\S+): Assertion failed", text):
        return f"an assertion of the hardware failed: {found[1].strip()} ({found[3]})."
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with status {done.returncode} and said nothing."
