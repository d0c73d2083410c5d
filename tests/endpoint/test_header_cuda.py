# SPDX-License-Identifier: Apache-2.0
"""``dmace_endpoint.h`` as CUDA: stores, loads and fences of its functions in PTX. Needs nvcc, but no GPU."""

import re
import shutil
import subprocess

import pytest

from hw.ace import header as ace_header
from hw.dma_engine import header as dma_header
from hw.endpoint.config import BASE
from hw.endpoint.header import c_header

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="there is no nvcc on PATH: dmace_endpoint.h is not tried as CUDA")

KERNELS = """#include "dmace_endpoint.h"

extern "C" __global__ void tick(dmace_block block, uint32_t counter, uint64_t *result)
{
    result[threadIdx.x] = counter;
    dmace_tick_generation(&block, counter, 7, 1);
}

extern "C" __global__ void tick_to(dmace_block block, uint32_t slot, uint64_t word)
{
    dmace_tick_to(&block, slot, word);
}

extern "C" __global__ void prepare(dmace_block block, dmace_word first, dmace_word second, dmace_word arm)
{
    dmace_prepare(&block, 3, 0, first);
    dmace_prepare(&block, 3, 1, second);
    dmace_arm(&block, 3, arm);
}

extern "C" __global__ void put_signal(dmace_queue queue, dmace_word put, dmace_word signal)
{
    dmace_put_signal(&queue, put, signal);
}

extern "C" __global__ void wait(const uint64_t *flag, uint64_t least, uint64_t *data)
{
    dmace_wait_signal(flag, least, 16, 0);
    data[1] = data[0];
}

extern "C" __global__ void quiet(dmace_queue queue, const uint64_t *flag, uint64_t number, uint64_t *data)
{
    if (dmace_quiet(&queue, flag, 1, 64, number, 0))
        data[1] = data[0];
}
"""

ACCESS = re.compile(r"\b(st\.(?!param|local)\S+|ld\.(?!param|local)\S+|membar\.sys|fence\.\S+\.sys)")

STORE_8, STORE_16 = "st.mmio.relaxed.sys.global.u64", "st.mmio.relaxed.sys.global.b128"
LOAD = "ld.relaxed.sys.global.u64"


@pytest.fixture(scope="module", params=["sm_75", "sm_90"])
def ptx(request, tmp_path_factory):
    """Kernel -> its PTX, for one architecture."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, text in (("dmace_endpoint.h", c_header(BASE)), ("dmace_ace.h", ace_header.c_header(BASE.ace)),
                       ("dmace.h", dma_header.c_header(BASE.dma)), ("kernels.cu", KERNELS)):
        (folder / name).write_text(text)
    done = subprocess.run([NVCC, "-std=c++17", "-Werror", "all-warnings", f"-arch={request.param}", "-ptx",
                           "kernels.cu", "-o", "kernels.ptx"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return dict(re.findall(r"\.entry (\w+)\((.*?)^}", (folder / "kernels.ptx").read_text(), re.MULTILINE | re.DOTALL))


def _accesses(code):
    """Global stores, loads, and fences (as ``fence``), in order."""
    return ["fence" if access.startswith(("membar", "fence")) else access for access in ACCESS.findall(code)]


def test_tick_is_one_8_byte_store_behind_a_fence(ptx):
    assert _accesses(ptx["tick"])[1:] == ["fence", STORE_8]
    assert _accesses(ptx["tick"])[0].startswith("st.global")
    assert _accesses(ptx["tick_to"]) == [STORE_8]


def test_threads_tick_in_separate_slots(ptx):
    """The slot depends on the number of the thread and of its workgroup."""
    assert "%tid.x" in ptx["tick"] and "%ctaid.x" in ptx["tick"] and "%tid.x" not in ptx["tick_to"]


def test_words_arrive_before_the_arm_word(ptx):
    assert _accesses(ptx["prepare"]) == [STORE_16, STORE_16, "fence", STORE_16, "fence"]


def test_signal_arrives_behind_its_put(ptx):
    assert _accesses(ptx["put_signal"]) == ["fence", STORE_16, "fence", STORE_16]


def test_data_are_loaded_after_the_flag(ptx):
    accesses = _accesses(ptx["wait"])
    assert accesses[0] == LOAD and accesses[-3:-2] == ["fence"]
    assert accesses[-2].startswith("ld.global") and accesses[-1].startswith("st.global")
    assert set(accesses[:-3]) == {LOAD}


def test_quiet_loads_each_time(ptx):
    accesses = _accesses(ptx["quiet"])
    assert accesses[:3] == ["fence", STORE_16, LOAD]
    assert accesses[-3] == "fence" and accesses[-2].startswith("ld.global")
    loop = re.search(r"^(\S+):(.*)bra\S*\s+\1;", ptx["quiet"], re.MULTILINE | re.DOTALL)[2]
    assert LOAD in loop
