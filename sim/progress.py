"""Progress of a simulation, told by the cocotb test to the process that started it.

Runs inside the simulator: imports nothing heavy, and costs nothing where nobody listens.
"""

import json
import os
from typing import TextIO

__all__ = ["report"]

_CHANNEL = "DMACE_PROGRESS_FD"
_stream: TextIO | None = None


def report(**fields: object) -> None:
    """Tell the parent how far this test is: ``report(done=12, total=100, note="unaligned")``.

    The fields are free as long as JSON can carry them; the parent's ``progress`` callback of
    :meth:`sim.verilator.build.Build.run` receives them as one dict. Call it a few times a second, not every cycle.
    """
    global _stream
    if _stream is None:
        if _CHANNEL not in os.environ:
            return
        _stream = os.fdopen(int(os.environ[_CHANNEL]), "w", buffering=1, encoding="utf-8")
    _stream.write(json.dumps(fields) + "\n")
