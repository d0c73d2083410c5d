# SPDX-License-Identifier: Apache-2.0
"""The guest's programs, static, and the initramfs that contains them."""

from collections.abc import Sequence
from pathlib import Path

from dmace.libdmace.build import FLAGS, SOURCES, c_compiler, compile_program, library
from sim.linux.fetch import Packages
from sim.linux.initrd import modules, write
from sim.verilator.store import digest, once

__all__ = ["PARTS", "build_initrd", "build_part", "part_source"]

_GUEST = Path(__file__).with_name("guest")
_MODULES, _OPTIONAL_MODULES = ("vfio-pci", "vfio_iommu_type1"), ("iommufd",)
_STATIC = ("-static",)

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


def part_source(part: str) -> Path:
    """The C source of a part, or of ``init``."""
    return SOURCES / "dmace_perf.c" if part == "perf" else _GUEST / f"{part}.c"


def build_part(part: str, target: Path, *, static: bool = True) -> None:
    """Compile a part with libdmace, or ``init``.

    Parameters
    ----------
    part : str
        A name in ``PARTS``, or ``init``.
    target : Path
        The program.
    static : bool
        Without shared libraries, for the guest. A simulator in the same process needs False.

    Raises
    ------
    UserError
        If there is no C compiler, or it refuses a source.
    """
    compile_program(library().parent, part_source(part), target, flags=_STATIC if static else ())


def build_initrd(root: Path, packages: Packages, parts: Sequence[str]) -> Path:
    """An initramfs in ``root`` with these parts, built unless it is there."""
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in sorted(_GUEST.glob("*.[ch]"))]
    key = digest(texts, part_source("perf").is_file(), sorted(parts), packages.version("kernel"), FLAGS, c_compiler(),
                 str(library().parent))
    folder = root / f"guest-{key}"

    def make() -> None:
        loaded = modules(packages.kernel, _MODULES, _OPTIONAL_MODULES)
        files = {}
        for part in ("init", *sorted(parts)):
            build_part(part, folder / part)
            files["init" if part == "init" else f"parts/{part}"] = (folder / part).read_bytes()
        write(folder / "initrd", files, loaded)

    once(folder, make, product="initrd", name="guest")
    return folder / "initrd"
