# SPDX-License-Identifier: Apache-2.0
"""Run a Yosys script with the ``pyosys`` wheel: ``python -m fpga.pyosys SCRIPT``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    from pyosys import libyosys

    design = libyosys.Design()
    for command in Path(sys.argv[-1]).read_text(encoding="utf-8").splitlines():
        # Yosys buffers its own output until a pipe is full.
        print(f"-- {command}", flush=True)
        libyosys.run_pass(command, design)
