# SPDX-License-Identifier: Apache-2.0
"""The guest's programs, static, and the initramfs that contains them."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hw.card.config import PRESETS
from hw.dma_engine.header import c_header
from hw.errors import UserError
from sim.linux.fetch import Packages
from sim.linux.initrd import modules, write
from sim.verilator.store import digest, once
from sim.verilator.toolchain import ToolMissing

__all__ = ["PARTS", "GuestBuildFailed", "build_initrd", "build_part", "part_sources"]

_GUEST = Path(__file__).with_name("guest")
_LIBRARY = Path(__file__).resolve().parents[2] / "dmace" / "libdmace"
_PERF = "dmace_perf.c"
_MODULES, _OPTIONAL_MODULES = ("vfio-pci", "vfio_iommu_type1"), ("iommufd",)
_OPTIONS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-pthread")

PARTS = {
    "copies": "sizes, alignments, queues, rows, signals, interrupts",
    "tenants": "two processes without privileges, one of them hostile; unmapped addresses",
    "p2p": "to and from another device's BAR",
    "kill": "drivers that are killed under load",
    "reset": "function-level resets under load",
    "soak": "1,000,000 requests with kills and resets",
    "perf": "latency and throughput, by dmace-perf",
    "refused": "without an IOMMU the card is not opened",
}
"""Name -> what it shows."""


class GuestBuildFailed(UserError):
    """A program for the guest cannot be compiled."""

    status = 1


def part_sources(part: str) -> list[Path]:
    """C sources of a part: its own, and libdmace's."""
    own = _LIBRARY / _PERF if part == "perf" else _GUEST / f"{part}.c"
    return [own, *(path for path in sorted(_LIBRARY.glob("*.c")) if path.name != _PERF)]


def build_part(part: str, target: Path, *, preset: str = "tiny", static: bool = True) -> None:
    """Compile a part, or ``init``, with libdmace.

    Parameters
    ----------
    part : str
        A name in ``PARTS``, or ``init``, which is no user of libdmace.
    target : Path
        The program.
    preset : str
        Of the card, for the sizes in ``dmace.h``; the programs read those that matter from the card.
    static : bool
        Without shared libraries, for the guest. A simulator in the same process needs False.

    Raises
    ------
    GuestBuildFailed
        If the compiler refuses a source.
    ToolMissing
        If there is no C compiler.
    """
    sources = [_GUEST / "init.c"] if part == "init" else part_sources(part)
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dmace.h").write_text(c_header(PRESETS[preset].endpoint.dma))
    done = subprocess.run(
        [*_compiler(), *_OPTIONS, *(("-static",) if static else ()), f"-I{folder}", f"-I{_LIBRARY}", f"-I{_GUEST}",
         "-o", str(target), *map(str, sources), *(() if static else ("-ldl",))],
        capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line or "undefined" in line), "the compiler gives no reason")
        raise GuestBuildFailed(f"The guest's program {part} cannot be compiled: {first}")


def build_initrd(root: Path, packages: Packages, parts: Sequence[str], preset: str) -> Path:
    """An initramfs in ``root`` with these parts, built unless it is there."""
    texts = [(path.name, path.read_text(encoding="utf-8"))
             for path in sorted([*_GUEST.glob("*.[ch]"), *_LIBRARY.glob("*.[ch]")])]
    key = digest(texts, sorted(parts), preset, packages.version("kernel"), _OPTIONS, _compiler())
    folder = root / f"guest-{key}"

    def make() -> None:
        loaded = modules(packages.kernel, _MODULES, _OPTIONAL_MODULES)
        files = {}
        for part in ("init", *sorted(parts)):
            build_part(part, folder / part, preset=preset)
            files["init" if part == "init" else f"parts/{part}"] = (folder / part).read_bytes()
        write(folder / "initrd", files, loaded)

    once(folder, make, product="initrd", name="guest")
    return folder / "initrd"


def _compiler() -> tuple[str, ...]:
    """The C compiler: ``$CC``, else cc."""
    words = os.environ.get("CC", "cc").split()
    if shutil.which(words[0]) is None:
        raise ToolMissing(f"No C compiler {words[0]} was found, and the guest's programs need one; install gcc.")
    return tuple(words)
