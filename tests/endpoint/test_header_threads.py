# SPDX-License-Identifier: Apache-2.0
"""Functions of ``dmace_endpoint.h``: the order of their stores, fences and loads, on a memory that logs them."""

import platform
import random
import re
import subprocess

import pytest

from hw.dma_engine.descriptors import Descriptor, DescriptorFlag
from hw.dma_engine.words import NativeWord
from hw.endpoint.config import TINY
from hw.endpoint.header import c_header
from hw.triggers.words import ArmWord, Mode, SlotField, TickWord
from tests.endpoint.test_header import compile_header

STANDARDS = pytest.mark.parametrize("standard", ["c11", "c++17"])

DOUBLE = r"""
#include <inttypes.h>
#include <stdio.h>

static void log_store(const volatile void *address, uint64_t lo, uint64_t hi, int bytes);
static uint64_t log_load(const volatile void *address);
static void log_fence(const char *kind) { puts(kind); }

#define DMACE_STORE_16(address, lo, hi) log_store(address, lo, hi, 16)
#define DMACE_STORE_8(address, value) log_store(address, value, 0, 8)
#define DMACE_LOAD_8(address) log_load(address)
#define DMACE_RELEASE() log_fence("release")
#define DMACE_ACQUIRE() log_fence("acquire")
#include "dmace_endpoint.h"

static uint64_t pages[3][DMACE_DMA_DOORBELL_PAGE / 8], words[64], values[16];
static unsigned loaded;
static const dmace_block block = {pages[0], pages[1], DMACE_ENDPOINT_TICK_PAGE(1)};
static dmace_queue queue = {pages[2], NULL, NULL};

/* The page and the offset in it. */
static void log_store(const volatile void *address, uint64_t lo, uint64_t hi, int bytes)
{
    const uint64_t offset = (uint64_t)((const volatile char *)address - (const volatile char *)pages[0]);
    if (address == (const volatile void *)words)
        printf("word %" PRIx64 "\n", lo);
    else if (bytes == 8)
        printf("%c+%03x %016" PRIx64 "\n", "TPQ"[offset / 4096], (unsigned)(offset % 4096), lo);
    else
        printf("%c+%03x %016" PRIx64 "%016" PRIx64 "\n", "TPQ"[offset / 4096], (unsigned)(offset % 4096), hi, lo);
}

/* The values in turn; the SC word is always `words[1]`. */
static uint64_t log_load(const volatile void *address)
{
    if (address == (const volatile void *)&words[1])
        return words[1];
    printf("load\n");
    return values[loaded++];
}
"""


def _run(folder, standard, body, *declarations):
    """Lines that the statements ``body`` log."""
    unused = "".join(f"    (void){name};\n" for name in ("block", "queue", "values", "loaded"))
    source = "\n".join([DOUBLE, *declarations, "int main(void)", "{", unused, body, "    return 0;", "}"])
    program = compile_header(folder, source, standard)
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()


def _store(page, offset, word):
    data = word.to_bytes() if hasattr(word, "to_bytes") and not isinstance(word, int) else word
    return f"{page}+{offset:03x} {int.from_bytes(data, 'little'):0{2 * len(data)}x}"


@STANDARDS
def test_ticks(tmp_path, standard):
    """A fence, then one 8-byte store to the tick page, in any of 512 slots."""
    log = _run(tmp_path, standard, """
    dmace_tick(&block, 5, 7);
    dmace_tick_generation(&block, 63, 0x1234, 1);
    dmace_tick_to(&block, 511, dmace_tick_any_word(1, 1));
    dmace_tick_to(&block, 513, dmace_tick_any_word(1, 1));
""")
    assert log == ["release", _store("T", 0, TickWord.add(5, 7)),
                   "release", _store("T", 0, TickWord.add(63, generation=0x1234)),
                   _store("T", 511 * 8, TickWord.add(1)), _store("T", 8, TickWord.add(1))]


@STANDARDS
def test_preparation(tmp_path, standard):
    """Words, a fence, the arm word, a fence; each to its field of the counter's slot."""
    log = _run(tmp_path, standard, """
    dmace_prepare(&block, 3, 0, dmace_copy_word(1, 2, 3, 4, 5, 0));
    dmace_prepare(&block, 3, 1, dmace_chain_word(dmace_tick_any_word(9, 1), 0));
    dmace_arm(&block, 3, dmace_arm_word(DMACE_ENDPOINT_MODE_REPEAT, block.page, 12, 6, 1, 0));
    dmace_disarm(&block, 63);
    dmace_open_signal(&block, 64 + 2, 4, 7, 0x40);
""")
    slot = 64 * 3
    assert log == [
        _store("P", slot + 16 * SlotField.FIRST_WORD, NativeWord.copy(src=(1, 2), dst=(3, 4), length=5, flags=0)),
        _store("P", slot + 16 * SlotField.SECOND_WORD, TickWord.add(9).to_bytes() + bytes(8)),
        "release",
        _store("P", slot + 16 * SlotField.ARM, ArmWord.arm(
            mode=Mode.REPEAT, page=TINY.triggers.tick_page(1), threshold=12, generation=6, pair=True)),
        "release",
        "release", _store("P", 63 * 64 + 16 * SlotField.ARM, ArmWord.arm(mode=Mode.DISARM, page=0)), "release",
        _store("P", 128, NativeWord.signal(dst=(7, 0x40), value=0)), "release",
        _store("P", 128 + 32, ArmWord.arm(mode=Mode.SUM, page=4, stamp=True)), "release"]


