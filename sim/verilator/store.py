# SPDX-License-Identifier: Apache-2.0
"""Folders of the build directory that are filled once, whichever process comes first."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

__all__ = ["digest", "once"]


def once(folder: Path, make: Callable[[], object], *, product: str, name: str) -> tuple[bool, float]:
    """Call ``make()`` to fill ``folder`` unless that was done before; return whether it was, and its seconds.

    A folder counts as filled when ``product`` is in it and ``make`` came to its end.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / "complete.json"
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if stamp.is_file() and (folder / product).is_file():
            return True, json.loads(stamp.read_text())["seconds"]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        started = time.monotonic()
        make()
        seconds = round(time.monotonic() - started, 1)
        # The stamp comes last and at once: without it the folder counts as never built.
        new = folder / "complete.json.new"
        new.write_text(json.dumps({"name": name, "seconds": seconds}))
        new.replace(stamp)
    return False, seconds


def digest(*parts: object) -> str:
    """Short name of everything that a build depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
