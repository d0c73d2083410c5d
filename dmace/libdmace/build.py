# SPDX-License-Identifier: Apache-2.0
"""Generated headers of libdmace, and its compilation: once into the build directory, or into a folder for C users.

One library serves cards of all sizes: it reads the sizes from the card, and its headers are those of the preset
``wide``, whose fields are the widest.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hw.card.config import PRESETS
from hw.dma_engine.header import c_header
from hw.endpoint import registers as endpoint
from hw.errors import UserError
from hw.pcie import registers as pcie
from hw.regs import to_c_header
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

__all__ = ["FLAGS", "SOURCES", "c_compiler", "compile_program", "export", "headers", "library"]

SOURCES = Path(__file__).parent
"""Folder of the sources and of the public headers."""

FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror")

_PUBLIC = ("libdmace.h", "dmace_transport.h")
_PROGRAM = "dmace_perf.c"
_LIBRARIES = ("-pthread", "-ldl")


def headers() -> dict[str, str]:
    """Name and text of each generated header: ``dmace.h``, and ``dmace_card.h`` with the remaining registers."""
    config = PRESETS["wide"]
    windows = {**{name: pcie.WINDOWS["ENDPOINT"] + offset for name, offset in endpoint.WINDOWS.items()},
               "PCIE": pcie.WINDOWS["PCIE"], "MSIX": pcie.WINDOWS["MSIX"]}
    card = [
        "/* dmace_card.h: BAR 0 of a card, but for the registers of the DMA engine, which are in dmace.h. */",
        "#ifndef DMACE_CARD_H",
        "#define DMACE_CARD_H",
        "",
        "/* Offsets of its blocks. */",
        f"#define DMACE_BAR0_BYTES {1 << pcie.BAR0_BITS:#x}u",
        *(f"#define DMACE_BAR0_{name} {offset:#x}u" for name, offset in windows.items()),
        "",
        to_c_header(endpoint.register_map(config.endpoint), "DMACE_ENDPOINT"),
        to_c_header(pcie.register_map(config.pcie), "DMACE_PCIE"),
        "#endif",
        "",
    ]
    return {"dmace.h": c_header(config.endpoint.dma), "dmace_card.h": "\n".join(card)}


def c_compiler() -> tuple[str, ...]:
    """The C compiler to use: ``$CC``, else cc, gcc or clang. Raises :class:`UserError`."""
    wanted = os.environ.get("CC", "").split()
    for words in ([wanted] if wanted else []) + [["cc"], ["gcc"], ["clang"]]:
        if path := shutil.which(words[0]):
            return path, *words[1:]
    raise UserError("No C compiler was found, and libdmace needs one; "
                    "install gcc (`apt install gcc`, `dnf install gcc`).")


def _sources() -> list[Path]:
    return [path for path in sorted(SOURCES.glob("*.c")) if path.name != _PROGRAM]


def _texts() -> dict[str, str]:
    """Everything that a build depends on, but for the compiler and its flags."""
    paths = [*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]
    return headers() | {path.name: path.read_text(encoding="utf-8") for path in sorted(paths)}


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"Compiling libdmace failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def _make(folder: Path, flags: Sequence[str]) -> None:
    """Fill a folder with headers, both libraries, and the program dmace-perf."""
    compiler = c_compiler()
    for name, text in headers().items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in _PUBLIC:
        shutil.copyfile(SOURCES / name, folder / name)
    objects = [folder / f"{source.stem}.o" for source in _sources()]
    compiling: list[str | Path] = [*compiler, *FLAGS, *flags, "-fPIC", "-fvisibility=hidden", "-pthread", "-I", folder]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda source, made: _run([*compiling, "-c", source, "-o", made]), _sources(), objects))
    _run([*compiler, *FLAGS, *flags, "-shared", *objects, *_LIBRARIES, "-o", folder / "libdmace.so"])
    (folder / "libdmace.a").unlink(missing_ok=True)
    _run([shutil.which("ar") or "ar", "rcs", folder / "libdmace.a", *objects])
    for path in objects:
        path.unlink()
    if (SOURCES / _PROGRAM).is_file():
        compile_program(folder, SOURCES / _PROGRAM, folder / "dmace-perf", flags=flags)


def library(*flags: str) -> Path:
    """``libdmace.so``, compiled once with ``flags`` as additional ones; headers, ``libdmace.a`` and ``dmace-perf`` are
    beside it."""
    compiler = c_compiler()
    folder = build_root() / "libdmace" / digest(_texts(), compiler, FLAGS, flags)
    once(folder, lambda: _make(folder, flags), product="libdmace.so", name="libdmace")
    return folder / "libdmace.so"


def compile_program(folder: Path, source: Path, program: Path, *, flags: Sequence[str] = ()) -> None:
    """Compile a C program with the library and the headers in ``folder``; the program contains the library."""
    _run([*c_compiler(), *FLAGS, *flags, "-I", folder, source, folder / "libdmace.a", *_LIBRARIES, "-o", program])


def export(folder: Path) -> None:
    """Write headers, ``libdmace.so``, ``libdmace.a`` and ``dmace-perf`` to a folder for C users."""
    made = library().parent
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(made.iterdir()):
        if path.name != "complete.json":
            shutil.copy(path, folder / path.name)
