# SPDX-License-Identifier: Apache-2.0
"""examples/gpu: workgroups that tick, with threads of the CPU and test doubles of endpoints; device code compiles."""

import re
import subprocess
from pathlib import Path

import pytest

from dmace.libdmace.build import library
from hw.errors import UserError
from tests.test_gpu_example import RACES, loaded

ROOT = Path(__file__).resolve().parent.parent
HEADER = "workgroups  slices   parts  iterations     ticks  parts used  wrong bytes"


@pytest.fixture(scope="module")
def example():
    yield from loaded()


@pytest.fixture(scope="module")
def plain(example, tmp_path_factory):
    program = tmp_path_factory.mktemp("fused") / "fused_threads"
    example.compile_fused_threads(program)
    return program


@pytest.fixture(scope="module")
def checked(example, tmp_path_factory):
    """The same under ThreadSanitizer."""
    program = tmp_path_factory.mktemp("checked") / "fused_threads"
    try:
        example.compile_fused_threads(program, RACES)
    except UserError as error:
        if "tsan" in str(error):
            pytest.skip("ThreadSanitizer is not installed, which finds races between threads.")
        raise
    if "unexpected memory mapping" in _run(program, iterations=1).stderr:
        pytest.skip("ThreadSanitizer of this compiler is too old for the address layout of this kernel.")
    return program


def _run(program, **options):
    words = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)


def _row(done, endpoints="test doubles"):
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"workgroups of the CPU, endpoints that are {endpoints}", HEADER], done.stderr
    return [int(number) for number in lines[2].split()]


@pytest.mark.parametrize("workgroups, slices, parts, iterations", [
    pytest.param(4, 8, 4, 50, id="slices of several workgroups"),
    pytest.param(1, 1, 1, 2000, id="one workgroup"),
    pytest.param(16, 32, 3, 20, id="all counters of a block"),
    pytest.param(7, 1, 64, 30, id="one slice"),
])
def test_slices_arrive_whole(plain, workgroups, slices, parts, iterations):
    done = _run(plain, workgroups=workgroups, slices=slices, parts=parts, iterations=iterations)
    used = slices * parts * iterations
    assert (_row(done), done.returncode) == ([workgroups, slices, parts, iterations, 2 * used, used, 0], 0), done.stderr


def test_generations_wrap(plain):
    done = _run(plain, generation=2 ** 16 - 10, workgroups=2, slices=2, parts=2, iterations=60)
    assert (_row(done), done.returncode) == ([2, 2, 2, 60, 480, 240, 0], 0), done.stderr


def test_workgroups_do_not_race(checked):
    done = _run(checked, workgroups=6, slices=4, parts=5, iterations=12)
    assert done.returncode == 0, done.stderr
    assert _row(done) == [6, 4, 5, 12, 480, 240, 0]


def test_early_ticks_are_seen(plain):
    done = _run(plain, early=1)
    row = _row(done)
    assert (row[5], done.returncode) == (512, 1) and row[6] > 0


def test_an_early_tick_is_a_race(checked):
    done = _run(checked, early=1)
    assert done.returncode != 0 and "WARNING: ThreadSanitizer: data race" in done.stderr


@pytest.mark.parametrize("arguments, sentence", [
    (["--slices", "33"], "--slices must be a number from 1 to 32, not '33'"),
    (["--parts"], "--parts must be a number from 1 to 1024, not ''"),
    (["--fast", "1"], "There is no option --fast; the options are --workgroups, --slices, --parts, --iterations, "
                      "--bytes, --generation, --early and --seconds"),
    (["sim:card"], "There are two cards, of the sender and of the receiver, or none, not 1"),
])
def test_wrong_arguments(plain, arguments, sentence):
    done = subprocess.run([plain, *arguments], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == (f"{sentence}\n", 2)


def test_a_card_that_cannot_be_opened(plain, tmp_path):
    card = f"sim:{tmp_path}/missing.so"
    done = subprocess.run([plain, card, card], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("The simulator cannot be loaded: "), done.stderr


@pytest.mark.long
@pytest.mark.rtl
def test_counters_of_cards(plain):
    """Two cards in RTL: their counters count, their puts and signals cross the link; generations wrap."""
    from sim.vfio.harness import build_transport

    library = build_transport("tiny").path
    cards = [f"sim:{library},cluster=fused,shape=2,rank={rank}" for rank in (0, 1)]
    done = subprocess.run([plain, *cards, "--workgroups", "4", "--slices", "4", "--generation", "65533", "--iterations",
                           "12"], capture_output=True, text=True, check=False, timeout=300)
    assert (_row(done, "cards"), done.returncode) == ([4, 4, 4, 12, 384, 192, 0], 0), done.stderr
    alone = subprocess.run([plain, f"sim:{library}", f"sim:{library}", "--seconds", "1"], capture_output=True,
                           text=True, check=False, timeout=300)
    assert (alone.stderr, alone.returncode) == ("The link of the cards has not come up in 1 s\n", 1)


DOUBLE = r"""
#include "endpoint.h"
#include <cstdio>

static BlockPages pages;
static char memory[2][64];

/* Stores the given ticks, one per slot, and prints what the double made of them. */
int main(int argc, char **argv)
{
    EndpointDouble endpoint(&pages, {{memory[0], 64}, {memory[1], 64}}, 3);
    const dmace_block block = {pages.ticks, pages.slots, 0};
    const uint32_t mode = uint32_t(std::stoul(argv[1])), page = uint32_t(std::stoul(argv[2]));
    const uint64_t offset = std::stoull(argv[3]);
    for (int index = 0; index < 64; ++index)
        memory[0][index] = char(index);
    dmace_prepare(&block, 5, 0, dmace_copy_word(0, 8, 1, 32, 8, 0));
    dmace_prepare(&block, 5, 1, dmace_signal_word(1, offset, UINT64_C(0xab) << 36, 0));
    dmace_arm(&block, 5, dmace_arm_word(mode, page, 3, 0xffff, 1, 1));
    for (int index = 4; index < argc; ++index)
        pages.ticks[index] = std::stoull(argv[index], nullptr, 16);
    endpoint.poll();
    const uint64_t flag = *reinterpret_cast<uint64_t *>(memory[1] + 8);
    std::printf("%llu %llu %llx %d %s\n", (unsigned long long)endpoint.ticks, (unsigned long long)endpoint.firings,
                (unsigned long long)flag, memory[1][33], endpoint.error.c_str());
}
"""


@pytest.fixture(scope="module")
def double(example, tmp_path_factory):
    folder = tmp_path_factory.mktemp("double")
    (folder / "main.cpp").write_text(DOUBLE)
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "examples" / "gpu", "-I",
                    example.write_headers(folder), folder / "main.cpp", "-o", folder / "double"], check=True)
    return folder / "double"


