# SPDX-License-Identifier: Apache-2.0
"""Dynamically linked programs of unpacked packages as files of an initramfs."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sim.linux.fetch import FetchFailed

__all__ = ["program_files"]

_LOADER, _LIBRARIES = "ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu"


def program_files(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Files of a folder, and the dynamic linker and shared libraries that they need.

    Parameters
    ----------
    folder : Path
        Of :func:`sim.linux.fetch.fetch_program`.
    names : sequence of str
        Programs, shared objects that they load by name, and files without code, all relative to ``folder``.

    Returns
    -------
    dict
        Name in the initramfs -> contents.

    Raises
    ------
    FetchFailed
        If a file is not there, or the packages lack a library.
    """
    files = {name: _read(folder / name) for name in names}
    # Debian 13 has all in usr. The link in lib64 may be absolute, to the dynamic linker of this machine.
    search = [folder / _LIBRARIES, folder / "usr" / _LIBRARIES]
    loader = next((path / _LOADER for path in search if (path / _LOADER).is_file()), search[0] / _LOADER)
    for name in [name for name, data in files.items() if data[:4] == b"\x7fELF"]:
        for library in _listed(loader, search, folder / name):
            files[f"{_LIBRARIES}/{library.name}"] = _read(library)
    return {f"lib64/{_LOADER}": _read(loader), **files}


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise FetchFailed(f"The packages have no {path}.")
    return path.read_bytes()


def _listed(loader: Path, search: Sequence[Path], program: Path) -> list[Path]:
    """Shared libraries that a program needs, as its own dynamic linker finds them."""
    _read(loader)
    done = subprocess.run([loader, "--inhibit-cache", "--library-path", ":".join(map(str, search)), "--list", program],
                          capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    missing = re.search(r"(\S+) => not found|(\S+): cannot open shared object file", done.stdout + done.stderr)
    if missing or done.returncode:
        which = (missing[1] or missing[2]) if missing else "libraries"
        raise FetchFailed(f"{program.name} needs {which}, which its packages lack.")
    return [Path(path) for path in re.findall(r"=> (\S+) \(0x", done.stdout) if Path(path).name != loader.name]
