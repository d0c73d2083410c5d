# SPDX-License-Identifier: Apache-2.0
"""A Tcl interpreter for scripts of Vivado, whose commands are stand-ins that record their calls."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["run", "stand_ins"]


def run(script: str, folder: Path) -> str:
    """Output of the interpreter. Raises an exception with the message of an error in the script."""
    if program := shutil.which("tclsh"):
        # From a file: on standard input, the interpreter would continue after an error.
        (folder / "script.tcl").write_text(script)
        done = subprocess.run([program, folder / "script.tcl"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout
    tkinter = pytest.importorskip("tkinter")
    printed: list[str] = []
    interpreter = tkinter.Tcl()
    interpreter.createcommand("puts", lambda text: printed.append(text))
    interpreter.eval(script)
    return "\n".join(printed) + "\n"


def stand_ins(commands: Iterable[str]) -> str:
    """Tcl in which each command appends its call to the list ``calls``; any other unknown command is an error."""
    return ("set calls [list]\nforeach command {" + " ".join(commands)
            + "} {\n    proc $command args [format {lappend ::calls [list %s {*}$args]; return $args} $command]\n}\n")
