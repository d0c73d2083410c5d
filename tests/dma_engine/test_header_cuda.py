# SPDX-License-Identifier: Apache-2.0
"""``dmace.h`` as CUDA: a GPU thread's post and poll in PTX and in machine code. Needs nvcc, but no GPU."""

import re
import shutil
import struct
import subprocess
from itertools import groupby

import pytest

from hw.dma_engine.config import BASE
from hw.dma_engine.header import c_header
from hw.dma_engine.words import NativeWord, RequestFlag

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="there is no nvcc on PATH: dmace.h is not tried as CUDA")

ARCHITECTURES = ["sm_75", "sm_80", "sm_90"]

KERNELS = """#include "dmace.h"

extern "C" __global__ void post_to(dmace_queue queue, uint32_t slot, dmace_word word)
{
    dmace_post_to(&queue, slot, word);
}

extern "C" __global__ void post(dmace_queue queue, uint64_t offset, uint32_t length, uint64_t *source)
{
    source[threadIdx.x] = offset;
    dmace_post(&queue, dmace_copy_word(1, offset, 2, offset, length, DMACE_DMA_FLAG_SC));
}

extern "C" __global__ void poll(dmace_queue queue, uint32_t count, uint64_t *data)
{
    if (dmace_status(dmace_poll_rc(&queue, count)) == 0)
        data[1] = data[0];
}

extern "C" __global__ void attempt(dmace_queue queue, uint32_t count, uint64_t *seen)
{
    *seen = dmace_try_sc(&queue, count, 100);
}

extern "C" __global__ void fill(dmace_queue queue, dmace_ring *ring, dmace_word word)
{
    dmace_ring_copy_2d(ring, word, 16, 4096, -4096, 0, 8);
    dmace_ring_push(&queue, ring, 0, &word, 1, 0, 7);
}

extern "C" __global__ void collect(dmace_ring *ring, uint64_t *record, uint64_t *data)
{
    if (dmace_ring_record(ring, record))
        data[1] = data[0];
}
"""

HOST = """#include "dmace.h"
#include <cstdio>

alignas(4096) static uint64_t page[512];
static uint64_t words[2] = {4, 6};

int main()
{
    dmace_queue queue = {page, &words[0], &words[1]};
    dmace_post(&queue, dmace_copy_word(3, 0x923456789, 4, 0x1f, 0x1000, DMACE_DMA_FLAG_SC | DMACE_DMA_FLAG_RC));
    std::printf("%016llx%016llx %u %u\\n", (unsigned long long)page[1], (unsigned long long)page[0],
                dmace_count(dmace_poll_sc(&queue, 4)), dmace_count(dmace_try_rc(&queue, 7, 10)));
    return 0;
}
"""


