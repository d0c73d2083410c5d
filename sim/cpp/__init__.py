# SPDX-License-Identifier: Apache-2.0
"""The fast harness: the Verilated DMA engine between a memory model and GPU threads in C++, without Python in the
cycle loop.

``main.cpp`` is the program, ``traffic.h`` the threads and the checks, ``flow.h`` their queues, ``engine.h`` the engine,
``ports.h`` its pins, ``axi_memory.h`` and ``memory.h`` the memory, ``pairs.h`` reads options; requests, registers and
completion words go through the generated ``dmace.h``.
"""

from .harness import Flow, Harness, HarnessFailed, Target, build_harness

__all__ = ["Flow", "Harness", "HarnessFailed", "Target", "build_harness"]
