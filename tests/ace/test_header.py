# SPDX-License-Identifier: Apache-2.0
"""The C header, compiled as C and C++, packs the same bits as the Python commands."""

import random
import re
import shutil
import subprocess

import pytest

from hw.ace import header
from hw.ace.config import BASE, PRESETS
from hw.ace.numerics.formats import DType, Reduction
from hw.ace.words import COMMAND_FIELDS, Collective, CommandFlag, CommandWord, Status
from hw.dma_engine import config as dma_config
from hw.dma_engine import header as dma_header
from sim.verilator.toolchain import find_compiler

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wshadow"]
NAMES = [name for name, _ in COMMAND_FIELDS]
CODES = {"COLLECTIVE": Collective, "FLAG": CommandFlag, "TYPE": DType, "OP": Reduction, "STATUS": Status}

PROGRAM = r"""
#include "dmace_ace.h"
#include "dmace_ace.h"
#include <assert.h>
#include <stdio.h>

@CHECKS@

_Alignas(4096) static uint64_t page[512];

int main(void)
{
    const dmace_queue queue = {page, 0, 0};
    dmace_ace_command command;
    while (scanf("@FORMAT@", @ARGUMENTS@) == @COUNT@) {
        dmace_ace_post(&queue, &command);
        printf("%016llx%016llx\n", (unsigned long long)page[1], (unsigned long long)page[0]);
    }
    return 0;
}
"""


def _write(folder, config=BASE):
    (folder / "dmace.h").write_text(dma_header.c_header(dma_config.BASE))
    (folder / "dmace_ace.h").write_text(header.c_header(config))


def _compile(folder, standard, config):
    checks = "\n".join(f'static_assert(DMACE_ACE_{kind}_{code.name} == {int(code)}, "");'
                       for kind, codes in CODES.items() for code in codes)
    source = PROGRAM
    for place, made in (("@CHECKS@", checks), ("@FORMAT@", " ".join("%u" for _ in NAMES)),
                        ("@ARGUMENTS@", ", ".join(f"&command.{name}" for name in NAMES)), ("@COUNT@", str(len(NAMES))),
                        *([("_Alignas", "alignas")] if standard != "c11" else [])):
        source = source.replace(place, made)
    _write(folder, config)
    (folder / "main.src").write_text(source)
    language = "c" if standard == "c11" else "c++"
    command = [*find_compiler().command, "-x", language, f"-std={standard}", *STRICT, "main.src", "-o", "program"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_commands_are_those_of_python(tmp_path, standard, seed):
    rng = random.Random(seed)
    ones = CommandWord(*((1 << width) - 1 for _, width in COMMAND_FIELDS))
    zeros = CommandWord(*(0 for _ in NAMES))
    cases = [zeros, ones, *(zeros._replace(**{name: getattr(ones, name)}) for name in NAMES),
             *(CommandWord(*(rng.getrandbits(width) for _, width in COMMAND_FIELDS)) for _ in range(200))]
    program = _compile(tmp_path, standard, BASE)
    output = subprocess.run([program], input="\n".join(" ".join(map(str, case)) for case in cases),
                            capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == [f"{case.pack():032x}" for case in cases]


@pytest.mark.parametrize("preset", PRESETS)
def test_reports_the_sizes(preset):
    config = PRESETS[preset]
    text = header.c_header(config)
    assert text == header.c_header(config)
    sizes = int(re.search(r"#define DMACE_ACE_SIZES_RESET (\w+)u\n", text)[1], 16)
    place = int(re.search(r"#define DMACE_ACE_SIZES_QUEUE_BITS_SHIFT (\d+)u ", text)[1])
    assert sizes >> place & 0xF == config.queue_bits


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc on PATH: dmace_ace.h is not tried as CUDA")
def test_a_gpu_thread_posts_with_one_store_behind_a_fence(tmp_path):
    _write(tmp_path)
    (tmp_path / "kernel.cu").write_text("""#include "dmace_ace.h"

extern "C" __global__ void sum(dmace_queue queue, uint32_t region, uint32_t count)
{
    dmace_ace_command command = {};
    command.collective = DMACE_ACE_COLLECTIVE_ALL_REDUCE;
    command.src_region = command.dst_region = region;
    command.count = count;
    dmace_ace_post(&queue, &command);
}
""")
    done = subprocess.run(["nvcc", "-arch=sm_80", "-ptx", "kernel.cu", "-o", "kernel.ptx"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "kernel.ptx").read_text()
    assert re.findall(r"\b(st\.(?!param)\S+|membar\.sys)", text) == ["membar.sys", "st.mmio.relaxed.sys.global.b128"]
