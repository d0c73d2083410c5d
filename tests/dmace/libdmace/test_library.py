# SPDX-License-Identifier: Apache-2.0
"""libdmace alone, with a test double of a card (``fake_card.c``) as its transport, under sanitizers.

Each case of ``cases_*.c`` is a process: a leak, an undefined operation or a failed check ends it with an error.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from dmace.libdmace.build import FLAGS, c_compiler, compile_program, export, headers, library
from hw.errors import UserError
from sim.verilator.store import digest, once
from sim.verilator.toolchain import build_root

HERE = Path(__file__).parent
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
WRAPPED = ("access", "close", "closedir", "ioctl", "open", "opendir", "readlink")
CASES = [name for group in sorted(HERE.glob("cases_*.c"))
         for name in re.findall(r'\{"(\w+)", \w+\}', group.read_text(encoding="utf-8"))]


def _build(flags):
    """Folder with the program ``cases`` and the fake card as a library."""
    made = library(*flags).parent
    sources = sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])
    folder = build_root() / "libdmace" / digest(str(made), [path.read_text() for path in sources], flags)

    def make():
        fake = [*c_compiler(), *FLAGS, *flags, "-I", made, "-fPIC", "-pthread", HERE / "fake_card.c"]
        subprocess.run([*fake, "-shared", "-o", folder / "fake_card.so"], check=True)
        subprocess.run([*c_compiler(), *FLAGS, *flags, "-I", made, *sorted(HERE.glob("cases*.c")), HERE / "fake_card.c",
                        HERE / "fake_vfio.c", *(f"-Wl,--wrap={name}" for name in WRAPPED), made / "libdmace.a",
                        "-pthread", "-ldl", "-o", folder / "cases"], check=True)

    once(folder, make, product="cases", name="cases of libdmace")
    return folder


def _run(command, **environment):
    return subprocess.run([str(part) for part in command], env={**os.environ, **environment}, capture_output=True,
                          text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    folder = _build(SANITIZED)
    done = _run([folder / "cases", folder / "fake_card.so", name])
    assert done.returncode == 0, done.stderr


def test_all_cases_run():
    assert len(CASES) > 25
    assert sorted(_run([_build(SANITIZED) / "cases"]).stdout.split()) == sorted(CASES)


@pytest.mark.parametrize("arguments, status, text", [
    (["sim:FAKE", "--requests", "100", "--queues", "2", "--sizes", "64,5000", "--check"], 0,
     "5000        100     500000"),
    (["sim:FAKE", "--mode", "lat", "--size", "7", "--requests", "3"], 0,
     "Latency, 1 queue, 1 request of each in flight"),
    (["sim:FAKE", "--mode", "x"], 2, "--mode must be bw, lat or both, not x"),
    (["sim:FAKE", "--sizes", "64,"], 2, "--sizes must be 1 to 268435455, not"),
    (["sim:FAKE", "--queues", "9"], 2, "--queues must be at most the card's 8, not 9"),
    (["sim:FAKE", "--requests"], 2, "A value must follow the option --requests"),
    (["sim:FAKE", "--size", "0"], 2, "--size must be 1 to 268435455, not 0"),
    (["sim:FAKE", "--fast", "1"], 2, "There is no option --fast"),
    (["a", "b"], 2, "one argument too many: b"),
    ([], 2, "The first argument must be a DEVICE"),
    (["sim:/nowhere.so"], 1, "The simulator cannot be loaded: /nowhere.so"),
    (["--help"], 0, "usage: dmace-perf DEVICE"),
])
def test_perf(arguments, status, text):
    fake = str(_build(SANITIZED) / "fake_card.so")
    program = library(*SANITIZED).parent / "dmace-perf"
    done = _run([program, *(argument.replace("FAKE", fake) for argument in arguments)])
    assert done.returncode == status, done.stderr
    assert text in done.stdout + done.stderr
    assert status == 0 or len(done.stderr.splitlines()) == 1


def test_export(tmp_path):
    """A program of a user is compiled with the exported folder, in C and in C++."""
    export(tmp_path / "folder")
    assert {"dmace.h", "dmace_card.h", "dmace_transport.h", "libdmace.h", "libdmace.so", "libdmace.a", "dmace-perf"} \
        == {path.name for path in (tmp_path / "folder").iterdir()}
    program = tmp_path / "user.c"
    program.write_text('#include "libdmace.h"\n#include <stdio.h>\nint main(void)\n{\n'
                       '    dmace_device *device;\n'
                       '    return !(dmace_open("x:", &device) < 0 && puts(dmace_error()) >= 0);\n}\n')
    compile_program(tmp_path / "folder", program, tmp_path / "user")
    assert _run([tmp_path / "user"]).stdout == "Name of a device must begin with vfio: or sim:, not be x:\n"


def test_only_public_functions_are_exported():
    public = (HERE.parents[2] / "dmace" / "libdmace" / "libdmace.h").read_text()
    names = {line.split()[-1] for line in _run(["nm", "-D", "--defined-only", library()]).stdout.splitlines()}
    assert names == set(re.findall(r"\b(dmace_\w+)\(", re.sub(r"/\*.*?\*/", "", public, flags=re.DOTALL)))


def test_one_compiler_is_needed(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(UserError, match=r"^No C compiler was found, and libdmace needs one; install gcc "
                                        r"\(`apt install gcc`, `dnf install gcc`\)\.$"):
        c_compiler()


def test_headers_have_all_blocks():
    made = headers()
    for name in ("DMA", "ACE", "ENDPOINT", "PCIE", "MSIX"):
        assert f"#define DMACE_BAR0_{name} 0x" in made["dmace_card.h"]
    assert "DMACE_DMA_REGION_COMMIT_OFFSET" in made["dmace.h"]
