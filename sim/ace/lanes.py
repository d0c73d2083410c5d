# SPDX-License-Identifier: Apache-2.0
"""Build a lane with a C++ harness once, and send words through it.

::

    lanes = build_lanes()
    results = lanes.run(a, b, control(Op.SUM, DType.BF16))
"""

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.lib.wiring import Component

from hw.ace.numerics.alu import Lane
from hw.ace.numerics.formats import DType, Op, check_types
from hw.errors import UserError
from sim.verilator.program import Program, build_program

__all__ = ["Lanes", "LanesFailed", "build_lanes", "control"]


class LanesFailed(UserError):
    """The harness ended prematurely."""

    status = 1


def control(op: Op, a_type: DType, b_type: DType | None = None, o_type: DType | None = None) -> int:
    """Control word of a record; ``b_type`` and ``o_type`` are as ``a_type`` unless given."""
    b_type, o_type = a_type if b_type is None else b_type, a_type if o_type is None else o_type
    check_types(a_type, b_type, o_type)
    return a_type | b_type << 4 | o_type << 8 | op << 12


@dataclass(frozen=True)
class Lanes:
    """A lane that was built; its results come ``latency`` cycles after the operands."""

    program: Program
    latency: int

    def run(self, a: npt.NDArray[np.uint32], b: npt.NDArray[np.uint32],
            controls: int | npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Words that the lane makes of ``a`` and ``b``, one pair each cycle.

        Parameters
        ----------
        a, b : arrays
            32-bit words, as unsigned integers.
        controls : int or array
            From :func:`control`, for all or for each.

        Raises
        ------
        LanesFailed
            If the harness stops, or gives another number of words than it got.
        """
        records = np.empty((len(a), 3), "<u4")
        records[:, 0], records[:, 1], records[:, 2] = a, b, controls
        with tempfile.TemporaryDirectory(prefix="dmace-lanes-") as folder:
            source, made = Path(folder) / "operands", Path(folder) / "results"
            records.tofile(source)
            done = subprocess.run([self.program.path, source, made, str(self.latency)], capture_output=True,
                                  text=True, check=False)
            if done.returncode:
                raise LanesFailed(f"The harness of the lane ended with status {done.returncode}. {done.stderr}".strip())
            results: npt.NDArray[np.uint32] = np.fromfile(made, "<u4")
        if len(results) != len(records):
            raise LanesFailed(f"The harness of the lane gave {len(results)} words for {len(records)}")
        return results


def build_lanes(component: Component | None = None, *,
                status: Callable[[str, int, int], None] | None = None) -> Lanes:
    """Build the harness around a :class:`Lane` unless that was done before, and return a :class:`Lanes`.

    Parameters
    ----------
    component : Component
        The design, if not a :class:`Lane` as it comes; with the same ports and a ``LATENCY``.
    status : callable or None
        Receives ``(what, done, total)`` as the build progresses.
    """
    lane: Any = Lane() if component is None else component
    main = Path(__file__).with_name("lanes.cpp")
    return Lanes(build_program(lane, name="ace_lane", main=main, status=status), lane.LATENCY)
