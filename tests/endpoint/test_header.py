# SPDX-License-Identifier: Apache-2.0
"""The C header, compiled as C and C++, has the addresses of Python."""

import subprocess

import pytest

from hw.ace import header as ace_header
from hw.dma_engine import header as dma_header
from hw.endpoint.config import TINY, remote_address
from hw.endpoint.header import c_header
from sim.verilator.toolchain import find_compiler

CHECKS = f"""#include "dmace_endpoint.h"
#ifndef __cplusplus
#define static_assert _Static_assert
#endif
static_assert(DMACE_ENDPOINT_REMOTE(5, 3, 0x12345) == {remote_address(5, 3, 0x12345):#x}u, "remote");
static_assert(DMACE_ENDPOINT_DMA_DOORBELL(3) == {3 * 4096}, "a page of the DMA engine");
static_assert(DMACE_ENDPOINT_ACE_DOORBELL(1) == {(TINY.dma.queues + 1) * 4096}, "a page of the accelerator");
static_assert(DMACE_ENDPOINT_OWN_REGISTERS == 0x2000, "window");
"""


@pytest.mark.parametrize("language", [("c", "c11"), ("c++", "c++17")], ids=lambda language: language[1])
def test_addresses(tmp_path, language):
    for name, text in (("dmace_endpoint.h", c_header(TINY)), ("dmace_ace.h", ace_header.c_header(TINY.ace)),
                       ("dmace.h", dma_header.c_header(TINY.dma)), ("checks.c", CHECKS)):
        (tmp_path / name).write_text(text)
    command = [*find_compiler().command, "-x", language[0], f"-std={language[1]}", "-Wall", "-Wextra", "-Werror", "-c",
               "checks.c", "-o", "checks.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
