# SPDX-License-Identifier: Apache-2.0
"""Compile the programs of this folder: for a GPU with nvcc, or with threads of the CPU in its place.

::

    python examples/gpu/build.py -o DIR              post, fused, measure
    python examples/gpu/build.py -o DIR --threads    threads, fused_threads, measure_threads
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dmace.libdmace.build import library
from hw.ace import header as ace_header
from hw.dma_engine import header as dma_header
from hw.endpoint import header as endpoint_header
from hw.endpoint.config import BASE
from hw.errors import UserError

__all__ = ["ARCHITECTURES", "compile_fused", "compile_fused_threads", "compile_measure", "compile_measure_threads",
           "compile_post", "compile_threads", "find_nvcc", "write_headers"]

ARCHITECTURES = ("70", "75", "80", "90")
"""Compute capabilities that device code is made for, where the compiler still knows them."""

_HERE = Path(__file__).parent


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"Compiling failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def find_nvcc() -> Path:
    """The compiler: ``$NVCC``, one on PATH, or that of the extra ``gpu``. Raises :class:`UserError`."""
    if wanted := os.environ.get("NVCC"):
        return Path(wanted)
    if found := shutil.which("nvcc"):
        return Path(found)
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*/bin/nvcc")):
            return path
    raise UserError("nvcc was not found, which compiles for a GPU; install it (`pip install dmace[gpu]`), or name it "
                    "in NVCC.")


def write_headers(folder: Path) -> Path:
    """Write the headers of an endpoint to a folder, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("dmace.h", dma_header.c_header(BASE.dma)), ("dmace_ace.h", ace_header.c_header(BASE.ace)),
                       ("dmace_endpoint.h", endpoint_header.c_header(BASE))):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _compile_for_cpu(source: str, program: Path, *options: str | Path) -> None:
    compiler = os.environ.get("CXX", "").split() or [shutil.which("c++") or "g++"]
    _run([*compiler, "-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", _HERE / source, *options, "-pthread",
          "-o", program])


def _compile_for_gpu(source: str, program: Path, *options: str | Path) -> list[str]:
    nvcc = find_nvcc()
    known = _run([nvcc, "--list-gpu-arch"]).split()
    chosen = [number for number in ARCHITECTURES if f"compute_{number}" in known]
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in chosen]
    libraries = [f"-L{folder}" for folder in (nvcc.parent.parent / "lib",) if folder.is_dir()]
    _run([nvcc, "-std=c++17", "-O2", "-Werror", "all-warnings", *codes, _HERE / source, *options, *libraries,
          "-lpthread", "-o", program])
    return chosen


def compile_threads(program: Path, *flags: str) -> None:
    """Compile ``threads.cpp``; the library is compiled with the same ``flags``."""
    made = library(*flags).parent
    _compile_for_cpu("threads.cpp", program, *flags, "-I", made, made / "libdmace.a", "-ldl")


def compile_fused_threads(program: Path, *flags: str) -> None:
    """Compile ``fused_threads.cpp``; the library is compiled with the same ``flags``."""
    made = library(*flags).parent
    _compile_for_cpu("fused_threads.cpp", program, *flags, "-I", made, "-I", write_headers(program.parent / "include"),
                     made / "libdmace.a", "-ldl")


def compile_measure_threads(program: Path) -> None:
    """Compile ``measure_threads.cpp``."""
    _compile_for_cpu("measure_threads.cpp", program, "-I", library().parent)


def compile_post(program: Path) -> list[str]:
    """Compile ``post.cu``; returns the architectures that it contains device code for."""
    made = library().parent
    return _compile_for_gpu("post.cu", program, "-I", made, made / "libdmace.a", "-ldl")


def compile_fused(program: Path) -> list[str]:
    """Compile ``fused.cu``; returns the architectures that it contains device code for."""
    made = library().parent
    return _compile_for_gpu("fused.cu", program, "-I", made, "-I", write_headers(program.parent / "include"),
                            made / "libdmace.a", "-ldl")


def compile_measure(program: Path) -> list[str]:
    """Compile ``measure.cu``; returns the architectures that it contains device code for."""
    return _compile_for_gpu("measure.cu", program, "-I", library().parent)


def main() -> int:
    """Compile as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compile threads of a GPU, or of the CPU, that post requests.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the programs")
    parser.add_argument("--threads", action="store_true", help="threads of the CPU, which need no GPU")
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.threads:
            compile_threads(folder / "threads")
            compile_fused_threads(folder / "fused_threads")
            compile_measure_threads(folder / "measure_threads")
        else:
            chosen = compile_post(folder / "post")
            compile_fused(folder / "fused")
            compile_measure(folder / "measure")
            print(f"Device code for {', '.join(f'sm_{number}' for number in chosen)}.")
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print(*(folder / f"{name}threads" if arguments.threads else folder / (name.rstrip("_") or "post")
            for name in ("", "fused_", "measure_")), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
