# SPDX-License-Identifier: Apache-2.0
"""examples/gpu: its slots and bridge with threads of the CPU; device code compiles, where there is a compiler."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dmace.libdmace.build import FLAGS, c_compiler, library
from hw.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
FAKE = ROOT / "tests" / "dmace" / "libdmace" / "fake_card.c"
RACES = "-fsanitize=thread"
HEADER = " threads  queues  requests  completed  failed  torn words  wrong bytes"


def loaded():
    """examples/gpu/build.py as a module, for a fixture."""
    spec = importlib.util.spec_from_file_location("gpu_example", ROOT / "examples" / "gpu" / "build.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def example():
    yield from loaded()


def _built(example, folder, *flags):
    """The program with threads of the CPU, and the name of a card that is a test double."""
    program, card = folder / "threads", folder / "fake_card.so"
    try:
        example.compile_threads(program, *flags)
    except UserError as error:
        if "tsan" in str(error):
            pytest.skip("ThreadSanitizer is not installed, which finds races between threads.")
        raise
    subprocess.run([*c_compiler(), *FLAGS, *flags, "-I", library(*flags).parent, "-fPIC", "-pthread", "-shared", FAKE,
                    "-o", card], check=True)
    return program, f"sim:{card}"


@pytest.fixture(scope="module")
def plain(example, tmp_path_factory):
    return _built(example, tmp_path_factory.mktemp("threads"))


@pytest.fixture(scope="module")
def checked(example, tmp_path_factory):
    """The same under ThreadSanitizer."""
    built = _built(example, tmp_path_factory.mktemp("checked"), RACES)
    if "unexpected memory mapping" in _run(built, threads=1).stderr:
        pytest.skip("ThreadSanitizer of this compiler is too old for the address layout of this kernel.")
    return built


def _run(built, **options):
    program, card = built
    words = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return subprocess.run([program, card, *words], capture_output=True, text=True, check=False, timeout=120)


def _row(done):
    lines = done.stdout.splitlines()
    assert lines[:2] == ["threads of the CPU, card behind fake", HEADER], done.stderr
    return [int(number) for number in lines[2].split()]


@pytest.mark.parametrize("threads, queues, rounds", [
    pytest.param(64, 4, 20, id="many rounds"),
    pytest.param(600, 1, 3, id="more threads than slots"),
    pytest.param(8, 8, 100, id="a thread per queue"),
])
def test_all_words_arrive_whole(plain, threads, queues, rounds):
    done = _run(plain, threads=threads, queues=queues, rounds=rounds)
    assert (_row(done), done.returncode) == ([threads, queues, threads * rounds, threads * rounds, 0, 0, 0], 0)


def test_threads_do_not_race(checked):
    done = _run(checked, threads=300, queues=1, rounds=3)
    assert done.returncode == 0, done.stderr
    assert _row(done) == [300, 1, 900, 900, 0, 0, 0]


def test_torn_words_are_seen(plain):
    done = _run(plain, threads=16, queues=4, rounds=8, split=1)
    row = _row(done)
    assert (row[:5], row[6], done.returncode) == ([16, 4, 128, 128, 0], 0, 1)
    assert row[5] > 0


def test_a_store_without_a_fence_is_a_race(checked):
    done = _run(checked, threads=16, queues=4, rounds=8, split=1)
    assert done.returncode != 0 and "WARNING: ThreadSanitizer: data race" in done.stderr


@pytest.mark.parametrize("options, sentence", [
    ({"queues": 9}, "--queues must be at most the card's 8, not 9"),
    ({"threads": 0}, "--threads must be a number from 1 to 1048576, not '0'"),
    ({"fast": 1}, "There is no option --fast; the options are --threads, --queues, --rounds, --bytes, --split and "
                  "--seconds"),
])
def test_wrong_options(plain, options, sentence):
    done = _run(plain, **options)
    assert (done.stderr, done.returncode) == (f"{sentence}\n", 1 if "queues" in options else 2)


def test_nvcc_is_named_when_it_is_missing(example, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^nvcc was not found, which compiles for a GPU; install it "
                                        r"\(`pip install dmace\[gpu\]`\), or name it in NVCC\.$"):
        example.find_nvcc()


@pytest.mark.long
def test_device_code_compiles(example, tmp_path):
    try:
        nvcc = example.find_nvcc()
    except UserError:
        pytest.skip("nvcc is not installed, which compiles for a GPU; `pip install dmace[gpu]` contains it.")
    assert {"80", "90"} <= set(example.compile_post(tmp_path / "post"))
    subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=sm_80", "-ptx", "-I", library().parent,
                    ROOT / "examples" / "gpu" / "post.cu", "-o", tmp_path / "post.ptx"], check=True)
    code = (tmp_path / "post.ptx").read_text()
    # Words are stored as one operation; the store of halves by --split is the only other one to a page.
    assert len(re.findall(r"st\.mmio\.relaxed\.sys\.global\.b128", code)) == 1
    assert not re.search(r"st\S*\.v2", code)
    assert code.index("membar.sys") < code.index("st.mmio.relaxed.sys.global.b128")


@pytest.mark.long
@pytest.mark.rtl
def test_simulated_card(plain):
    from sim.vfio.harness import build_transport

    done = subprocess.run([plain[0], f"sim:{build_transport('tiny', 'dma').path}", "--threads", "64", "--queues", "4"],
                          capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [int(number) for number in done.stdout.splitlines()[2].split()] == [64, 4, 256, 256, 0, 0, 0]
