# SPDX-License-Identifier: Apache-2.0
"""Icarus Verilog: this machine's, or that of Debian's package, unpacked into the build directory."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hw.errors import UserError
from sim.linux.fetch import fetch_program
from sim.verilator.toolchain import build_root

__all__ = ["Icarus", "find_icarus"]


class SimulationStopped(UserError):
    """Icarus refused a design, or a simulation did not end."""

    status = 1


@dataclass(frozen=True)
class Icarus:
    """The compiler and the simulator; ``root`` is the folder of an unpacked package, or None."""

    root: Path | None = None

    def run(self, text: str, folder: Path, *, timeout: float = 600) -> list[str]:
        """Compile Verilog with the top module ``tb``, simulate it, and return the lines that it prints.

        Raises :class:`SimulationStopped`.
        """
        (folder / "tb.v").write_text(text, encoding="utf-8")
        self._execute([*self._command("iverilog"), "-g2012", "-s", "tb", "-o", "tb.vvp", "tb.v"], folder, timeout)
        return self._execute([*self._command("vvp"), "-n", "tb.vvp"], folder, timeout).splitlines()

    def _command(self, name: str) -> list[str]:
        if self.root is None:
            return [name]
        own = next(self.root.glob("usr/lib/*/ivl"))
        return [str(self.root / "usr/bin" / name), "-B" if name == "iverilog" else "-M", str(own)]

    def _execute(self, command: list[str], folder: Path, timeout: float) -> str:
        env = dict(os.environ)
        if self.root is not None:
            env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, self.root.glob("usr/lib/*-linux-gnu")))
        try:
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout,
                                  check=False)
        except subprocess.TimeoutExpired:
            name = Path(command[0]).name
            raise SimulationStopped(f"{name} was stopped after {timeout:g} s without an end.") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[-5:]
            raise SimulationStopped(f"{Path(command[0]).name} failed: {' '.join(said) or done.returncode}")
        return done.stdout


def find_icarus() -> Icarus:
    """This machine's Icarus, or else Debian's package, downloaded once without root.

    Raises :class:`sim.linux.fetch.FetchFailed`, with a sentence, where neither is there.
    """
    if shutil.which("iverilog") and shutil.which("vvp"):
        return Icarus()
    return Icarus(fetch_program(build_root() / "linux", "iverilog"))