@STANDARDS
def test_puts(tmp_path, standard):
    """A put and its signal are two stores to the same queue, with a fence before each."""
    log = _run(tmp_path, standard, """
    const dmace_word put = dmace_copy_word(1, 2, 3, 4, 5, 0);
    dmace_put(&queue, put);
    dmace_put_signal(&queue, put, dmace_signal_word(3, 8, 0xabcdef01234, DMACE_DMA_FLAG_SC));
    dmace_signal_add(&queue, 9, 33, 2);
    dmace_signal_set(&queue, 9, 16, 77);
""")
    put = _store("Q", 0, NativeWord.copy(src=(1, 2), dst=(3, 4), length=5, flags=0))
    assert log == [
        "release", put, "release", put,
        "release", _store("Q", 0, NativeWord.signal(dst=(3, 8), value=0xABC_DEF0_1234, flags=1)),
        "release", _store("Q", 0, NativeWord.signal(dst=(9, 0), value=TickWord.add(33, 2).pack())),
        "release", _store("Q", 0, NativeWord.signal(dst=(9, 16), value=77))]


@STANDARDS
@pytest.mark.parametrize("remote, local", [(True, True), (True, False), (False, True), (False, False)])
def test_put_signal_descriptor(tmp_path, standard, remote, local):
    """A put and its actions are one descriptor, in order."""
    words = [NativeWord.copy(src=(1, 2), dst=(3, 4), length=5, flags=0),
             *[NativeWord.signal(dst=(3, 64), value=8)] * remote, *[NativeWord.signal(dst=(6, 72), value=9)] * local]
    log = _run(tmp_path, standard, f"""
    dmace_ring ring = {{words, NULL, 8, 0, 0}};
    const dmace_word remote = dmace_signal_word(3, 64, 8, 0), local = dmace_signal_word(6, 72, 9, 0);
    unsigned index;
    (void)remote, (void)local;
    dmace_put_signal_descriptor(&ring, dmace_copy_word(1, 2, 3, 4, 5, 0), {'&remote' if remote else 'NULL'},
                                {'&local' if local else 'NULL'}, DMACE_DMA_DESCRIPTOR_FLAG_RECORD, 12);
    for (index = 0; index < 8; ++index)
        printf("%016" PRIx64 "\\n", words[index]);
    printf("%u\\n", ring.tail);
""")
    data = Descriptor.copies(*words, tag=12, flags=DescriptorFlag.RECORD).to_bytes()
    assert log == [*(f"{int.from_bytes(data[at:at + 8], 'little'):016x}" for at in range(0, 64, 8)), "1"]


def _wait(folder, standard, call, *values):
    """Loads, whether an acquire fence follows them, and the result of a wait whose flag has these values in turn."""
    given = "".join(f"    values[{index}] = {value:#x}u;\n" for index, value in enumerate(values))
    log = _run(folder, standard, f"{given}    printf(\"%\" PRIx64 \"\\n\", (uint64_t){call});")
    fences = [line for line in log if line == "acquire"]
    assert log == ["load"] * log.count("load") + fences + log[-1:]
    return log.count("load"), len(fences), int(log[-1], 16)


@pytest.mark.parametrize("call, values, expected", [
    ("dmace_wait_signal(words, 5, 16, 0)", (4, 0x1_0004, 0xF_0005), (3, 1, 0xF_0005)),
    ("dmace_wait_signal(words, 1, 16, 0)", (0xFFFF, 0, 2), (3, 1, 2)),
    ("dmace_wait_signal(words, 5, 32, 2)", (4, 3, 9), (2, 0, 3)),
    ("dmace_wait_signal(words, 5, 32, 1)", (5,), (1, 1, 5)),
    ("dmace_wait_until(words, DMACE_CMP_EQ, 5, 0)", (6, 4, 5), (3, 1, 5)),
    ("dmace_wait_until(words, DMACE_CMP_NE, 5, 0)", (5, 5, 6), (3, 1, 6)),
    ("dmace_wait_until(words, DMACE_CMP_GT, 5, 0)", (4, 5, 6), (3, 1, 6)),
    ("dmace_wait_until(words, DMACE_CMP_GE, 5, 0)", (3, 4, 5), (3, 1, 5)),
    ("dmace_wait_until(words, DMACE_CMP_LT, 5, 0)", (6, 5, 4), (3, 1, 4)),
    ("dmace_wait_until(words, DMACE_CMP_LE, 5, 0)", (7, 6, 5), (3, 1, 5)),
    ("dmace_wait_until(words, DMACE_CMP_EQ, 5, 2)", (6, 4, 5), (2, 0, 4)),
    ("dmace_read_signal(words, 16)", (0x7_1234,), (1, 1, 0x1234)),
    ("dmace_read_signal(words, 64)", (0xFFFF_FFFF_FFFF_FFFE,), (1, 1, 0xFFFF_FFFF_FFFF_FFFE)),
])
def test_waits(tmp_path, call, values, expected):
    assert _wait(tmp_path, "c11", call, *values) == expected


