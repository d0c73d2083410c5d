# SPDX-License-Identifier: Apache-2.0
"""The C header, compiled as C and C++, has the addresses of Python and packs the same bits."""

import random
import subprocess

import pytest

from hw.ace import header as ace_header
from hw.dma_engine import header as dma_header
from hw.dma_engine.words import NativeWord
from hw.endpoint.config import PRESETS, TINY, remote_address
from hw.endpoint.header import c_header
from hw.triggers.config import counter_address
from hw.triggers.words import ArmWord, Mode, Refusal, SlotField, TickWord
from sim.verilator.toolchain import find_compiler

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wshadow"]

STANDARDS = pytest.mark.parametrize("standard", ["c11", "c++17"])

CHECKS = """#include "dmace_endpoint.h"
#ifndef __cplusplus
#define static_assert _Static_assert
#endif
"""


def compile_header(folder, source, standard, *options, config=TINY, output="program"):
    """Write the three headers and a source, compile it, and return the path of the output."""
    for name, text in (("dmace_endpoint.h", c_header(config)), ("dmace_ace.h", ace_header.c_header(config.ace)),
                       ("dmace.h", dma_header.c_header(config.dma)), ("main.src", source)):
        (folder / name).write_text(text)
    command = [*find_compiler().command, "-x", "c" if standard == "c11" else "c++", f"-std={standard}", *STRICT,
               *options, "main.src", "-o", output]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return folder / output


@STANDARDS
@pytest.mark.parametrize("preset", PRESETS)
def test_addresses(tmp_path, standard, preset):
    config = PRESETS[preset]
    triggers, last = config.triggers, config.trigger_blocks - 1
    expected = {
        "DMACE_ENDPOINT_REMOTE(5, 3, 0x12345)": remote_address(5, 3, 0x12345),
        "DMACE_ENDPOINT_COUNTER_ADDRESS(1)": counter_address(1),
        "DMACE_ENDPOINT_DMA_DOORBELL(3)": 3 * 4096,
        "DMACE_ENDPOINT_ACE_DOORBELL(1)": (config.dma.queues + 1) * 4096,
        "DMACE_ENDPOINT_DMA_PAGE(3)": 3, "DMACE_ENDPOINT_ACE_PAGE(1)": config.dma.queues + 1,
        f"DMACE_ENDPOINT_TICK_PAGE({last})": triggers.tick_page(last),
        f"DMACE_ENDPOINT_PREPARATION_PAGE({last})": triggers.preparation_page(last),
        f"DMACE_ENDPOINT_TICK_DOORBELL({last})": 4096 * triggers.tick_page(last),
        f"DMACE_ENDPOINT_PREPARATION_DOORBELL({last})": 4096 * triggers.preparation_page(last),
        "DMACE_ENDPOINT_OWN_REGISTERS": 0x2000, "DMACE_ENDPOINT_BLOCKS": config.trigger_blocks,
        "DMACE_ENDPOINT_SIGNAL_BITS": 44, "DMACE_ENDPOINT_GENERATION_BITS": 16, "DMACE_ENDPOINT_SUM_BITS": 32,
        **{f"DMACE_ENDPOINT_{kind}_{code.name}": code for kind, codes in (
            ("MODE", Mode), ("REFUSAL", Refusal), ("SLOT", SlotField)) for code in codes},
    }
    checks = "".join(f'static_assert({name} == {int(value):#x}u, "{name}");\n' for name, value in expected.items())
    compile_header(tmp_path, CHECKS + checks, standard, "-c", config=config)


WORDS = r"""
#include "dmace_endpoint.h"
#include "dmace_endpoint.h"
#include <inttypes.h>
#include <stdio.h>

static void print(dmace_word word)
{
    printf("%016" PRIx64 "%016" PRIx64 "\n", word.hi, word.lo);
}

int main(void)
{
    char kind;
    uint64_t a, b, c, d, e, f;
    while (scanf(" %c %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &kind, &a, &b, &c, &d, &e,
                 &f) == 7) {
        const uint32_t first = (uint32_t)a, second = (uint32_t)b, third = (uint32_t)c;
        switch (kind) {
        case 't': print(dmace_chain_word(dmace_tick_word(first, second, third), 0)); break;
        case 'u': print(dmace_chain_word(0, dmace_tick_any_word(first, second))); break;
        case 's': print(dmace_signal_word(first, b, c, (uint32_t)d)); break;
        case 'S': print(dmace_signal_add_word(first, second, third, (uint32_t)d)); break;
        default: print(dmace_arm_word(first, second, third, (uint32_t)d, (uint32_t)e, (uint32_t)f));
        }
    }
    return 0;
}
"""

FIELDS = {
    "t": (6, 16, 20), "u": (6, 20), "s": (8, 36, 44, 4), "S": (8, 6, 20, 4), "a": (2, 8, 32, 16, 1, 1)}
"""Bits of the parameters of each function."""


def _golden(kind, values):
    match kind:
        case "t":
            return TickWord.add(values[0], values[2], generation=values[1]).pack()
        case "u":
            return TickWord.add(values[0], values[1]).pack() << 64
        case "s":
            return NativeWord.signal(dst=values[:2], value=values[2], flags=values[3]).pack()
        case "S":
            return NativeWord.signal(dst=(values[0], 0), value=TickWord.add(values[1], values[2]).pack(),
                                     flags=values[3]).pack()
    mode, page, threshold, generation, pair, stamp = values
    return ArmWord.arm(mode=mode, page=page, threshold=threshold, generation=generation, pair=pair, stamp=stamp).pack()


def _cases(rng):
    """All zero, all ones, each field alone, and random values, of each function."""
    for kind, widths in FIELDS.items():
        ones = [(1 << width) - 1 for width in widths]
        yield kind, tuple(0 for _ in widths)
        yield kind, tuple(ones)
        for chosen in range(len(widths)):
            yield kind, tuple(value if number == chosen else 0 for number, value in enumerate(ones))
        for _ in range(100):
            yield kind, tuple(rng.getrandbits(width) for width in widths)


@STANDARDS
def test_words_are_those_of_python(tmp_path, standard, seed):
    cases = list(_cases(random.Random(seed)))
    program = compile_header(tmp_path, WORDS, standard)
    lines = [f"{kind} {' '.join(map(str, (*values, 0, 0, 0, 0, 0, 0)[:6]))}" for kind, values in cases]
    output = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == [f"{_golden(kind, values):032x}" for kind, values in cases]


def test_values_are_truncated(tmp_path):
    """A value with further bits changes no neighbouring field."""
    program = compile_header(tmp_path, WORDS, "c11")
    lines = ["t 64 65536 1048576 0 0 0", "s 256 0 17592186044416 0 0 0", "a 4 256 0 65536 2 3"]
    output = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == [f"{word:032x}" for word in (
        0, NativeWord.signal(dst=(0, 0), value=0).pack(),
        ArmWord.arm(mode=Mode.DISARM, page=0, pair=True, stamp=True).pack())]
