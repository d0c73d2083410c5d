# SPDX-License-Identifier: Apache-2.0
"""examples/gpu: the checks of measure with threads of the CPU; device code compiles."""

import subprocess
from pathlib import Path

import pytest

from dmace.libdmace.build import library
from hw.errors import UserError
from tests.test_gpu_example import loaded

ROOT = Path(__file__).resolve().parent.parent
RIGHT = ["words of one 16-byte store", "data before words, fence", "data before completion words, fence"]


@pytest.fixture(scope="module")
def example():
    yield from loaded()


@pytest.fixture(scope="module")
def plain(example, tmp_path_factory):
    program = tmp_path_factory.mktemp("measure") / "measure_threads"
    example.compile_measure_threads(program)
    return program


def _rows(done):
    """Name of a line -> what was seen, and how much of it was torn or stale."""
    lines = [line.rsplit(None, 2) for line in done.stdout.splitlines()[2:]]
    return {name.strip(): (int(seen), int(wrong)) for name, seen, wrong in lines}


def test_words_arrive_whole_and_in_order(plain):
    done = subprocess.run([plain, "--rounds", "200000"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "2 threads of the CPU, 200000 rounds"
    rows = _rows(done)
    for name in RIGHT:
        seen, wrong = rows[name]
        assert seen >= 2 and wrong == 0, name
    assert rows["words of two stores, a fence between"][1] > 0


@pytest.mark.parametrize("arguments, sentence", [
    (["--threads", "257"], "--threads must be a number from 1 to 256, not '257'"),
    (["sim:card"], "This program takes options only, not sim:card"),
])
def test_wrong_arguments(plain, arguments, sentence):
    done = subprocess.run([plain, *arguments], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == (f"{sentence}\n", 2)


WRONG = r"""
#include "cpu.h"
#include "measure_program.h"

/* Stores halves of words with a pause between them, data behind their word, or no last word. */
class WrongThreads : public Cpu {
public:
    explicit WrongThreads(std::string error) : error_(std::move(error)) {}

    void start(measure_job job)
    {
        if (job.kind == MEASURE_WHOLE && error_ == "halves")
            job.store = MEASURE_APART;
        if (job.kind == MEASURE_WHOLE && error_ == "last")
            --job.rounds;
        for (uint32_t thread = 0; thread < job.threads; ++thread)
            threads_.emplace_back([this, job, thread] {
                if (job.kind != MEASURE_OUT || error_ != "order")
                    return measure_thread(&job, thread);
                for (uint64_t round = 1; round <= job.rounds; ++round) {
                    dmace_post_to(&job.queue, thread, {round, round});
                    MACHINE_PAUSE();
                    for (uint32_t line = 0; line < MEASURE_LINES; ++line)
                        job.lines[(thread * MEASURE_LINES + line) * MEASURE_LINE] = round;
                }
            });
    }

    void join()
    {
        Cpu::join();
        threads_.clear();
    }

private:
    std::string error_;
};

int main(int, char **argv)
{
    MeasureOptions options;
    options.threads = 1, options.rounds = 300, options.seconds = 1;
    try {
        WrongThreads threads(argv[1]);
        return !measure_order(options, threads, false);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 3;
    }
}
"""


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "main.cpp").write_text(WRONG)
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "examples" / "gpu", "-I",
                    library().parent, folder / "main.cpp", "-pthread", "-o", folder / "wrong"], check=True)
    return folder / "wrong"


@pytest.mark.parametrize("error, name, status", [
    ("none", None, 0),
    ("halves", "words of one 16-byte store", 1),
    ("order", "data before words, fence", 1),
    ("last", None, 3),
])
def test_errors_are_seen(wrong, error, name, status):
    # On a busy machine a run may not see a race: there are as many as it takes, up to 20.
    for _ in range(20 if name else 1):
        done = subprocess.run([wrong, error], capture_output=True, text=True, check=False, timeout=120)
        if done.returncode == status:
            break
    assert done.returncode == status, done.stdout
    if name:
        assert _rows(done)[name][1] > 0
    if error == "last":
        assert done.stderr == "After 1 s, the last words of all threads have not arrived\n"


@pytest.mark.long
def test_device_code_compiles(example, tmp_path):
    try:
        example.find_nvcc()
    except UserError:
        pytest.skip("nvcc is not installed, which compiles for a GPU; `pip install dmace[gpu]` contains it.")
    assert {"80", "90"} <= set(example.compile_measure(tmp_path / "measure"))