def test_comparison_wraps(tmp_path, seed):
    rng = random.Random(seed)
    cases = [(bits, rng.getrandbits(64), least) for bits in (1, 2, 16, 32, 44, 63, 64) for least in (
        0, 1, (1 << bits) - 1, rng.getrandbits(bits)) for _ in range(4)]
    cases += [(bits, (least + step) % (1 << bits), least) for bits in (16, 32, 44, 64)
              for least in (0, 7, 1 << bits - 1) for step in (-1, 0, 1, (1 << bits - 1) - 1, 1 << bits - 1)]
    body = "".join(f"    printf(\"%d\\n\", dmace_signal_reached({value:#x}u, {least:#x}u, {bits}u));\n"
                   for bits, value, least in cases)
    assert _run(tmp_path, "c11", body) == [
        str(int((value - least) % (1 << bits) < 1 << bits - 1)) for bits, value, least in cases]


@STANDARDS
def test_quiet(tmp_path, standard):
    """A signal of the number to the flag, then loads until it is there, the queue fails, or the limit."""
    signal = ["release", _store("Q", 0, NativeWord.signal(dst=(4, 24), value=9))]
    log = _run(tmp_path, standard, """
    values[1] = values[2] = 8;
    values[3] = 9;
    printf("%d\\n", dmace_quiet(&queue, words, 4, 24, 9, 0));
    loaded = 0;
    printf("%d\\n", dmace_quiet(&queue, words, 4, 24, 9, 2));
    queue.sc = &words[1];
    words[1] = 5;
    printf("%d\\n", dmace_quiet(&queue, words, 4, 24, 9, 1));
    loaded = 0;
    words[1] = UINT64_C(5) << DMACE_DMA_COMPLETION_STATUS_SHIFT;
    printf("%d\\n", dmace_quiet(&queue, words, 4, 24, 9, 0));
""")
    assert log == [*signal, *["load"] * 4, "acquire", "1", *signal, *["load"] * 2, "0", *signal, "load", "0",
                   *signal, "load", "0"]


@STANDARDS
def test_reset_of_a_flag(tmp_path, standard):
    assert _run(tmp_path, standard, "    dmace_reset_signal(words);") == ["word 0", "release"]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"),
                    reason="dmace.h has a 16-byte store for x86-64 and for GPUs only")
def test_stores_of_the_processor(tmp_path):
    """Without a double: ticks, words and flags arrive in plain memory, and waiting threads see the data."""
    program = compile_header(tmp_path, r"""
#include "dmace_endpoint.h"
#include <pthread.h>
#include <stdio.h>

static uint64_t pages[3][512], flag, data[1000];
static const dmace_block block = {pages[0], pages[1], 0};

static void *produce(void *unused)
{
    uint32_t round, index;
    for (round = 1; round <= 1000; ++round) {
        for (index = 0; index < 1000; ++index)
            data[index] = round;
        DMACE_RELEASE();
        *(volatile uint64_t *)&flag = round << 1;
        while (dmace_read_signal(&flag, 44) != (round << 1 | 1))
            ;
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    uint32_t round, index, wrong = 0;
    dmace_tick_to(&block, 3, dmace_tick_any_word(1, 1));
    dmace_arm(&block, 1, dmace_arm_word(DMACE_ENDPOINT_MODE_ONCE, 2, 3, 4, 0, 0));
    if (pages[0][3] != dmace_tick_any_word(1, 1) || pages[1][12] != dmace_arm_word(1, 2, 3, 4, 0, 0).lo
        || pages[1][13] != 2)
        return 1;
    if (pthread_create(&thread, NULL, produce, NULL))
        return 2;
    for (round = 1; round <= 1000; ++round) {
        dmace_wait_signal(&flag, round << 1, 44, 0);
        for (index = 0; index < 1000; ++index)
            wrong += (uint32_t)(data[index] != round);
        DMACE_STORE_8(&flag, round << 1 | 1);
    }
    pthread_join(thread, NULL);
    dmace_reset_signal(&flag);
    return flag || wrong ? 3 : 0;
}
""", "c11", "-O2", "-D_GNU_SOURCE", "-pthread")
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


def test_example_uses_functions_of_the_header():
    """The example at the top of the header uses functions that exist."""
    text = c_header(TINY)
    example, rest = text.split("*/", 1)
    used, defined = (set(re.findall(r"\bdmace_\w+(?=\()", part)) for part in (example, rest))
    assert len(used) >= 5 and used - {"dmace_copy_word"} <= defined
