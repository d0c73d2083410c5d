# SPDX-License-Identifier: Apache-2.0
"""Cache policies: compute units, an L2 and DRAM in C++, beside the Verilated DMA engine in the same clock.

``dram.h``, ``policy.h`` and ``l2.h`` are the model, ``compute.h`` executes the traces of ``kernels``, ``machine.h``
puts them together, ``main.cpp`` is the program without an engine. ``cached_memory.h`` connects an engine's AXI port,
``copies.h`` posts its copies, ``beside.cpp`` is the program with it.
"""
