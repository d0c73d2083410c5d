# SPDX-License-Identifier: Apache-2.0
"""Functions of ``dmace.h`` on the host processor: stores and loads of NumPy buffers."""

import ctypes
import platform
import re
import subprocess
import threading
import time

import numpy as np
import pytest

from hw.common.sizes import PAGE_BYTES
from hw.common.words import CompletionWord
from hw.dma_engine.config import BASE
from hw.dma_engine.header import c_header
from hw.dma_engine.words import NativeWord, RequestFlag, Status
from sim.verilator.toolchain import find_compiler

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"),
                                reason="dmace.h has a 16-byte store for x86-64 and for GPUs only")

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wshadow"]

LIBRARY = """#include "dmace.h"
void post(const dmace_queue *queue, uint32_t src_region, uint64_t src_offset, uint32_t dst_region, uint64_t dst_offset,
          uint32_t length, uint32_t flags);
void post(const dmace_queue *queue, uint32_t src_region, uint64_t src_offset, uint32_t dst_region, uint64_t dst_offset,
          uint32_t length, uint32_t flags)
{
    dmace_post(queue, dmace_copy_word(src_region, src_offset, dst_region, dst_offset, length, flags));
}
void post_to(const dmace_queue *queue, uint32_t slot, uint64_t lo, uint64_t hi);
void post_to(const dmace_queue *queue, uint32_t slot, uint64_t lo, uint64_t hi)
{
    dmace_word word = {lo, hi};
    dmace_post_to(queue, slot, word);
}
void post_twice(const dmace_queue *queue, dmace_word word);
void post_twice(const dmace_queue *queue, dmace_word word)
{
    dmace_queue mine = *queue;
    dmace_post_to(&mine, 0, word);
    dmace_post_to(&mine, 0, word);
}
uint64_t poll_sc(const dmace_queue *queue, uint32_t count);
uint64_t poll_sc(const dmace_queue *queue, uint32_t count) { return dmace_poll_sc(queue, count); }
uint64_t poll_rc(const dmace_queue *queue, uint32_t count);
uint64_t poll_rc(const dmace_queue *queue, uint32_t count) { return dmace_poll_rc(queue, count); }
uint64_t try_sc(const dmace_queue *queue, uint32_t count, uint64_t loads);
uint64_t try_sc(const dmace_queue *queue, uint32_t count, uint64_t loads) { return dmace_try_sc(queue, count, loads); }
uint64_t try_rc(const dmace_queue *queue, uint32_t count, uint64_t loads);
uint64_t try_rc(const dmace_queue *queue, uint32_t count, uint64_t loads) { return dmace_try_rc(queue, count, loads); }
"""


class _Queue(ctypes.Structure):
    _fields_ = [("doorbell", ctypes.c_void_p), ("sc", ctypes.c_void_p), ("rc", ctypes.c_void_p)]


class Thread:
    """A queue of NumPy buffers, and the header's functions compiled for it."""

    def __init__(self, library):
        memory = np.zeros(2 * PAGE_BYTES // 8, np.uint64)
        first = -memory.ctypes.data % PAGE_BYTES // 8
        self.page, self.words = memory[first:first + PAGE_BYTES // 8], np.zeros(2, np.uint64)
        self._queue, self._library = _Queue(self.page.ctypes.data, self.words.ctypes.data,
                                            self.words.ctypes.data + 8), library

    def __getattr__(self, name):
        function = getattr(self._library, name)
        function.restype = ctypes.c_uint64 if "post" not in name else None
        return lambda *values: function(ctypes.byref(self._queue), *values)


def _compile(folder, *options, source=LIBRARY, language="c", standard="c11"):
    (folder / "dmace.h").write_text(c_header(BASE))
    (folder / "library.src").write_text(source)
    command = [*find_compiler().command, "-x", language, f"-std={standard}", *STRICT, "library.src", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=["c11", "c++17"])
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    source = LIBRARY if request.param == "c11" else f'extern "C" {{\n{LIBRARY}}}\n'
    done = _compile(folder, "-O2", "-shared", "-fPIC", "-o", "library.so", source=source,
                    language="c" if request.param == "c11" else "c++", standard=request.param)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "library.so"))


@pytest.fixture
def thread(library):
    return Thread(library)


