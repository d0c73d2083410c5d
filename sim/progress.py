# SPDX-License-Identifier: Apache-2.0
"""Progress of a simulation, reported by the cocotb test to its parent process.

Runs inside the simulator: imports nothing heavy, and costs nothing without a listener.
"""

import json
import os
from typing import TextIO

__all__ = ["report"]

_CHANNEL = "DMACE_PROGRESS_FD"
_stream: TextIO | None = None


def report(**fields: object) -> None:
    """Report this test's progress to the parent: ``report(done=12, total=100, note="unaligned")``.

    The fields are free as long as JSON can carry them; the parent's ``progress`` callback of
    :meth:`sim.verilator.build.Build.run` receives them as one dict. Call it a few times a second, not every cycle.
    """
    global _stream
    if _stream is None:
        if _CHANNEL not in os.environ:
            return
        _stream = os.fdopen(int(os.environ[_CHANNEL]), "w", buffering=1, encoding="utf-8")
    _stream.write(json.dumps(fields) + "\n")