def _tick(counter, value, generation=None):
    from hw.triggers.words import TickWord

    return f"{TickWord.add(counter, value, generation=generation).pack():x}"


ONCE, REPEAT, SUM = 1, 2, 3
REFUSED = "A tick or firing of counter 5 was refused: "


@pytest.mark.parametrize("mode, page, offset, ticks, expected", [
    (ONCE, 3, 8, [_tick(5, 2)], "1 0 0 0"),
    (ONCE, 3, 8, [_tick(5, 2, 0xFFFF), _tick(5, 1)], f"2 1 {0xAB << 36 | 0xFFFF:x} 9"),
    (ONCE, 3, 8, [_tick(5, 3), _tick(5, 1)], f"1 1 {0xAB << 36 | 0xFFFF:x} 9 {REFUSED}IDLE"),
    (REPEAT, 3, 8, [_tick(5, 3, 0xFFFF), _tick(5, 3, 0)], f"2 2 {0xAB << 36:x} 9"),
    (REPEAT, 3, 8, [_tick(5, 3), _tick(5, 1, 0xFFFF)], f"1 1 {0xAB << 36 | 0xFFFF:x} 9 {REFUSED}GENERATION"),
    (REPEAT, 3, 8, [_tick(5, 2), _tick(5, 2)], f"1 0 0 0 {REFUSED}OVERFLOW"),
    (SUM, 3, 8, [_tick(5, 7), _tick(5, 9)], f"2 2 {0xAB << 36 | 16:x} 9"),
    (ONCE, 2, 8, [_tick(5, 3)], f"0 0 0 0 {REFUSED}PAGE"),
    (ONCE, 3, 60, [_tick(5, 3)], f"0 0 0 9 {REFUSED}a word that it posts is no request within its regions"),
    (ONCE, 3, 8, [f"{1 << 44 | 5:x}"], f"0 0 0 0 {REFUSED}MALFORMED"),
])
def test_double_counts_as_the_endpoint(double, mode, page, offset, ticks, expected):
    output = subprocess.run([double, str(mode), str(page), str(offset), *ticks], capture_output=True, text=True,
                            check=True).stdout
    assert output.strip() == expected


@pytest.mark.long
def test_device_code_compiles(example, tmp_path):
    try:
        nvcc = example.find_nvcc()
    except UserError:
        pytest.skip("nvcc is not installed, which compiles for a GPU; `pip install dmace[gpu]` contains it.")
    assert {"80", "90"} <= set(example.compile_fused(tmp_path / "fused"))
    subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=sm_80", "-ptx", "-I", library().parent, "-I",
                    tmp_path / "include", ROOT / "examples" / "gpu" / "fused.cu", "-o", tmp_path / "fused.ptx"],
                   check=True)
    code = (tmp_path / "fused.ptx").read_text()
    kernels = re.findall(r"\.entry \S*(send|receive)\S*\((.*?)^}", code, re.MULTILINE | re.DOTALL)
    assert sorted(name for name, _ in kernels) == ["receive", "send"]
    for name, kernel in kernels:
        # A tick is one store, behind a barrier of the workgroup and a fence of the system.
        before = kernel[:kernel.rindex("st.mmio.relaxed.sys.global.u64")]
        assert re.findall(r"bar\.sync|membar\.sys", before)[-2:] == ["bar.sync", "membar.sys"], name