def test_post_stores_the_word_and_nothing_else(thread):
    word = NativeWord.copy(src=(17, 0xF_0000_0003), dst=(201, 0x8_1234_5678), length=0xABC_DEF0, flags=RequestFlag.SC)
    thread.page[:] = 0xEEEE_EEEE_EEEE_EEEE
    thread.post(ctypes.c_uint32(17), ctypes.c_uint64(word.src_offset), ctypes.c_uint32(201),
                ctypes.c_uint64(word.dst_offset), ctypes.c_uint32(word.length), ctypes.c_uint32(word.flags))
    assert thread.page[:2].tobytes() == word.to_bytes()
    assert (thread.page[2:] == 0xEEEE_EEEE_EEEE_EEEE).all()


def test_every_slot_of_the_page_takes_a_word(thread):
    for slot in (*range(256), 256, 1000, 2**32 - 1):
        thread.page[:] = 0
        thread.post_to(ctypes.c_uint32(slot), ctypes.c_uint64(2**63 + slot), ctypes.c_uint64(7))
        row = slot % 256
        assert thread.page[2 * row] == 2**63 + slot and thread.page[2 * row + 1] == 7
        assert np.count_nonzero(thread.page) == 2


@pytest.mark.parametrize("kind, index", [("sc", 0), ("rc", 1)])
def test_bounded_poll_returns_what_it_saw(thread, kind, index):
    attempt = getattr(thread, f"try_{kind}")
    thread.words[:] = [CompletionWord(9, 0, 0).pack()] * 2
    thread.words[index] = CompletionWord(4, 0, 0).pack()
    for count, loads in ((4, 1), (5, 1), (5, 1000), (3, 1)):
        word = CompletionWord.unpack(attempt(ctypes.c_uint32(count), ctypes.c_uint64(loads)))
        assert word == (4, 0, 0)
    # A failure ends the wait, however long it may take.
    thread.words[index] = CompletionWord(4, 1, Status.DST_BOUNDS).pack()
    word = CompletionWord.unpack(attempt(ctypes.c_uint32(5), ctypes.c_uint64(2**63)))
    assert word == (4, 1, Status.DST_BOUNDS)


@pytest.mark.parametrize("kind, index", [("sc", 0), ("rc", 1)])
@pytest.mark.parametrize("before, after, count", [(0, 1, 1), (6, 9, 8), (2**32 - 1, 1, 0)])
def test_poll_waits_for_the_count(thread, kind, index, before, after, count):
    thread.words[:] = [CompletionWord(before, 0, 0).pack()] * 2
    seen = []
    waiting = threading.Thread(target=lambda: seen.append(getattr(thread, f"poll_{kind}")(ctypes.c_uint32(count))))
    waiting.start()
    time.sleep(0.05)
    # Not for a failure-free word below the count.
    assert waiting.is_alive() and not seen
    thread.words[index] = CompletionWord(after, 3, 0).pack()
    waiting.join(20)
    assert [CompletionWord.unpack(word) for word in seen] == [(after, 3, 0)]


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_post_is_one_store(tmp_path, level):
    """A post is one store of 16 bytes, and two posts are two stores, even of the same word to the same address."""
    done = _compile(tmp_path, level, "-S", "-o", "library.s", "-fno-stack-protector")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "library.s").read_text()
    if level == "-O0":
        # The functions are not inlined, so each call is a post.
        stores = re.search(r"^dmace_store_16:(.*?)\.size", text, re.MULTILINE | re.DOTALL)[1]
        assert len(re.findall(r"mov[au]p[sd]\s+%xmm\d+, \(%r\w\w\)", stores)) == 1
        return
    for name, number in (("post", 1), ("post_to", 1), ("post_twice", 2)):
        body = re.search(rf"^{name}:(.*?)\.size", text, re.MULTILINE | re.DOTALL)[1]
        wide = re.findall(r"v?mov(?:dq|ap|up)[asdu]\s+%xmm\d+, [^%,]*\(%(?!rsp|rbp)", body)
        narrow = re.findall(r"mov\w*\s+%r\w+, [^%,]*\(%(?!rsp|rbp)", body)
        assert (len(wide), narrow) == (number, []), body


def test_refuses_a_machine_without_a_wide_store(tmp_path):
    other = f"#include <stdint.h>\n#undef __x86_64__\n{LIBRARY}"
    done = _compile(tmp_path, "-c", "-o", "library.o", source=other)
    assert done.returncode != 0
    assert "#error \"dmace.h knows no 16-byte store of this machine" in done.stderr
    hooks = {"STORE_16(address, lo, hi)": "((void)(address), (void)(lo), (void)(hi))",
             "LOAD_8(address)": "(*(address))", "RELEASE()": "((void)0)", "ACQUIRE()": "((void)0)"}
    done = _compile(tmp_path, "-c", "-o", "library.o", *(f"-DDMACE_{name}={text}" for name, text in hooks.items()),
                    source=other)
    assert done.returncode == 0, done.stderr