def _nvcc(folder, *options):
    done = subprocess.run([NVCC, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def made(request, tmp_path_factory):
    """Kernel -> its PTX, and its machine instructions, for one architecture."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "dmace.h").write_text(c_header(BASE))
    (folder / "kernels.cu").write_text(KERNELS)
    _nvcc(folder, f"-arch={request.param}", "-ptx", "kernels.cu", "-o", "kernels.ptx")
    _nvcc(folder, f"-arch={request.param}", "-cubin", "kernels.cu", "-o", "kernels.cubin")
    ptx = dict(re.findall(r"\.entry (\w+)\((.*?)^}", (folder / "kernels.ptx").read_text(), re.MULTILINE | re.DOTALL))
    return ptx, dict(_machine_code((folder / "kernels.cubin").read_bytes()))


def _machine_code(image):
    """Kernel and its 128-bit instructions, of an ELF file."""
    table, = struct.unpack_from("<Q", image, 0x28)
    size, number, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + size * index) for index in range(number)]
    for header in headers:
        start = headers[names][4] + header[0]
        name = image[start:image.index(b"\0", start)].decode()
        if name.startswith(".text."):
            code = image[header[4]:header[4] + header[5]]
            yield name.removeprefix(".text."), [int.from_bytes(code[at:at + 16], "little")
                                                for at in range(0, len(code), 16)]


_STORE, _LOAD, _FENCE = 0x986, 0x981, 0x992
_SCOPES = {10: "system", 11: "system", 12: "mmio", 15: "mmio"}


def _accesses(code, opcode):
    """Bytes of each global load or store, and its scope where that is the whole system."""
    widths = {4: 4, 5: 8, 6: 16}
    return [(widths[word >> 73 & 7], _SCOPES.get(word >> 77 & 15)) for word in code if word & 0xFFF == opcode]


def test_post_is_one_16_byte_store(made):
    ptx, code = made
    assert re.findall(r"\bst\.(?!param)\S+", ptx["post_to"]) == ["st.mmio.relaxed.sys.global.b128"]
    assert _accesses(code["post_to"], _STORE) == [(16, "mmio")]
    assert not [word for word in code["post_to"] if word & 0xFFF == _FENCE]


def test_post_comes_behind_a_fence(made):
    """A fence of system scope separates the thread's earlier writes from the doorbell."""
    ptx, code = made
    order = re.findall(r"\b(st\.global|membar\.sys|fence\.\S+\.sys|st\.mmio\.relaxed\.sys\.global\.b128)", ptx["post"])
    assert len(order) == 3 and order[0] == "st.global" and order[2].startswith("st.mmio")
    assert _accesses(code["post"], _STORE)[-1] == (16, "mmio")
    assert [word & 0xFFF for word in code["post"] if word & 0xFFF in (_STORE, _FENCE)][-2:] == [_FENCE, _STORE]


def test_lanes_store_to_separate_slots(made):
    assert "%laneid" in made[0]["post"]


@pytest.mark.parametrize("kernel", ["poll", "attempt"])
def test_poll_loads_each_time_and_then_fences(made, kernel):
    ptx, code = made
    found = re.findall(r"\b(ld\.relaxed\.sys\.global\.u64|ld\.global\S*|membar\.sys|fence\.\S+\.sys)", ptx[kernel])
    # Loops may be unrolled.
    order = [access for access, _ in groupby(found)]
    assert order == ["ld.relaxed.sys.global.u64", "membar.sys", *(["ld.global.u64"] if kernel == "poll" else [])]
    loop = re.search(r"^(\S+):(.*)bra\S*\s+\1;", ptx[kernel], re.MULTILINE | re.DOTALL)[2]
    assert "ld.relaxed" in loop and "membar" not in loop
    # An unbounded poll has no loop counter.
    assert ("add.s" in loop) == (kernel == "attempt"), loop
    loads = _accesses(code[kernel], _LOAD)
    assert loads and set(loads[:len(loads) - (kernel == "poll")]) == {(8, "system")}


def test_ring_doorbell_follows_a_fence(made):
    """Descriptors, one fence, the tail as one store; records are loaded from memory, then a fence, then data."""
    ptx, code = made
    stores = re.findall(r"\b(st\.\S+b128|st\.volatile|st\.global|membar\.sys)", ptx["fill"])
    assert stores.count("membar.sys") == 1 and stores.index("membar.sys") == len(stores) - 2
    assert stores[-1] == "st.mmio.relaxed.sys.global.b128" and len(stores) >= 6
    assert _accesses(code["fill"], _STORE)[-1] == (16, "mmio")
    found = re.findall(r"\b(ld\.relaxed\.sys\.global\.u64|membar\.sys|ld\.global\.u64)", ptx["collect"])
    # The pointer to the records comes first.
    assert found[-3:] == ["ld.relaxed.sys.global.u64", "membar.sys", "ld.global.u64"]


def test_runs_on_the_host(tmp_path):
    """nvcc also compiles the functions of the file for the host processor."""
    (tmp_path / "dmace.h").write_text(c_header(BASE))
    (tmp_path / "host.cu").write_text(HOST)
    _nvcc(tmp_path, "-x", "cu", "-std=c++17", "-Xcompiler", "-Wall,-Wextra,-Werror", "host.cu", "-o", "host")
    output = subprocess.run([tmp_path / "host"], capture_output=True, text=True, check=True).stdout
    word = NativeWord.copy(src=(3, 0x9_2345_6789), dst=(4, 0x1F), length=0x1000, flags=RequestFlag.SC | RequestFlag.RC)
    assert output == f"{word.pack():032x} 4 6\n"


def test_old_compilers_store_a_vector(tmp_path):
    """Compilers without the 16-byte type of PTX 8.4 for the whole system emit one volatile vector store."""
    text = c_header(BASE)
    assert text.count("__CUDA_ARCH__ >= 700 && (") == 1
    (tmp_path / "dmace.h").write_text(text.replace("__CUDA_ARCH__ >= 700 && (", "0 && ("))
    (tmp_path / "kernels.cu").write_text(KERNELS)
    _nvcc(tmp_path, "-arch=sm_80", "-ptx", "kernels.cu", "-o", "kernels.ptx")
    _nvcc(tmp_path, "-arch=sm_80", "-cubin", "kernels.cu", "-o", "kernels.cubin")
    assert "st.volatile.global.v2.u64" in (tmp_path / "kernels.ptx").read_text()
    code = dict(_machine_code((tmp_path / "kernels.cubin").read_bytes()))
    assert _accesses(code["post_to"], _STORE) == [(16, "system")]
