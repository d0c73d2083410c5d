# SPDX-License-Identifier: Apache-2.0
"""The C header, compiled as C and C++, packs the same bits as the words of Python."""

import random
import subprocess

import pytest

from hw.common.words import COMPLETION_FIELDS, CompletionWord
from hw.dma_engine.config import BASE, PRESETS
from hw.dma_engine.header import c_header
from hw.dma_engine.words import NATIVE_FIELDS, ArkWord, Command, NativeWord, Opcode, RequestFlag, Status
from sim.verilator.toolchain import find_compiler

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wshadow"]

PROGRAM = r"""
#include "dmace.h"
#include "dmace.h"
#include <inttypes.h>
#include <stdio.h>

int main(void)
{
    uint32_t src_region, dst_region, length, flags;
    uint64_t src_offset, dst_offset, completion;
    while (scanf("%" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64, &src_region,
                 &src_offset, &dst_region, &dst_offset, &length, &flags, &completion) == 7) {
        dmace_word word = dmace_copy_word(src_region, src_offset, dst_region, dst_offset, length, flags);
        printf("%016" PRIx64 "%016" PRIx64 " %u %u %u\n", word.hi, word.lo, (unsigned)dmace_count(completion),
               (unsigned)dmace_failed(completion), (unsigned)dmace_status(completion));
    }
    return 0;
}
"""


def _compile(folder, source, standard, *, config=BASE):
    (folder / "dmace.h").write_text(c_header(config))
    (folder / "main.src").write_text(source)
    compiler = [*find_compiler().command]
    language = "c" if standard == "c11" else "c++"
    command = [*compiler, "-x", language, f"-std={standard}", *STRICT, "main.src", "-o", "program", "-x", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_words_are_those_of_python(tmp_path, standard, seed):
    rng = random.Random(seed)
    widths, completion = dict(NATIVE_FIELDS), dict(COMPLETION_FIELDS)

    def values(widths):
        """All zero, all ones, each field alone, and random."""
        ones = {name: (1 << width) - 1 for name, width in widths.items()}
        yield dict.fromkeys(widths, 0)
        yield ones
        for name in widths:
            yield dict.fromkeys(widths, 0) | {name: ones[name]}
        while True:
            yield {name: rng.getrandbits(width) for name, width in widths.items()}

    cases = [(NativeWord(**(word | {"opcode": Opcode.COPY})), CompletionWord(**ended))
             for _, word, ended in zip(range(500), values(widths), values(completion), strict=False)]
    lines = [f"{word.src_region} {word.src_offset} {word.dst_region} {word.dst_offset} {word.length} {word.flags} "
             f"{ended.pack()}" for word, ended in cases]
    program = _compile(tmp_path, PROGRAM, standard)
    output = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    expected = [f"{word.pack():032x} {ended.count} {ended.failed} {ended.status}" for word, ended in cases]
    assert output.splitlines() == expected


ARK_PROGRAM = r"""
#include "dmace.h"
#include <inttypes.h>
#include <stdio.h>

int main(void)
{
    uint32_t src, dst, connection;
    uint64_t length;
    while (scanf("%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64, &src, &dst, &connection, &length) == 4)
        printf("%016" PRIx64 "\n", dmace_ark_word(src, dst, connection, length));
    return 0;
}
"""


@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_ark_words_are_those_of_python(tmp_path, standard, seed):
    rng = random.Random(seed)
    highest = (255, 255, 127, (1 << 34) - 1)
    cases = [(0, 0, 0, 0), highest, *(tuple(high if index == field else 0 for index, high in enumerate(highest))
                                      for field in range(4)),
             *(tuple(rng.randint(0, high) for high in highest) for _ in range(200))]
    program = _compile(tmp_path, ARK_PROGRAM, standard)
    output = subprocess.run([program], input="\n".join(" ".join(map(str, case)) for case in cases),
                            capture_output=True, text=True, check=True).stdout
    expected = [f"{ArkWord.send(src=src, dst=dst, connection=connection, length=length).pack():016x}"
                for src, dst, connection, length in cases]
    assert output.splitlines() == expected


@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_codes_and_counts(tmp_path, standard):
    codes = [("OP", Opcode), ("FLAG", RequestFlag), ("STATUS", Status), ("COMMAND", Command)]
    checks = [f"DMACE_DMA_{kind}_{code.name} == {int(code)}" for kind, codes in codes for code in codes]
    checks += ["DMACE_DMA_DOORBELL_PAGE == 4096", f"DMACE_DMA_QUEUES == {BASE.queues}",
               "DMACE_DMA_WORD_LENGTH_SHIFT == 0", "DMACE_DMA_QUEUE_COMMAND_OFFSET > 0"]
    run = ["dmace_reached(7, 7)", "dmace_reached(8, 7)", "!dmace_reached(6, 7)",
           "dmace_reached(2, 0xfffffffeu)", "!dmace_reached(0xfffffffe, 2)"]
    asserts = "\n".join(f"static_assert({check}, \"\");" for check in checks)
    body = "\n".join(f"    if (!({check})) return {number};" for number, check in enumerate(run, 1))
    source = f'#include "dmace.h"\n#include <assert.h>\n{asserts}\nint main(void)\n{{\n{body}\n    return 0;\n}}\n'
    assert subprocess.run([_compile(tmp_path, source, standard)], check=False).returncode == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_depends_on_sizes_only(preset):
    config = PRESETS[preset]
    assert c_header(config) == c_header(config)
    assert f"#define DMACE_DMA_QUEUES {config.queues}u\n" in c_header(config)


@pytest.mark.parametrize("standard", ["c11", "c++17"])
def test_functions_can_be_marked(tmp_path, standard):
    source = """#define DMACE_FN __attribute__((unused)) static
#include "dmace.h"
int main(void)
{
    dmace_word word = dmace_copy_word(0, 0, 0, 0, 0, 0);
    return (int)word.hi + !dmace_reached(0, 0) + (int)dmace_failed(0) + dmace_status(0);
}
"""
    assert subprocess.run([_compile(tmp_path, source, standard)], check=False).returncode == 0
